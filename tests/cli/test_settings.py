"""What MEMOMALLOC_VERBOSE and MEMOMALLOC_HUGEPAGES do to a program that repeats its large blocks."""

import mmap
import re
import sys
import unittest

from support import memomalloc

HUGE = 2 << 20
# Repeats one iteration and writes all of it; the block of the last one has another size. Then prints its memory map.
PROGRAM = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
for round in range(60):
    sizes = [3000000, 1500000, 800000, 400000] + [900000] * 3
    blocks = [libc.malloc(size + (round == 59) * 70000) for size in sizes]
    for block, size in zip(blocks, sizes):
        libc.memset(block, 1, size)
        libc.free(block)
print(open("/proc/self/smaps").read())
"""


def run(*options):
    return memomalloc("run", *options, "--", sys.executable, "-c", PROGRAM)


class Verbose(unittest.TestCase):
    def lines(self, level):
        process = run("--verbose", level)
        self.assertEqual(0, process.returncode, process.stderr)
        return process.stderr

    def test_each_level_adds_what_the_table_says(self):
        quiet, plans, phases, fallbacks = (self.lines(level) for level in range(4))
        self.assertEqual("", quiet)
        for text in ("watching blocks", "period of", "lane 0: serving", "exit: ", "smaller blocks by libc.so.6"):
            self.assertIn(text, plans)
        for text in (" bytes taken", "not served: size"):
            self.assertNotIn(text, plans)
            self.assertIn(text, phases)
        self.assertNotIn("not served near step", phases)
        self.assertRegex(fallbacks, r"3070000 bytes not served near step \d+: (size|order)")


def kernel_has_huge_pages():
    """Whether it takes advice about them; /sys, which says so too, is not everywhere."""
    with mmap.mmap(-1, HUGE) as area:
        try:
            area.madvise(mmap.MADV_HUGEPAGE)
        except OSError:
            return False
    return True


class HugePages(unittest.TestCase):
    def advised(self, choice):
        """(bytes with, bytes without huge pages) that the kernel was told of, and the slab's height."""
        process = run("--hugepages", choice, "--verbose", 1)
        height = int(re.search(r"slab of (\d+) bytes", process.stderr)[1])
        sums = {"hg": 0, "nh": 0}
        size = 0
        for line in process.stdout.splitlines():
            if line.startswith("Size:"):
                size = int(line.split()[1]) << 10
            elif line.startswith("VmFlags:"):
                for flag in sums.keys() & set(line.split()):
                    sums[flag] += size
        return sums["hg"], sums["nh"], height

    @unittest.skipUnless(kernel_has_huge_pages(), "the kernel has no transparent huge pages")
    def test_each_choice_advises_what_the_table_says(self):
        with_huge, _, height = self.advised("auto")
        self.assertNotEqual(0, height % HUGE)  # else the choices could not differ
        self.assertEqual(height // HUGE * HUGE, with_huge)
        self.assertEqual((height // HUGE + 1) * HUGE, self.advised("always")[0])
        with_huge, without, height = self.advised("never")
        self.assertEqual(0, with_huge)
        self.assertGreaterEqual(without, height)


if __name__ == "__main__":
    unittest.main()
