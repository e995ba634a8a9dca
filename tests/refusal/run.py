#!/usr/bin/env python3
"""Runs programs under the library while its system calls are refused, and compares with the run without the library.

First each case (a program, and settings) runs once and shows which places of the library it reaches, how often. Then
a place is refused with each errno of its manual: at the n-th occasion, n doubling, once or from there on for ever. A
place that shows itself only under a refusal (a poll after EAGAIN) is refused together with what led there. And each
function is refused at all its places at once, as a limit or a filter does. Prints the number of pairs (place, errno)
covered and not covered; ends with a line `N passed, N failed`, exit code 1 if any failed."""

import argparse
import collections
import concurrent.futures
import hashlib
import os
import pathlib
import platform
import random
import re
import signal
import sys
import threading
import time

import places as code
from cases import ALWAYS, CIRCUMSTANCES, LOOPS, SHORT, WHOLE, Case, Job, Rule, occasions
from trial import Runner, end_all

# Where one of these is refused the statistics that are found may be old.
FILES = {"open", "close", "write", "rename", "unlink", "lstat", "stat", "gethostname", "readlink", "poll", "read"}

# Calls of one place in a process that are too many, where it makes far fewer with nothing refused: what waits by a call
# that is refused must not go round for ever.
SPINS = 200_000
NEVER_WAIT = {"sched_yield", "malloc"}
# Remarks that are known and harmless, each a pattern of its whole text. With --whole any other fails the run.
KNOWN_REMARKS = (
    # A thread that waits for a futex, and whose sleep is refused, looks at the futex again and again.
    r"spins by syscall: syscall in .*",
    # A search for a plan whose part of the time is over at once goes round until all of the time is.
    r"spins by clock_gettime: clock_gettime in dsa::.*",
)


