"""summary.py: medians, ratios and intervals of known numbers; differing outputs are told."""

import math
import pathlib
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
    def test_ratio_of_equal_repetitions_has_no_width(self):
        self.assertEqual((0.5, 0.5, 0.5), summary.ratio_of([1.0] * 4, [2.0] * 4))

    def test_interval_holds_the_ratio_and_needs_three_repetitions(self):
        middle, low, high = summary.ratio_of([1.0, 1.1, 1.2], [2.0, 2.1, 1.9])
        self.assertTrue(low <= middle <= high)
        self.assertLess(low, high)
        self.assertEqual((0.5, None, None), summary.ratio_of([1.0, 1.0], [2.0, 2.0]))

    def test_geometric_mean(self):
        self.assertTrue(math.isclose(2.0, summary.geometric_mean([1.0, 4.0])))

    def test_against_names_the_fastest_and_the_leanest(self):
        results = summary.Results(rows("w", "glibc", [4, 4, 4], 1024, 500) +
                                  rows("w", "fast", [2, 2, 2], 3072) +
                                  rows("w", "ours", [1, 1, 1], 2048))
        line = summary.against_table(results, "ours")[2]
        self.assertEqual("| w | 1.0 | 0.50 [0.50, 0.50] fast | 0.25 [0.25, 0.25] | 1.00, 1.00 "
                         "| 2.000 glibc | 2, 3 fast | 500, 0 |", line)

    def test_against_glibc_that_faults_alone(self):
        results = summary.Results(rows("w", "glibc", [4], 1024, 500) + rows("w", "ours", [1], 1024))
        self.assertIn("| 1 (all others fault) |", summary.against_table(results, "ours")[2])

    def test_one_other_at_a_time(self):
        results = summary.Results(rows("a", "other", [2, 2, 2]) + rows("a", "ours", [1, 1, 1], 512) +
                                  rows("b", "other", [2, 2, 2]) + rows("b", "ours", [4, 4, 4], 2048) +
                                  rows("c", "other", [1, 2, 3]) + rows("c", "ours", [3, 2, 1]))
        line = summary.each_table(results, "ours")[2]
        self.assertRegex(line, r"^\| other \| 1\.00 \[0\.\d\d, 1\.\d\d\] \| 1, 1 of 3 "
                               r"\| 1\.00 \[1\.00, 1\.00\] \| 1\.000 \|$")

    def test_one_other_at_a_time_without_intervals(self):
        results = summary.Results(rows("a", "other", [2]) + rows("a", "ours", [1]) + rows("b", "ours", [1]))
        self.assertEqual(["| other | 0.50 | 0, 0 of 0 | 1.00 | 2.000 |", "| ours | 1 |  | 1 | 0.500 |"],
                         summary.each_table(results, "ours")[2:])

    def test_differing_outputs_are_told(self):
        same = summary.Results(rows("w", "glibc", [1]) + rows("w", "ours", [1]))
        other = summary.Results(rows("w", "glibc", [1]) + rows("w", "ours", [1], checksum="b"))
        self.assertEqual([], summary.checksum_faults(same))
        self.assertIn("w: outputs differ", summary.checksum_faults(other)[0])


if __name__ == "__main__":
    unittest.main()
