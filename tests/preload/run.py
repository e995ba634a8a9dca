#!/usr/bin/env python3
"""Runs every check of the preloaded library: small programs in a table of modes, the shared object itself,
files and the environment, real programs. Ends with a line `N passed, N failed`; exit code 1 if any failed."""

import argparse
import concurrent.futures
import random
import sys
import threading
import time

import common

# Programs with arguments: seeds are chosen once a run, so that all modes do the same.
SEED = random.SystemRandom().randrange(1, 2**31)
ARGUMENTS = {}

# Seconds, four times what the slowest mode needs on an idle machine with two cores.
TIMEOUT = 90


class Oracles:
    """Results without the library, each computed once, on demand, by whichever thread comes first."""

    def __init__(self, context):
        self.context = context
        self.lock = threading.Lock()
        self.results = {}

    def get(self, program, mode):
        with self.lock:
            lock, slot = self.results.setdefault((program, mode.name), (threading.Lock(), []))
        with lock:
            if not slot:
                slot.append(run_program(self.context, program, mode))
            return slot[0]


def run_program(context, program, mode):
    command = [context.programs / program] + ARGUMENTS.get(program, [])
    return context.run(command, mode, timeout=TIMEOUT)


def program_check(context, oracles, program, mode):
    def check():
        reference = oracles.get(program, common.oracle(mode))
        if mode.next == "glibc":
            common.expect(reference.code == 0, f"fails without the library: {reference}")
        elif reference.code != 0:
            raise common.Skip(f"{mode.next} alone fails it")
        if mode.ours:
            common.expect_same(run_program(context, program, mode), reference)

    return check


def collect(context, arguments):
    """All checks as (name, function) pairs."""
    oracles = Oracles(context)
    checks = []
    for path in sorted(context.programs.iterdir()):
        for mode in common.MODES:
            if mode.ours or mode.next == "glibc":
                checks.append((f"{path.name} [{mode.name}]",
                               program_check(context, oracles, path.name, mode)))
    return [(name, check) for name, check in checks if arguments.only in name]


def perform(name, check):
    """Returns (name, verdict, detail, seconds); verdict is passed, failed or skipped."""
    started = time.monotonic()
    try:
        check()
        verdict, detail = "passed", ""
    except common.Skip as reason:
        verdict, detail = "skipped", str(reason)
    except AssertionError as failure:
        verdict, detail = "failed", str(failure)
    except Exception as failure:  # a broken check must not hide the others
        verdict, detail = "failed", f"{type(failure).__name__}: {failure}"
    return name, verdict, detail, time.monotonic() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="folder with libmemomalloc.so and programs/")
    parser.add_argument("--only", default="", help="checks whose name contains this text")
    parser.add_argument("--jobs", type=int, default=2, help="checks at a time (2)")
    parser.add_argument("--verbose", action="store_true", help="name every check and its seconds")
    arguments = parser.parse_args()
    context = common.Context(arguments.build)
    checks = collect(context, arguments)
    print(f"preload checks: {len(checks)}, seed {SEED}", flush=True)
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    progress = sys.stderr.isatty() and not arguments.verbose
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        futures = [pool.submit(perform, name, check) for name, check in checks]
        for future in concurrent.futures.as_completed(futures):
            name, verdict, detail, seconds = future.result()
            counts[verdict] += 1
            if progress:
                print(f"\r\033[K{sum(counts.values())}/{len(checks)} {name}", end="",
                      file=sys.stderr, flush=True)
            if verdict == "failed" or arguments.verbose:
                clear = "\r\033[K" if progress else ""
                print(f"{clear}{verdict}: {name} ({seconds:.1f} s) {detail}", flush=True)
    if progress:
        print("\r\033[K", end="", file=sys.stderr)
    if counts["skipped"]:
        print(f"{counts['skipped']} skipped; --verbose names them with the reason")
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return 1 if counts["failed"] or not checks else 0


if __name__ == "__main__":
    sys.exit(main())
