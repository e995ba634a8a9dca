"""`memomalloc analyze` of a trace against the run that recorded it: what is printed must be what happened."""

import json
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import memomalloc

# Plans that do not depend on the time. Nothing is given back meanwhile: the runs take less than a second.
SETTINGS = {"MEMOMALLOC_PLANNER": "greedy-by-size", "MEMOMALLOC_PLAN_TIME": "60000"}
# Counted by lanes alone: not what comes before the library is set up, which is in no trace.
COUNTERS = ("learned_allocations", "planned_allocations", "planned_bytes", "pooled_allocations", "pooled_bytes", "fallback_size",
            "fallback_order", "fallback_occupied", "fallback_unplanned", "iterations", "plans", "symbolic_calls", "shapes",
            "diverged")

LOOPS = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define KEPT 6

static void touch(char* block, size_t size) {
  for (size_t at = 0; at < size; at += 4096) block[at] = 1;
}
static void loop(int rounds, int from, int calls) {  // the blocks of the first calls live into the next round
  void* kept[KEPT] = {0};
  void* last[2] = {0};
  for (int round = 0; round < rounds; ++round)
    for (int call = 0; call < calls; ++call) {
      size_t size = 70000 + (size_t)(from + call * 37 % calls) * 1000;
      char* block = aligned_alloc(64, (size + 63) / 64 * 64);
      touch(block, size);
      if (call < KEPT) {
        free(kept[call]);
        kept[call] = block;
      } else {
        free(last[call % 2]);
        last[call % 2] = block;
      }
    }
  for (int i = 0; i < KEPT; ++i) free(kept[i]);
  free(last[0]);
  free(last[1]);
}
static pthread_barrier_t barrier;
static void* in_turns(void* first) {
  for (int turn = 0; turn < 2; ++turn) {
    pthread_barrier_wait(&barrier);
    if (turn == (first != NULL)) loop(80, 5, 40);
  }
  pthread_barrier_wait(&barrier);  // no trace tells that a thread has ended, and another has its lane
  return NULL;
}
int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "alternating") == 0) {
    for (int i = 0; i < 12; ++i) {
      loop(32 + i % 4, 0, 40);
      loop(30 + i % 3, 300, 55);
    }
  } else if (argc > 1 && strcmp(argv[1], "threads") == 0) {
    pthread_t threads[2];
    pthread_barrier_init(&barrier, NULL, 2);
    for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, in_turns, i != 0 ? &threads[i] : NULL);
    for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  } else {
    loop(40, 0, 60);
  }
  return 0;
}
"""

# Each call has a line, so a call stack, of its own.
CHANGING = "import random\nrandom.seed(4)\ndef iterate(tokens):\n" + "".join(
    f"    block{i} = bytearray({size})\n" + (f"    del block{i - 2}\n" if i >= 2 else "")
    for i, size in enumerate(["3072 * tokens", "96 * tokens * tokens", "12288 * tokens", "3072 * tokens"] * 6)
) + "for _ in range(300):\n    iterate(random.randint(30, 330))\n"

NUMPY = """
import numpy
weights = [numpy.ones((300, 300)) for _ in range(4)]
for _ in range(300):
    x = numpy.ones((200, 300))
    for weight in weights:
        x = numpy.maximum(x @ weight, 0) / 300
"""


class Live(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def compare(self, *program):
        """The run's statistics, after they were compared with what `analyze` says of its trace."""
        trace, stats = self.folder / "trace.csv", self.folder / "stats.json"
        run = memomalloc("run", "--", *program, environment=SETTINGS | {
            "MEMOMALLOC_TRACE_FILE": str(trace), "MEMOMALLOC_STATS_FILE": str(stats), "OPENBLAS_NUM_THREADS": "1"})
        self.assertEqual((0, ""), (run.returncode, run.stderr))
        live = json.loads(stats.read_text())
        told = memomalloc("analyze", trace, "--json", "--recorded", "--planner", "greedy-by-size", "--plan-time", "60000")
        self.assertEqual((0, ""), (told.returncode, told.stderr))
        threads = json.loads(told.stdout)["threads"]
        summed = {name: sum(thread["counters"][name] for thread in threads) for name in COUNTERS}
        self.assertEqual({name: live[name] for name in COUNTERS}, summed)
        return live, threads

    def loops(self, *words):
        compiler = shutil.which("cc")
        if compiler is None:
            self.skipTest("cc is missing")
        source, program = self.folder / "loops.c", self.folder / "loops"
        source.write_text(LOOPS)
        subprocess.run([compiler, "-O1", "-pthread", "-o", program, source], check=True)
        return self.compare(program, *words)

    def test_a_training_loop(self):
        live, threads = self.loops()
        self.assertGreater(live["planned_allocations"], 1000)
        self.assertEqual("serving", threads[0]["phases"][-1]["phase"])

    def test_alternating_shapes(self):
        live, threads = self.loops("alternating")
        self.assertGreater(live["planned_allocations"], 1000)
        self.assertGreater(threads[0]["plan_changes"], 5)

    def test_two_threads(self):
        live, threads = self.loops("threads")
        self.assertGreater(live["planned_allocations"], 1000)
        self.assertEqual(2, sum(thread["served_bytes"] > 0 for thread in threads))

    @unittest.skipUnless(platform.machine() in ("x86_64", "aarch64"), f"stacks are not unwound on {platform.machine()}")
    def test_random_lengths(self):
        live, threads = self.compare(sys.executable, "-c", CHANGING)
        self.assertGreater(live["shapes"], 50)
        self.assertEqual(live["shapes"], threads[0]["shapes"])

    def test_numpy(self):
        if subprocess.run([sys.executable, "-c", "import numpy"], capture_output=True).returncode != 0:
            self.skipTest("numpy is missing")
        live, _ = self.compare(sys.executable, "-c", NUMPY)
        self.assertGreater(live["planned_allocations"], 100)


if __name__ == "__main__":
    unittest.main()
