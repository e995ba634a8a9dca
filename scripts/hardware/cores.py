#!/usr/bin/env python3
"""Allocators over processor cores: step time, page faults, system time and memory, with 1 to 16 threads and processes.

Rows, the most important first: threads of one process that allocate at the same time without a network (bench/contended.c);
networks with 1, 2, 4, 8, 16 threads; a server, whose threads each call the network; processes of one thread each. For each
network and allocator one process is started (or one for each core); they take turns in an order that turns on by a place
each, so that what drifts with the machine meets all. A turn's figure is the median of its steps but the first, a row's the
median over turns, and the ratio to glibc the median of the ratios within a round. The run ends within --seconds: rows for
which no time is left are named, and each row is written when it is done. Ends with code 1 if a row failed.

scripts/hardware/prepare.sh, on the machine where the library is built, lays together what is carried.
"""

import argparse
import dataclasses
import datetime
import itertools
import json
import math
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

from cores_results import CARRIED, ROOT, Results, machine, versions
from cores_teams import Failed, Team

sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "scripts/tables")]

import allocators
from results import commit

CONTENDED = ROOT / "build/bench/contended"
# name, the row of bench/allocators.py whose settings it has, the file that is carried
CHOICES = (("glibc", "glibc", ""), ("tcmalloc", "tcmalloc_tuned", "libtcmalloc_minimal.so.4"),
           ("jemalloc", "jemalloc_tuned", "libjemalloc.so.2"), ("mimalloc", "mimalloc", "libmimalloc.so.3"),
           ("memomalloc", "memomalloc", ""))
SHAPES = {"mobilenet_v2": (4, 224), "resnet50": (2, 224), "bert": (1, 64), "train_resnet18": (4, 128)}  # batch, size
PATTERNS = ("slab", "pool", "cross", "small")
CONTENDED_THREADS = (1, 2, 4, 8, 16, 64)
CONTENDED_SECONDS = 0.15
LEARNING = 12  # steps in each row that do not count
SHORTEST, LONGEST = 3, 20  # steps of a turn
TURN_SECONDS = 0.25
LEAST_TURNS = 2  # that count
SHARE_LEFT = 0.02  # of the time, to end in
START_SECONDS, TURN_LIMIT = 90, 30  # that processes may take
OVER = 10  # seconds over its time, after which the kernel ends this program


class Clock:
    def __init__(self, seconds):
        self.began = time.monotonic()
        self.end = self.began + seconds * (1 - SHARE_LEFT)

    def left(self):
        return max(self.end - time.monotonic(), 0)


@dataclasses.dataclass(frozen=True)
class Group:
    """Rows that the same processes do."""

    kind: str  # threads, server, processes, contended
    network: str
    counts: tuple  # of threads or processes
    weight: int  # its part of the time
    shape: tuple = ("", "")  # batch, size

    def name(self):
        return f"{self.kind} {self.network} {','.join(map(str, self.counts))}".replace("  ", " ")


def chosen(names):
    """(allocators by name that are here, {name: why it is not})."""
    found, missing = {}, {}
    for name, row, file in CHOICES:
        if name not in names:
            continue
        allocator = dataclasses.replace(allocators.BY_NAME[row], name=name)
        if file and (CARRIED / file).exists():
            allocator = dataclasses.replace(allocator, preload=str((CARRIED / file).relative_to(ROOT)))
        if allocator.library() is None:
            missing[name] = f"no {file or allocator.preload} in {CARRIED.relative_to(ROOT)} or on this machine"
        else:
            found[name] = allocator
    return found, missing


def rounds(names, seed):
    """Orders of the names, without an end: each has each place equally often."""
    dice = random.Random(seed)
    while True:
        order = dice.sample(names, len(names))
        for place in range(len(order)):
            yield order[place:] + order[:place]


