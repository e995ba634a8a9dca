"""demo.py: the side-by-side table and the library's share, from given figures."""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / folder) for folder in ("scripts", "scripts/gates")]
import demo
import smoke_torch


def figures(p50, faults, checksum="a"):
    return {"p50_ms": p50, "p99_ms": p50, "faults_per_iteration_steady": faults, "sum": 1.0,
            "system_ms_per_iteration": 0.0, "peak_rss_kib": 2048, "checksum": checksum}


STATS = {"slab_bytes": 2**20, "lower_bound_bytes": 2**20}
SHARES = {"planned_share": 0.5, "at_hand_share": 0.25, "steady_planned_share": 0.995, "steady_at_hand_share": 0.0}


class Demo(unittest.TestCase):
    def test_table_takes_medians_and_never_divides_by_zero(self):
        lines = demo.table([figures(8.0, 10), figures(10.0, 10), figures(90.0, 10)],
                           [figures(5.0, 0)])
        self.assertEqual(["latency", "p50", "10.0", "ms", "5.0", "ms", "0.50"], lines[1].split())
        self.assertEqual("-", lines[4].split()[-1])

    def test_ends_with_a_picture_and_what_to_do_next(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = pathlib.Path(folder) / "new/demo.svg"
            demo.draw([figures(10.0, 4000)], [figures(5.0, 0)], "a <network>", picture)
            text = picture.read_text()
            self.assertIn("a &lt;network&gt;", text)
            self.assertIn("4,000", text)
            widths = [float(width) for width in re.findall(r'width="([0-9.]+)" height="12"', text)]
            self.assertEqual(10, len(widths))
            self.assertAlmostEqual(0.5, widths[1] / widths[0], 2)
        for library, command in ((demo.ROOT / "build/libmemomalloc.so", "build/memomalloc"), ("/venv/lib/x.so", "memomalloc")):
            lines = demo.next_lines(argparse.Namespace(library=str(library)))
            self.assertEqual(4, len(lines))
            self.assertTrue(all(command in line for line in lines[1:]), lines)

    def test_a_wheels_command_is_named_so_that_the_shell_finds_it(self):
        with tempfile.TemporaryDirectory() as folder:
            python, command = pathlib.Path(folder, "python"), pathlib.Path(folder, "memomalloc")
            with mock.patch.dict("os.environ", {"PATH": "/nowhere"}):
                self.assertEqual("memomalloc", demo.command_beside(python))
                command.write_text("#!/bin/sh\n")
                command.chmod(0o755)
                self.assertEqual(os.path.relpath(command), demo.command_beside(python))
            with mock.patch.dict("os.environ", {"PATH": folder}):
                self.assertEqual("memomalloc", demo.command_beside(python))

    def test_on_musl_it_says_so_and_installs_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            ldd = pathlib.Path(folder) / "ldd"
            ldd.write_text("#!/bin/sh\necho 'musl libc (x86_64)' >&2\nexit 1\n")  # as musl's own does
            ldd.chmod(0o755)
            environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
            for words in (("install_deps.sh", "build"), ("demo.sh", "--no-install", "--rounds", "0")):
                done = subprocess.run([demo.ROOT / "scripts" / words[0], *words[1:]], env=environment, text=True,
                                      capture_output=True, timeout=60)
                self.assertEqual(2, done.returncode, done.stderr)
                self.assertIn("musl", done.stderr)
                self.assertEqual(1, len(done.stderr.splitlines()))

    def test_shares_of_the_whole_run_and_of_its_second_half(self):
        whole, half, slab = demo.share_lines([SHARES], STATS)
        self.assertRegex(whole, r"whole run +50\.00 % from the slab, 25\.00 % from the pool")
        self.assertRegex(half, r"second half +99\.50 % from the slab, 0\.00 % from the pool")
        self.assertIn("1.0 MiB / 1.0 MiB", slab)


class Smoke(unittest.TestCase):
    def test_good_pair_has_no_complaints(self):
        self.assertEqual([], smoke_torch.complaints(figures(1, 90), figures(1, 3) | SHARES, STATS, 0.99, 50))

    def test_each_fault_is_named(self):
        found = smoke_torch.complaints(figures(1, 90), figures(1, 60, "b") | SHARES, STATS, 0.999, 50)
        self.assertEqual(3, len(found))
        self.assertIn("wrote no statistics",
                      smoke_torch.complaints(figures(1, 0), figures(1, 0), None, None, None)[0])


if __name__ == "__main__":
    unittest.main()
