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
import dataclasses
import errno
import hashlib
import json
import os
import pathlib
import platform
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "preload"))

import common  # noqa: E402
import places as code  # noqa: E402

TABLE_BYTES = 1024 * 32  # struct table of refuse.c
ROW = struct.Struct("<4Q")
HANGS = 120  # seconds, of programs that end within seconds on a machine that has little else to do
# A limit says no for ever; what says "again" (a signal, a full pipe) does so for a while: this many occasions more.
EVENTS = 63

FILES = (("STATS_FILE", "{temp}/stats.%h.json"), ("PLAN_FILE", "{temp}/plans"), ("TRACE_FILE", "{temp}/trace.csv"))
VARIANTS = {  # MEMOMALLOC_ variables of each
    "default": (),
    "4K": (("THRESHOLD", "4K"),),
    "stacks": (("TRACE_FILE", "/dev/null"),),
    "files": FILES,
    "plans": (("PLAN_FILE", "{temp}/learned"), ("STATS_FILE", "{temp}/stats.json"), ("EXE", "{program}")),
    "spoken": (("VERBOSE", "3"), ("STATS", "1")),
}
# What may be said on stderr: these lines of ours, where a file cannot be used or where it was asked for.
MAY_SAY = {"files", "plans", "spoken", "stacks"}

# What a whole process may be started in: (name, limit, its value in bytes or numbers). The last has a pipe for stderr
# that nobody reads any more.
CIRCUMSTANCES = (("no bytes in files", resource.RLIMIT_FSIZE, 0), ("few descriptors", resource.RLIMIT_NOFILE, 4),
                 ("768 MiB of addresses", resource.RLIMIT_AS, 768 << 20), ("192 MiB of data", resource.RLIMIT_DATA, 192 << 20),
                 ("no locked memory", resource.RLIMIT_MEMLOCK, 0), ("stderr is not read", None, 0))

LOOPS = ("loops",)
SHORT = [(LOOPS, variant) for variant in VARIANTS] + [
    (("loops", "idle"), "default"), (("sizes",), "default"), (("zeroed",), "default")]
WHOLE = SHORT + [((name,), variant) for name, variant in (
    ("loops idle", "files"), ("alignment", "default"), ("cross_thread", "default"), ("lifecycle", "files"),
    ("usable", "4K"), ("random_programs 11 3000 4", "default"), ("random_programs 12 3000 4", "files"),
    ("random_programs 13 3000 3", "4K"), ("thread_exit", "default"), ("fork_handlers", "default"),
    ("every_path", "default"), ("every_path", "4K"), ("errno_kept", "default"), ("resize", "default"),
    ("operators", "default"), ("operators", "stacks"), ("introspection", "default"), ("cancellation", "files"),
    ("module_walk", "stacks"), ("page_calls", "default"), ("sparse", "default"), ("small_stacks", "stacks"),
    ("signals", "stacks"), ("spawning", "files"), ("bare_frames", "stacks"), ("closed_files", "files"),
    ("first_call", "default"), ("limits", "default"), ("forking", "default"), ("hostile_plans", "files"))]
WHOLE = [(tuple(" ".join(words).split()), variant) for words, variant in WHOLE]
RUNNING = set()  # leaders of the process groups that live


@dataclasses.dataclass(frozen=True)
class Case:
    """A program with its arguments, and a row of VARIANTS."""

    words: tuple
    variant: str

    def __str__(self):
        return f"{' '.join(self.words)} [{self.variant}]"


@dataclasses.dataclass(frozen=True)
class Rule:
    """One refusal, as refuse.c reads it. Offset 0: at every place of the function."""

    function: str
    offset: int
    form: str
    name: str  # of the errno, or `short`
    first: int  # occasion
    ever: bool

    @property
    def last(self):
        if not self.ever:
            return self.first
        event = self.name == "EINTR" or (self.name == "EAGAIN" and self.function in ("read", "write", "syscall"))
        return self.first + EVENTS if event else 2**63

    def __str__(self):
        number = getattr(errno, self.name, 0)
        return f"{self.function}:{self.offset:x}:{self.form}:{number}:{self.first}:{self.last}"


@dataclasses.dataclass
class Seen:
    """A row of the table that a run leaves."""

    most: int
    refused: int