class Measuring:
    def __init__(self, arguments, found, results, clock):
        self.arguments, self.found, self.results, self.clock = arguments, found, results, clock

    def row(self, teams, about, threads, seconds):
        """Turns of all teams until the row's time is over: the first to learn, then those that count."""
        end = time.monotonic() + seconds
        turns = {name: [] for name in teams}
        learned, steps, counted = 0, SHORTEST, 0
        for order in rounds(list(teams), f"{self.arguments.seed} {about}"):
            counts = learned >= LEARNING
            longest = 0
            for name in [name for name in order if name in teams]:
                command = {"threads": threads, "steps": steps, "begin": learned == 0}
                try:
                    figures = teams[name].turn(command, min(self.clock.left(), TURN_LIMIT))
                except (Failed, ValueError) as error:
                    if self.clock.left() > 0:  # else it was this program that gave up
                        self.results.fail(" ".join(map(str, about.values())), name, error)
                    teams.pop(name).stop()
                    figures = None
                if figures:
                    longest = max(longest, figures["step_ms"])
                if counts:
                    turns[name].append(figures)
            counted += counts
            learned += steps
            late = counted >= LEAST_TURNS and time.monotonic() > end
            if not teams or not self.clock.left() or counted >= self.arguments.turns or late:
                break
            if not counts and longest:
                steps = max(SHORTEST, min(LONGEST, int(TURN_SECONDS * 1e3 / longest)))
        for name in turns:  # a round that was cut short
            turns[name] += [None] * (counted - len(turns[name]))
        if any(any(each) for each in turns.values()):
            self.results.row(about, turns)
        else:
            self.results.leave_out(" ".join(map(str, about.values())))

    def group(self, group, seconds):
        """A group with processes: they are started at once, and do the group's rows."""
        end = time.monotonic() + seconds
        limit = time.monotonic() + min(START_SECONDS, self.clock.left())
        count = max(group.counts)
        teams = {}
        try:
            for name, allocator in self.found.items():
                teams[name] = Team(allocator, group, count)
            for name, team in list(teams.items()):
                try:
                    team.ready(limit - time.monotonic())
                except (Failed, ValueError) as error:
                    self.results.fail(group.name(), name, error)
                    teams.pop(name).stop()
            counts = list(group.counts)
            while counts and teams and self.clock.left() > 0:
                one = counts.pop(0)
                batch, size = group.shape
                about = {"kind": group.kind, "network": group.network, "batch": batch, "size": size,
                         "threads": 1 if group.kind == "processes" else one, "processes": one if group.kind == "processes" else 1}
                self.row(teams, about, one if group.kind == "threads" else None,
                         (end - time.monotonic()) / (len(counts) + 1))
            for one in counts:
                self.results.leave_out(f"{group.kind} {group.network} {one}")
        finally:
            for team in teams.values():
                team.stop()

    def contended(self, group, seconds):
        """All patterns and counts of threads under each allocator, again and again."""
        end = time.monotonic() + seconds
        cells = list(itertools.product(group.counts, PATTERNS))
        turns = {cell: {name: [] for name in self.found} for cell in cells}
        failed = set()
        for number, order in enumerate(rounds(list(self.found), self.arguments.seed)):
            for cell in cells:
                for name in order:
                    turns[cell][name].append(None if (cell, name) in failed else self.contend(cell, name, failed))
                if self.clock.left() < TURN_LIMIT / 6 or (time.monotonic() > end and number):
                    break
            if time.monotonic() > end or number + 1 >= self.arguments.turns:
                break
        for (threads, pattern), each in turns.items():
            if any(any(one) for one in each.values()):
                about = {"kind": "contended", "network": pattern, "batch": "", "size": "", "threads": threads, "processes": 1}
                self.results.row(about, each, "pairs_per_second")

    def contend(self, cell, name, failed):
        threads, pattern = cell
        try:
            done = subprocess.run([CONTENDED, pattern, str(threads), str(CONTENDED_SECONDS)], capture_output=True, text=True,
                                  env=self.found[name].environment(os.environ), timeout=TURN_LIMIT / 6)
            if done.returncode:
                raise Failed(f"ended with code {done.returncode}: {done.stderr.strip()[-200:]}")
            if "cannot be preloaded" in done.stderr:
                raise Failed(done.stderr.strip()[-200:])
            figures = json.loads(done.stdout)
        except (Failed, OSError, ValueError, subprocess.TimeoutExpired) as error:
            failed.add((cell, name))
            self.results.fail(f"contended {pattern} {threads}", name, error)
            return None
        pairs = max(figures["pairs"], 1)
        return {"pairs_per_second": round(figures["pairs"] / figures["seconds"], 1), "steps": figures["pairs"],
                "faults": round(figures["faults"] / pairs, 4), "user_ms": round(figures["user_ms"] / pairs, 6),
                "system_ms": round(figures["system_ms"] / pairs, 6), "rss_mib": round(figures["rss_kib"] / 1024, 1),
                "peak_mib": round(figures["peak_kib"] / 1024, 1)}


