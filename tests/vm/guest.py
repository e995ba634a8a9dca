"""Runs in a guest of `make vm`: each conformance program with and without the library, in the cell's control
group. Prints what the guest is, a line for each program, and last `N passed, N failed, N skipped`."""

import dataclasses
import glob
import json
import os
import pathlib
import re
import sys
import time

import common

HERE = pathlib.Path(__file__).resolve().parent
SEED = 12345

ARGUMENTS = {"random_programs": [SEED]}
# An emulated processor is so many times slower than a real one, about. Programs that repeat for a chance's sake do it
# less often, and wait longer before they end themselves: slower() in tests/preload/programs/support.h.
SLOWER = 16
MODE = common.Mode("default")
# These ask for more from slabs than half of a small group's limit, which is what the library allows itself.
WHOLE_SLABS = ("page_calls", "sparse", "tall_plan")
SLAB_LIMIT = {"MEMOMALLOC_SLAB_LIMIT": "2G"}
NOT_CONFINED = 99  # of confined.sh, where it cannot bring the program into the group
NOT_HERE = 77  # the exit code of a program that says what its kernel lacks for it; tests/preload/run.py has it, too


def read(path, otherwise=""):
    try:
        return pathlib.Path(path).read_text().strip()
    except OSError:
        return otherwise


def chosen_word(text):
    """That of a kernel's list which stands in brackets; "" if there is none."""
    return text[text.find("[") + 1:text.find("]")]


def facts():
    """What the kernel says of itself; the host compares it with what the cell asks for."""
    limit = read("/group/limited/memory.max") or read("/group/limited/memory.limit_in_bytes")
    return {
        "release": os.uname().release,
        "processor": os.uname().machine,
        "pages": os.sysconf("SC_PAGESIZE") >> 10,
        "thp": chosen_word(read("/sys/kernel/mm/transparent_hugepage/enabled")),
        "64 KiB": chosen_word(read("/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled")),
        "overcommit": int(read("/proc/sys/vm/overcommit_memory")),
        "nodes": len(glob.glob("/sys/devices/system/node/node[0-9]*")),
        "memory": int(read("/proc/meminfo").split()[1]) >> 10,
        "cgroup": "none" if not limit else "v2" if os.path.exists("/group/cgroup.controllers") else "v1",
        "limit": int(limit) >> 20 if limit else 0,
    }


@dataclasses.dataclass
class Told:
    """What a cell's command line asks for."""
    programs: list  # texts, as chosen() takes them
    variables: dict  # for the programs' environment
    expected: bool  # results without the library are the building machine's
    times: int  # that each program runs


def told(command_line):
    words = [word.split("=", 1) for word in command_line.split() if word.startswith("memo.")]
    named = dict(words)
    variables = dict(value.split("=", 1) for name, value in words if name == "memo.set")
    variables["SLOWER"] = named.get("memo.slower", "1")
    return Told([text for text in named.get("memo.only", "").split(",") if text], variables,
                named.get("memo.expected") == "1", int(named.get("memo.times", "1")))


def chosen(name, texts):
    """True if the program is one of those whose name contains one of the texts; without any, each is."""
    return not texts or any(text in name for text in texts)


def commands():
    """(name, command) of everything that is run."""
    for path in sorted((HERE / "programs").iterdir()):
        yield path.name, [path] + ARGUMENTS.get(path.name, [])
    yield "numpy_loop", [sys.executable, HERE / "numpy_loop.py"]


def told_to_skip(result):
    """What a program says of a part of it that could not run, or ""."""
    found = re.search(rb"^skipped: (.+)$", result.out, re.MULTILINE)
    return found[1].decode(errors="replace") if found else ""


def verdict(context, name, command, expected, limit, variables):
    """(verdict, detail). `expected`: results without the library on the machine that built it; only where ours
    differs from it, the guest's own is asked for. `variables`: for the environment."""
    extra = (SLAB_LIMIT if name in WHOLE_SLABS and os.path.isdir("/group/limited") else {}) | variables

    def run(mode):
        return context.run([HERE / "confined.sh"] + command, mode, timeout=limit, extra=extra)

    ours = run(MODE)
    if name in expected and (ours.code, ours.out.decode(), ours.err.decode()) == tuple(expected[name]):
        return "passed", ""
    alone = run(common.SYSTEM)
    said = told_to_skip(alone)
    if NOT_CONFINED in (ours.code, alone.code):
        return "failed", f"is not in the cell's control group: {alone}"
    if alone.code == NOT_HERE:
        return "skipped", said or "says that it cannot run here"
    if alone.code != 0:
        if ours.code < 0 and ours.code != alone.code:  # whatever the guest lacks, the library ends no program
            return "failed", f"{ours}\n  without the library: {alone}"
        same = "so" if (ours.code, ours.out, ours.err) == (alone.code, alone.out, alone.err) else "otherwise"
        return "skipped", f"fails without the library: {alone}\n  and {same} with it: {ours}"
    try:
        common.expect_same(ours, alone, "the run without the library")
    except AssertionError as difference:
        return "failed", str(difference)
    return ("skipped", said) if said else ("passed", "")


def main():
    settings = json.loads((HERE / "settings.json").read_text())
    print("guest:", json.dumps(facts()), flush=True)
    context = common.Context(HERE)
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    words = told(read("/proc/cmdline"))
    expected = settings["expected"] if words.expected else {}
    for name, command in [each for each in commands() if chosen(each[0], words.programs) for _ in range(words.times)]:
        started = time.monotonic()
        result, detail = verdict(context, name, command, expected, settings["limit"], words.variables)
        counts[result] += 1
        print(f"{result}: {name} ({time.monotonic() - started:.1f} s) {json.dumps(detail)}", flush=True)
    if counts["failed"]:
        os.system("busybox dmesg | busybox tail -n 40")
    print(", ".join(f"{count} {result}" for result, count in counts.items()), flush=True)


if __name__ == "__main__":
    main()