@dataclasses.dataclass
class Job:
    case: Case
    rules: tuple  # the last one is what is tried; those before it lead there
    place: object = None  # code.Place of the last rule, None for a function as a whole
    around: tuple = ()  # a row of CIRCUMSTANCES


class Harness:
    def __init__(self, build, seed, seconds, whole, only=""):
        self.context = common.Context(build)
        self.library = self.context.library
        self.names = code.turned(self.library)
        self.places = code.places(self.library, self.names)
        self.pairs = {(place, pair) for place in self.places for pair in place.pairs}
        self.by_offset = {(place.function, place.offset): place for place in self.places}
        self.tails = {place.function: place for place in self.places if place.tail}
        self.random = random.Random(seed)
        self.cases = [Case(*row) for row in (WHOLE if whole else SHORT)]
        self.whole, self.only = whole, only
        self.seconds = seconds
        self.lock = threading.Lock()
        self.references = {}
        self.normal = {}  # counters of a case when nothing is refused
        self.reached = collections.defaultdict(dict)  # place -> {case: (dynamic offset, occasions, rules that led)}
        self.covered, self.everywhere = set(), set()
        self.passed, self.failures, self.kinds, self.uncounted = 0, [], collections.Counter(), {}
        self.left = 0  # runs for which there was no time
        self.learned = None

    def offset_place(self, function, offset):
        return self.by_offset.get((function, offset)) or self.tails.get(function)

    def command(self, case):
        return [str(self.context.programs / case.words[0]), *case.words[1:]]

    def reference(self, case, around=()):
        with self.lock:
            lock, slot = self.references.setdefault((case.words, around), (threading.Lock(), []))
        with lock:
            if not slot:
                slot.append(self.start(case, common.SYSTEM, (), ".", around)[0])
                if slot[0].code != 0:
                    raise SystemExit(f"{case} fails without the library: {slot[0]} {around}")
            return slot[0]

    def start(self, case, mode, extra, folder, around):
        """(result, stacks of what hung)"""
        reader, writer = os.pipe()
        broken = around and around[1] is None
        if broken:
            os.close(reader)
        process = subprocess.Popen(
            self.command(case), env=self.context.environment(mode, extra), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=writer if broken else subprocess.PIPE, start_new_session=True, cwd=folder,
            preexec_fn=lambda: prepare(around))
        RUNNING.add(process.pid)
        stacks = ""
        try:
            out, err = process.communicate(timeout=HANGS)
        except subprocess.TimeoutExpired:
            stacks = group_stacks(process.pid)
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            err = (err or b"") + f"\nno end within {HANGS} s".encode()
        RUNNING.discard(process.pid)
        os.close(writer)
        if not broken:
            os.close(reader)
        return common.Result(process.returncode, out, err or b""), stacks

    def environment(self, case, temp, rules):
        """(mode, further variables)"""
        settings = tuple(
            (f"MEMOMALLOC_{name}", value.replace("{temp}", temp).replace("{program}", case.words[0]))
            for name, value in VARIANTS[case.variant])
        mode = common.Mode(case.variant, settings=settings, serving=False)
        chain = f"{self.library}:{self.context.build / 'refuse.so'}"
        extra = {"LD_PRELOAD": chain, "REFUSE_NAMES": ":".join(self.names), "REFUSE_TABLE": f"{temp}/table"}
        if rules:
            extra["REFUSE"] = ",".join(str(rule) for rule in rules)
        return mode, extra

    def run(self, case, rules=(), around=()):
        """(result, {(function, offset): Seen}, counters or None, stacks of what hung)"""
        with tempfile.TemporaryDirectory(prefix="refusal.") as temp:
            with open(f"{temp}/table", "wb") as table:
                table.truncate(TABLE_BYTES)
            if case.variant == "plans" and self.learned:
                pathlib.Path(temp, "learned").write_bytes(self.learned)
            result, stacks = self.start(case, *self.environment(case, temp, rules), temp, around)
            if case.variant == "files" and not rules and not around and case.words == LOOPS:
                self.learned = pathlib.Path(temp, "plans").read_bytes()
            return result, read_table(f"{temp}/table", self.names), counters(temp), stacks

    def same(self, case, result, around=()):
        reference = self.reference(case, around)
        err = result.err
        if case.variant in MAY_SAY:
            err = b"".join(line for line in err.splitlines(True) if not line.startswith(b"memomalloc: "))
        if case.variant == "spoken":  # a message may be cut
            err = reference.err
        return (result.code, result.out, err) == (reference.code, reference.out, reference.err)

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
        result, seen, found, stacks = self.run(case)
        if not self.same(case, result):
            self.fail(Job(case, ()), result, stacks)
        with self.lock:
            self.note(case, seen, ())
            self.normal[case] = found

    def fail(self, job, result, stacks):
        with self.lock:
            self.failures.append(job)
            kind = (job.place or job.around or str(job.rules[-1:]), result.code, job.case.words)
            self.kinds[kind] += 1
            shown = self.kinds[kind] == 1  # of those alike, the first
        if shown:
            if result.code < 0:
                stacks += self.crash(job)
            what = ", after ".join([str(job.place or (job.rules and f"{job.rules[-1].function} everywhere") or
                                        (job.around[:1] or ("nothing refused",))[0])] + [
                f"{rule.function} ({rule.offset:x}) {rule.name}" for rule in job.rules[:-1]])
            rule = job.rules[-1] if job.rules else None
            how = f": {rule.form} {rule.name} from occasion {rule.first}, {'ever' if rule.ever else 'once'}" if rule else ""
            print(f"failed: {job.case}: {what}{how}\n  REFUSE={','.join(map(str, job.rules))}\n  {result}\n"
                  f"  expected {self.reference(job.case, job.around)}\n{stacks}", flush=True)

    def crash(self, job):
        """The stack of a crash, by the same run once more under gdb; empty where it did not happen again."""
        if shutil.which("gdb") is None:
            return ""
        with tempfile.TemporaryDirectory(prefix="refusal.") as temp:
            with open(f"{temp}/table", "wb") as table:
                table.truncate(TABLE_BYTES)
            variables = self.context.environment(*self.environment(job.case, temp, job.rules))
            chain = variables.pop("LD_PRELOAD")
            try:
                text = subprocess.run(
                    ["gdb", "-q", "-batch", "-ex", "set startup-with-shell off", "-ex", f"set environment LD_PRELOAD {chain}",
                     "-ex", "handle SIGXFSZ SIGPIPE stop", "-ex", "run", "-ex", "bt 10", "--args",
                     *self.command(job.case)], env=variables, capture_output=True, text=True, timeout=HANGS, cwd=temp,
                    stdin=subprocess.DEVNULL, preexec_fn=lambda: prepare(job.around)).stdout
            except subprocess.TimeoutExpired:
                return ""
        return "".join(f"  {line[:150]}\n" for line in text.splitlines() if line.startswith("#"))

    def perform(self, job):
        """One refused run; returns further places that it showed."""
        result, seen, found, stacks = self.run(job.case, job.rules, job.around)
        if job.around:
            if self.same(job.case, result, job.around):
                with self.lock:
                    self.passed += 1
            else:
                self.fail(job, result, stacks)
            return []
        rule = job.rules[-1]
        refused = sum(row.refused for (function, offset), row in seen.items()
                      if function == rule.function and rule.offset in (0, offset))
        if not self.same(job.case, result):
            self.fail(job, result, stacks)
        else:
            with self.lock:
                self.passed += 1
        with self.lock:
            if refused and job.place is None:
                self.everywhere.add((rule.function, rule.form, rule.name))
            if refused and job.place is not None:
                self.covered.add((job.place, (rule.form, rule.name)))
            if refused and loses(found, self.normal[job.case]):
                self.uncounted.setdefault(f"{rule.function} in {job.place.inside if job.place else 'all'}", job)
            return [] if len(job.rules) > 2 else self.note(job.case, seen, job.rules)

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
        around = [Job(case, (), None, row) for case in self.cases if case.words == LOOPS for row in CIRCUMSTANCES]
        self.random.shuffle(around)
        others = collections.deque(
            [job for job in jobs if self.only in str(job.around or f"{job.rules[0].function} everywhere")]
            for jobs in (self.jobs_everywhere(), around))
        lots = [errnos, moments, others, errnos, moments]
        until, running, turn = time.monotonic() + self.seconds, set(), 0
        with concurrent.futures.ThreadPoolExecutor(jobs()) as pool:
            while running or (any(lots) and time.monotonic() < until):
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

    def summary(self, verbose):
        never = collections.Counter(str(place) for place, _ in self.pairs if place not in self.reached)
        missed = [(place, pair) for place, pair in self.pairs if place in self.reached and (place, pair) not in self.covered]
        functions = {(place.function, pair) for place, pair in self.pairs}
        print(f"{len(self.places)} places in the library, {len(self.reached)} reached; {self.left} runs left out for time")
        print(f"{len(self.everywhere)} of {len(functions)} (function, errno) pairs refused at all places at once")
        print(f"{len(self.covered)} (place, errno) pairs covered, {len(self.pairs) - len(self.covered)} not "
              f"({sum(never.values())} at {len(never)} places that no program reaches, {len(missed)} for time)")
        if verbose:
            for text, count in sorted(never.items()):
                print(f"  not reached: {text}, {count} pairs")
            for place, pair in sorted(missed, key=str):
                print(f"  not refused: {place}, {' '.join(pair)}")
        for text, job in sorted(self.uncounted.items()):
            print(f"  lost but not counted: {text}, {job.case}, REFUSE={','.join(map(str, job.rules))}")
        print(f"{self.passed} passed, {len(self.failures)} failed")


