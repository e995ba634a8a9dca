"""summary.py: medians, ratios and intervals of known numbers; differing outputs are told."""

import math
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import summary


def rows(workload, allocator, times, peak=1024, faults=0, checksum="a"):
    return [{"workload": workload, "allocator": allocator, "p50_ms": value, "p99_ms": value,
             "first_ms": value, "faults_per_iteration_steady": faults, "system_ms_per_iteration": 0,
             "peak_rss_kib": peak, "steady_over_before_kib": peak, "checksum": checksum}
            for value in times]


class Summary(unittest.TestCase):
    def test_equal_repetitions_have_no_width(self):
        found = summary.estimate([0.5] * 7)
        self.assertEqual((0.5, 0.5, 0.5, True), (found.middle, found.low, found.high, found.sure))

    def test_below_seven_repetitions_there_is_a_range_and_no_interval(self):
        found = summary.estimate([0.5, 0.4, 0.7])
        self.assertEqual("0.50 (0.40 to 0.70)", str(found))
        self.assertFalse(found.sure)
        self.assertEqual("0.50", str(summary.estimate([0.5])))
        self.assertIn("no confidence interval", summary.legend(3))

    def test_the_interval_leaves_out_what_the_sign_test_allows(self):
        self.assertEqual("4.00 [1.00, 7.00]", str(summary.estimate([7, 6, 5, 4, 3, 2, 1])))
        # 15 repetitions: P(X <= 3) = 0.0176 a side for a fair coin, P(X <= 4) = 0.0592.
        found = summary.estimate(range(1, 16))
        self.assertEqual((4, 12), (found.low, found.high))

    def test_the_interval_misses_the_true_median_as_seldom_as_it_says(self):
        dice, trials = random.Random(1), 4000
        for count in (7, 11, 15):
            missed = 0
            for _ in range(trials):
                found = summary.estimate([dice.expovariate(1) for _ in range(count)])
                missed += not found.low <= math.log(2) <= found.high
            self.assertLess(missed / trials, summary.ERROR + 0.01, count)

    def test_ratios_are_paired_within_a_repetition(self):
        rows_of = [dict(row, repetition=number) for number, row in enumerate(rows("w", "ours", [1, 10, 100]))]
        rows_of += [dict(row, repetition=number) for number, row in
                    sorted(enumerate(rows("w", "other", [2, 20, 200])), reverse=True)]
        results = summary.Results(rows_of)
        self.assertEqual("0.50 (0.50 to 0.50)", str(results.estimate("w", "ours", "other", "p50_ms")))
        lost = summary.Results(rows_of[1:])
        self.assertEqual(2, lost.estimate("w", "ours", "other", "p50_ms").repetitions)

    def test_a_repetition_in_which_a_run_failed_has_no_mean(self):
        def results(*lost):
            return summary.Results([dict(row, repetition=number) for workload in "ab" for number in range(2)
                                    if (workload, number) not in lost
                                    for row in rows(workload, "ours", [1 + number]) + rows(workload, "other", [2])])

        def mean(*lost):
            return str(results(*lost).mean_estimate("ab", "ours", "other", "p50_ms"))

        self.assertEqual("0.75 (0.50 to 1.00)", mean())
        self.assertEqual("1.00", mean(("a", 0)))
        self.assertEqual("0.71", mean(("a", 0), ("b", 1)))

    def test_geometric_mean(self):
        self.assertTrue(math.isclose(2.0, summary.geometric_mean([1.0, 4.0])))

    def test_against_names_the_fastest_and_the_leanest(self):
        results = summary.Results(rows("w", "glibc", [4, 4, 4], 1024, 500) +
                                  rows("w", "fast", [2, 2, 2], 3072) +
                                  rows("w", "ours", [1, 1, 1], 2048))
        line = summary.against_table(results, "ours")[2]
        self.assertEqual("| w | 1.0 | 0.50 (0.50 to 0.50) fast | 1.00, 1.00 | 0.25 (0.25 to 0.25) | 1.00, 1.00 "
                         "| 2.000 glibc | 2, 3 fast | 500, 0 |", line)

    def test_against_glibc_that_faults_alone(self):
        results = summary.Results(rows("w", "glibc", [4], 1024, 500) + rows("w", "ours", [1], 1024))
        self.assertIn("| 1 (all others fault) |", summary.against_table(results, "ours")[2])

    def test_one_other_at_a_time(self):
        results = summary.Results(
            rows("a", "other", [2] * 7) + rows("a", "ours", [1] * 7, 512) + rows("b", "other", [2] * 7) +
            rows("b", "ours", [4] * 7, 2048) + rows("c", "other", range(1, 8)) + rows("c", "ours", range(7, 0, -1)))
        line = summary.each_table(results, "ours")[2]
        self.assertRegex(line, r"^\| other \| 1\.00 \[0\.\d\d, 1\.\d\d\] \| 1, 1 of 3 \(by chance 0\.1 each\) "
                               r"\| 1\.00 \[1\.00, 1\.00\] \| 1\.000 \|$")

    def test_one_other_at_a_time_without_intervals(self):
        results = summary.Results(rows("a", "other", [2]) + rows("a", "ours", [1]) + rows("b", "ours", [1]))
        self.assertEqual(["| other | 0.50 | (7 repetitions are needed) | 1.00 | 2.000 |",
                          "| ours | 1 |  | 1 | 0.500 |"], summary.each_table(results, "ours")[2:])

    def test_differing_outputs_are_told(self):
        same = summary.Results(rows("w", "glibc", [1]) + rows("w", "ours", [1]))
        other = summary.Results(rows("w", "glibc", [1]) + rows("w", "ours", [1], checksum="b"))
        self.assertEqual([], summary.checksum_faults(same))
        self.assertIn("w: outputs differ", summary.checksum_faults(other)[0])


if __name__ == "__main__":
    unittest.main()
