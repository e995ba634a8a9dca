#!/usr/bin/env python3
"""What single calls cost, with and without the library: time, exact instruction counts, start-up.

Times are medians of Google Benchmark's repetitions (build/bench/hook_overhead), plain and under the
library in turn. Instructions are counted by valgrind's callgrind as the difference of two runs, so
they are exact and do not depend on the load. Written to --output: micro.csv. `make bench` builds what
is needed.
"""

import argparse
import csv
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import allocators
import runner
import verdicts
from runner import ROOT

BENCHES = ROOT / "build/bench"
STARTS = 300  # of /bin/true, each way
REPETITIONS = 5
COUNTED = {64: 20_000, 64 << 10: 20_000, 1 << 20: 20_000, 16 << 20: 20_000}  # bytes: pairs


def alternately(allocator, count, function):
    """(without, with): the values of function(environment), run by turns `count` times each."""
    plain = allocators.BY_NAME["glibc"].environment(os.environ)
    ours = allocator.environment(os.environ)
    pairs = [(function(plain), function(ours)) for _ in range(count)]
    return tuple(zip(*pairs))


def times_ns(environment):
    """Benchmark name -> nanoseconds a pair, of one run of hook_overhead.

    Of processor time where one thread runs alone, which a busy machine lengthens less.
    """
    done = subprocess.run([BENCHES / "hook_overhead", "--benchmark_format=json",
                           "--benchmark_min_time=0.05"],
                          env=environment, capture_output=True, text=True, check=True)
    return {one["name"]: one["cpu_time" if one["threads"] == 1 else "real_time"]
            for one in json.loads(done.stdout)["benchmarks"]}


def start_ms(environment):
    began = time.perf_counter_ns()
    os.waitpid(os.posix_spawn("/bin/true", ["true"], environment), 0)
    return (time.perf_counter_ns() - began) / 1e6


def instructions(environment, size, pairs):
    """Instructions of a pair of malloc and free, whatever was loaded or learned before."""
    def collected(count):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out",
                 BENCHES / "pairs", str(size), str(count)],
                env=environment, capture_output=True, text=True, check=True)
        return int(re.search(r"Collected : (\d+)", done.stderr)[1])

    return (collected(2 * pairs) - collected(pairs)) / pairs


def measure(library):
    """Rows (what, unit, without, with); the with-column is that of our library before glibc."""
    ours = allocators.chosen([allocators.OURS], library)
    if not ours or not (BENCHES / "hook_overhead").exists() or not (BENCHES / "pairs").exists():
        raise FileNotFoundError("build first: make all build/bench/hook_overhead build/bench/pairs")
    rows = []
    without, with_it = alternately(ours[0], REPETITIONS, times_ns)
    for name in without[0]:
        rows.append((name, "ns", statistics.median(run[name] for run in without),
                     statistics.median(run[name] for run in with_it)))
    try:
        for size, pairs in COUNTED.items():
            plain, preloaded = alternately(ours[0], 1,
                                           lambda e, s=size, p=pairs: instructions(e, s, p))
            rows.append((f"pair_of/{size}", "instructions", plain[0], preloaded[0]))
    except FileNotFoundError:
        print("no instruction counts: valgrind is not installed", file=sys.stderr)
    without, with_it = alternately(ours[0], STARTS, start_ms)
    rows.append(("start of /bin/true", "ms", statistics.median(without), statistics.median(with_it)))
    return rows


def judge(rows):
    """(asked, measured, met) triples of what is asked of single calls."""
    found = {(what, unit): (plain, ours) for what, unit, plain, ours in rows}
    small = found["pair_of/64", "ns"]
    counted = found.get(("pair_of/64", "instructions"))
    more = counted and counted[1] - counted[0]
    served = found["pair_of/1048576", "ns"][1]
    start = found["start of /bin/true", "ms"]
    return [
        ("malloc and free of 64 bytes at most 1.5 ns over the underlying allocator's",
         f"{small[1] - small[0]:.2f} ns", small[1] - small[0] <= 1.5),
        ("malloc and free of 64 bytes at most 6 instructions over the underlying allocator's",
         "not counted" if more is None else f"{more:.1f} instructions", more is not None and more <= 6),
        ("a served pair of 1 MiB at most 120 ns", f"{served:.0f} ns", served <= 120),
        ("start of /bin/true at most 0.3 ms slower", f"{start[1] - start[0]:.2f} ms",
         start[1] - start[0] <= 0.3)]


def lines(library):
    """The same, measured now; a line that says what is missing if it cannot be measured."""
    try:
        return judge(measure(library))
    except FileNotFoundError as error:
        return [("the cost of single calls", str(error), False)]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", help="to preload (build/libmemomalloc.so)")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build/bench")
    arguments = parser.parse_args(argv)
    try:
        rows = measure(arguments.library)
    except FileNotFoundError as error:
        print(f"micro.py: {error}", file=sys.stderr)
        return 2
    arguments.output.mkdir(parents=True, exist_ok=True)
    with (arguments.output / "micro.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("what", "unit", "without", "with"))
        writer.writerows(rows)
    text = verdicts.summary.rows_table(
        ["a pair, or a start", "unit", "without", "with", "more"],
        [[what, unit, f"{plain:.2f}", f"{ours:.2f}", f"{ours - plain:.2f}"]
         for what, unit, plain, ours in rows])
    print("\n".join([*text, "", *verdicts.as_table(judge(rows))]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
