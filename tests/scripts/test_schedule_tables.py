"""The tables of orders: a refused order is named and fails the run, and old results are taken only if asked for."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / folder) for folder in ("scripts", "scripts/tables")]

try:
    import torch
except ImportError:
    torch = None


def measured(tables, name, train, batch):
    row = dict.fromkeys(tables.COLUMNS, 1)
    return row | {"network": name, "mode": "training" if train else "inference", "batch": batch, "found_by": "x"}


@unittest.skipUnless(torch, "torch is not installed")
class ScheduleTables(unittest.TestCase):
    def setUp(self):
        import schedule_tables
        self.tables = schedule_tables
        self.csv = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), "rows.csv")

    def run_quick(self, measure, *words):
        """(exit code, stdout, stderr, jobs that were measured)"""
        jobs = []

        def noted(name, train, batch, seconds, folder):
            jobs.append(name)
            return measure(name, train, batch)

        with (mock.patch.object(self.tables, "measure", noted), contextlib.redirect_stdout(io.StringIO()) as out,
              contextlib.redirect_stderr(io.StringIO()) as err):
            code = self.tables.main(["--quick", "--csv", str(self.csv), *words])
        return code, out.getvalue(), err.getvalue(), jobs

    def good(self, *job):
        return measured(self.tables, *job)

    def test_a_refused_order_is_named_and_fails(self):
        import check_order

        def bad(name, train, batch):
            if name == "nas":
                raise check_order.Refused("the peak is 3, not 2")
            return self.good(name, train, batch)

        code, out, err, _ = self.run_quick(bad)
        self.assertEqual(1, code)
        self.assertIn("no row for nas inference batch 1: its order is refused: the peak is 3, not 2", err)
        self.assertIn("| unet |", out)
        self.assertNotIn("| nas |", out)

    def test_old_rows_are_taken_only_if_asked_for(self):
        self.assertEqual(0, self.run_quick(self.good)[0])
        code, out, err, jobs = self.run_quick(self.good)
        self.assertEqual((2, "", []), (code, out, jobs))
        self.assertIn("--resume", err)
        code, out, err, jobs = self.run_quick(self.good, "--resume")
        self.assertEqual((0, []), (code, jobs))
        self.assertIn("4 of 4 rows are of an earlier run", err)

    def test_an_order_that_the_judge_refuses_gives_no_row(self):
        import check_order
        graph = pathlib.Path(__file__).resolve().parents[1] / "golden/graphs/alexnet.json"

        def tampered(command, **options):
            report = real(command, **options)
            path = pathlib.Path(command[command.index("--output") + 1])
            order = json.loads(path.read_text())
            path.write_text(json.dumps(order | {"peak": order["peak"] + 1}))
            return report

        real = self.tables.subprocess.run
        with mock.patch.object(self.tables.subprocess, "run", tampered), self.assertRaises(check_order.Refused):
            self.tables.run_tool(str(graph), 1)


if __name__ == "__main__":
    unittest.main()
