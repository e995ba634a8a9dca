#!/usr/bin/env python3
"""How long the first iteration of a process is in page faults, with glibc, and with the library and a plan cache.

Linux' perf looks 8000 times a second of the processor's time at what a process does: in a page fault, there clearing
memory, or in a call that gets or gives back memory. Runs take turns, after one that fills the store. Means over the runs,
in milliseconds; the last column is the library's time in faults over glibc's. Needs perf, and perf_event_paranoid at most 1
or root.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import first_iterations

SAMPLES = 8  # a millisecond
START, PID = 3, 4  # of what an iteration tells
KERNEL = re.compile(r"\s*ffff[0-9a-f]+ ")
PARTS = {"faults": re.compile(r"page_fault"), "clearing": re.compile(r"clear_page|clear_huge|folio_zero"),
         "calls": re.compile(r"madvise|munmap|mmap|brk|mremap")}


def parts_of(stack):
    """What a sample counts for; `stack` has a line for each frame, the innermost first."""
    yield "all"
    if not KERNEL.match(stack[0]):
        return
    text = "\n".join(stack)
    if PARTS["faults"].search(text):
        yield "faults"
        if PARTS["clearing"].search(text):
            yield "clearing"
    elif PARTS["calls"].search(text):
        yield "calls"


def first_iteration(python, source, words, folder):
    """Milliseconds of the processor in the first iteration, by part."""
    data = folder / "perf.data"
    done = subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F", str(SAMPLES * 1000), "-g", "-k",
                           "CLOCK_MONOTONIC", "-o", data, *words, python, "-c", source],
                          check=True, capture_output=True, text=True)
    told = json.loads(done.stdout)["iterations"][0]
    script = subprocess.run(["perf", "script", "-i", data, "-F", "pid,time,ip,sym"], check=True, capture_output=True,
                            text=True).stdout
    found = collections.Counter()
    for sample in script.split("\n\n"):
        lines = sample.strip("\n").splitlines()
        if len(lines) < 2:
            continue
        pid, time = lines[0].split()[:2]
        if int(pid) == told[PID] and told[START] <= float(time.rstrip(":")) <= told[START] + told[0]:
            found.update(parts_of(lines[1:]))
    return {part: count / SAMPLES for part, count in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("workloads", nargs="*", default=["numpy", "network:resnet50:4"],
                        help="as of first_iterations.py (%(default)s)")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--learning", type=int, default=12, help="iterations of the run that fills the store")
    parser.add_argument("--python", default=sys.executable)
    args = parser.parse_args()
    for name in [name for name in os.environ if name.startswith("MEMOMALLOC_")] + ["LD_PRELOAD"]:
        os.environ.pop(name, None)
    print("| workload | with | all | in faults | of that clearing memory | in calls about memory | faults over glibc's |\n"
          "|---|---|---|---|---|---|---|")
    for workload in args.workloads:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            ways = {"glibc": [], "a store": [first_iterations.COMMAND, "run", "--plans", folder / "plans", "--"]}
            (folder / "plans").mkdir(mode=0o700)
            first_iterations.run(args.python, first_iterations.program(workload, args.learning), ways["a store"])
            source, done = first_iterations.program(workload, 1), {way: [] for way in ways}
            for _ in range(args.runs):
                for way, words in ways.items():
                    done[way].append(first_iteration(args.python, source, words, folder))
        for way, runs in done.items():
            mean = {part: statistics.mean(run.get(part, 0) for run in runs) for part in ("all", "faults", "clearing", "calls")}
            glibc = statistics.mean(run.get("faults", 0) for run in done["glibc"])
            ratios = [run.get("faults", 0) / glibc for run in runs]
            share = "-" if way == "glibc" else f"{statistics.mean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            print(f"| {workload} | {way} | {mean['all']:.0f} | {mean['faults']:.1f} | {mean['clearing']:.1f} | "
                  f"{mean['calls']:.1f} | {share} |", flush=True)


if __name__ == "__main__":
    main()
