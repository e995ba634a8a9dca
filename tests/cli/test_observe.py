"""`run --observe`: nothing is served, and what is told beforehand is what serving then wins."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support import COMMAND, memomalloc

# Each body is a program's loop over `turn`; every block is written whole. What is alive at once is more than glibc keeps.
PROGRAMS = {
    "a network": """
        layers = []
        for size in range(400_000, 4_400_000, 400_000):
            layers.append(b"x" * size)
        while layers:
            layers.pop(0)
    """,
    "two models by turns": """
        sizes = range(1_000_000, 9_000_000, 1_000_000) if turn % 2 else range(300_000, 6_300_000, 500_000)
        blocks = [b"x" * size for size in sizes]
        del blocks
    """,
    "a step of training": """
        kept = [b"x" * size for size in range(500_000, 6_500_000, 600_000)]
        gradients = []
        while kept:
            gradients.append(b"x" * len(kept.pop()))
        del gradients
    """,
    "no order": """
        sizes = [random.choice((1_000_000, 2_000_000, 3_000_000, 5_000_000)) for _ in range(8)]
        blocks = [b"x" * size for size in sizes]
        random.shuffle(blocks)
        while blocks:
            blocks.pop()
    """,
    "a server's threads": """
        def serve(first):
            blocks = [b"x" * size for size in range(first, first + 3_000_000, 300_000)]
            del blocks
        if turn == 0:
            pools = [concurrent.futures.ThreadPoolExecutor(1) for _ in range(2)]
        for pool, first in zip(pools, (300_000, 700_000)):
            pool.submit(serve, first).result()
    """,
}

PROGRAM = """
import concurrent.futures, random, sys
random.seed(7)
for turn in range(100):
{body}
print("done")
"""


def program(name):
    body = "\n".join(line[4:] for line in PROGRAMS[name].splitlines())
    return [sys.executable, "-c", PROGRAM.format(body=body)]


def faults(command, **variables):
    """The page faults of a command of one process."""
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith("MEMOMALLOC_") and name != "LD_PRELOAD"}
    process = subprocess.Popen(command, env=clean | variables, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = status
    assert status == 0, (command, status)
    return used.ru_minflt


class Observe(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.file = pathlib.Path(holder.name) / "statistics.json"

    def observe(self, command):
        observed = faults([COMMAND, "run", "--observe", "--stats-file", self.file, "--", *command])
        return json.loads(self.file.read_text()), observed

    def test_tells_what_serving_wins(self):
        """Within a tenth of the faults, for each of five programs."""
        for name in PROGRAMS:
            with self.subTest(name):
                command = program(name)
                told, observed = self.observe(command)
                before = faults(command)
                won = before - faults([COMMAND, "run", "--", *command])
                predicted = told["observed"]["page_faults"]
                print(f"\n{name}: {before} faults, predicted {predicted} fewer, won {won}", end="", file=sys.stderr)
                self.assertGreater(won, before // 3, "the program has nothing to win")
                self.assertLess(abs(predicted - won), won // 10, told)
                # It runs on glibc's memory: what was observed has cost no more than its own tables.
                self.assertLess(abs(observed - before), before // 10)

    def test_serves_nothing(self):
        told, _ = self.observe(program("a network"))
        self.assertGreater(told["planned_bytes"], told["large_bytes"] // 2)
        self.assertGreater(told["slab_bytes"], 0)
        self.assertGreater(told["observed"]["peak_bytes"], 20_000_000)
        self.assertLess(told["peak_bytes"], told["observed"]["peak_bytes"] + (60 << 20))
        # No block lies where the library's would: what it holds is the size of its records.
        script = """
import json, re
blocks = []
for _ in range(30):
    blocks = [b"x" * 3_000_000 for _ in range(20)]
size, kept = None, {}
for line in open("/proc/self/smaps"):
    if re.match(r"[0-9a-f]+-", line):
        name = line.split(maxsplit=5)[5].strip() if len(line.split()) > 5 else ""
    elif line.startswith("Rss:"):
        kept[name] = kept.get(name, 0) + int(line.split()[1])
print(json.dumps(kept))
"""
        kept = json.loads(memomalloc("run", "--observe", "--", sys.executable, "-c", script).stdout)
        for name in ("[anon:memomalloc slab]", "[anon:memomalloc pool]"):
            self.assertEqual(0, kept.get(name, 0), kept)
        served = json.loads(memomalloc("run", "--", sys.executable, "-c", script).stdout)
        if any(name.startswith("[anon:memomalloc") for name in served):  # kernels that name mappings
            self.assertGreater(served["[anon:memomalloc slab]"] + served["[anon:memomalloc pool]"], 0)

    def test_says_so(self):
        answer = memomalloc("run", "--observe", "--verbose", "1", "--", *program("a network"))
        self.assertEqual((0, "done\n"), (answer.returncode, answer.stdout))
        self.assertRegex(answer.stderr, r"observed, nothing was served: slabs of [1-9]\d+ bytes would have spared "
                                        r"[1-9]\d+ page faults; the program held [1-9]\d+ bytes")


if __name__ == "__main__":
    unittest.main()
