"""run.py --turns: who works when, what is made of it, and what chance alone shows."""

import argparse
import contextlib
import io
import math
import os
import pathlib
import random
import sys
import tempfile
import textwrap
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import allocators
import luck
import run
import runner
import summary
import turns
import turns_tables

PROGRAM = """
    import os, pathlib, sys
    sys.path.insert(0, sys.argv[1])
    import measure
    log = open(sys.argv[2], "a", buffering=1)

    def step(index):
        if index == int(os.environ.get("ENDS_AT", -1)):
            sys.exit(3)
        log.write(os.environ["NAME"] + "\\n")
        return index

    figures = measure.loop(step, int(sys.argv[sys.argv.index("--iterations") + 1]))
    log.write("end\\n")
    measure.print_json(figures)
"""


def other(name, **settings):
    return allocators.Allocator(name, "", "", (("NAME", name), *settings.items()))


class Pairs(unittest.TestCase):
    def measure(self, pair, count=4, iterations=60):
        """(figures of each, who made each iteration)."""
        with tempfile.TemporaryDirectory() as folder:
            program, log = pathlib.Path(folder, "program.py"), pathlib.Path(folder, "log")
            program.write_text(textwrap.dedent(PROGRAM))
            workload = runner.table.Workload("w", str(program), f"{runner.ROOT}/scripts {log}", iterations, 10)
            arguments = argparse.Namespace(turns=count, timeout=60, python_torch=sys.executable, python_jax=None)
            with contextlib.redirect_stderr(io.StringIO()):
                figures = turns.measure(workload, pair, arguments, turns.Speed())
            return figures, log.read_text().split()

    def test_both_take_turns_of_which_the_first_do_not_count(self):
        figures, log = self.measure([other("a"), other("b")])
        self.assertEqual("aaabbb" * (5 + 4), "".join(log[:-2]))  # a quarter of 60 iterations is five turns
        self.assertEqual(["end"] * 2, log[-2:])  # neither tidies up in the other's turn
        self.assertEqual(["a", "b"], [one["allocator"] for one in figures])
        for one in figures:
            self.assertEqual([4] * 3, [len(one[name]) for name in ("turns_ms", "turns_cpu_ms", "turns_speed_ms")])
            self.assertEqual(27, one["iterations"])

    def test_turns_of_a_slow_workload_are_shorter(self):
        self.assertEqual("aabb" * (5 + 2), "".join(self.measure([other("a"), other("b")], 2, iterations=20)[1][:-2]))

    def test_who_fails_is_told_and_the_other_ends(self):
        for at in (0, 3, 20):
            (first, second), _ = self.measure([other("a", ENDS_AT=str(at)), other("b")])
            self.assertIsNone(first)
            self.assertEqual("b", second["allocator"])

    def test_a_workload_of_one_thread_is_held_on_one_processor(self):
        with turns.held(runner.table.BY_NAME["resnet18_b1_t1"]):
            self.assertEqual(1, len(os.sched_getaffinity(0)))
        before = os.sched_getaffinity(0)
        with turns.held(runner.table.BY_NAME["resnet50_b8_t2"]):
            self.assertEqual(before, os.sched_getaffinity(0))
        self.assertFalse(runner.table.BY_NAME["serve_two_threads"].single)

    def orders(self, seed, repetitions=8, workloads="vw"):
        names = ["x", "ours", "y"]
        found = list(turns.groups(repetitions, list(workloads), [other(name) for name in names], seed))
        self.assertEqual([(number, name) for number in range(repetitions) for name in workloads], [one[:2] for one in found])
        orders = [tuple(one.name for one in group) for _, _, group in found]
        self.assertEqual({tuple(sorted(names))}, {tuple(sorted(order)) for order in orders})
        return orders

    def test_each_group_has_all_and_each_has_every_place_equally_often(self):
        orders = self.orders(1, repetitions=9)
        self.assertEqual({6}, {[order[place] for order in orders].count(name) for place in range(3) for name in orders[0]})

    def test_another_seed_has_other_orders(self):
        drawn = {tuple(self.orders(seed)) for seed in range(20)}
        self.assertLess(10, len(drawn))
        self.assertEqual(self.orders(3), self.orders(3))

    def test_ours_is_paired_with_each_other_and_begins_as_often_as_not(self):
        found = list(turns.pairs(4, ["v", "w"], [other(name) for name in ("x", "ours", "y", "z")], "ours", 5))
        self.assertEqual(list(range(12)), [number for number, workload, _ in found if workload == "v"])
        self.assertEqual(24, len(found))
        for name in "xyz":
            pairs = [[one.name for one in pair] for _, _, pair in found if any(one.name == name for one in pair)]
            self.assertEqual([["ours", name]] * 4 + [[name, "ours"]] * 4, sorted(pairs, key=lambda pair: pair[0] != "ours"))

    def test_without_ours_there_is_no_pair(self):
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(2, run.main(["--turns", "4", "--workloads", "quick", "--allocators", "glibc"]))


