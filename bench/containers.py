#!/usr/bin/env python3
"""The least limit of a cgroup in which a program still ends, for each allocator.

A cgroup refuses no memory: it ends the process that is over its limit. For each program and allocator the peak of
a run without a limit is where the search begins; then the interval between a limit that ended the program and one that
it lived in is halved, down to --step MiB. A limit is lived in if --times runs in a row end well. The library is tried by
itself, with the file of plans that an earlier process has left, and with a plan cache. Prints a Markdown table.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import allocators
import children
import control_group

ROOT = pathlib.Path(__file__).resolve().parents[1]

PROGRAMS = {  # name: script and arguments
    "resnet18 inference, batch 8": ["scripts/infer.py", "--model", "resnet18", "--batch", 8, "--threads", 2, "--iterations", 12],
    "resnet50 training, batch 4": ["bench/workloads/train.py", "--model", "resnet50", "--batch", 4, "--threads", 2,
                                   "--iterations", 8],
    "torch in 100 threads, four at once": ["bench/threads.py", "--child", "--job", "torch", "--shape", "width", "--threads", 100,
                                           "--width", 4, "--steps", 10],
}
ROOMY = 1 << 40  # bytes: no limit that a program could meet


def variants(chosen, folder):
    """(name, allocator, settings) of each column; plans lie in the folder."""
    for allocator in chosen:
        yield allocator.name, allocator, {}
        if allocator.name == allocators.OURS:
            yield "with a store", allocator, {"MEMOMALLOC_PLANS": f"{folder}/store"}


def lives(command, environment, limit, patience):
    """(whether the command ended well in a group of `limit` bytes within `patience` seconds, the group's peak in bytes)."""
    with control_group.limited(limit) as group:
        try:
            done = subprocess.run(group.command(command), env=environment, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True, timeout=patience)
        except subprocess.TimeoutExpired:  # all that it reads of files is thrown out at once
            if limit == ROOMY:
                raise SystemExit(f"containers.py: {' '.join(command)} needs longer without a limit: --patience") from None
            return False, group.peak()
        peak = group.peak()
    killed = done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
    # Who is short of memory may also be told so and give up; without a limit nothing excuses a failure.
    if done.returncode != 0 and not killed and limit == ROOMY:
        raise SystemExit(f"containers.py: {' '.join(command)} failed:\n{done.stderr}")
    return done.returncode == 0, peak


def least(lives_in, peak, step):
    """The least multiple of `step` that is lived in, as far as halving finds it; all in MiB."""
    high, low = -(-peak // step) * step, 0
    while not lives_in(high):
        low, high = high, high + max(step, high // 8 // step * step)
    near = high - max(step, high // 8 // step * step)  # most programs need nearly what they had without a limit
    while near > low:
        if not lives_in(near):
            low = near
            break
        high, near = near, near - max(step, 2 * (high - near))
    while high - low > step:
        middle = (low + high) // 2 // step * step
        low, high = (low, middle) if lives_in(middle) else (middle, high)
    return high


def measure(name, allocator, settings, arguments):
    """(least limit, peak without one), MiB."""
    command = [arguments.python_torch, str(ROOT / PROGRAMS[name][0]), *map(str, PROGRAMS[name][1:])]
    environment = allocator.environment(os.environ) | settings

    def run(limit):
        return lives(command, environment, limit, arguments.patience)

    run(ROOMY)  # leaves plans, and what is read of files is in memory
    peak = -(-run(ROOMY)[1] // 2**20)

    def lives_in(limit):
        well = all(run(limit << 20)[0] for _ in range(arguments.times))
        print(f"{name}, {allocator.name} {settings and list(settings)}: {limit} MiB {'lives' if well else 'is killed'}",
              file=sys.stderr, flush=True)
        return well

    return least(lives_in, peak, arguments.step), peak


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default="", help="only those that begin so")
    parser.add_argument("--step", type=int, default=4, help="MiB (%(default)s)")
    parser.add_argument("--times", type=int, default=3, help="runs in a row that must end well (%(default)s)")
    parser.add_argument("--patience", type=int, default=900,
                        help="seconds; who needs more does not end well: near the limit files may be read for ever (%(default)s)")
    children.add_options(parser, "glibc,jemalloc,tcmalloc,mimalloc,memomalloc")
    return parser.parse_args(argv)


def main(argv=None):
    arguments = parse(argv)
    print("| program | allocator | least limit, MiB | peak without a limit, MiB |\n| --- | --- | --- | --- |")
    for name in PROGRAMS:
        if not name.startswith(arguments.programs):
            continue
        with tempfile.TemporaryDirectory() as folder:
            for column, allocator, settings in variants(children.chosen(arguments), folder):
                limit, peak = measure(name, allocator, settings, arguments)
                print(f"| {name} | {column} | {limit} | {peak} |", flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except control_group.Unavailable as reason:
        sys.exit(f"containers.py: {reason}")