def end_all(*_):
    """The end of the harness is the end of what it started."""
    for leader in list(RUNNING):
        try:
            os.killpg(leader, signal.SIGKILL)
        except ProcessLookupError:
            pass
    os._exit(1)


def prepare(around):
    """In the child, before the program: no cores are left behind, and the limits of the circumstance."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if around and around[1] is not None:
        resource.setrlimit(around[1], (around[2], around[2]))


def jobs():
    return 2 * (os.cpu_count() or 1)


def occasions(most, whole):
    """1, 2, 4, ... up to `most`, and in the whole run each of the first few."""
    doubling = {1 << shift for shift in range(most.bit_length()) if 1 << shift <= most}
    return sorted(doubling | (set(range(1, min(most, 8) + 1)) if whole else set()))


def read_table(path, names):
    rows = {}
    for key, _, most, refused in ROW.iter_unpack(pathlib.Path(path).read_bytes()):
        if key:
            rows[names[(key >> 48) - 1], key & ((1 << 48) - 1)] = Seen(most, refused)
    return rows


def counters(temp):
    """What the first process wrote as its statistics, or None."""
    for path in sorted(pathlib.Path(temp).glob("stats.*json")):
        try:
            return json.loads(path.read_text())
        except (ValueError, OSError):
            return None
    return None


def loses(found, normal):
    """True if less was served than usual and no counter says why."""
    if not found or not normal or normal.get("served_bytes", 0) == 0:
        return False
    if found.get("served_bytes", 0) > normal["served_bytes"] * 3 // 4:
        return False
    causes = ("fallback_allocations", "recorder_full", "diverged", "released")
    more = any(found.get(name, 0) > normal.get(name, 0) for name in causes)
    reasons = found.get("fallback", {})
    return not more and not any(reasons[name] > normal.get("fallback", {}).get(name, 0) for name in reasons)


def group_stacks(leader):
    """The stacks of the processes of a group, if gdb is there."""
    text = ""
    if shutil.which("gdb") is None:
        return text
    listed = subprocess.run(["ps", "-o", "pid=", "-s", str(leader)], capture_output=True, text=True).stdout
    for pid in listed.split()[:4]:
        try:
            text += subprocess.run(["gdb", "-p", pid, "-batch", "-ex", "thread apply all bt 14"], capture_output=True,
                                   text=True, timeout=60, stdin=subprocess.DEVNULL).stdout[-3000:]
        except subprocess.TimeoutExpired:
            pass
    return text


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
        print("skipped: refuse.c is written for x86-64\n1 passed, 0 failed")
        return 0
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end_all)
    try:
        harness = Harness(arguments.build, arguments.seed, arguments.seconds, arguments.whole, arguments.only)
        print(f"refusals: seed {arguments.seed}, library {hashlib.sha1(harness.library.read_bytes()).hexdigest()[:12]}, "
              f"{len(harness.cases)} cases", flush=True)
        harness.record()
        harness.refuse()
    except code.Unknown as reason:
        print(f"failed: {reason}\n0 passed, 1 failed")
        return 1
    harness.summary(arguments.verbose)
    return 1 if harness.failures else 0


if __name__ == "__main__":
    sys.exit(main())
