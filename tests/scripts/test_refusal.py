"""The refusals cannot forget a call: what the library could reach the kernel by is listed, turned, or an error."""

import collections
import errno
import importlib.util
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/refusal"))
import calls
import cases
import places

found = importlib.util.spec_from_file_location("refusal_run", ROOT / "tests/refusal/run.py")  # there are several called run
run = importlib.util.module_from_spec(found)
found.loader.exec_module(run)

LIBRARY = """
#include <sys/mman.h>
void* first(void) { return mmap(0, 4096, 1, 34, -1, 0); }
int second(void* start) { return munmap(start, 4096) + 1; }
"""
# The same with a function of its own by the C library's name, as the library has most of them.
OWN = """
#include <stddef.h>
#include <errno.h>
__attribute__((visibility("hidden"), noipa)) void* mmap(void* at, size_t bytes, int access, int flags, int file, long from) {
  register long r10 __asm__("r10") = flags;
  register long r8 __asm__("r8") = file;
  register long r9 __asm__("r9") = from;
  long answer = 9;
  __asm__ volatile("syscall" : "+a"(answer) : "D"(at), "S"(bytes), "d"(access), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  if (answer >= 0)
    return (void*)answer;
  errno = (int)-answer;
  return (void*)-1;
}
void* first(void) { return mmap(0, 4096, 1, 34, -1, 0); }
int second(void* start) { return start != 0; }
"""
HOST = """
#include <errno.h>
#include <stdio.h>
void* first(void);
int second(void*);
int main(void) {
  for (int i = 0; i < 4; ++i) {
    errno = 0;
    void* start = first();
    printf("%d %d\\n", start == (void*)-1, errno);
  }
  return second(0);
}
"""


@unittest.skipUnless(platform.machine() == "x86_64", "the stubs are written for x86-64")
class Refusal(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def build(self, name, source, *flags):
        path = self.folder / name
        path.with_suffix(".c").write_text(source)
        subprocess.run(["gcc", "-O1", "-g", "-fPIC", f"-I{ROOT}", *flags, str(path.with_suffix(".c")), "-o", str(path)]
                       + (["-L", str(self.folder), "-lmemomalloc"] if "-shared" not in flags else []), check=True)
        return path

    def library(self, source):
        return self.build("libmemomalloc.so", source, "-shared", "-Wl,-z,now")

    def test_each_call_is_a_place(self):
        library = self.library(LIBRARY)
        names = places.turned(library)
        self.assertEqual(["mmap", "munmap"], names)
        found = places.places(library, names)
        self.assertEqual([("mmap", "first"), ("munmap", "second")],
                         sorted((place.function, place.inside) for place in found))

    def test_an_import_that_is_not_listed_is_an_error(self):
        library = self.library("#include <pwd.h>\nvoid* f(void) { return getpwnam(\"x\"); }\n")
        with self.assertRaisesRegex(places.Unknown, "getpwnam"):
            places.turned(library)

    def test_a_system_call_without_a_function_is_an_error(self):
        library = self.library("long f(long n) { __asm__ volatile(\"syscall\" : \"+a\"(n)); return n; }\n")
        with self.assertRaisesRegex(places.Unknown, "syscall"):
            places.places(library, places.turned(library))

    def test_a_number_that_is_not_listed_is_an_error(self):
        library = self.library("#define _GNU_SOURCE\n#include <unistd.h>\nlong f(void) { return syscall(999) + 1; }\n")
        (place,) = places.places(library, places.turned(library))
        with self.assertRaisesRegex(places.Unknown, "999"):
            place.pairs

    def refused(self, rule, source=LIBRARY):
        """What the host prints where the library's calls are refused by the rule."""
        library = self.library(source)
        host = self.build("host", HOST, f"-Wl,-rpath,{self.folder}")
        refuse = self.build("refuse.so", (ROOT / "tests/refusal/refuse.c").read_text(), "-std=gnu2x", "-shared",
                            "-mgeneral-regs-only", "-Wl,-z,initfirst")
        table = self.folder / "table"
        table.write_bytes(bytes(32 * 1024))
        (place,) = [place for place in places.places(library, ["mmap"]) if not place.tail]
        return subprocess.run([str(host)], capture_output=True, text=True, env={
            **os.environ, "LD_PRELOAD": str(refuse), "REFUSE_NAMES": "mmap:munmap", "REFUSE_TABLE": str(table),
            "REFUSE": str(cases.Rule("mmap", place.offset, *rule))}).stdout.splitlines()

    def test_once_and_for_ever(self):
        no, yes = f"1 {errno.ENOMEM}", "0 0"
        self.assertEqual([yes, no, yes, yes], self.refused(("minus", "ENOMEM", 2, False)))
        self.assertEqual([yes, no, no, no], self.refused(("minus", "ENOMEM", 2, True)))

    def test_a_function_of_the_librarys_own(self):
        no, yes = f"1 {errno.ENOMEM}", "0 0"
        self.assertEqual([yes, no, yes, yes], self.refused(("minus", "ENOMEM", 2, False), OWN))

    def test_every_errno_has_a_number(self):
        rows = [*calls.REFUSED.values(), *(row for _, row in calls.BY_NUMBER.values())]
        for _, name in (pair for row in rows for pair in row):
            self.assertEqual(name == "short", cases.number_of(name) == 0)


class Faults(unittest.TestCase):
    def faults(self, **found):
        """What a run that found this is told to have failed for."""
        harness = object.__new__(run.Harness)
        usual = {"cases": [1], "runs": 9, "reached": [1, 2], "places": [1, 2, 3], "idle": [], "remarks": {}, "whole": True,
                 "tried": collections.Counter(own=4), "fired": collections.Counter(own=1)}
        vars(harness).update(usual | found)
        return harness.faults()

    def test_each(self):
        self.assertEqual([], self.faults())
        for found, said in (({"idle": [cases.ALWAYS[0]]}, "refuses nothing any more"), ({"reached": []}, "only 0 of 3"),
                            ({"runs": 1}, "nothing was refused"), ({"fired": collections.Counter()}, "functions that are own"),
                            ({"remarks": {"spins by poll (1f): poll in all": 1}}, "not known: spins by poll: poll in all")):
            told = self.faults(**found)
            self.assertEqual(1, len(told), told)
            self.assertIn(said, told[0])
        self.assertEqual([], self.faults(remarks={"spins by syscall (1f): syscall in os::Apart::run": 1}))
        self.assertEqual([], self.faults(whole=False, remarks={"spins by poll (1f): poll in all": 1}))


if __name__ == "__main__":
    unittest.main()
