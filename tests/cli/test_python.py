"""The Python module: with the library and without."""

import json
import os
import subprocess
import sys
import unittest

from support import ROOT, memomalloc

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
        self.assertGreater(statistics["served_bytes"], 0)
        self.assertGreater(statistics["iterations"], 10)

    def test_switched_off_it_still_answers(self):
        loaded, _, statistics = self.run_program("--disable")
        self.assertTrue(loaded)
        self.assertEqual(0, statistics["served_bytes"])

    def test_without_the_library_every_function_does_nothing(self):
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        process = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True,
                                 env=environment | {"PYTHONPATH": str(ROOT / "python")})
        self.assertEqual([False, None, None], json.loads(process.stdout), process.stderr)


if __name__ == "__main__":
    unittest.main()
