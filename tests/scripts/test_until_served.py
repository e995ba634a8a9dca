"""until_served.py: from which iteration on all are served; random programs are what they say."""

import csv
import gzip
import pathlib
import random
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import random_traces
import until_served


def thread(iterations, **counters):
    return {"bytes": 1, "iterations": iterations, "trials": {"begun": 2, "lost": 1, "lost_bytes": 7},
            "counters": {"diverged": 1, "fallback_allocations": 3} | counters}


class Until(unittest.TestCase):
    def test_iterations_before_the_first_from_which_on_all_are_served(self):
        until = until_served.Outcome.until
        self.assertEqual(0, until([1.0, 0.95, 1.0]))
        self.assertEqual(2, until([0.0, 0.94, 0.95, 1.0]))
        self.assertEqual(3, until([1.0, 1.0, 0.5, 1.0]))
        self.assertIsNone(until([1.0, 0.5]))

    def test_threads_are_added_and_what_follows_the_last_mark_is_not_counted(self):
        found = until_served.Outcome([thread([[100, 0, 40, 60], [100, 100, 0, 5], [9, 0, 0, 9]]),
                                      thread([[100, 100, 0, 1], [0, 0, 0, 0], [9, 0, 0, 9]])])
        self.assertEqual([0.5, 1.0], found.planned)
        self.assertEqual([0.7, 1.0], found.held)
        self.assertEqual(66, found.fresh)
        self.assertEqual([4, 2, 14], found.trials)
        row = until_served.row("x", found)
        self.assertEqual(["x", "1", "1", "4, 2"], row[:4])
        self.assertEqual(len(until_served.HEADINGS), len(row))

    def test_an_iteration_without_large_calls_is_served(self):
        self.assertEqual([1.0], until_served.Outcome([thread([[0, 0, 0, 0], [0, 0, 0, 0]])]).planned)


class RandomPrograms(unittest.TestCase):
    def calls(self, kind, seed):
        """The sizes between marks, and how many blocks are freed twice or unknown."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "t.csv.gz")
            random_traces.write(path, kind, seed)
            with gzip.open(path, "rt") as file:
                rows = list(csv.DictReader(file))
        iterations, alive, wrong = [], set(), 0
        for row in rows:
            if row["op"] == "mark":
                iterations.append([])
            elif row["op"] == "free":
                wrong += row["block"] not in alive
                alive.discard(row["block"])
            else:
                alive.add(row["block"])
                if iterations:
                    iterations[-1].append(int(row["size"]))
        self.assertEqual(0, wrong)
        return iterations[:-1]

    def test_kinds_of_equal_iterations_have_equal_ones(self):
        for kind in random_traces.EQUAL:
            for seed in range(3):
                found = self.calls(kind, seed)
                self.assertEqual(random_traces.ROUNDS, len(found), kind.__name__)
                self.assertTrue(all(one == found[0] for one in found), kind.__name__)
                self.assertGreaterEqual(min(found[0]), 64 << 10)

    def test_what_warms_up_has_at_most_a_call_more_and_then_is_equal(self):
        longer = 0
        for seed in range(6):
            found = self.calls(random_traces.warms_up, seed)
            base = found[-1]
            self.assertTrue(all(one == base for one in found[6:]))
            for one in found[:6]:
                without = [one[:at] + one[at + 1:] for at in range(len(one))]
                self.assertTrue(one == base or base in without)
                longer += one != base
        self.assertGreater(longer, 3)

    def test_a_call_more_leaves_the_others_alive_till_the_same_ones(self):
        dice = random.Random(7)
        blocks = [[1 << 20, 1], [2 << 20, 3], [3 << 20, 1], [4 << 20, 1]]
        for _ in range(50):
            longer = random_traces.with_a_call_more(dice, blocks)
            at = next(index for index, block in enumerate(longer) if block not in blocks and block[0] != 2 << 20)
            for before, (size, life) in enumerate(blocks):
                after = before + (before >= at)
                freed_at = after + longer[after][1]  # just before that call
                self.assertEqual((size, before + life), (longer[after][0], freed_at - (freed_at > at)))

    def test_other_kinds_change(self):
        for kind in random_traces.CHANGING:
            found = self.calls(kind, 1)
            self.assertGreater(len({tuple(one) for one in found}), 4, kind.__name__)

    def test_a_seed_is_a_program(self):
        kind = random_traces.layers
        self.assertEqual(self.calls(kind, 5), self.calls(kind, 5))
        self.assertNotEqual(self.calls(kind, 5), self.calls(kind, 6))


if __name__ == "__main__":
    unittest.main()
