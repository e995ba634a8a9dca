"""measure.py: quantiles, checksums and the figures of a loop whose faults are known."""

import contextlib
import io
import mmap
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import measure


class Measure(unittest.TestCase):
    def test_quantile(self):
        self.assertEqual(99, measure.quantile(range(1, 101), 0.99))
        self.assertEqual(25, measure.quantile(range(1, 26), 0.99))
        self.assertEqual(3, measure.quantile([3], 0.5))

    def test_growth(self):
        self.assertEqual(0, measure.growth([7] * 9))
        self.assertEqual(70, measure.growth([10, 10, 30, 40, 50, 60, 80, 80]))

    def test_checksum_sees_every_value_and_the_order(self):
        def digest(value):
            checksum = measure.Checksum()
            checksum.add(value)
            return checksum.sha.hexdigest()

        self.assertEqual(digest([1.0, {"a": 2}]), digest((1.0, [2])))
        self.assertNotEqual(digest([1.0, 2]), digest([2, 1.0]))
        self.assertNotEqual(digest([1.0]), digest([1.0000000000000002]))

    def test_loop_counts_the_faults_of_fresh_pages(self):
        pages = 500

        def step(index):
            with mmap.mmap(-1, pages * mmap.PAGESIZE) as block:
                if hasattr(mmap, "MADV_NOHUGEPAGE"):
                    block.madvise(mmap.MADV_NOHUGEPAGE)
                for page in range(pages):
                    block[page * mmap.PAGESIZE] = 1
            return index

        figures = measure.loop(step, 6)
        self.assertGreaterEqual(figures["faults_per_iteration_steady"], pages)
        self.assertLess(figures["faults_per_iteration_steady"], 2 * pages)
        self.assertEqual(15.0, figures["sum"])
        self.assertGreaterEqual(figures["p99_ms"], figures["p50_ms"])
        self.assertGreater(figures["peak_rss_kib"], 1000)
        self.assertNotIn("planned_share", figures, "without the library")

    def test_no_shares_are_printed_where_the_library_is_switched_off(self):
        figures = {"p50_ms": 1, "p99_ms": 1, "first_ms": 1, "faults_per_iteration": 0, "faults_per_iteration_steady": 0,
                   "peak_rss_kib": 1, "checksum": "", "sum": 0}
        for large, shown in ((0, False), (100, True)):
            stats = [{"large_bytes": large * at, "planned_bytes": 0, "at_hand_bytes": 0} for at in (1, 2, 3)]
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                measure.print_text(figures | measure.library_figures(*stats, 1))
            self.assertEqual(shown, "large bytes" in printed.getvalue())

    def test_shares_are_of_all_large_bytes_since_the_start_or_between_two_moments(self):
        def stats(large, planned, at_hand):
            return {"large_bytes": large, "planned_bytes": planned, "at_hand_bytes": at_hand,
                    "other_bytes": large - planned - at_hand}

        first, last = stats(100, 0, 20), stats(300, 180, 30)
        self.assertEqual({"planned_share": 0.6, "at_hand_share": 0.1}, measure.shares(last))
        self.assertEqual({"planned_share": 0.9, "at_hand_share": 0.05}, measure.shares(last, first))
        self.assertEqual({"planned_share": 0.0, "at_hand_share": 0.0}, measure.shares(first, first))
        found = measure.library_figures(first, first, last, 4)
        self.assertEqual((0.6, 0.9, 50), (found["planned_share"], found["steady_planned_share"],
                                          found["large_bytes_per_iteration"]))
        self.assertEqual({}, measure.library_figures(None, None, None, 4))

    def test_a_library_that_does_not_count_shares_is_refused(self):
        with self.assertRaisesRegex(LookupError, "does not count planned_bytes"):
            measure.shares({"large_bytes": 1, "served_bytes": 1})


if __name__ == "__main__":
    unittest.main()
