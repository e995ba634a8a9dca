"""`memomalloc replay`: what it allocates, and what it says about bad traces."""

import csv
import gzip
import pathlib
import subprocess
import tempfile
import unittest

from support import COMMAND, json_of, memomalloc

HEADER = "op,thread,block,size,alignment,site\n"
TRACE = HEADER + """malloc,0,0,1000000,1,0
posix_memalign,1,1,4000000,4096,0
mark,0,0,0,1,0
free,0,1,0,1,0
aligned_alloc,0,2,2000000,64,0
free,1,0,0,1,0
"""


class Replay(unittest.TestCase):
    def write(self, text, name="trace.csv"):
        path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
        return path

    def test_figures(self):
        for name in ("trace.csv", "trace.csv.gz"):
            figures = json_of(memomalloc("replay", self.write(TRACE, name), "--iterations", "3"))
            self.assertEqual(3, figures["iterations"])
            self.assertEqual(2, figures["threads"])
            self.assertEqual(3, figures["allocations"])
            self.assertEqual(7000000, figures["bytes"])
            # Every page is written: the two blocks alive at once are resident, and were faulted in.
            self.assertGreater(figures["peak_rss_bytes"], 5000000)
            self.assertGreater(figures["minor_faults"], 7000000 // 4096)
            self.assertGreater(figures["seconds"], 0)

    def test_addresses_do_not_overlap_and_are_aligned(self):
        trace = self.write(TRACE)
        memomalloc("replay", trace, "--addresses", trace.with_suffix(".out"))
        rows = list(csv.DictReader(trace.with_suffix(".out").read_text().splitlines()))
        self.assertEqual(["0", "1", "0"], [row["thread"] for row in rows])
        self.assertEqual(3, len(list(csv.DictReader(memomalloc("replay", trace, "--addresses", "-").stdout.splitlines()))))
        first, second, third = (int(row["address"]) for row in rows)
        self.assertEqual(0, second % 4096)
        self.assertEqual(0, third % 64)
        self.assertTrue(first + 1000000 <= second or second + 4000000 <= first)

    def test_threads_that_cannot_be_started(self):
        trace = self.write(HEADER + "".join(f"malloc,{thread},{thread},8,1,0\n" for thread in range(500)))
        process = subprocess.run(["sh", "-c", 'ulimit -v 500000; exec "$0" replay "$1"', COMMAND, trace], capture_output=True, text=True)
        self.assertEqual((1, ""), (process.returncode, process.stdout), process.stderr)
        self.assertRegex(process.stderr, r"\d+ of the trace's 500 threads cannot be started; is there a limit")

    def test_an_empty_trace(self):
        self.assertEqual(0, json_of(memomalloc("replay", self.write(HEADER)))["allocations"])

    def test_bad_traces_name_file_and_line(self):
        for text, line in ((HEADER + "malloc,0,0,x,1,0\n", 2), ("op,thread\n", 1),
                           (HEADER + "malloc,0,0,8,1,0\nfree,0,9,0,1,0\n", 3),
                           (HEADER + "malloc,0,0,8,1,0\nmalloc,0,0,8,1,0\n", 3)):
            with self.subTest(text=text):
                path = self.write(text)
                process = memomalloc("replay", path)
                self.assertEqual(2, process.returncode)
                self.assertTrue(process.stderr.startswith(f"{path}:{line}: "), process.stderr)
                self.assertEqual("", process.stdout)
        self.assertEqual(2, memomalloc("replay", "/no/such/trace.csv").returncode)


if __name__ == "__main__":
    unittest.main()
