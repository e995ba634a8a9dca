"""libmemomalloc-cuda.so over a driver that is none, called as torch calls it; and memomalloc.cuda where there is no GPU."""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("MEMO_BUILD", "build")
LIBRARY = BUILD / "libmemomalloc-cuda.so"


def door(what, driver=True, **variables):
    environment = {**os.environ, "FAKE_CUDA_REAL": "1", **variables}
    if driver:
        environment["LD_LIBRARY_PATH"] = str(BUILD / "fakes")
    return subprocess.run([BUILD / "fakes/door", LIBRARY, what], env=environment, capture_output=True, text=True,
                          timeout=120, check=False)


class OverAFakeDriver(unittest.TestCase):
    def test_a_loop_is_planned_and_keeps_what_is_written(self):
        done = door("loop")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        figures = json.loads(done.stdout)
        self.assertEqual(figures["phase"], "serving")
        self.assertGreater(figures["planned_allocations"], 200)
        self.assertEqual(figures["misses"] + figures["occupied"], 0)

    def test_threads_on_streams_of_their_own(self):
        self.assertEqual(door("threads").stdout, "right\n")

    def test_asleep_nothing_is_held_and_contents_come_back(self):
        self.assertEqual(door("asleep").stdout, "0 1 0 1\n")

    def test_a_forked_child_gets_the_drivers_error(self):
        done = door("forked")
        self.assertEqual(done.stdout, "child 0, parent goes on\n")
        self.assertIn("CUDA_ERROR_NOT_INITIALIZED", done.stderr)

    def test_no_memory_is_no_end(self):
        done = door("refused")
        self.assertEqual(done.stdout, "null block\n")
        self.assertIn("Tried to allocate 4096.00 GiB", done.stderr)

    def test_misuse_ends_in_a_named_error(self):
        for what, words in (("twice", "free of what is not alive"), ("unknown", "free of what is not alive"),
                            ("device", "free on the wrong device")):
            with self.subTest(what):
                done = door(what)
                self.assertEqual(done.returncode, -6, done.stderr)
                self.assertRegex(done.stderr, f"memomalloc.*: cuda: {words}.* 0x[0-9a-f]+\n")

    def test_without_a_driver_it_says_so(self):
        done = door("nothing", driver=False)
        self.assertEqual(done.stdout, "null\n")
        self.assertIn("there is no CUDA driver (libcuda.so.1)", done.stderr)

    def test_each_call_of_the_driver_may_be_refused(self):
        for ever in (False, True):
            for at in (1, 2, 3, 4, 5, 8, 13, 21, 34, 55, 89):
                with self.subTest(at=at, ever=ever):
                    more = {"FAKE_CUDA_REFUSE_EVER": "1"} if ever else {}
                    done = door("loop", FAKE_CUDA_REFUSE=str(at), FAKE_CUDA_MIB="64", **more)
                    self.assertIn(done.returncode, (0, 1), done.stderr)
                    self.assertNotIn("overwritten", done.stdout)

    def test_it_needs_nothing_but_the_c_library(self):
        listed = subprocess.run(["readelf", "-d", LIBRARY], capture_output=True, text=True, check=True).stdout
        needed = set(re.findall(r"NEEDED.*\[(.*)\]", listed))
        self.assertLessEqual(needed, {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1",
                                      "libdl.so.2", "libpthread.so.0"})


class WithoutAGpu(unittest.TestCase):
    def run_python(self, script, **variables):
        return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120,
                              env={**os.environ, "PYTHONPATH": str(ROOT / "python"), **variables})

    def test_torch_without_cuda_goes_on(self):
        done = self.run_python("import torch, memomalloc.cuda as c\n"
                               "print(c.enable(), c.enabled(), c.stats(), c.enable(observe=True))\n"
                               "c.release(); c.sleep(); c.wake(); print(c.memory_summary())")
        if "No module named 'torch'" in done.stderr:
            self.skipTest("no torch")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "False False {} False\nmemomalloc.cuda is not enabled\n")
        self.assertIn("torch sees no GPU here; nothing is changed", done.stderr)


    def test_run_enables_it_when_torch_is_imported(self):
        for more in ((), ("--no-open",), ("--observe",)):
            with self.subTest(more):
                done = subprocess.run([BUILD / "memomalloc", "run", "--cuda", *more, "--", sys.executable, "-c", "import torch; print(1)"],
                                      capture_output=True, text=True, check=False, timeout=120)
                if "No module named 'torch'" in done.stderr:
                    self.skipTest("no torch")
                self.assertEqual(done.stdout, "1\n", done.stderr)
                self.assertIn("cuda: torch sees no GPU here; nothing is changed", done.stderr)
        done = subprocess.run([BUILD / "memomalloc", "run", "--", sys.executable, "-c", "import torch; print(1)"],
                              capture_output=True, text=True, check=False, timeout=120)
        self.assertNotIn("cuda", done.stderr)


if __name__ == "__main__":
    unittest.main()
