#!/usr/bin/env python3
"""The largest batch that runs to its end within a limit of resident memory, for each allocator.

A run that exceeds the limit is stopped; one that ends counts only if its peak (VmHWM, exact) kept
within. Two probes give a line, the line a guess, and the guess is moved until batch n fits and n + 1
does not. Prints a Markdown table, and writes memory_limit.csv to --output.
"""

import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys
import time

import allocators

ROOT = pathlib.Path(__file__).resolve().parent.parent
TASKS = {  # name: program and arguments before --batch, then the two batches to probe first
    "resnet50_inference": (["scripts/infer.py", "--json", "--model", "resnet50"], 8, 16),
    "resnet18_training": (["bench/workloads/train.py", "--model", "resnet18"], 6, 12),
}
MOST_PROBES = 12


def resident_kib(pid):
    """Resident memory of a process now; 0 once it has ended."""
    try:
        return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4
    except (OSError, IndexError):
        return 0


def peak_kib(task, batch, allocator, arguments):
    """Peak of one run in KiB; the level at which it was stopped if it exceeded the limit."""
    program = TASKS[task][0]
    command = [sys.executable, str(ROOT / program[0]), *program[1:], "--batch", str(batch),
               "--threads", str(arguments.threads), "--iterations", str(arguments.iterations)]
    process = subprocess.Popen(command, env=allocator.environment(os.environ),
                               stdout=subprocess.PIPE, text=True)
    limit = arguments.limit * 1024
    while process.poll() is None:
        level = resident_kib(process.pid)
        if level > limit:
            process.kill()
            process.communicate()
            return level
        time.sleep(0.01)
    output = process.communicate()[0]
    if process.returncode != 0:
        raise SystemExit(f"memory_limit.py: batch {batch} under {allocator.name} failed with code "
                         f"{process.returncode}")
    return json.loads(output.splitlines()[-1])["peak_rss_kib"]


def largest(task, allocator, arguments):
    """(largest batch that fits, its peak in KiB); (0, 0) if none does."""
    limit, peaks = arguments.limit * 1024, {}

    def probe(batch):
        if batch not in peaks:
            peaks[batch] = peak_kib(task, batch, allocator, arguments)
            print(f"  {task} {allocator.name} batch {batch}: {peaks[batch] / 1024:.0f} MiB",
                  file=sys.stderr, flush=True)
        return peaks[batch] <= limit

    low, high = TASKS[task][1:]
    probe(low), probe(high)
    slope = max((peaks[high] - peaks[low]) / (high - low), 1)
    guess = max(1, int(low + (limit - peaks[low]) / slope))
    while len(peaks) < MOST_PROBES:
        if probe(guess):
            if guess + 1 in peaks and peaks[guess + 1] > limit:
                break
            guess += 1
        elif guess == 1:
            break
        else:
            guess -= 1
    fitting = [batch for batch, peak in peaks.items() if peak <= limit]
    return (max(fitting), peaks[max(fitting)]) if fitting else (0, 0)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=1024, help="MiB resident (%(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="(%(default)s)")
    parser.add_argument("--iterations", type=int, default=10, help="of each run (%(default)s)")
    parser.add_argument("--tasks", default=",".join(TASKS), help="comma between them (%(default)s)")
    parser.add_argument("--allocators", default=",".join(allocators.BY_NAME), help="(%(default)s)")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build/bench")
    arguments = parser.parse_args(argv)
    for name, known in ((arguments.tasks, TASKS), (arguments.allocators, allocators.BY_NAME)):
        for one in name.split(","):
            if one not in known:
                parser.error(f"no {one!r}; there are {', '.join(known)}")
    arguments.output.mkdir(parents=True, exist_ok=True)
    with (arguments.output / "memory_limit.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("task", "allocator", "limit_mib", "largest_batch", "peak_kib"))
        print("| task | allocator | largest batch | its peak MiB |\n| --- | --- | --- | --- |")
        for task in arguments.tasks.split(","):
            for name in arguments.allocators.split(","):
                allocator = allocators.BY_NAME[name]
                if allocator.library() is None:
                    continue
                batch, peak = largest(task, allocator, arguments)
                writer.writerow((task, name, arguments.limit, batch, peak))
                file.flush()
                print(f"| {task} | {name} | {batch} | {peak / 1024:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