class Harness:
    def __init__(self, build, seed, seconds, whole, only=""):
        self.library = pathlib.Path(build).resolve() / "libmemomalloc.so"
        self.names = code.turned(self.library)
        self.own = code.own_names(self.library)
        self.runner = Runner(build, self.names)
        self.places = code.places(self.library, self.names)
        self.pairs = {(place, pair) for place in self.places for pair in place.pairs}
        self.by_offset = {(place.function, place.offset): place for place in self.places}
        self.tails = {place.function: place for place in self.places if place.tail}
        self.random = random.Random(seed)
        rows = WHOLE if whole else SHORT
        self.cases = [*dict.fromkeys([*(Case(*row) for row in rows), *(job.case for job in ALWAYS)])]
        self.whole, self.only = whole, only
        self.seconds = seconds
        self.lock = threading.Lock()
        self.normal, self.usual = {}, {}  # counters of a case, and calls of each place, when nothing is refused
        self.reached = collections.defaultdict(dict)  # place -> {case: (dynamic offset, occasions, rules that led)}
        self.covered, self.everywhere = set(), set()
        self.tried, self.fired = collections.Counter(), collections.Counter()  # runs by how refuse.c turns the function
        self.runs, self.failures, self.kinds, self.remarks = 0, [], collections.Counter(), {}
        self.idle = []  # rows of ALWAYS that refused nothing
        self.left = 0  # runs for which there was no time

    def offset_place(self, function, offset):
        return self.by_offset.get((function, offset)) or self.tails.get(function)

    def note(self, case, seen, rules):
        """Remembers places that a run reached; returns those that were not known."""
        new = []
        for (function, offset), row in seen.items():
            place = self.offset_place(function, offset)
            if place is None:
                raise code.Unknown(f"{function} is called from {offset:x}, where the code has no call of it")
            if place not in self.reached:
                new.append(place)
            if case not in self.reached[place] and (not rules or place in new):
                self.reached[place][case] = (offset, row.most, rules)
        return new

    def record(self):
        """Runs each case with nothing refused."""
        order = sorted(self.cases, key=lambda case: case.variant == "plans")
        first = [case for case in order if case.variant == "files" and case.words == LOOPS]
        for case in first:
            self.record_one(case)
        with concurrent.futures.ThreadPoolExecutor(jobs()) as pool:
            list(pool.map(self.record_one, [case for case in order if case not in first]))

    def record_one(self, case):
        outcome = self.runner.run(case)
        if not self.runner.same(case, outcome.result):
            self.fail(Job(case, ()), outcome)
        with self.lock:
            self.runs += 1
            self.note(case, outcome.seen, ())
            self.normal[case] = outcome.counters
            self.usual[case] = {key: row.most for key, row in outcome.seen.items()}

    def fail(self, job, outcome):
        result, stacks = outcome.result, outcome.stacks
        with self.lock:
            self.failures.append(job)
            kind = (job.place or job.around or str(job.rules[-1:]), result.code, job.case.words)
            self.kinds[kind] += 1
            if self.kinds[kind] > 1:  # of those alike, the first is shown
                return
        if result.code < 0:
            stacks += self.runner.crash(job)
        print(f"failed: {job}\n  REFUSE={','.join(map(str, job.rules))}\n  {result}\n"
              f"  expected {self.runner.reference(job.case, job.around)}\n{stacks}", flush=True)

    def perform(self, job):
        """One refused run; returns further places that it showed."""
        outcome = self.runner.run(job.case, job.rules, job.around)
        if not self.runner.same(job.case, outcome.result, job.around):
            self.fail(job, outcome)
        with self.lock:
            self.runs += 1
            if job.around:
                return []
            rule = job.rules[-1]
            refused = any(row.refused for (function, offset), row in outcome.seen.items()
                          if function == rule.function and rule.offset in (0, offset))
            route = "its own" if rule.function in self.own else "imported"
            self.tried[route] += 1
            self.fired[route] += refused
            if not refused and job in ALWAYS:
                self.idle.append(job)
            if refused and job.place is None:
                self.everywhere.add((rule.function, rule.form, rule.name))
            if refused and job.place is not None:
                self.covered.add((job.place, (rule.form, rule.name)))
            new = [] if len(job.rules) > 2 else self.note(job.case, outcome.seen, job.rules)
        said = self.remarks_on(job, outcome, refused)
        if any(text not in self.remarks for text in said):  # a busy machine shows some of them by chance, once
            said &= self.remarks_on(job, self.runner.run(job.case, job.rules, job.around), refused)
        with self.lock:
            for text in said:
                self.remarks.setdefault(text, job)
        return new

    def remarks_on(self, job, outcome, refused):
        """What is wrong with a run whose result is as it should be: texts."""
        rule, usual, found = job.rules[-1], self.usual[job.case], []
        old = any(each.function in FILES for each in job.rules)
        if refused and not old and loses(outcome.counters, self.normal[job.case]):
            found.append("lost but not counted")
        found += [f"spins by {function} ({offset:x})" for (function, offset), row in outcome.seen.items()
                  if row.most > max(SPINS, 4 * usual.get((function, offset), 0)) and function not in NEVER_WAIT]
        return {f"{what}: {rule.function} in {job.place.inside if job.place else 'all'}" for what in found}

    def jobs_of(self, place, pairs):
        """All runs that refuse a place with one of `pairs`, in a random order: loops first, what sleeps last."""
        found = []
        for case, (offset, most, led) in self.reached[place].items():
            late = (case.words != LOOPS) + 2 * ("idle" in case.words)
            for first in occasions(most, self.whole):
                for ever in (True, False):
                    for form, name in pairs:
                        rule = Rule(place.function, offset, form, name, first, ever)
                        found.append((late + 1.5 * self.random.random(), Job(case, (*led, rule), place)))
        return [job for _, job in sorted(found, key=lambda row: row[0])]

    def jobs_at_each_occasion(self, place):
        """As jobs_of, but each occasion with one of the errnos alone: most code does not look at it."""
        chosen = {}
        for job in self.jobs_of(place, place.pairs):
            rule = job.rules[-1]
            chosen.setdefault((job.case, rule.first, rule.ever), job)
        return list(chosen.values())

    def jobs_everywhere(self):
        found = []
        for function in self.names:
            reaching = [case for place in self.places if place.function == function and place in self.reached
                        for case in self.reached[place]]
            pairs = {pair for place in self.places if place.function == function for pair in place.pairs}
            for form, name in sorted(pairs):
                for case in dict.fromkeys(reaching):
                    for first in occasions(64, self.whole):
                        found.append(Job(case, (Rule(function, 0, form, name, first, True),)))
        for case in self.cases:  # a limit on memory stops all of these at once
            for first in occasions(64, True):
                found.append(Job(case, tuple(
                    Rule(function, 0, "minus", "ENOMEM", first, True)
                    for function in ("mmap", "mprotect", "madvise", "munmap") if function in self.names)))
        self.random.shuffle(found)
        return found

    def refuse(self):
        """Refuses until the time is up, or everything was refused. Runs are taken in turn from three lots: each
        errno at some occasion of its place, each occasion with some errno, and whole functions."""
        errnos, moments = collections.deque(), collections.deque()

        def add(places):
            for place in sorted(places, key=lambda place: (str(place), self.random.random())):
                if place.pairs and self.only in str(place):
                    errnos.extendleft(self.jobs_of(place, [pair]) for pair in place.pairs)
                    moments.appendleft(self.jobs_at_each_occasion(place))

        add(self.reached)
        self.random.shuffle(errnos)
        self.random.shuffle(moments)
        around = [Job(case, (), None, row) for case in self.cases if case.words == LOOPS and not case.around
                  for row in CIRCUMSTANCES]
        self.random.shuffle(around)
        others = collections.deque(
            [job for job in jobs if self.only in str(job.around or f"{job.rules[0].function} everywhere")]
            for jobs in (self.jobs_everywhere(), around))
        first = list(ALWAYS)  # before all else: none may be left out for time
        lots = [errnos, moments, others, errnos, moments]
        until, running, turn = time.monotonic() + self.seconds, set(), 0
        with concurrent.futures.ThreadPoolExecutor(jobs()) as pool:
            while first or running or (any(lots) and time.monotonic() < until):
                while first and len(running) < 2 * jobs():
                    running.add(pool.submit(self.perform, first.pop(0)))
                while any(lots) and len(running) < 2 * jobs() and time.monotonic() < until:
                    turn += 1
                    lot = lots[turn % len(lots)]
                    if lot:
                        queue = lot.popleft()
                        if queue:
                            running.add(pool.submit(self.perform, queue.pop(0)))
                            lot.append(queue)
                done, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    add(future.result())  # first of all, since they are few
        self.left = sum(len(queue) for lot in (errnos, moments, others) for queue in lot)

    def faults(self):
        """What is wrong with the harness itself, or new: a sentence each."""
        found = [f"refuses nothing any more: {job}" for job in self.idle]
        # A function whose table entry or code is no longer turned runs as if nothing were refused, and each run passes.
        found += [f"nothing was refused of functions that are {route}, in {tried} runs"
                  for route, tried in self.tried.items() if not self.fired[route]]
        if self.runs == len(self.cases):
            found.append("nothing was refused")
        # Half of them are, whatever is refused by chance: the programs alone reach nearly all of those.
        if 3 * len(self.reached) < len(self.places):
            found.append(f"only {len(self.reached)} of {len(self.places)} places reached")
        # An offset is another one in each build. A sample comes upon a new one by chance: it is printed.
        found += [f"not known: {text}" for text in sorted({re.sub(r" \([0-9a-f]+\)", "", text) for text in self.remarks})
                  if self.whole and not any(re.fullmatch(known, text) for known in KNOWN_REMARKS)]
        return found

    def summary(self, verbose):
        never = collections.Counter(place for place, _ in self.pairs if place not in self.reached)
        foreign = sum(never[place] for place in never if not place.own)
        missed = sorted(f"{place}, {' '.join(pair)}" for place, pair in self.pairs - self.covered
                        if place in self.reached)
        functions = {(place.function, pair) for place, pair in self.pairs}
        print(f"{len(self.places)} places in the library, {len(self.reached)} reached; "
              f"{self.left} runs left out for time")
        print(f"{len(self.everywhere)} of {len(functions)} (function, errno) pairs refused at all places at once")
        print(f"{len(self.covered)} (place, errno) pairs covered, {len(self.pairs) - len(self.covered)} not "
              f"({sum(never.values())} at {len(never)} places that no program reaches, "
              f"{foreign} of these in the compiler's run-time code; {len(missed)} for time)")
        if verbose:
            for place, count in sorted(never.items(), key=str):
                print(f"  not reached: {place}, {count} pairs")
            for text in missed:
                print(f"  not refused: {text}")
        for text, job in sorted(self.remarks.items()):
            print(f"  {text}, {job.case}, REFUSE={','.join(map(str, job.rules))}")
        faults = self.faults()
        print(*(f"failed: {fault}" for fault in faults), sep="\n", end="\n" if faults else "")
        print(f"{self.runs - len(self.failures)} passed, {len(self.failures) + len(faults)} failed")
        return 1 if self.failures or faults else 0


