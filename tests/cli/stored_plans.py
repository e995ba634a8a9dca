"""What the tests of the plan cache share: programs with a loop of their own, and what they leave in a folder."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from support import COMMAND, json_of, memomalloc

# A loop of its own for each kind: blocks that repeat, at most two at a time. The names of plans follow from the sizes.
LOOP = """
def iterate(kind, rounds, last):
    for _ in range(rounds):
        for size in [*range(100_000 + 1_000 * kind, 1_000_000, 70_000), last]:
            block = bytearray(size)
        del block
"""
SYSTEM = "/usr/bin/python3"  # which any user may run
PYTHON = (SYSTEM if os.path.exists(SYSTEM) else sys.executable, "-I", "-S", "-c")
NOBODY = 65534
needs_root = unittest.skipUnless(os.geteuid() == 0, "another user needs root")


def may_mount():
    return subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode == 0


needs_mounts = unittest.skipUnless(shutil.which("unshare") and may_mount(), "needs the right to mount")


def loop(kind, rounds):
    return LOOP + f"iterate({kind}, {rounds}, 100_000)\n"


class Store(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.folder.chmod(0o755)
        self.store = self.folder / "plans"
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("MEMOMALLOC_") and name != "LD_PRELOAD"}

    def start(self, program, *options, stats=None, store=None, before=(), behind=(), **more):
        words = [*before, COMMAND, "run", "--plans", store or self.store, *options]
        words += ["--stats-file", stats] if stats else []
        return subprocess.Popen([*map(str, words), "--", *PYTHON, program, *behind], env=self.environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def run_program(self, program, *options, said="", **more):
        """Its statistics."""
        stats = self.folder / "stats.json"
        stats.unlink(missing_ok=True)
        process = self.start(program, *options, stats=stats, **more)
        out, err = process.communicate(timeout=120)
        self.assertEqual((0, ""), (process.returncode, out), err)
        if said:
            self.assertIn(said, err)
            self.assertEqual(1, err.count("\n"), err)
        else:
            self.assertEqual("", err)
        return json.loads(stats.read_text())

    def names(self, store=None):
        return sorted(path.name for path in (store or self.store).iterdir())

    def wait_for_a_plan(self):
        """Until a process that runs has saved one."""
        until = time.monotonic() + 100
        while not (self.store.exists() and any(name.endswith(".plan") for name in self.names())):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.1)

    def plan(self):
        """The only file of the store."""
        self.assertEqual(1, len(self.names()))
        return self.store / self.names()[0]

    def learn(self, kind=0):
        statistics = self.run_program(loop(kind, 200))
        self.assertEqual((1, 0), (statistics["plans"], statistics["plans_loaded"]))

    def assert_served(self, kind=0, **more):
        """From its first iteration on, but for the calls that open the engine and name the plan."""
        statistics = self.run_program(loop(kind, 6), **more)
        self.assertEqual((0, 1), (statistics["plans"], statistics["plans_loaded"]))
        self.assertGreaterEqual(statistics["iterations"], 4)
        self.assertLess(statistics["learned_allocations"], 28)

    def verify(self):
        return json_of(memomalloc("plans", "verify", "--plans", self.store, "--json"))

    def assert_whole(self, plans):
        self.assertEqual({"plans": plans, "other_versions": 0, "half_written": 0, "broken": []}, self.verify())
