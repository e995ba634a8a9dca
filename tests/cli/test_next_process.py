"""Plans from one process to the next: what was learned is served at once, also where sizes change, and processes that
load and save plans at the same time leave whole files."""

import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import unittest

from support import COMMAND, memomalloc

# Sizes that repeat: 13 blocks, at most two at a time.
FIXED = """
for _ in range({rounds}):
    for size in range(100000, 1000000, 70000):
        block = bytearray(size)
    del block
"""

# Sizes that follow from the iteration's first one. Each call has a line, so a call stack, of its own.
CHANGING = "import random\nrandom.seed({seed})\ndef iterate(tokens):\n" + "".join(
    f"    block{i} = bytearray({size})\n" + (f"    del block{i - 2}\n" if i >= 2 else "")
    for i, size in enumerate(["3072 * tokens", "96 * tokens * tokens", "12288 * tokens", "3072 * tokens"] * 6)
) + "for _ in range({rounds}):\n    iterate(random.randint(30, 330))\n"

# Without call stacks there is no symbolic plan; they are read on these processors.
needs_call_stacks = unittest.skipUnless(platform.machine() in ("x86_64", "aarch64"),
                                        f"stacks are not unwound on {platform.machine()}")


class NextProcess(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.plans = self.folder / "plans"

    def run_with_plan(self, program):
        """The statistics of a process that loads and saves plans."""
        process = memomalloc("run", "--plans", self.plans, "--stats-file", self.folder / "stats.json", "--",
                             sys.executable, "-c", program)
        self.assertEqual((0, "", ""), (process.returncode, process.stdout, process.stderr))
        return json.loads((self.folder / "stats.json").read_text())

    def test_the_next_process_is_served_from_its_first_iteration(self):
        first = self.run_with_plan(FIXED.format(rounds=300))
        self.assertEqual((1, 0), (first["plans"], first["plans_loaded"]))
        second = self.run_with_plan(FIXED.format(rounds=4))
        self.assertEqual((0, 1), (second["plans"], second["plans_loaded"]))
        self.assertGreaterEqual(second["iterations"], 3)
        self.assertLess(second["learned_allocations"], 13)

    @needs_call_stacks
    def test_shapes_that_no_process_has_seen_are_served_by_a_symbolic_plan(self):
        first = self.run_with_plan(CHANGING.format(seed=1, rounds=300))
        self.assertGreater(first["symbolic_calls"], 0)
        second = self.run_with_plan(CHANGING.format(seed=2, rounds=20))
        self.assertEqual(0, second["plans"])
        self.assertGreaterEqual(second["plans_loaded"], 1)
        self.assertGreater(second["shapes"], 10)
        self.assertGreaterEqual(second["iterations"], 15)
        self.assertLess(second["learned_allocations"], 100)

    @needs_call_stacks
    def test_call_stacks_have_the_same_names_in_every_process(self):
        def sites(trace):
            memomalloc("run", "--trace-file", trace, "--", sys.executable, "-c", CHANGING.format(seed=1, rounds=20))
            lines = [line.split(",") for line in trace.read_text().splitlines()]
            return [line[5] for line in lines if line[0] == "malloc"]

        first = sites(self.folder / "first.csv")
        self.assertEqual(first, sites(self.folder / "second.csv"))
        self.assertNotIn("0", first)
        self.assertNotIn("", first)
        self.assertGreater(len(set(first)), 1)

    @needs_call_stacks
    def test_a_symbolic_plan_is_told(self):
        command = ("doctor", "--", "env", f"MEMOMALLOC_PLANS={self.plans}", sys.executable, "-c")
        first = memomalloc(*command, CHANGING.format(seed=1, rounds=300)).stdout
        self.assertRegex(first, r"changing shapes: \d+ calls, planned for \d+ shapes")
        self.assertIn("of them from the plan cache", memomalloc(*command, CHANGING.format(seed=2, rounds=50)).stdout)

    def test_processes_at_once_leave_whole_files(self):
        environment = os.environ | {"MEMOMALLOC_PLANS": str(self.plans)}
        for _ in range(3):
            running = [subprocess.Popen([COMMAND, "run", "--", sys.executable, "-c", program.format(seed=i, rounds=300)],
                                        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                       for i, program in enumerate((FIXED, CHANGING) * 4)]
            for process in running:
                self.assertEqual(("", None), process.communicate(timeout=100))
                self.assertEqual(0, process.returncode)
            self.assertEqual({".plan"}, {path.suffix for path in self.plans.iterdir()})  # no temporary file is left
            self.assertGreater(self.run_with_plan(FIXED.format(rounds=2))["plans_loaded"], 0)
            (self.folder / "stats.json").unlink()


if __name__ == "__main__":
    unittest.main()
