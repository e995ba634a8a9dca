"""What scripts/torch_aarch64.py makes of two runs."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/experiments"))
import torch_aarch64


def figures(**changed):
    return {"checksum": "a", "large_allocations": 10, "large_bytes": 1000, "planned_bytes": 700, "at_hand_bytes": 300,
            **changed}


class Table(unittest.TestCase):
    def judge(self, **changed):
        return torch_aarch64.table({"net": {"checksum": "a"}}, {"net": figures(**changed)})

    def test_a_good_run_passes(self):
        lines, failed = self.judge()
        self.assertEqual(failed, 0)
        self.assertIn("| net | equal | 10 | 0.0 | 70.0, 30.0 |", lines)

    def test_another_output_fails(self):
        lines, failed = self.judge(checksum="b")
        self.assertEqual(failed, 1)
        self.assertIn("DIFFERS", lines[-1])

    def test_too_small_a_share_fails(self):
        self.assertEqual(self.judge(at_hand_bytes=279)[1], 1)
        self.assertEqual(self.judge(at_hand_bytes=280)[1], 0)

    def test_a_loop_whose_tensors_are_not_seen_fails(self):
        self.assertEqual(self.judge(large_bytes=0, large_allocations=0, planned_bytes=0, at_hand_bytes=0)[1], 1)

    def test_children_count_for_themselves(self):
        name = "forked children"
        unseen = figures(large_bytes=0, large_allocations=0, planned_bytes=0, at_hand_bytes=0)
        self.assertEqual(torch_aarch64.table({name: {"checksum": "a"}}, {name: unseen})[1], 0)


if __name__ == "__main__":
    unittest.main()
