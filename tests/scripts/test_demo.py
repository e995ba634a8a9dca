"""demo.py: the side-by-side table and the library's share, from given figures."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import demo
import smoke_torch


def figures(p50, faults, checksum="a"):
    return {"p50_ms": p50, "p99_ms": p50, "faults_per_iteration_steady": faults, "sum": 1.0,
            "system_ms_per_iteration": 0.0, "peak_rss_kib": 2048, "checksum": checksum}


STATS = {"since_serving": {"large_bytes": 200, "served_bytes": 199},
         "slab_bytes": 2**20, "lower_bound_bytes": 2**20}


class Demo(unittest.TestCase):
    def test_table_takes_medians_and_never_divides_by_zero(self):
        lines = demo.table([figures(8.0, 10), figures(10.0, 10), figures(90.0, 10)],
                           [figures(5.0, 0)])
        self.assertEqual(["latency", "p50", "10.0", "ms", "5.0", "ms", "0.50"], lines[1].split())
        self.assertEqual("-", lines[4].split()[-1])

    def test_share_served(self):
        self.assertIn("99.50 %", demo.served_lines(STATS)[0])
        self.assertIn("nothing served", demo.served_lines({})[0])


class Smoke(unittest.TestCase):
    def test_good_pair_has_no_complaints(self):
        self.assertEqual([], smoke_torch.complaints(figures(1, 90), figures(1, 3), STATS, 0.99, 50))

    def test_each_fault_is_named(self):
        found = smoke_torch.complaints(figures(1, 90), figures(1, 60, "b"), STATS, 0.999, 50)
        self.assertEqual(3, len(found))
        self.assertIn("wrote no statistics",
                      smoke_torch.complaints(figures(1, 0), figures(1, 0), None, None, None)[0])


if __name__ == "__main__":
    unittest.main()
