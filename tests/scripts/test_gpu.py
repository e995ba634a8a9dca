"""scripts/hardware/gpu.sh without a GPU: small networks on the processor go through its parts, and the files are written."""

import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts/tables"), str(ROOT / "scripts/hardware")]

import gpu
import results

PARTS = ("transformer", "stored transformer")  # all of them take minutes


class Gpu(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def run_script(self, *words, **variables):
        return subprocess.run([ROOT / "scripts/hardware/gpu.sh", "--tiny", "--output", self.folder, *words],
                              env={**os.environ, "CUDA_VISIBLE_DEVICES": "", **variables}, capture_output=True, text=True,
                              timeout=300, check=False)

    def test_parts_without_a_gpu(self):
        done = self.run_script("--seconds", "200", "--rounds", "2", "--turn", "0.05", "--first", "3", "--only", ",".join(PARTS),
                               MEMO_COMMIT="the-commit-of-the-tree")
        self.assertEqual(0, done.returncode, done.stderr)
        path, = self.folder.glob("*.json")
        told = json.loads(path.read_text())
        if "No module named 'torch'" in json.dumps(told):
            self.skipTest("no torch")
        for name in results.NEEDED:
            self.assertIn(name, told)
        self.assertEqual("the-commit-of-the-tree", told["commit"])
        self.assertEqual([], told["left_out"])
        self.assertEqual(set(PARTS), set(told["parts"]))
        self.assertNotIn("error", json.dumps(told["parts"]))
        with path.with_suffix(".csv").open(newline="") as file:
            rows = {(row["part"], row["allocator"], row["figure"]): row["value"] for row in csv.DictReader(file)}
        self.assertEqual("1", rows["transformer", "memomalloc", "losses equal to native's"])
        self.assertGreater(float(rows["transformer", "native", "step"]), 0)

    def test_what_does_not_fit_into_the_time_is_named(self):
        done = self.run_script("--seconds", "1", "--only", "transformer,compiled")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual({"left_out": ["transformer", "compiled"], "rows": 0}, json.loads(done.stdout))

    def test_a_process_that_has_ended_is_waited_for_by_no_answer(self):
        with unittest.mock.patch.object(sys, "executable", "false"):
            process = gpu.Process("native", argparse.Namespace(library="", tiny=True))
        for _ in range(2):
            self.assertEqual({"error": "the process ended with code 1"}, process.answer(time.monotonic() + 10))
        process.child.stdin.close()
        process.child.stdout.close()

    def test_losses_that_there_are_none_of_are_not_equal(self):
        measurement = gpu.Measurement(argparse.Namespace(seconds=10, rounds=1, first=2, library="", tiny=True))
        self.addCleanup(measurement.end_all)
        with unittest.mock.patch.object(sys, "executable", "false"):
            measurement.repeated("transformer")
        self.assertEqual([0], [row["value"] for row in measurement.rows])

    def test_a_part_that_is_not_there(self):
        done = self.run_script("--only", "transfomer")
        self.assertEqual(2, done.returncode)
        self.assertIn("no part transfomer; there are smoke, ", done.stderr)


if __name__ == "__main__":
    unittest.main()
