"""`memomalloc compare`: rows, figures, failures."""

import csv
import pathlib
import sys
import tempfile
import unittest

from support import json_of, memomalloc

REPORTING = "import os; print('noise'); print('{\"p50_ms\": 1.5, \"preload\": %d}' % bool(os.environ['LD_PRELOAD']))"


class Compare(unittest.TestCase):
    def test_rows_runs_and_reported_figures(self):
        process = memomalloc("compare", "--json", "--runs", "3", "--allocators", "glibc,memomalloc",
                             "--", sys.executable, "-c", REPORTING)
        self.assertEqual(0, process.returncode, process.stderr)
        glibc, ours = json_of(process)["allocators"]
        self.assertEqual(["glibc", "memomalloc"], [glibc["allocator"], ours["allocator"]])
        self.assertEqual(3, len(glibc["wall_seconds"]["runs"]))
        self.assertGreater(glibc["peak_rss_bytes"]["min"], 1 << 20)
        self.assertEqual(1.5, ours["reported"]["p50_ms"]["median"])
        self.assertEqual(0, glibc["reported"]["preload"]["max"])
        self.assertEqual(1, ours["reported"]["preload"]["min"])

    def test_table_and_csv(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "runs.csv"
            process = memomalloc("compare", "--runs", "2", "--allocators", "glibc,glibc-tuned", "--csv",
                                 path, "--", "true")
            rows = list(csv.DictReader(path.read_text().splitlines()))
        self.assertIn("GLIBC_TUNABLES=", process.stdout)
        self.assertEqual([("glibc", "0"), ("glibc", "1"), ("glibc-tuned", "0"), ("glibc-tuned", "1")],
                         [(row["allocator"], row["run"]) for row in rows])
        self.assertGreater(int(rows[0]["minor_faults"]), 0)

    def test_a_failing_command_is_shown_with_its_messages(self):
        process = memomalloc("compare", "--allocators", "glibc", "--", "sh", "-c", "echo why >&2; exit 3")
        self.assertEqual(1, process.returncode)
        self.assertIn("exit code 3 under glibc", process.stderr)
        self.assertIn("why", process.stderr)
        self.assertEqual("", process.stdout)


if __name__ == "__main__":
    unittest.main()