def drifting(groups, slower=1.0, drift=0.1, luck_of=0.004, count=12, seed=1):
    """Rows of groups of two on a machine whose speed goes to and fro by `drift`; `again` takes 1/slower of ours' time."""
    dice, rows, speed = random.Random(seed), [], 1.0
    for number in range(groups):
        shares = {"memomalloc": slower * math.exp(dice.gauss(0, luck_of)), "again": math.exp(dice.gauss(0, luck_of))}
        lists = {name: ([], []) for name in shares}
        for _ in range(count):
            for name, share in shares.items():
                speed = min(1 + drift, max(1 - drift, speed + dice.gauss(0, drift / 10)))
                lists[name][0].append(100 * share * speed * math.exp(dice.gauss(0, 0.005)))
                lists[name][1].append(4 * speed)
        rows += [{"workload": "w", "allocator": name, "repetition": number, "p50_ms": found[0], "cpu_ms": found[0],
                  "turns_ms": found, "turns_cpu_ms": found, "turns_speed_ms": speeds, "peak_rss_kib": 1,
                  "faults_per_iteration_steady": 0} for name, (found, speeds) in lists.items()]
    return rows


class Estimates(unittest.TestCase):
    def test_ratios_are_of_neighbouring_turns(self):
        mine = {"p50_ms": 1, "turns_ms": [1.0, 20.0, 3.0], "turns_speed_ms": [1.0, 2.0, 1.0]}
        theirs = {"p50_ms": 9, "turns_ms": [2.0, 10.0, 6.0], "turns_speed_ms": [1.0, 1.0, 2.0]}
        self.assertEqual([0.5, 2.0, 0.5], summary.turn_ratios(mine, theirs, "p50_ms"))
        self.assertEqual([0.5, 1.0, 1.0], summary.turn_ratios(mine, theirs, "p50_ms", by_speed=True))
        self.assertEqual([1 / 9], summary.turn_ratios({"p50_ms": 1}, theirs, "p50_ms"))

    def test_an_allocator_beside_itself_is_even_within_two_hundredths(self):
        results = summary.Results(drifting(12))
        found = results.estimate("w", "memomalloc", "again", "p50_ms")
        self.assertLess(found.low, 1)
        self.assertGreater(found.high, 1)
        self.assertLess(found.high - found.low, 0.02)

    def test_one_hundredth_is_seen_through_a_drift_of_ten(self):
        found = summary.Results(drifting(15, slower=1.01)).estimate("w", "memomalloc", "again", "p50_ms")
        self.assertGreater(found.low, 1.0)
        self.assertLess(found.high, 1.02)

    def test_the_speed_of_the_moment_is_divided_out_where_that_narrows(self):
        results, lines = turns_tables.chosen(drifting(12, drift=0.5, luck_of=0.0005), ["memomalloc", "again"],
                                             "memomalloc")
        self.assertTrue(results.by_speed, lines)
        rows = drifting(12)
        dice = random.Random(2)
        for row in rows:
            row["turns_speed_ms"] = [dice.uniform(1, 2) for _ in row["turns_speed_ms"]]
        results, lines = turns_tables.chosen(rows, ["memomalloc", "again"], "memomalloc")
        self.assertFalse(results.by_speed, lines)
        self.assertIn("what was measured is used", lines[0])

    def test_the_page_names_each_other_and_the_fastest(self):
        arguments = argparse.Namespace(repetitions=12, turns=12)
        _, lines = turns_tables.page(drifting(12), ["memomalloc", "again"], "memomalloc", arguments)
        text = "\n".join(lines)
        self.assertIn("sign test", text)
        self.assertRegex(text, r"\| w \| again \| (0\.99|1\.00)\d \[0\.99\d, 1\.0\d\d\] \| 0\.0\d\d \|")
        self.assertRegex(text, r"\| geometric mean \|  \| (0\.99|1\.00)\d \| 1\.00 \|")


class Luck(unittest.TestCase):
    def test_the_fastest_of_many_equal_ones_seems_faster_than_of_few(self):
        dice = random.Random(1)
        pool = [dice.gauss(0, 0.03) for _ in range(99)]
        one, eight = (luck.over_fastest(pool, others, 3)[0] for others in (1, 8))
        self.assertAlmostEqual(1.0, one, delta=0.01)
        self.assertGreater(eight, 1.02)
        self.assertGreater(eight, luck.over_fastest(pool, 8, 15)[0])

    def test_without_noise_equal_ones_are_even(self):
        self.assertEqual((1.0, 1.0), luck.over_fastest([0.0], 8, 3))
        self.assertIsNone(luck.over_fastest([], 8, 3))

    def test_the_noise_of_single_runs_is_found_from_ratios(self):
        dice = random.Random(3)
        rows = [{"workload": "w", "allocator": name, "repetition": number, "p50_ms": math.exp(dice.gauss(0, 0.05))}
                for name in ("ours", "x", "y") for number in range(200)]
        pool = luck.noise(summary.Results(rows), "w", "ours")
        self.assertAlmostEqual(0.05, math.sqrt(sum(one * one for one in pool) / len(pool)), delta=0.006)


if __name__ == "__main__":
    unittest.main()
