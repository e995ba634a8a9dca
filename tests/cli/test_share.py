"""MEMOMALLOC_SHARE: weights are offered to the kernel's same-page merging, and nothing else is."""

import mmap
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from status_server import Server, later
from support import COMMAND, memomalloc

WEIGHTS = 40 * (4 << 20) + (40 << 12)  # bytes of the test server's, a page for each header; the first 16 are glibc's


def mergeable(pid):
    """Bytes that may be merged, in small pages."""
    total = size = 0
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if line.startswith("Size:"):
            size = int(line.split()[1]) << 10
        elif line.startswith("VmFlags:") and {"mg", "nh"} <= set(line.split()):
            total += size
    return total


def merges():
    """Has the kernel same-page merging, switched on or not?"""
    try:
        mmap.mmap(-1, mmap.PAGESIZE).madvise(mmap.MADV_MERGEABLE)
    except OSError:
        return False
    return True


@unittest.skipUnless(merges(), "this kernel merges no equal pages")
class Share(unittest.TestCase):
    def test_offers_weights_alone(self):
        with tempfile.TemporaryDirectory() as folder, Server(folder, ("--status", "--share", "weights")) as server:
            server.status()
            worker = server.workers[0]
            row = later(lambda: (lambda row: row if row.get("offered_bytes") else None)(server.status()[worker]),
                        "the offer")
            self.assertEqual(row["offered_bytes"], mergeable(worker))
            self.assertTrue(WEIGHTS // 2 < row["offered_bytes"] <= WEIGHTS, row)
            self.assertEqual(0, mergeable(server.process.pid))  # which serves nothing
            self.assertIn(" offered for merging", server.ask("status", worker).stdout)

    def test_offers_nothing_unasked(self):
        with tempfile.TemporaryDirectory() as folder, Server(folder) as server:
            later(lambda: server.status()[server.workers[0]]["iterations"] > 100, "a loop")
            time.sleep(4)  # weights are known, ...
            (pathlib.Path(folder) / "busy").unlink()
            time.sleep(4)  # ... and it is quiet: the moment for an offer
            self.assertEqual([0, 0], [mergeable(worker) for worker in server.workers])

    def test_says_what_it_does_not_know(self):
        told = memomalloc("run", "--share", "all", "--", "true")
        self.assertNotEqual(0, told.returncode)
        told = subprocess.run([str(COMMAND), "run", "--", sys.executable, "-c", "bytearray(1 << 20)"],
                              env=os.environ | {"MEMOMALLOC_SHARE": "all"}, capture_output=True, text=True)
        self.assertEqual(0, told.returncode)
        self.assertEqual(1, told.stderr.count("MEMOMALLOC_SHARE"), told.stderr)


if __name__ == "__main__":
    unittest.main()
