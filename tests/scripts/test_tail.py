"""bench/tail.py names the cause of a slow iteration; scripts/each_iteration.py tells whose processor time it was."""

import json
import mmap
import os
import pathlib
import signal
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "bench")]
import each_iteration
import measure
import tail


def record(ms=10.0, **more):
    return {"ms": ms, "cpu_ms": ms, "library_ms": 0.0, "waited_ms": 0.0, "faults": 3, "stolen_ms": 0.0, "counters": {}} | more


def run_of(*slow, usual=40):
    return tail.Iterations([record() for _ in range(usual)] + list(slow))


class Causes(unittest.TestCase):
    def test_each_cause_and_the_first_that_is_true(self):
        for name, more in (("plan", {"counters": {"released": 1}, "library_ms": 4.0}),
                           ("threads", {"library_ms": 1.0, "faults": 99}),
                           ("faults", {"faults": 14, "waited_ms": 4.0}),
                           ("waited", {"waited_ms": 1.0, "stolen_ms": 10.0}),
                           ("host", {"stolen_ms": 10.0}),
                           ("none", {"library_ms": 0.9, "faults": 13, "waited_ms": 0.9})):
            with self.subTest(name):
                self.assertEqual({name: 1}, dict(run_of(record(14.0, **more)).causes()))

    def test_what_moves_in_each_iteration_is_no_cause(self):
        often = [record(counters={"fallback_allocations": 2}) for _ in range(40)]
        found = tail.Iterations(often + [record(14.0, counters={"fallback_allocations": 2}), record(15.0),
                                         record(16.0, counters={"fallback_allocations": 3})])
        self.assertEqual({"plan": 1, "none": 2}, dict(found.causes()))

    def test_slow_is_above_the_median_by_a_twentieth(self):
        found = run_of(record(10.4), record(10.6), record(20.0))
        self.assertEqual([10.6, 20.0], [one["ms"] for one in found.slow])
        self.assertEqual(2.0, found.tail)

    def test_a_row_is_longer_only_beyond_the_spread_of_the_runs(self):
        def with_tail(ms):
            return run_of(record(ms), usual=60)

        def cell(ours, theirs):
            return tail.row("x", {"memomalloc": list(map(with_tail, ours)), "a": list(map(with_tail, theirs)),
                                  "b": [with_tail(90.0)]})

        self.assertEqual("", cell((11.0, 13.0), (12.0, 12.5))[3])
        row = cell((13.0, 14.0), (12.0, 12.5))
        self.assertEqual("longer", row[3])
        self.assertIn(" a", row[2], "the other with the shortest tail")
        self.assertEqual(len(tail.HEADINGS), len(row))
        self.assertEqual("2 of 122", row[4])


class Looks(unittest.TestCase):
    def test_what_a_thread_that_blocks_all_signals_uses_is_the_librarys(self):
        def work(stop, blocks):
            if blocks:
                signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
            while not stop.is_set():
                pass

        for blocks in (True, False):
            with self.subTest(blocks=blocks):
                stop = threading.Event()
                thread = threading.Thread(target=work, args=(stop, blocks))
                thread.start()
                time.sleep(0.02)
                known = {}
                then = each_iteration.Look(known)
                time.sleep(0.1)
                found = each_iteration.Look(known).since(then)
                stop.set()
                thread.join()
                self.assertGreater(found["cpu_ms"], 10)
                (self.assertGreater if blocks else self.assertLess)(found["library_ms"], found["cpu_ms"] / 2)

    def test_a_record_an_iteration_if_they_are_asked_for(self):
        def step(index):
            if index == 2:
                with mmap.mmap(-1, 400 * mmap.PAGESIZE) as block:
                    block.madvise(mmap.MADV_NOHUGEPAGE)
                    for page in range(400):
                        block[page * mmap.PAGESIZE] = 1
            time.sleep(0.002)

        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "each.json")
            measure.loop(step, 4)
            self.assertFalse(path.exists())
            with mock.patch.dict(os.environ, MEASURE_EACH=str(path)):
                measure.loop(step, 4)
            found = json.loads(path.read_text())
        self.assertEqual(4, len(found))
        self.assertGreaterEqual(found[2]["faults"], 400)
        self.assertLess(found[3]["faults"], 400)
        self.assertTrue(all(one["ms"] >= 2 for one in found))


if __name__ == "__main__":
    unittest.main()