def numbers(text):
    return tuple(int(one) for one in text.split(","))


def parse(argv):
    parser = argparse.ArgumentParser(prog="cores.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", nargs="?", type=pathlib.Path, default=ROOT / "results/cores", help="a folder (results/cores)")
    parser.add_argument("--seconds", type=float, default=300, help="that the whole run may take (%(default)s)")
    parser.add_argument("--threads", type=numbers, default=(1, 2, 4, 8, 16), help="of a process (1,2,4,8,16)")
    parser.add_argument("--processes", type=int, default=16, help="at once, and threads of the server (%(default)s)")
    parser.add_argument("--contended", type=numbers, default=CONTENDED_THREADS, help="threads of the micro-benchmark (1 to 64)")
    parser.add_argument("--networks", default=",".join(SHAPES), help="%(default)s")
    parser.add_argument("--allocators", default=",".join(name for name, _, _ in CHOICES), help="%(default)s")
    parser.add_argument("--size", type=int, help="pixels a side of all networks' images, instead of their own")
    parser.add_argument("--kinds", default="contended,threads,server,processes", help="%(default)s")
    parser.add_argument("--turns", type=int, default=12, help="that count of a row, at most (%(default)s)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 16), help="of the orders (drawn)")
    return parser.parse_args(argv)


def plan(arguments):
    """The groups, the most important first."""
    networks, kinds = arguments.networks.split(","), arguments.kinds.split(",")
    served = "resnet50" if "resnet50" in networks else networks[0]
    cores = (arguments.processes,)
    rows = [Group("contended", "", arguments.contended, 44),
            Group("threads", "mobilenet_v2", arguments.threads, 48), Group("threads", "resnet50", arguments.threads, 48),
            Group("server", served, cores, 24), Group("processes", "mobilenet_v2", cores, 36),
            Group("threads", "bert", arguments.threads, 44), Group("threads", "train_resnet18", arguments.threads, 40),
            Group("processes", "resnet50", cores, 26)]
    unknown = [name for name in networks if name not in SHAPES]
    if unknown:
        raise SystemExit(f"cores.sh: no network {unknown[0]}; there are {', '.join(SHAPES)}")

    def shaped(row):
        batch, size = SHAPES.get(row.network, ("", ""))
        return dataclasses.replace(row, shape=(batch, arguments.size if arguments.size and row.network != "bert" else size))

    return [shaped(row) for row in rows if row.kind in kinds and (not row.network or row.network in networks)]


def main(argv=None):
    arguments = parse(argv)
    signal.alarm(math.ceil(arguments.seconds) + OVER)
    clock, began = Clock(arguments.seconds), datetime.datetime.now(datetime.timezone.utc)
    found, missing = chosen(arguments.allocators.split(","))
    results = Results(arguments.output, {
        "date": began.strftime("%Y-%m-%d-%H%M"), "commit": commit(), "machine": machine(), "versions": versions(found),
        "command": f"scripts/hardware/cores.sh {' '.join(sys.argv[1:] if argv is None else argv)}".strip(),
        "seconds": arguments.seconds, "seed": arguments.seed,
        "repetitions": f"{LEAST_TURNS} to {arguments.turns} rounds of turns a row, after {LEARNING} steps that do not count",
    }, clock.began)
    for name, why in missing.items():
        results.fail("all", name, why)
    measuring, groups = Measuring(arguments, found, results, clock), plan(arguments)
    for number, group in enumerate(groups):
        share = clock.left() * group.weight / sum(one.weight for one in groups[number:])
        if share < 0.15 * group.weight or share < 3:
            results.leave_out(group.name())
            continue
        try:
            (measuring.contended if group.kind == "contended" else measuring.group)(group, share)
        except Exception as error:  # the other rows go on
            results.fail(group.name(), "all", repr(error))
    results.head["took_seconds"] = round((datetime.datetime.now(datetime.timezone.utc) - began).total_seconds(), 1)
    results.write()
    print(", ".join(f"{len(results.head[what])} {what.replace('_', ' ')}" for what in ("rows", "failures", "left_out")) +
          f", {results.head['took_seconds']} s: {results.json} {results.csv}")
    return 1 if results.head["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
