#!/usr/bin/env python3
"""What it costs that small blocks are passed on: programs of small blocks alone (small_blocks.c), with the library and without.

For each allocator behind, a program runs on it alone and with the library before it. Instructions are counted by valgrind's
callgrind as the difference of two runs, of which one does twice as much: what is loaded and set up at the start does not count.
With --time, runs take turns instead, and processor time and peak memory are told: medians, and the median of the pairs' ratios.
`make build/bench/small_blocks lib` builds what is needed.
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys

import allocators

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build/bench/small_blocks"
# pattern: (rounds that are counted, rounds that are timed, threads where it is timed)
PATTERNS = {"pair": (20_000, 40_000_000, 1), "calloc": (20_000, 25_000_000, 1), "realloc": (5_000, 4_000_000, 1),
            "memalign": (5_000, 8_000_000, 1), "batches": (192, 48_000, 1), "slots": (30_000, 15_000_000, 1),
            "sets": (10_000, 2_000_000, 1), "handed": (32_000, 8_000_000, 2), "threads": (30_000, 12_000_000, 2)}


def environments(behind, library):
    """(the allocator alone, our library before it)."""
    alone = behind.environment(os.environ)
    libraries = [str(library), behind.library()] if behind.library() else [str(library)]
    return alone, alone | {"LD_PRELOAD": ":".join(libraries)}


def instructions(pattern, environment):
    """Of one round."""
    def collected(rounds):
        done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", PROGRAM, pattern, str(rounds)],
                              env=environment, capture_output=True, text=True, check=True)
        return int(re.search(r"Collected : (\d+)", done.stderr)[1])

    rounds = PATTERNS[pattern][0]
    return (collected(2 * rounds) - collected(rounds)) / rounds


def timed(pattern, environment):
    """(processor seconds, peak MiB) of a run."""
    _, rounds, threads = PATTERNS[pattern]
    process = subprocess.Popen([PROGRAM, pattern, str(rounds), str(threads)], env=environment, stdout=subprocess.PIPE)
    peak = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"passing.py: {pattern} ended with code {process.returncode}")
    return used.ru_utime + used.ru_stime, int(peak) / 1024


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--behind", default="glibc", help="allocators, commas between them (%(default)s)")
    parser.add_argument("--patterns", default=",".join(PATTERNS), help="all, or some of %(default)s")
    parser.add_argument("--library", default=ROOT / "build/libmemomalloc.so", help="to preload (build/libmemomalloc.so)")
    parser.add_argument("--time", type=int, default=0, metavar="PAIRS", help="so many pairs of runs instead of counting")
    return parser.parse_args(argv)


def main(argv=None):
    arguments = parse(argv)
    if not PROGRAM.exists():
        raise SystemExit("passing.py: build first: make build/bench/small_blocks lib")
    unit = "seconds" if arguments.time else "instructions a round"
    print(f"| pattern | allocator behind | {unit}, alone | with the library | ratio |" + (" MiB alone | with |" if arguments.time else ""))
    print("| --- | --- | --- | --- | --- |" + (" --- | --- |" if arguments.time else ""))
    for name in arguments.behind.split(","):
        behind = allocators.BY_NAME[name]
        if behind.library() is None:
            print(f"passing.py: left out: {name} is not installed", file=sys.stderr)
            continue
        both = environments(behind, arguments.library)
        for pattern in arguments.patterns.split(","):
            if arguments.time:
                runs = [[timed(pattern, one) for one in both] for _ in range(arguments.time)]
                alone, ours = (statistics.median(run[side][0] for run in runs) for side in (0, 1))
                ratio = statistics.median(run[1][0] / run[0][0] for run in runs)
                more = " ".join(f"{statistics.median(run[side][1] for run in runs):.1f} |" for side in (0, 1))
                print(f"| {pattern} | {name} | {alone:.3f} | {ours:.3f} | {ratio:.3f} | {more}", flush=True)
            else:
                alone, ours = (instructions(pattern, one) for one in both)
                print(f"| {pattern} | {name} | {alone:.1f} | {ours:.1f} | {ours / alone:.3f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
