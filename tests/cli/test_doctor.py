"""`memomalloc doctor`: what it finds before and after running a command."""

import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from stored_plans import needs_mounts
from support import COMMAND, json_of, memomalloc

# Repeats one iteration of large blocks, as a network does; `rounds` times.
LOOP = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
for _ in range({rounds}):
    previous = None
    for size in range(100000, 1000000, 70000):
        block = libc.malloc(size)
        libc.free(previous)
        previous = block
    libc.free(previous)
"""


def findings(process):
    return {(finding["question"], finding["level"]): finding for finding in json_of(process)["findings"]}


class Doctor(unittest.TestCase):
    def compile(self, source, *flags):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "program.c").write_text(source)
        subprocess.run(["gcc", "-o", folder / "program", folder / "program.c", *flags], check=True)
        return folder / "program"

    def diagnose(self, *command, environment=None):
        process = memomalloc("doctor", "--json", "--", *command, environment=environment)
        return process.returncode, findings(process)

    def test_a_repeating_program_is_served(self):
        code, found = self.diagnose(sys.executable, "-c", LOOP.format(rounds=200))
        self.assertEqual(0, code, found)
        for question in ("library", "program", "loaded", "seen", "learning", "serving"):
            self.assertIn((question, "ok"), found)

    @needs_mounts
    def test_a_tmp_that_may_only_be_read(self):
        with tempfile.TemporaryDirectory(dir=COMMAND.parent) as folder:
            done = subprocess.run(["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o ro none /tmp && exec "$0" doctor -- true', COMMAND],
                                  capture_output=True, text=True, env=os.environ | {"TMPDIR": folder})
        self.assertIn("ok    library", done.stdout)
        self.assertNotIn("FAULT", done.stdout)

    def test_a_short_loop_is_named_before_it_is_planned(self):
        """Five results that live until the next iteration makes them again: planned once 400 calls have repeated."""
        text = ("for number in range(%d):\n a = bytearray(8 << 20)\n b = bytearray(8 << 20)\n c = bytearray(1 << 20)\n"
                " d = bytearray(8 << 20)\n e = bytearray(8 << 20)")
        _, found = self.diagnose(sys.executable, "-c", text % 30)
        what = found["learning", "note"]["what"]
        told = re.fullmatch(r"a loop of 5 calls has repeated for (\d+) calls: it is not believed yet; it is planned after at most "
                            r"(\d+) more; until then the pool serves it", what)
        self.assertIsNotNone(told, what)
        self.assertEqual(400, int(told[1]) + int(told[2]))
        self.assertTrue(135 <= int(told[1]) <= 150, what)
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "trace.csv"
            memomalloc("run", "--trace-file", trace, "--", sys.executable, "-c", text % 30)
            self.assertRegex(memomalloc("analyze", trace).stdout, r"a loop of 5 calls has repeated for \d+ calls: it is not")
        _, found = self.diagnose(sys.executable, "-c", text % 120)
        self.assertIn("plans: 1", found["learning", "ok"]["what"])

    def test_the_answer_comes_first_and_processes_that_matter_little_share_a_line(self):
        small = f"{sys.executable} -c 'bytearray(200000)'; " * 5
        command = ("sh", "-c", f"{small} {sys.executable} -c \"$0\"", LOOP.format(rounds=200))
        process = memomalloc("doctor", "--", *command)
        self.assertEqual(0, process.returncode, process.stdout)
        lines = process.stdout.splitlines()
        self.assertRegex(lines[0], r"^It is on, and serves this program: 9\d % of [\d.]+ MiB in large blocks .* holds [\d.]+ MiB, seen: at most")
        told = [line for line in lines if line.startswith("ok    process")]
        self.assertEqual(2, len(told), process.stdout)
        self.assertIn(" served (", told[0])
        self.assertRegex(told[1], "[5-9] more, with [0-9.]+ MiB together")
        self.assertLess(5, len(json_of(memomalloc("doctor", "--json", "--", *command))["processes"]))
        process = memomalloc("doctor", "--", sys.executable, "-c", "bytearray(200000)")
        self.assertRegex(process.stdout.splitlines()[0], r"^It is on; the program ends too early to tell, after \d+ large")

    def hidden_by(self, name, source="", **variables):
        """What is said to hide allocations in a program that loads an object of this name."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "object.c").write_text(source or "int nothing;")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / name, folder / "object.c"], check=True)
        load = f"ctypes.CDLL('{folder}/{name}')\nimport time\ntime.sleep(1)\n"
        process = memomalloc("doctor", "--json", "--no-open", "--", sys.executable, "-c", "import ctypes\n" + load,
                             environment=variables)
        return [row["what"] for row in json_of(process)["findings"] if row["question"] == "hidden"]

    def test_torch_with_an_allocator_inside(self):
        inside = "#include <stddef.h>\nvoid* mi_malloc(unsigned long size) { return size ? NULL : NULL; }\n"
        alloc = "void* _ZN3c109alloc_cpuEm(unsigned long size) { return mi_malloc(size); }\n"
        free = "void _ZN3c108free_cpuEPv(void* block) { (void)block; }\n"
        flags = "".join(f"char FLAGS_caffe2_cpu_allocator_do_{kind}_fill;\n" for kind in ("zero", "junk"))
        # A wheel without the functions, and those of other releases, are not served.
        for tensors in ("", alloc, alloc + flags, alloc + free):
            self.assertIn("tensors are not seen", str(self.hidden_by("libc10.so", inside + tensors)), tensors)
        self.assertEqual([], self.hidden_by("libc10.so", inside + alloc + free + flags))
        self.assertEqual([], self.hidden_by("libc10.so", alloc.replace("mi_malloc(size)", "0") + free))

    def test_hiders_are_told_by_what_is_mapped(self):
        for name, told in (("_duckdb.cpython-311-x86_64-linux-gnu.so", "duckdb"), ("_polars_runtime.abi3.so", "polars"),
                           ("_multiarray_umath.cpython-315t-x86_64-linux-gnu.so", "free-threaded")):
            self.assertIn(told, str(self.hidden_by(name)))
        for name in ("_multiarray_umath.cpython-315-x86_64-linux-gnu.so", "_multiarray_umath.cpython-314t-x86_64-linux-gnu.so"):
            self.assertEqual([], self.hidden_by(name))

    def test_a_hider_that_is_open_is_not_told(self):
        for name, setting, others in (("libarrow.so.2600", "ARROW_DEFAULT_MEMORY_POOL", ("system", "mimalloc")),
                                      ("libtensorflow_framework.so.2", "TF_ENABLE_ONEDNN_OPTS", ("0", "1"))):
            self.assertEqual([], self.hidden_by(name, **{setting: others[0]}))
            self.assertEqual(1, len(self.hidden_by(name, **{setting: others[1]})))
            self.assertEqual(1, len(self.hidden_by(name)))

    def test_too_few_iterations_are_told(self):
        code, found = self.diagnose(sys.executable, "-c", LOOP.format(rounds=1))
        self.assertEqual(1, code)
        self.assertIn("more iterations", found["learning", "note"]["advice"])

    def test_a_program_without_large_blocks(self):
        code, found = self.diagnose(self.compile("int main(void) { return 0; }"))
        self.assertEqual(1, code)
        self.assertNotIn(("serving", "ok"), found)

    def test_static_program(self):
        program = self.compile("int main(void) { return 0; }", "-static")
        code, found = self.diagnose(program)
        self.assertEqual(1, code)
        self.assertIn("statically linked", found["program", "fault"]["what"])

    def test_setuid_program(self):
        program = self.compile("int main(void) { return 0; }")
        program.chmod(0o4755)
        self.assertIn("setuid", self.diagnose(program)[1]["program", "fault"]["what"])

    def test_program_with_a_malloc_of_its_own(self):
        program = self.compile("void *malloc(unsigned long n) { (void)n; return 0; }\n"
                               "int main(void) { return 0; }", "-fno-builtin", "-rdynamic")
        self.assertIn("defines malloc", self.diagnose(program)[1]["program", "fault"]["what"])

    def test_musl_program(self):
        program = self.compile("int main(void) { return 0; }",
                               "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1")
        self.assertIn("musl", self.diagnose(program)[1]["program", "fault"]["what"])

    def test_program_for_another_machine(self):
        program = self.compile("int main(void) { return 0; }")
        image = bytearray(program.read_bytes())
        image[18:20] = (243 if image[18] != 243 else 183).to_bytes(2, "little")  # RISC-V, or AArch64
        program.write_bytes(image)
        self.assertIn("another machine", self.diagnose(program)[1]["program", "fault"]["what"])

    def test_a_program_linked_to_another_allocator(self):
        server = shutil.which("redis-server")
        if server is None or b"libjemalloc" not in subprocess.run(["ldd", server], capture_output=True).stdout:
            self.skipTest("no redis-server that is linked to jemalloc")
        found = self.diagnose(server, "--version")[1]
        self.assertIn("jemalloc", found["hidden", "note"]["what"])

    def test_an_unordered_stream_is_served_by_the_pool(self):
        program = ("import random\nrandom.seed(1)\nkept = []\n"
                   "for _ in range(4000):\n"
                   "    kept.append(bytearray(random.randrange(70000, 900000)))\n"
                   "    if len(kept) > 20: kept.pop(random.randrange(20))\n")
        code, found = self.diagnose("/usr/bin/python3", "-c", program)
        self.assertEqual(0, code, found)
        self.assertIn("pool", found["learning", "note"]["what"])

    def test_a_limit_on_address_space_is_told(self):
        process = subprocess.run(["sh", "-c", f"ulimit -v 400000; {COMMAND} doctor -- /usr/bin/env true"],
                                 capture_output=True, text=True)
        self.assertIn("limited to 390 MB", process.stdout)

    def test_a_table_of_symbols_beyond_the_file_s_end(self):
        """Section headers are not needed to run a program: whatever packs it may leave anything there."""
        program = self.compile("int main(void) { return 0; }")
        whole = bytearray(program.read_bytes())
        at, size, count = struct.unpack_from("<Q", whole, 40)[0], *struct.unpack_from("<HH", whole, 58)
        for header in range(at, at + size * count, size):
            if struct.unpack_from("<I", whole, header + 4)[0] in (2, 11):  # SHT_SYMTAB, SHT_DYNSYM
                struct.pack_into("<Q", whole, header + 32, 1 << 63)
        program.write_bytes(whole)
        self.assertIn(("loaded", "ok"), self.diagnose(program)[1])

    def test_scripts_are_followed_to_their_interpreter(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        script = folder / "script"
        script.write_text("#!/usr/bin/env sh\ntrue\n")
        script.chmod(0o755)
        found = self.diagnose(script)[1]
        self.assertIn(shutil.which("sh"), found["program", "ok"]["what"])

    def test_switched_off_by_the_environment(self):
        code, found = self.diagnose("true", environment={"MEMOMALLOC_DISABLE": "1"})
        self.assertEqual(1, code)
        self.assertIn("unset", found["environment", "fault"]["advice"])


if __name__ == "__main__":
    unittest.main()
