"""bench/peers/shifted.c: where large blocks begin, and that a program goes on as without it."""

import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "bench/peers/shifted.c"
PROGRAM = """
    import ctypes
    c = ctypes.CDLL(None)
    for name in ("malloc", "calloc", "realloc", "aligned_alloc"):
        getattr(c, name).restype = ctypes.c_void_p
    place = ctypes.c_void_p()
    def posix_memalign(bytes):
        assert c.posix_memalign(ctypes.byref(place), ctypes.c_size_t(64), ctypes.c_size_t(bytes)) == 0
        return place.value
    def offsets(make):
        blocks = [make() for _ in range(50)]
        for number, block in enumerate(blocks):
            ctypes.memset(block, number, 100000)
            assert c.malloc_usable_size(ctypes.c_void_p(block)) >= 100000
        for number, block in enumerate(blocks):
            assert ctypes.string_at(block, 100000) == bytes([number]) * 100000
            c.free(ctypes.c_void_p(block))
        found = {block % 4096 for block in blocks}
        assert all(one % 64 == 0 for one in found)
        return len(found - {0})
    size = ctypes.c_size_t(100000)
    print(*(offsets(make) for make in (lambda: c.malloc(size), lambda: c.calloc(ctypes.c_size_t(100), ctypes.c_size_t(1000)),
        lambda: posix_memalign(100000), lambda: c.aligned_alloc(ctypes.c_size_t(64), ctypes.c_size_t(100032)))))
    block = c.calloc(ctypes.c_size_t(1), size)
    ctypes.memset(block, 7, 100000)
    for bytes_ in (70000, 200000, 100, 300000):
        block = c.realloc(ctypes.c_void_p(block), ctypes.c_size_t(bytes_))
        assert ctypes.string_at(block, 100) == bytes([7]) * 100
    assert c.malloc(ctypes.c_size_t(2**64 - 1)) is None and c.calloc(ctypes.c_size_t(2**40), ctypes.c_size_t(2**40)) is None
"""


class Shifted(unittest.TestCase):
    def test_large_blocks_begin_at_many_offsets_and_hold_what_is_written(self):
        with tempfile.TemporaryDirectory() as folder:
            library = pathlib.Path(folder, "shifted.so")
            subprocess.run(["cc", "-std=gnu2x", "-O2", "-fno-builtin", "-fPIC", "-shared", str(SOURCE), "-o", str(library)],
                           check=True)
            done = subprocess.run([sys.executable, "-c", textwrap.dedent(PROGRAM)], env={"LD_PRELOAD": str(library)},
                                  capture_output=True, text=True)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        for found in map(int, done.stdout.split()):
            self.assertLess(15, found)


if __name__ == "__main__":
    unittest.main()
