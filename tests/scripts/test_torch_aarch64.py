"""What scripts/experiments/torch_aarch64.py makes of two runs."""

import pathlib
import sys
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/experiments"))
import torch_aarch64


def figures(**changed):
    return {"case": "net b1", "checksum": "a", "peak_kib": 2048, "large_allocations": 10, "large_bytes": 1000,
            "planned_bytes": 700, "at_hand_bytes": 300, "slab_bytes": 2 << 20, "lower_bound_bytes": 1 << 20, **changed}


class Table(unittest.TestCase):
    def judge(self, plain=None, **changed):
        return torch_aarch64.table({"net": (plain or {"checksum": "a", "peak_kib": 1024}, figures(**changed))})

    def test_a_good_run_passes(self):
        lines, failed = self.judge()
        self.assertEqual(failed, 0)
        self.assertIn("| net b1 | equal | 10 | 0.0 | 70.0, 30.0 | 2.00, 1.00 | 1, 2 |", lines)
        self.assertEqual({8}, {line.count("|") for line in lines})

    def test_another_output_fails(self):
        lines, failed = self.judge(checksum="b")
        self.assertEqual(failed, 1)
        self.assertIn("DIFFERS", lines[-1])

    def test_too_small_a_share_fails(self):
        self.assertEqual(self.judge(at_hand_bytes=279)[1], 1)
        self.assertEqual(self.judge(at_hand_bytes=280)[1], 0)

    def test_a_loop_whose_tensors_are_not_seen_fails(self):
        self.assertEqual(self.judge(large_bytes=0, large_allocations=0, planned_bytes=0, at_hand_bytes=0)[1], 1)

    def test_a_library_that_is_not_on_fails(self):
        plain = {"case": "net b1", "checksum": "a", "peak_kib": 1024}
        self.assertEqual(torch_aarch64.table({"net": (plain, plain)})[1], 1)

    def test_a_case_without_an_end_fails_and_says_so(self):
        lines, failed = self.judge(plain={"trouble": "no end in 9 s"})
        self.assertEqual(failed, 1)
        self.assertIn("without: no end in 9 s", lines[-1])
        self.assertEqual({8}, {line.count("|") for line in lines})


class Case(unittest.TestCase):
    """A process that hangs, or dies, is a row that says so."""

    def run_case(self, script, limit=30):
        with mock.patch.object(torch_aarch64.aarch64_python, "command", lambda *_: [sys.executable, "-c", script]):
            return torch_aarch64.run_case("net", None, 2, limit, native=False)

    def test_the_last_line_counts(self):
        self.assertEqual({"case": "x"}, self.run_case("print('noise'); print('{\"case\": \"x\"}')"))

    def test_one_that_hangs(self):
        self.assertEqual({"trouble": "no end in 1 s"}, self.run_case("import time; time.sleep(60)", limit=1))

    def test_one_that_dies(self):
        self.assertEqual({"trouble": "ended with -6"}, self.run_case("import os; os.abort()"))


if __name__ == "__main__":
    unittest.main()
