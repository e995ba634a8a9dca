"""The Python module: with the library and without."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import COMMAND, ROOT, memomalloc

PROGRAM = """
import json, sys
import memomalloc
for _ in range(60):
    with memomalloc.iteration():
        blocks = [bytearray(size * 100000) for size in range(1, 9)]
        del blocks
memomalloc.release()
print(json.dumps([memomalloc.loaded(), memomalloc.version(), memomalloc.stats()]))
"""

# Seven iterations, told in each of the ways that a reader of the manual may try.
MARKS = """
import memomalloc
memomalloc.iteration()
block = bytearray(100000)
with memomalloc.iteration():
    block = bytearray(200000)
@memomalloc.iteration()
def network(size):
    return bytearray(size)
for size in 300000, 400000, 500000:
    network(size)
again = memomalloc.iteration()
for size in 600000, 700000:
    with again:
        block = bytearray(size)
"""


class Module(unittest.TestCase):
    def run_program(self, *words):
        process = memomalloc("run", *words, "--", sys.executable, "-c", PROGRAM,
                             environment={"PYTHONPATH": str(ROOT / "python")})
        self.assertEqual(0, process.returncode, process.stderr)
        return json.loads(process.stdout)

    def test_with_the_library(self):
        loaded, version, statistics = self.run_program()
        self.assertTrue(loaded)
        self.assertEqual((ROOT / "VERSION").read_text().strip(), version)
        self.assertGreater(statistics["planned_bytes"], 0)
        self.assertGreater(statistics["iterations"], 10)

    def test_environment(self):
        """A process that gets the variables of another runs as that one does, with what it is told."""
        script = """
import json, os, subprocess, sys
import memomalloc
variables = memomalloc.environment(status=False, stats_file=sys.argv[1], plan_time=5)
child = "import json, os, memomalloc; print(json.dumps([memomalloc.loaded(), dict(os.environ)]))"
clean = {"PYTHONPATH": os.environ["PYTHONPATH"]}
told = subprocess.run([sys.executable, "-c", child], env=clean | variables, capture_output=True, text=True, check=True)
print(json.dumps([variables, json.loads(told.stdout)]))
"""
        with tempfile.TemporaryDirectory() as folder:
            process = memomalloc("run", "--verbose", "0", "--strict", "--", sys.executable, "-c", script,
                                 f"{folder}/%p.json", environment={"PYTHONPATH": str(ROOT / "python"),
                                                                   "LD_PRELOAD": "libc.so.6"})
        self.assertEqual(0, process.returncode, process.stderr)
        variables, (loaded, child) = json.loads(process.stdout)
        self.assertTrue(loaded)
        self.assertEqual({"MEMOMALLOC_STATUS": "0", "MEMOMALLOC_STATS_FILE": f"{folder}/%p.json",
                          "MEMOMALLOC_PLAN_TIME": "5", "MEMOMALLOC_VERBOSE": "0", "MEMOMALLOC_STRICT": "1"},
                         {name: value for name, value in variables.items() if name.startswith("MEMOMALLOC_")})
        first, *others = variables["LD_PRELOAD"].split(":")
        self.assertTrue(pathlib.Path(first).samefile(ROOT / "build/libmemomalloc.so"), first)
        self.assertEqual(["libc.so.6"], others)
        self.assertEqual(variables, {name: child[name] for name in variables})

    def test_environment_without_the_library(self):
        script = "import json, memomalloc; print(json.dumps(memomalloc.environment(library='/x/libmemomalloc.so.1')))"
        clean = {name: value for name, value in os.environ.items()
                 if name != "LD_PRELOAD" and not name.startswith("MEMOMALLOC_")}
        answer = subprocess.run([sys.executable, "-c", script], env=clean | {"PYTHONPATH": str(ROOT / "python")},
                                capture_output=True, text=True, check=True)
        variables = json.loads(answer.stdout)
        self.assertEqual("/x/libmemomalloc.so.1", variables["LD_PRELOAD"])
        self.assertFalse([name for name in variables if name.startswith("MEMOMALLOC_")])

    def test_switched_off_it_still_answers(self):
        loaded, _, statistics = self.run_program("--disable")
        self.assertTrue(loaded)
        self.assertEqual(0, statistics["planned_bytes"])

    def test_without_the_library_every_function_does_nothing(self):
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        process = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True,
                                 env=environment | {"PYTHONPATH": str(ROOT / "python")})
        self.assertEqual([False, None, None], json.loads(process.stdout), process.stderr)

    def test_every_way_of_telling_an_iteration_tells_one(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        process = memomalloc("run", "--trace-file", folder / "trace.csv", "--", sys.executable, "-c", MARKS,
                             environment={"PYTHONPATH": str(ROOT / "python")})
        self.assertEqual((0, ""), (process.returncode, process.stderr))
        rows = [row.split(",") for row in (folder / "trace.csv").read_text().splitlines()]
        sizes = {f"{size}00001" for size in range(1, 8)}  # a bytearray ends with a zero of its own
        told = [row[0] if row[0] == "mark" else int(row[3]) // 100000 for row in rows if row[0] == "mark" or row[3] in sizes]
        self.assertEqual([word for size in range(1, 8) for word in ("mark", size)], told)


class Command(unittest.TestCase):
    def run_module(self, folder, *words):
        return subprocess.run([sys.executable, "-m", "memomalloc", *words], capture_output=True, text=True,
                              env=os.environ | {"PYTHONPATH": str(folder)})

    def test_the_module_is_the_command(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        shutil.copytree(ROOT / "python/memomalloc", folder / "memomalloc")
        (folder / "memomalloc/bin").mkdir()
        (folder / "memomalloc/bin/memomalloc").symlink_to(COMMAND.resolve())
        for words, code, text in ((("planners",), 0, "portfolio"), (("run", "--", "sh", "-c", "exit 7"), 7, ""),
                                  (("no-such",), 2, "memomalloc --help")):
            process = self.run_module(folder, *words)
            self.assertEqual(code, process.returncode, process.stderr)
            self.assertIn(text, process.stdout + process.stderr)

    def test_a_source_folder_carries_no_command(self):
        process = self.run_module(ROOT / "python", "planners")
        self.assertEqual((2, ""), (process.returncode, process.stdout))
        self.assertIn("pip install .", process.stderr)


if __name__ == "__main__":
    unittest.main()
