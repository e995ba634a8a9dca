#!/usr/bin/env python3
"""Runs every check of the preloaded library: small programs in a table of modes, the shared object itself,
files and the environment, real programs. A check that this machine cannot make prints `skipped: CHECK: REASON`.
Ends with a line `N passed, N failed, N skipped`; exit code 1 if any failed."""

import argparse
import json
import os
import random
import re
import sys
import threading

import binary_checks
import common
import file_checks
import neighbour_checks
import perform
import real_programs
import worker_checks

TIMEOUT_EMULATED = 600  # seconds
NOT_HERE = 77  # the exit code of a program that says what this machine or allocator lacks for it

# Programs that read the kernel's own count of pages, which larger pages that are only pretended do not change.
COUNT_PAGES = ("grown", "large_past", "limits", "left_pool", "locked_blocks", "locked_memory", "steady_faults",
               "thread_exit", "unwritten")
# Programs whose stacks, threads or moments are hard on who unwinds: the others learn nothing from it.
UNWOUND = ("bare_frames", "cancellation", "cross_thread", "descriptors_left", "descriptors_reused", "errno_kept",
           "first_call", "first_race", "fork_handlers", "interrupted", "interrupted_locks", "lifecycle", "loading",
           "module_walk", "operators", "random_programs", "refused_thread", "signals", "small_stacks", "thread_exit")
# A program that fills a limit to its edge: who observes has tables on top, for which there is nothing to give up. And one
# whose handlers may come in large calls: these are glibc's own then, which waits for itself where there is a second thread.
NOT_OBSERVED = ("limited_data", "interrupted_locks")
# Programs that start this machine's own tools, fill or count what the emulator has itself, or ask the kernel for what
# the emulator does not pass on. The emulator answers each opening of a file below /proc/self by a file that it writes,
# and is ended itself where no file may grow.
NOT_EMULATED = ("spawning", "limits", "limited", "limited_data", "unread_output", "locked_blocks",
                "locked_memory", "refused_thread", "refused_background_thread", "name_spaces", "real_time",
                "left_out_of_cores", "bare_children", "confined", "descriptors_left", "left_pool")
# A program with functions of its own by the names that all others but the library ask for, one that asks glibc, and one
# whose model has no memory of another allocator.
ALONE = ("own_names", "told_blocks", "written_pages")
# Modes that tell much the same of a program: where it is to be run less often, the seed names one of each row for it.
ALIKE = (("pages of 16 KiB", "pages of 64 KiB"), tuple(f"on {peer}" for peer in common.PEERS))
FURTHER = (binary_checks, neighbour_checks, file_checks, worker_checks, real_programs)


class Programs:
    """Runs the small programs; results without the library are computed once, on demand, by whichever
    thread comes first."""

    def __init__(self, context, seed, fewer):
        self.context = context
        self.extra = {"FEWER": str(fewer)}
        self.arguments = {"random_programs": [seed]}
        self.lock = threading.Lock()
        self.results = {}

    def run(self, program, mode):
        command = [self.context.programs / program] + self.arguments.get(program, [])
        limit = TIMEOUT_EMULATED if self.context.emulator else common.TIMEOUT
        return self.context.run(command, mode, timeout=limit, extra=self.extra)

    def reference(self, program, mode):
        with self.lock:
            lock, slot = self.results.setdefault((program, mode.name), (threading.Lock(), []))
        with lock:
            if not slot:
                slot.append(self.run(program, mode))
            return slot[0]


def program_check(programs, program, mode):
    def check():
        reference = programs.reference(program, common.oracle(mode))
        well = reference.code in (0, NOT_HERE)
        if mode.next == "glibc":
            common.expect(well, f"fails without the library: {reference}")
        elif not well:
            raise common.Skip(f"{mode.next} alone fails it")
        if mode.ours:
            common.expect_same(programs.run(program, mode), reference)
        said = re.findall(rb"^skipped: (.+)$", reference.out, re.MULTILINE)
        common.expect(said or reference.code == 0, f"skips without a reason: {reference}")
        if said:  # the program's own word: it ended well, and part of it could not run
            raise common.Skip(said[0].decode(errors="replace"))

    return check


def absent_peer(peer):
    def check():
        raise common.Skip(f"{common.PEERS[peer]} is not installed")

    return check


def applies(context, mode, program):
    if mode.name == "call stacks" and program not in UNWOUND or mode.name == "observed" and program in NOT_OBSERVED:
        return False
    if program in ALONE and (mode.next != "glibc" or mode.pages):
        return False
    if context.emulator:  # the peers are this machine's, and so is the size of a page
        return mode.next == "glibc" and not mode.pages and program not in NOT_EMULATED
    return (mode.ours or mode.next == "glibc") and not (mode.pages and program in COUNT_PAGES)


def chosen(mode, program, arguments):
    """Whether a mode is the one of its row in ALIKE for this program; all are where nothing is to be done less often."""
    row = next((row for row in ALIKE if mode.name in row), None)
    return row is None or arguments.fewer == 1 or random.Random(f"{arguments.seed} {program}").choice(row) == mode.name


def collect(context, arguments):
    """All checks as (name, function) pairs; a function raises AssertionError or Skip, or returns a remark."""
    programs = Programs(context, arguments.seed, arguments.fewer)
    checks = [(f"{path.name} [{mode.name}]", program_check(programs, path.name, mode))
              for path in sorted(context.programs.iterdir())
              for mode in common.MODES
              if applies(context, mode, path.name) and chosen(mode, path.name, arguments)]
    if not context.emulator:
        checks += [(f"programs [on {peer}]", absent_peer(peer)) for peer in common.PEERS
                   if not common.find_peer(peer)]
    for module in () if context.emulator else FURTHER:
        checks += module.checks(context)
    return [(name, check) for name, check in checks if arguments.only in name]


def counts():
    """How many checks there are on a machine that lacks nothing, and how many ways to run a small program."""
    folder = common.HERE / "programs"
    programs = [path.stem for path in folder.iterdir() if path.suffix in (".c", ".cc")]
    modes = common.modes(common.PEERS)
    context = common.Context("build")
    small = sum(applies(context, mode, program) for program in programs for mode in modes)
    return {"checks": small + sum(len(module.checks(context)) for module in FURTHER),
            "modes": sum(mode.ours or mode.next == "glibc" for mode in modes)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="folder with libmemomalloc.so and programs/")
    parser.add_argument("--only", default="", help="checks whose name contains this text")
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1),
                        help="checks at a time (two for each processor: they wait half of their time)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 2**31),
                        help="for the random programs (chosen and printed)")
    parser.add_argument("--fewer", type=int, default=1, metavar="TIMES",
                        help="small programs repeat so many times less what only comes about by chance; above 1, each runs "
                             "on one of the larger page sizes and one of the other allocators (%(default)s)")
    parser.add_argument("--emulator", default="", metavar="COMMAND",
                        help="runs another processor's programs: those alone, under this command")
    parser.add_argument("--verbose", action="store_true", help="name every check and its seconds")
    parser.add_argument("--count", action="store_true",
                        help="only prints, as JSON, how many checks and modes a machine that lacks nothing has")
    arguments = parser.parse_args()
    if arguments.count:
        print(json.dumps(counts()))
        return 0
    context = common.Context(arguments.build, arguments.emulator.split())
    if not context.library.exists():
        parser.error(f"{context.library} is missing; make builds it")
    checks = collect(context, arguments)
    print(f"preload checks: {len(checks)}, seed {arguments.seed}", flush=True)
    return perform.perform_all(checks, arguments.jobs, arguments.verbose)


if __name__ == "__main__":
    sys.exit(main())
