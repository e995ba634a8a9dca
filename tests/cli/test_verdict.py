"""The first line of `memomalloc doctor`, and its exit code: does the library help, and if not, what is in the way?"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from support import ROOT, json_of, memomalloc

LIBRARY = ROOT / "build/libmemomalloc.so"

# Holds memory in large blocks, until it has been seen.
HOLDS = "import time; held = [bytearray(1 << 20) for _ in range({})]; time.sleep(1)"
# Sizes that never repeat, few enough that no plan is sought long, each block written.
POOLED = """
import random, time
random.seed(3)
kept = []
for _ in range({rounds}):
    kept.append(b"x" * random.randrange(1 << 20, 3 << 20))
    if len(kept) > 6:
        kept.pop(random.randrange(6))
"""
ALLOCATOR = """
#include <stddef.h>
void* __libc_malloc(size_t); void __libc_free(void*); void* __libc_calloc(size_t, size_t); void* __libc_realloc(void*, size_t);
void* malloc(size_t size) { return __libc_malloc(size); }
void free(void* block) { __libc_free(block); }
void* calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void* realloc(void* block, size_t size) { return __libc_realloc(block, size); }
"""


class Verdict(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def library(self, name, source="int nothing;"):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (self.folder / "source.c").write_text(source)
        subprocess.run(["gcc", "-shared", "-fPIC", "-fno-builtin", "-o", path, self.folder / "source.c"], check=True)
        return path

    def script(self, text):
        (self.folder / "script.py").write_text(text)
        return [sys.executable, self.folder / "script.py"]

    def judge(self, *command, options=(), **variables):
        done = memomalloc("doctor", "--json", *options, "--", *command, environment=variables)
        report = json_of(done)
        self.assertEqual(report["healthy"], report["verdict"]["state"] == "helps")
        self.assertEqual(0 if report["healthy"] else 1, done.returncode)
        return report["verdict"]["state"], report["verdict"]["line"], report["findings"]

    def test_blocks_that_the_pool_serves_are_served(self):
        for rounds in (60, 400):
            state, line, findings = self.judge(*self.script(POOLED.format(rounds=rounds)))
            self.assertEqual("helps", state, findings)
            self.assertRegex(line, r"^It is on, and serves this program: \d+ % of [\d.]+ MiB in large blocks \(0 % by plan")
            self.assertFalse([finding for finding in findings if finding["level"] == "fault"])

    def test_what_glibc_holds_is_told_beside_it(self):
        line = self.judge(*self.script(POOLED.format(rounds=400) + "time.sleep(1)\n"), options=["--both"])[1]
        self.assertRegex(line, r"it holds [\d.]+ MiB, seen: at most [\d.]+ MiB, pages of files apart\. Without the library "
                               r"it holds [\d.]+ MiB, seen: at most [\d.]+ MiB, and takes \d+ page faults, not \d+\.$")

    def test_without_the_library_the_program_runs_as_it_was_given(self):
        (self.folder / "own.py").write_text("")
        ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
        program = self.script("import signal, sys, own\n"
                              f"sys.exit((signal.getsignal(signal.SIGINT) == signal.SIG_IGN) != {ignored})\n")
        line = self.judge(*program, options=["--both"], PYTHONPATH=str(self.folder))[1]
        self.assertIn("Without the library", line)
        self.assertNotIn("ended with", line)
        program = self.script("import os\nos._exit('libmemo' not in open('/proc/self/maps').read())\n")
        for preload in ({}, {"LD_PRELOAD": str(LIBRARY)}):
            self.assertIn("; it ended with exit code 1 then.", self.judge(*program, options=["--both"], **preload)[1])

    def test_an_arena_that_is_off_already_is_not_told(self):
        fakes = self.folder / "fakes"
        (fakes / "onnxruntime/capi").mkdir(parents=True)
        (fakes / "onnxruntime/__init__.py").write_text("from onnxruntime.capi._pybind_state import SessionOptions\n")
        (fakes / "onnxruntime/capi/__init__.py").write_text("")
        (fakes / "onnxruntime/capi/_pybind_state.py").write_text(
            f"import ctypes\nctypes.CDLL({str(self.library('onnxruntime_pybind11_state.so'))!r})\n"
            "class SessionOptions:\n    arena = True\n    enable_cpu_mem_arena = property(lambda self: self.arena,\n"
            "        lambda self, value: setattr(self, 'arena', value))\n")
        for line, told in (("", False), ("options.enable_cpu_mem_arena = False", False), ("options.enable_cpu_mem_arena = True", True)):
            script = self.script(f"import onnxruntime, time\noptions = onnxruntime.SessionOptions()\n{line}\ntime.sleep(1)\n")
            findings = self.judge(*script, PYTHONPATH=str(fakes))[2]
            hidden = [finding["what"] for finding in findings if finding["question"] == "hidden"]
            self.assertEqual(told, "asks for the arena by name" in str(hidden), hidden)
            self.assertEqual(int(told), len(hidden), hidden)
            self.assertIn("opened", [finding["question"] for finding in findings])
        self.assertIn("arena", str(self.judge(*script, options=["--no-open"], PYTHONPATH=str(fakes))[2]))

    def started_with(self, preload):
        """A launcher whose child does the work, with this LD_PRELOAD, or without one."""
        return self.script(f"import os, subprocess, sys\nenvironment = dict(os.environ)\npreload = {preload}\n"
                           "environment.pop('LD_PRELOAD')\nif preload:\n    environment['LD_PRELOAD'] = preload\n"
                           f"subprocess.run([sys.executable, '-c', {HOLDS.format(60)!r}], env=environment, check=True)\n")

    def test_a_launcher_whose_child_is_not_served(self):
        state, line, _ = self.judge(*self.started_with("''"))
        self.assertEqual("elsewhere", state)
        self.assertRegex(line, r"^It is not on in process \d+ \(python3?[\d.]*\), which holds most of the memory, \d+\.\d MiB: "
                               "it was started without the library in LD_PRELOAD")

    def test_a_launcher_whose_child_is_served(self):
        script = self.script(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {POOLED.format(rounds=200)!r}])\n")
        self.assertEqual("helps", self.judge(*script)[0])

    def test_an_allocator_in_front(self):
        front = self.library("libtcmalloc_minimal.so.4", ALLOCATOR)
        state, line, _ = self.judge(*self.started_with(f"'{front}:' + os.environ['LD_PRELOAD']"))
        self.assertEqual("elsewhere", state)
        self.assertIn(f"{front} stands before the library in LD_PRELOAD", line)

    def test_the_library_twice(self):
        other = self.folder / "other/libmemomalloc.so.1"
        other.parent.mkdir()
        shutil.copy(LIBRARY, other)
        script = self.script(f"import os, subprocess, sys\nos.environ['LD_PRELOAD'] = '{other}:' + os.environ['LD_PRELOAD']\n"
                             f"subprocess.run([sys.executable, '-c', {POOLED.format(rounds=200)!r} + 'time.sleep(1)'])\n")
        state, line, findings = self.judge(*script)
        self.assertEqual("helps", state)
        self.assertIn("The library is loaded twice: leave one out.", line)
        self.assertIn(str(other), str(findings))

    def test_a_library_that_is_not_there(self):
        for preload, missing in (("/no/such.so", "/no/such.so"), ("libm.so.6 nowhere.so", "nowhere.so"),
                                 ("/gone/libmemomalloc.so", "/gone/libmemomalloc.so")):
            state, line, _ = self.judge(*self.script(POOLED.format(rounds=200)), LD_PRELOAD=preload)
            self.assertEqual("helps", state)
            self.assertTrue(line.endswith(f"LD_PRELOAD names {missing}, which is not there."), line)
        self.assertNotIn("LD_PRELOAD", self.judge(*self.script(POOLED.format(rounds=200)), LD_PRELOAD="libm.so.6")[1])

    def test_a_plug_in_with_a_malloc_of_its_own(self):
        script = self.script(f"import ctypes, os, time\nctypes.CDLL({str(self.library('libtbb.so.12'))!r})\ntime.sleep(1)\nos.abort()")
        state, line, _ = self.judge(*script)
        self.assertEqual("crashed", state)
        self.assertIn("The program ended with signal 6", line)
        self.assertIn("RTLD_DEEPBIND", line)
        _, line, findings = self.judge(*self.script("import os; os.abort()"))
        self.assertNotIn("RTLD_DEEPBIND", line)
        seen = next(finding for finding in findings if finding["question"] == "seen")
        self.assertIn("left no statistics: a program that a signal ends leaves none", seen["what"])

    def test_runtimes_with_a_pool_of_their_own(self):
        for name, word in (("ncnn.cpython-312-x86_64-linux-gnu.so", "ncnn"), ("_mnncengine.cpython-312-x86_64-linux-gnu.so", "MNN"),
                           ("libmlx.so", "MLX"), ("libtvm_runtime.so", "TVM"), ("iree/_runtime_libs/_runtime.abi3.so", "IREE"),
                           ("libpywrap_litert_common.so", "LiteRT"), ("libXNNPACK.so", "XNNPACK"), ("libtbbmalloc.so.2", "oneTBB")):
            path = self.library(name)
            state, line, _ = self.judge(*self.script(f"import ctypes, time\nctypes.CDLL({str(path)!r})\ntime.sleep(1)\n"))
            self.assertEqual("hidden" if word == "MLX" else "little", state)
            self.assertTrue(line.startswith(f"It is on, and sees little: {path.name}: {word}"), line)
            # Where it serves all the same, that is the answer, and what it does not see stands beside it.
            state, line, _ = self.judge(*self.script(f"import ctypes\nctypes.CDLL({str(path)!r})\n{POOLED.format(rounds=200)}time.sleep(0.5)\n"))
            self.assertEqual("helps", state)
            self.assertIn(f"Not seen, where it is used: {path.name}: {word}", line)
        inside = self.library("libengine.so", "void* je_malloc(unsigned long size) { return (void*)size; }")
        line = self.judge(*self.script(f"import ctypes, time\nctypes.CDLL({str(inside)!r})\ntime.sleep(1)\n"))[1]
        self.assertIn("libengine.so: it has an allocator of its own inside, jemalloc", line)

    def test_a_program_too_short(self):
        state, line, findings = self.judge(*self.script("held = [b'x' * 300000 for _ in range(3)]\n"))
        self.assertEqual("short", state)
        self.assertIn("ends too early to tell", line)
        learning = next(finding for finding in findings if finding["question"] == "learning")
        self.assertRegex(learning["what"], r"^nothing repeats in \d+ large allocations$")
        self.assertRegex(learning["advice"], "^run more iterations, at least 4 of one shape; ")

    def test_a_program_that_the_loader_keeps_it_from(self):
        state, line, _ = self.judge("true", MEMOMALLOC_DISABLE="1")
        self.assertEqual("off", state)
        self.assertIn("It is not on: MEMOMALLOC_DISABLE=1 switches the library off; unset it.", line)
        looped = self.script(POOLED.format(rounds=200))
        state, line, _ = self.judge(*looped, MEMOMALLOC_OBSERVE="1")
        self.assertEqual("off", state)
        self.assertIn("It is not on: MEMOMALLOC_OBSERVE=1", line)
        state, line, _ = self.judge(*looped, MEMOMALLOC_EXE="other")
        self.assertEqual("off", state)
        self.assertIn("It is not on: MEMOMALLOC_EXE=other leaves out what this command runs", line)
        self.assertEqual("helps", self.judge(*looped, MEMOMALLOC_EXE=pathlib.Path(sys.executable).resolve().name)[0])

    @unittest.skipUnless(os.geteuid() == 0, "only root has rights to give up")
    def test_a_program_that_gives_up_its_rights_leaves_no_statistics(self):
        state, line, findings = self.judge(*self.script("import os\nos.setuid(65534)\n" + POOLED.format(rounds=200)))
        self.assertEqual("silent", state)
        self.assertIn("left no statistics", line)
        self.assertIn("one that gives up its rights", str(findings))


if __name__ == "__main__":
    unittest.main()
