"""Runs a program under the library with some of its system calls refused, and says what became of it."""

import dataclasses
import itertools
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "preload"))

import common  # noqa: E402
import hang  # noqa: E402
from cases import LOOPS, MAY_SAY, VARIANTS  # noqa: E402

TABLE_BYTES = 1024 * 32  # struct table of refuse.c
ROW = struct.Struct("<4Q")
HANGS = 120  # seconds, of programs that end within seconds on a machine that has little else to do
RUNNING = set()  # leaders of the process groups that live

# A line of ours; a forked child says which process it is.
OURS = re.compile(rb"memomalloc(\[\d+\])?: ")


@dataclasses.dataclass
class Seen:
    """A row of the table that a run leaves."""

    most: int
    refused: int


@dataclasses.dataclass
class Outcome:
    result: common.Result
    seen: dict  # (function, offset): Seen
    counters: dict | None  # the statistics, where they were asked for
    stacks: str  # of what hung


class Runner:
    """The programs of a build, under the library or without it. `names`: the functions that refuse.c turns."""

    def __init__(self, build, names):
        self.context = common.Context(build)
        self.names = names
        self.lock = threading.Lock()
        self.references = {}
        self.learned = {}  # plans of the loops: {name: bytes}

    def command(self, case):
        return [str(self.context.programs / case.words[0]), *case.words[1:]]

    def reference(self, case, around=()):
        around = around or case.around
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
        around = around or case.around
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
            stacks = session_stacks(process.pid)
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
        chain = f"{self.context.library}:{self.context.build / 'refuse.so'}"
        extra = {"LD_PRELOAD": chain, "REFUSE_NAMES": ":".join(self.names), "REFUSE_TABLE": f"{temp}/table"}
        if rules:
            extra["REFUSE"] = ",".join(str(rule) for rule in rules)
        return mode, extra

    def run(self, case, rules=(), around=()):
        with tempfile.TemporaryDirectory(prefix="refusal.") as temp:
            with open(f"{temp}/table", "wb") as table:
                table.truncate(TABLE_BYTES)
            if case.variant == "plans" and self.learned:
                pathlib.Path(temp, "learned").mkdir()
                for name, text in self.learned.items():
                    pathlib.Path(temp, "learned", name).write_bytes(text)
            result, stacks = self.start(case, *self.environment(case, temp, rules), temp, around)
            if case.variant == "files" and not rules and not around and case.words == LOOPS:
                self.learned = {path.name: path.read_bytes() for path in pathlib.Path(temp, "plans").iterdir()}
            return Outcome(result, read_table(f"{temp}/table", self.names), counters(temp), stacks)

    def same(self, case, result, around=()):
        reference = self.reference(case, around)
        err = result.err
        if case.variant in MAY_SAY:
            err = b"".join(line for line in err.splitlines(True) if not OURS.match(line))
        if case.variant == "spoken":  # a message may be cut
            err = reference.err
        return (result.code, result.out, err) == (reference.code, reference.out, reference.err)

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
                    ["gdb", "-q", "-batch", "-ex", "set startup-with-shell off", "-ex",
                     f"set environment LD_PRELOAD {chain}", "-ex", "handle SIGXFSZ SIGPIPE stop", "-ex", "run", "-ex",
                     "bt 10", "--args", *self.command(job.case)], env=variables, capture_output=True, text=True,
                    timeout=HANGS, cwd=temp, stdin=subprocess.DEVNULL,
                    preexec_fn=lambda: prepare(job.around or job.case.around)).stdout
            except subprocess.TimeoutExpired:
                return ""
        return "".join(f"  {line[:150]}\n" for line in text.splitlines() if line.startswith("#"))


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


def session_stacks(leader):
    """The stacks of the processes of a session, if gdb is there."""
    text = ""
    if shutil.which("gdb") is None:
        return text
    for process in itertools.islice(hang.in_session(leader), 4):
        try:
            text += subprocess.run(["gdb", "-p", process.name, "-batch", "-ex", "thread apply all bt 14"], capture_output=True,
                                   text=True, timeout=60, stdin=subprocess.DEVNULL).stdout[-3000:]
        except subprocess.TimeoutExpired:
            pass
    return text
