#!/usr/bin/env python3
"""Pairs of malloc and free in no order, by how many blocks are alive and how many threads: processor time, faults, memory.

Runs build/bench/contended's pattern `alive` under each allocator in turn, and writes the medians to results/alive. `make
build/bench/contended` builds it.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import allocators
import runner

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts/tables"))
import results  # noqa: E402

CONTENDED = ROOT / "build/bench/contended"
WANTED = ("glibc", "tcmalloc", "jemalloc", "mimalloc", "memomalloc")


def measured(allocator, threads, alive, seconds):
    """The figures of one run, or None where it does not end in time."""
    try:
        done = subprocess.run([CONTENDED, "alive", str(threads), str(seconds), str(alive)], check=True, text=True,
                              env=allocator.environment(os.environ), capture_output=True, timeout=20 * seconds)
    except subprocess.TimeoutExpired:
        return None
    found = json.loads(done.stdout)
    pairs = max(found["pairs"], 1)
    return {"cpu_us_per_pair": (found["user_ms"] + found["system_ms"]) * 1e3 / pairs,
            "pairs_per_second": found["pairs"] / found["seconds"],
            "faults_per_pair": found["faults"] / pairs, "rss_mib": found["rss_kib"] / 1024}


def numbers(text):
    return [int(word) for word in text.split(",")]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alive", type=numbers, default=[1, 64, 512, 4096, 16384, 100000], help="blocks of all threads together")
    parser.add_argument("--threads", type=numbers, default=[1, 2, 6, 16])
    parser.add_argument("--seconds", type=float, default=3, help="of a run, of which two fifths count (%(default)s)")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--library", help="to preload as memomalloc (build/libmemomalloc.so)")
    parser.add_argument("--peer", action="append", default=[], type=runner.peer, metavar="NAME=LIBRARY", help="a further allocator")
    parser.add_argument("--output", type=pathlib.Path, default=results.FOLDER, help="folder of results")
    arguments = parser.parse_args(argv)
    if not CONTENDED.exists():
        print(f"alive.py: build first: make {CONTENDED.relative_to(ROOT)}", file=sys.stderr)
        return 2
    chosen = allocators.chosen(WANTED, arguments.library, arguments.peer)
    rows = []
    for threads in arguments.threads:
        for alive in arguments.alive:
            samples = {allocator.name: [] for allocator in chosen}
            for _ in range(arguments.repetitions):
                for allocator in chosen:
                    samples[allocator.name].append(measured(allocator, threads, alive, arguments.seconds))
            for name, found in samples.items():
                kept = [one for one in found if one is not None]
                medians = {key: round(statistics.median(one[key] for one in kept), 4) for key in kept[0]} if len(kept) == len(found) else {}
                rows.append({"threads": threads, "alive": alive, "allocator": name} | medians)
                print("  ".join(f"{value}" for value in rows[-1].values()), flush=True)
    path = results.store("alive", "bench/alive.py " + " ".join(sys.argv[1:]), rows, repetitions=arguments.repetitions,
                         versions={allocator.name: allocators.version(allocator) for allocator in chosen}, folder=arguments.output,
                         title="Pairs of malloc and free in no order, by blocks alive and threads",
                         about="Blocks of 64 KiB to 1 MiB, two pages of each written. cpu_us_per_pair: processor time of all threads, "
                               "microseconds; empty: a run did not end in time.")
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
