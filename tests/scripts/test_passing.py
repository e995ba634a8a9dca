"""bench/passing.py: the instructions that it costs to pass a small call on, where valgrind can count them."""

import pathlib
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import allocators
import passing

# pattern: calls of a round, and the most instructions that passing one of them on may cost
MOST = {"pair": (2, 3), "calloc": (2, 5), "realloc": (6, 5.5), "memalign": (2, 3), "handed": (2, 4)}


@unittest.skipUnless(shutil.which("valgrind"), "valgrind is not installed")
class Passing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        subprocess.run(["make", "build/bench/small_blocks"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)

    def test_small_calls_are_passed_on_by_a_few_instructions(self):
        both = passing.environments(allocators.BY_NAME["glibc"], ROOT / "build/libmemomalloc.so")
        for pattern, (calls, most) in MOST.items():
            with self.subTest(pattern):
                alone, ours = (passing.instructions(pattern, one) for one in both)
                self.assertGreater(ours, alone)
                self.assertLessEqual(round((ours - alone) / calls, 1), most)

    def test_library_comes_before_the_allocator_behind(self):
        behind = next((one for one in allocators.ALLOCATORS if one.preload and one.library()), None)
        if behind is None:
            self.skipTest("no other allocator is installed")
        alone, ours = passing.environments(behind, "/ours.so")
        self.assertEqual(ours["LD_PRELOAD"], "/ours.so:" + alone["LD_PRELOAD"])
        self.assertEqual(ours | {"LD_PRELOAD": ""}, alone | {"LD_PRELOAD": ""})


if __name__ == "__main__":
    unittest.main()
