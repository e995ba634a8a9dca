#!/usr/bin/env python3
"""The largest batch that runs to its end within a limit of resident memory, for each allocator.

A run is stopped as soon as it exceeds the limit; one that ends counts only if its peak (VmHWM, exact)
kept within. Peaks grow with the batch nearly on a line, so the next probe is where the line through
the two nearest meets the limit, until batch n fits and n + 1 does not. Prints a Markdown table; written to
--output: memory_limit.csv (the answers) and memory_limit_probes.csv.
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
import runner
from runner import ROOT

TASKS = {  # name: program and arguments before --batch, then the two batches to probe first
    "resnet50_inference": (["scripts/infer.py", "--json", "--model", "resnet50"], 16, 48),
    "resnet18_training": (["bench/workloads/train.py", "--model", "resnet18"], 8, 14),
}
MOST_PROBES = 14


def resident_kib(pid):
    """Resident memory of a process now; 0 once it has ended."""
    try:
        return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4
    except (OSError, IndexError):
        return 0


def peak_kib(task, batch, allocator, arguments):
    """Peak of one run in KiB; None if it was stopped for exceeding the limit."""
    program = TASKS[task][0]
    command = [arguments.python_torch, str(ROOT / program[0]), *program[1:], "--batch", str(batch),
               "--threads", str(arguments.threads), "--iterations", str(arguments.iterations)]
    process = subprocess.Popen(command, env=allocator.environment(os.environ),
                               stdout=subprocess.PIPE, text=True)
    limit, end = arguments.limit * 1024, time.monotonic() + arguments.timeout
    while process.poll() is None:
        if resident_kib(process.pid) > limit:
            process.kill()
            process.communicate()
            return None
        if time.monotonic() > end:
            process.kill()
        time.sleep(0.01)
    output = process.communicate()[0]
    if process.returncode != 0:
        raise SystemExit(f"memory_limit.py: batch {batch} under {allocator.name} failed with code "
                         f"{process.returncode}")
    return json.loads(output.splitlines()[-1])["peak_rss_kib"]


def largest(task, allocator, arguments, note):
    """(largest batch that fits, its peak in KiB), (0, 0) if none does; note(batch, peak) each probe."""
    limit, fits, most = arguments.limit * 1024, {}, None  # most: the least batch known not to fit

    def probe(batch):
        nonlocal most
        peak = peak_kib(task, batch, allocator, arguments)
        note(batch, peak)
        if peak is not None and peak <= limit:
            fits[batch] = peak
        else:
            most = batch if most is None else min(most, batch)

    for batch in TASKS[task][1:]:
        if most is None:
            probe(batch)
    for _ in range(MOST_PROBES):
        best = max(fits, default=0)
        if most == best + 1:
            break
        below = sorted(fits)[-2:]
        if len(below) == 2:
            slope = max((fits[below[1]] - fits[below[0]]) / (below[1] - below[0]), 1)
            guess = best + int((limit - fits[best]) / slope)
        else:
            guess = (best + (most or 2 * best)) // 2
        probe(max(best + 1, min(guess, most - 1 if most else guess)))
    return (max(fits), fits[max(fits)]) if fits else (0, 0)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=1024, help="MiB resident (%(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="(%(default)s)")
    parser.add_argument("--iterations", type=int, default=8, help="of each run (%(default)s)")
    parser.add_argument("--tasks", type=runner.names(TASKS, "task"), default=list(TASKS),
                        help=f"comma between them ({','.join(TASKS)})")
    parser.add_argument("--allocators", type=runner.names(allocators.BY_NAME, "allocator"),
                        default=list(allocators.BY_NAME), help="(all that are installed)")
    runner.add_options(parser)
    arguments = parser.parse_args(argv)
    arguments.output.mkdir(parents=True, exist_ok=True)
    with ((arguments.output / "memory_limit.csv").open("w", newline="") as file,
          (arguments.output / "memory_limit_probes.csv").open("w", newline="") as probes_file):
        writer, probes = csv.writer(file), csv.writer(probes_file)
        writer.writerow(("task", "allocator", "limit_mib", "largest_batch", "peak_kib"))
        probes.writerow(("task", "allocator", "batch", "peak_kib"))
        print("| task | allocator | largest batch | its peak MiB |\n| --- | --- | --- | --- |")
        for task in arguments.tasks:
            for allocator in allocators.chosen(arguments.allocators, arguments.library):
                def note(batch, peak, task=task, name=allocator.name):
                    probes.writerow((task, name, batch, peak or f"over {arguments.limit * 1024}"))
                    probes_file.flush()

                batch, peak = largest(task, allocator, arguments, note)
                writer.writerow((task, allocator.name, arguments.limit, batch, peak))
                file.flush()
                print(f"| {task} | {allocator.name} | {batch} | {peak / 1024:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
