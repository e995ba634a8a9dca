"""memomalloc.numpy: arrays of a numpy that has them from an allocator of its own come to the library, others stay.

A numpy that hides its arrays is made by a handler that takes memory from mmap, as a free-threaded CPython's mimalloc does.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support import ROOT, memomalloc

try:
    import numpy
except ImportError:
    numpy = None

HIDING = """
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/mman.h>
static size_t taken, freed;
static void* take(void* context, size_t size) {
  (void)context;
  size_t* block = mmap(NULL, size + 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return NULL;
  ++taken;
  *block = size + 64;
  return (char*)block + 64;
}
static void* take_zeroed(void* context, size_t count, size_t size) { return take(context, count * size); }
static void give_back(void* context, void* block, size_t size) {
  (void)context, (void)size;
  if (block == NULL) return;
  size_t* start = (size_t*)((char*)block - 64);
  ++freed;
  munmap(start, *start);
}
static void* change(void* context, void* block, size_t size) {
  char* moved = take(context, size);
  size_t before = *(size_t*)((char*)block - 64) - 64;
  for (size_t i = 0; moved && i < size && i < before; ++i) moved[i] = ((char*)block)[i];
  if (moved) give_back(context, block, before);
  return moved;
}
struct handler {
  char name[127];
  unsigned char version;
  void *context, *functions[4];
} hiding = {"hiding", 1, NULL, {take, take_zeroed, change, give_back}};
size_t counted(int which) { return which ? freed : taken; }
"""

PROGRAM = """
import ctypes, json, sys
import numpy
import memomalloc, memomalloc.numpy as handler
hides, always = (word == "1" for word in sys.argv[2:4])
hiding = ctypes.CDLL(sys.argv[1])
if hides:
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    handler._set_handler()(capsule(ctypes.addressof(ctypes.c_char.in_dll(hiding, "hiding")), b"mem_handler", None))
old = numpy.arange(200_000)
told = {"hidden": handler.hidden(), "changed": handler.use_malloc(always), "after": handler.hidden()}
new = numpy.arange(200_000)
told |= {"name": handler.handler_name(), "old": handler.handler_name(old), "new": handler.handler_name(new)}
def work():
    total = 0.0
    for i in range(60):
        a = numpy.full(50_000, float(i)); b = numpy.zeros(70_000); b[:50_000] = a * 2
        c = numpy.concatenate((a, b)); c.resize(200_000, refcheck=False)
        total += float(c.sum())
    return total
told["sum"] = work()
del old
told["taken"], told["freed"] = hiding.counted(0), hiding.counted(1)
told["stats"] = memomalloc.stats()
print(json.dumps(told))
"""
SUM = sum(50_000 * i * 3 for i in range(60))


@unittest.skipUnless(numpy, "numpy is not installed")
class Numpy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.hiding = cls.folder / "hiding.so"
        (cls.folder / "hiding.c").write_text(HIDING)
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", cls.hiding, cls.folder / "hiding.c"], check=True)

    def run_program(self, hides, always=False, under=True):
        words = [sys.executable, "-c", PROGRAM, self.hiding, int(hides), int(always)]
        environment = {"PYTHONPATH": str(ROOT / "python")}
        if under:
            done = memomalloc("run", "--", *words, environment=environment)
        else:
            done = subprocess.run([*map(str, words)], capture_output=True, text=True, env=environment)
        self.assertEqual(0, done.returncode, done.stderr)
        told = json.loads(done.stdout)
        self.assertEqual(SUM, told["sum"])
        return told

    def test_hidden_arrays_come_back(self):
        told = self.run_program(hides=True)
        self.assertEqual([True, True, False], [told[name] for name in ("hidden", "changed", "after")])
        self.assertEqual(["memomalloc", "hiding", "memomalloc"], [told[name] for name in ("name", "old", "new")])
        self.assertGreater(told["stats"]["large_allocations"], 60 * 4)
        self.assertGreater(told["stats"]["planned_bytes"] + told["stats"]["at_hand_bytes"], told["stats"]["large_bytes"] / 2)

    def test_an_array_goes_back_where_it_came_from(self):
        told = self.run_program(hides=True)
        self.assertGreater(told["taken"], 0)
        self.assertEqual(told["taken"], told["freed"])

    def test_arrays_that_are_seen_are_left_alone(self):
        told = self.run_program(hides=False)
        self.assertEqual([False, False, "default_allocator"], [told[name] for name in ("hidden", "changed", "name")])

    def test_always_means_always(self):
        told = self.run_program(hides=False, always=True)
        self.assertEqual([True, "memomalloc"], [told[name] for name in ("changed", "name")])

    def test_without_the_library_nothing_changes(self):
        told = self.run_program(hides=True, always=True, under=False)
        self.assertEqual([False, False, "hiding", None], [told[name] for name in ("hidden", "changed", "name", "stats")])


if __name__ == "__main__":
    unittest.main()
