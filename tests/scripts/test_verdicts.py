"""What is judged met, the search for the largest batch, and a comparison from its start to its files."""

import argparse
import contextlib
import csv
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import allocators
import memory_limit
import micro
import run
import runner
import summary
import verdicts


def row(workload, allocator, p50=10.0, p99=11.0, faults=0, peak=1000, over=100):
    return {"workload": workload, "allocator": allocator, "p50_ms": p50, "p99_ms": p99,
            "faults_per_iteration_steady": faults, "peak_rss_kib": peak,
            "steady_over_before_kib": over}


def judged(*rows):
    found = verdicts.lines(summary.Results(list(rows)), "ours", ["w"])
    return [met for _, _, met in found], [measured for _, measured, _ in found]


class Verdicts(unittest.TestCase):
    def test_all_met(self):
        met, _ = judged(row("w", "ours"), row("w", "glibc", 20, 22.1, 5000, 1000, 50),
                        row("w", "tcmalloc", 11, 13, 3, 1100, 101))
        self.assertEqual([True] * 7, met)

    def test_each_line_fails_by_its_own_figure(self):
        peer = row("w", "glibc", 10, 11, 500, 1000, 100)
        calm = row("w", "calm", 10.3, 12, 0, 1000, 100)
        for change, failing in (({"p50": 10.5, "p99": 11.5}, {0, 1, 2}), ({"p99": 11.5}, {1, 2, 3}),
                                ({"peak": 1011}, {1, 2, 4}), ({"over": 101}, {1, 2, 5}),
                                ({"faults": 11}, {1, 2, 6})):
            met, _ = judged(row("w", "ours", **change), peer, calm)
            self.assertEqual(failing, {line for line, ok in enumerate(met) if not ok}, change)

    def test_rows_that_fall_short_are_named_worst_first(self):
        _, measured = judged(row("w", "ours", 11), row("w", "glibc", 10),
                             row("v", "ours", 12), row("v", "glibc", 10))
        self.assertEqual("0 of 2 rows; v 1.20, w 1.10", measured[0])

    def test_an_allocator_that_faults_is_no_measure_of_steady_memory(self):
        met, measured = judged(row("w", "ours", over=100), row("w", "glibc", faults=11, over=1))
        self.assertFalse(met[5])
        self.assertEqual("0 of 0 rows", measured[5])


class SingleCalls(unittest.TestCase):
    def met(self, nanoseconds, instructions):
        rows = [("pair_of/64", "ns", 10.0, 10.0 + nanoseconds), ("pair_of/1048576", "ns", 0.0, 60.0),
                ("start of /bin/true", "ms", 1.0, 1.1)]
        rows += [("pair_of/64", "instructions", 50.0, 50.0 + instructions)] if instructions is not None else []
        return [met for asked, _, met in micro.judge(rows) if "64 bytes" in asked]

    def test_time_and_instructions_are_both_asked(self):
        for nanoseconds, instructions, each in ((1.5, 6, [True, True]), (1.5, 7, [True, False]),
                                                (1.6, 6, [False, True]), (1.6, 7, [False, False]),
                                                (1.5, None, [True, False])):
            self.assertEqual(each, self.met(nanoseconds, instructions), (nanoseconds, instructions))


class Comparison(unittest.TestCase):
    def test_runs_all_writes_the_rows_and_judges_them(self):
        def fake(workload, allocator, arguments, iterations):
            ours = allocator.name == "memomalloc"
            return row(workload.name, allocator.name, 5 if ours else 10, 12, 0 if ours else 500) | {
                "first_ms": 9, "system_ms_per_iteration": 1, "checksum": "a" if ours else "b",
                "planned_share": 1, "at_hand_share": 0, "steady_planned_share": 1, "steady_at_hand_share": 0}

        with tempfile.TemporaryDirectory() as folder, mock.patch.object(runner, "run", fake):
            library = pathlib.Path(folder, "library.so")
            library.touch()
            with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
                code = run.main(["--workloads", "quick", "--allocators", "glibc,memomalloc", "--no-micro",
                                 "--library", str(library), "--repetitions", "2", "--output", folder])
            with pathlib.Path(folder, "raw.csv").open() as file:
                self.assertEqual(2 * 2 * len(run.GROUPS["quick"]), len(list(csv.DictReader(file))))
            text = pathlib.Path(folder, "summary.md").read_text()
        self.assertEqual(1, code, "outputs that differ")
        self.assertIn("outputs differ", text)
        self.assertIn("| at most 10 page faults an iteration in the steady state | 6 of 6 rows | yes |",
                      text)


class Peers(unittest.TestCase):
    def test_a_peer_is_a_library_with_its_settings(self):
        with tempfile.NamedTemporaryFile(suffix=".so") as library:
            found = runner.peer(f"mine={library.name},A=1,B=x=y")
            self.assertEqual({"LD_PRELOAD": library.name, "A": "1", "B": "x=y"}, found.environment({}))
            self.assertIn("of no package", allocators.version(found))
            self.assertEqual(["glibc", "mine"], [one.name for one in allocators.chosen(["glibc"], None, [found])])

    def test_a_value_may_hold_commas(self):
        found = allocators.peer("j=libj.so,CONF=a:1,b:2,TUNED=1")
        self.assertEqual((("CONF", "a:1,b:2"), ("TUNED", "1")), found.settings)

    def test_a_peer_that_is_none_is_refused_with_the_reason(self):
        for text, reason in (("mine", "is not NAME"), ("=x", "is not NAME"), ("mine=/no/such.so", "no file"),
                             ("glibc=libc.so.6", "there already"), ("mine=libc.so.6,A", "is not NAME")):
            with self.assertRaisesRegex(argparse.ArgumentTypeError, reason):
                runner.peer(text)


class MemoryLimit(unittest.TestCase):
    def largest(self, peak_of, limit=1000):
        probed = []
        with mock.patch.object(memory_limit, "peak_kib",
                               lambda task, batch, allocator, arguments: peak_of(batch)):
            found = memory_limit.largest("resnet50_inference", None, argparse.Namespace(limit=limit),
                                         lambda batch, peak: probed.append(batch))
        return found, probed

    def test_finds_the_batch_on_a_line_in_few_probes(self):
        (batch, peak), probed = self.largest(lambda n: 200_000 + 12_345 * n)
        self.assertEqual((66, 200_000 + 12_345 * 66), (batch, peak))
        self.assertLessEqual(len(probed), 4)

    def test_finds_the_batch_where_the_first_probes_exceed_the_limit(self):
        for best in (1, 7, 16, 20, 47):
            (batch, _), _ = self.largest(lambda n, best=best: 900_000 if n <= best else None)
            self.assertEqual(best, batch)

    def test_says_zero_where_none_fits(self):
        self.assertEqual((0, 0), self.largest(lambda n: None)[0])


if __name__ == "__main__":
    unittest.main()