def jobs():
    return 2 * (os.cpu_count() or 1)


def served_bytes(figures):
    return figures.get("planned_bytes", 0) + figures.get("at_hand_bytes", 0)


def loses(found, normal):
    """True if less was served than usual and no counter says why."""
    if not found or not normal or served_bytes(normal) == 0:
        return False
    if served_bytes(found) > served_bytes(normal) * 3 // 4:
        return False
    causes = ("fallback_allocations", "recorder_full", "diverged", "released")
    more = any(found.get(name, 0) > normal.get(name, 0) for name in causes)
    reasons = found.get("fallback", {})
    return not more and not any(reasons[name] > normal.get("fallback", {}).get(name, 0) for name in reasons)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="folder with libmemomalloc.so, refuse.so and programs/")
    parser.add_argument("--seconds", type=float, default=60, help="of refusing; no run begins later (60)")
    parser.add_argument("--whole", action="store_true", help="more programs, and each of the first occasions")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 2**31),
                        help="of the order, from which the time takes a sample (chosen and printed)")
    parser.add_argument("--only", default="", metavar="TEXT", help="places and circumstances whose name contains it")
    parser.add_argument("--verbose", action="store_true", help="name the places that were not reached or refused")
    arguments = parser.parse_args()
    if platform.machine() != "x86_64":
        print("skipped: refusals: refuse.c is written for x86-64\n0 passed, 0 failed, 1 skipped")
        return 0
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end_all)
    try:
        harness = Harness(arguments.build, arguments.seed, arguments.seconds, arguments.whole, arguments.only)
        build = hashlib.sha1(harness.library.read_bytes()).hexdigest()[:12]
        print(f"refusals: seed {arguments.seed}, library {build}, {len(harness.cases)} cases", flush=True)
        harness.record()
        harness.refuse()
    except code.Unknown as reason:
        print(f"failed: {reason}\n0 passed, 1 failed")
        return 1
    return harness.summary(arguments.verbose)


if __name__ == "__main__":
    sys.exit(main())
