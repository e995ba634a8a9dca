"""MEMOMALLOC_NUMA on a machine of two memory nodes that is pretended (tests/preload/nodes.c): the program runs on node 1,
and its memory lies on node 0. Kernels with real nodes: tests/vm/nodes.py."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from support import COMMAND, ROOT, memomalloc

MIB = 1 << 20
# Weights that stay, and an iteration of 18 MiB, written whole.
LOOP = """
import ctypes, time
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
def take(size):
    block = libc.malloc(size)
    ctypes.memset(block, 1, size)
    return block
for i in range(16):
    libc.free(libc.malloc((1 << 20) + i))
weights = [take(2 << 20) for _ in range(4)]
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    blocks = [take((1 + i * 7 % 5) << 18) for i in range(24)]
    for block in blocks:
        libc.free(block)
    time.sleep(0.02)
"""
SLAB = sum((1 + i * 7 % 5) << 18 for i in range(24))
WEIGHTS = 8 * MIB


class Nodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.library = cls.folder / "nodes.so"
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", cls.library, ROOT / "tests/preload/nodes.c", "-ldl"],
                       check=True)

    def run_loop(self, *options, seconds=5, refuse=False, online="0-1"):
        """Statistics, what was asked of the kernel, and stderr."""
        statistics = self.folder / "statistics.json"
        environment = {"LD_PRELOAD": str(self.library), "NODES": online, "NODES_TELL": "1"}
        environment |= {"NODES_REFUSE": "1"} if refuse else {}
        done = memomalloc("run", *options, "--stats-file", statistics, "--", sys.executable, "-c",
                          LOOP.format(seconds=seconds), environment=environment)
        self.assertEqual(0, done.returncode, done.stderr)
        told = [int(number) for number in re.search(r"nodes: (\d+) asked, (\d+) moved, (\d+) bound", done.stderr).groups()]
        return json.loads(statistics.read_text()), told, done.stderr

    def test_memory_goes_where_the_thread_is(self):
        statistics, (_, moved, bound), _ = self.run_loop(seconds=10)
        self.assertLessEqual(SLAB + WEIGHTS, statistics["node_moved_bytes"])
        self.assertLess(statistics["node_moved_bytes"], 1.2 * (SLAB + WEIGHTS))  # once
        self.assertEqual(statistics["node_moved_bytes"], moved * 4096)
        self.assertEqual(0, bound + statistics["node_refused"] + statistics["node_remade_bytes"])
        self.assertEqual(0, statistics["node_changes"])
        self.assertEqual([0, 1], [row["node"] for row in statistics["node_bytes"]])
        weights = [row["weights"] for row in statistics["node_bytes"]]
        self.assertLessEqual(WEIGHTS, sum(weights))

    def test_interleaved_over_all(self):
        statistics, _, _ = self.run_loop("--numa", "interleave")
        # Half of it lay right before.
        self.assertAlmostEqual((SLAB + WEIGHTS) / 2, statistics["node_moved_bytes"], delta=0.25 * (SLAB + WEIGHTS))

    def test_local_leaves_weights(self):
        statistics, _, _ = self.run_loop("--numa", "local")
        self.assertLessEqual(SLAB, statistics["node_moved_bytes"])
        self.assertLess(statistics["node_moved_bytes"], SLAB + MIB)

    def test_shared_weights_are_left(self):
        statistics, _, _ = self.run_loop("--share", "weights")
        self.assertLess(statistics["node_moved_bytes"], SLAB + MIB)

    def test_made_anew_where_nothing_may_be_moved(self):
        statistics, (asked, _, bound), _ = self.run_loop(refuse=True)
        self.assertEqual(0, asked + statistics["node_moved_bytes"])
        self.assertEqual(1, statistics["node_refused"])
        self.assertLess(0.5 * SLAB, statistics["node_remade_bytes"])
        self.assertLess(0, bound)

    def test_a_refused_binding_is_borne(self):
        # Node 0 has no processor that there is: its part of the slab cannot be made ready.
        statistics, (_, _, bound), _ = self.run_loop("--numa", "interleave", refuse=True)
        self.assertLess(1, statistics["node_refused"])
        self.assertLess(0, bound)
        self.assertEqual(0, statistics["fallback_lane"])

    def test_off_asks_nothing(self):
        statistics, told, _ = self.run_loop("--numa", "off", seconds=3)
        self.assertEqual([0, 0, 0], told)
        self.assertNotIn("node_bytes", statistics)

    def test_one_node_is_asked_nothing(self):
        statistics, told, _ = self.run_loop(seconds=3, online="0")
        self.assertEqual([0, 0, 0], told)
        self.assertNotIn("node_bytes", statistics)

    def test_a_thread_that_roams_has_its_memory_spread(self):
        done = self.diagnose(8, NODES_ROAM="1")
        self.assertRegex(done.stdout, r"note  nodes       threads roam: after \d+ of \d+ iterations")
        slabs = [float(number) for number in re.findall(r"slabs ([\d.]+) MiB", done.stdout)]
        self.assertEqual(2, len(slabs), done.stdout)

    def diagnose(self, seconds, **more):
        done = memomalloc("doctor", "--", sys.executable, "-c", LOOP.format(seconds=seconds), environment={
            "LD_PRELOAD": str(self.library), "NODES": "0-1", **more})
        self.assertEqual(0, done.returncode, done.stdout)
        return done

    def test_doctor_says_where_it_lies(self):
        done = self.diagnose(5)
        self.assertRegex(done.stdout, r"ok    nodes       node 0: slabs [\d.]+ MiB, pool [\d.]+ MiB, weights among it [\d.]+ MiB; node 1: ")
        self.assertNotIn("roam", done.stdout)

    def test_an_unknown_mode_is_one_line(self):
        self.assertNotEqual(0, memomalloc("run", "--numa", "near", "--", "true").returncode)
        told = subprocess.run([str(COMMAND), "run", "--", sys.executable, "-c", "print(len(bytearray(1 << 20)))"],
                              env=os.environ | {"MEMOMALLOC_NUMA": "near"}, capture_output=True, text=True)
        self.assertEqual((0, "1048576\n"), (told.returncode, told.stdout))
        self.assertEqual(1, told.stderr.count("MEMOMALLOC_NUMA"), told.stderr)
        self.assertEqual(1, len(told.stderr.splitlines()), told.stderr)


if __name__ == "__main__":
    unittest.main()
