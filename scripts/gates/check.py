#!/usr/bin/env python3
"""Runs every check of the project, one step after another, and counts the cases of each.

A step's output goes to build/check/STEP.log. Each step tells its counts and what failed at once; the ends of
the logs of those that failed come after the last step, then the reason of each skip, so that what shows only
the first lines shows every failure. A test of the command that fails once and passes in five runs more is named
as unsteady. A skip that tests/allowed_skips.txt does not name is a failure, but with
--no-install, where what is missing was not installed, and what needs a package that the system's archives lack. The last line is
`N passed, N failed, N skipped`. Exit code 0 if nothing failed, 1 otherwise, 2 for bad usage.
"""

import argparse
import fnmatch
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from ahead import Ahead

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOGS = ROOT / "build/check"
ALLOWED = ROOT / "tests/allowed_skips.txt"
# By scripts/install_deps.sh: packages that the system's archives do not have. What the name of one contains, and what the
# reason of each test that needs it does.
LEFT_OUT = ROOT / "build/left_out"
LACKING = (("clang", "clang"), ("cbc", "CBC"), ("mimalloc", "mimalloc"), ("testsuite", "CPython's tests"),
           ("chromium", "chromium"), ("onnx", "onnx"))
JOBS = f"-j{os.cpu_count() or 1}"
TAIL_LINES = 40


# Unit tests that a sanitizer cannot run, and why; each counts as skipped.
LOCKED_ALLOCATOR = "fork: a child that no handler tells of*", "the sanitizer's own allocator stays locked in it"
NO_MLOCK = "space: a program that locks its memory*", "the sanitizer makes mlock do nothing"
NOT_UNDER = {
    "asan": dict([LOCKED_ALLOCATOR, NO_MLOCK]),
    "tsan": dict([LOCKED_ALLOCATOR, (
        "fork mark: stays in a child that shares its parent's memory", "the thread sanitizer makes vfork a fork"), (
        "threads: a forked child lives on by itself*",
        "the thread sanitizer starts no thread in a threaded process's child")]),
}


# Programs of the objects that a sanitizer's compiler has made, without the sanitizer.
NOTING = {"asan": (), "tsan": ("build/tsan/shared_lines",)}


def left_out(sanitizer):
    """(the filter that leaves out what a sanitizer cannot run, a command that names and counts it)."""
    rows = NOT_UNDER.get(sanitizer, {})
    lines = [f"skipped: {test}: {reason}" for test, reason in rows.items()]
    lines.append(f"0 passed, 0 failed, {len(rows)} skipped")
    return "".join(f' ~"{test}"' for test in rows), ["printf", "%s\\n", *lines]


def unit_tests(build, but=""):
    """The unit tests of a build as two commands, of about the same length, that run at once; their random parts are new."""
    halves = f"[engine]{but},[schedule]{but}", f"~[engine] ~[schedule]{but}"
    return [[f"{build}/unit_tests", half, "--rng-seed", "time"] for half in halves]


def fixed_addresses(command):
    """The command with address randomisation off, where the kernel lets us.

    Kernels that randomise more address bits than the thread sanitizer's shadow map expects make it
    stop at the start.
    """
    try:
        probe = subprocess.run(["setarch", "-R", "true"], capture_output=True)
        return ["setarch", "-R", *command] if probe.returncode == 0 else command
    except OSError:
        return command


def steps():
    """(name, commands, most seconds) of each step, in order; commands in a tuple run at once.

    A step makes what it needs, so that it can run alone and on a clean tree; where that is there, make
    is quick.
    """
    python = sys.executable
    benches = [f"build/bench/{path.stem}" for path in sorted(ROOT.glob("bench/*.cc"))]
    build = ["make", JOBS, "all", "WERROR=1"]
    programs = ["make", JOBS, "programs", "WERROR=1"]
    units = ["make", JOBS, "build/unit_tests", "WERROR=1"]
    shared = str(LOGS / "cli.begun")
    table = [
        ("layers", [[python, "scripts/gates/check_layers.py"], [python, "scripts/gates/check_design.py"]], 60),
        ("build", [build, [python, "scripts/gates/check_names.py"]], 900),
        ("docs", [build, [python, "scripts/gates/check_documents.py"],
                  [python, "scripts/tables/gen_man.py", "--markdown", "build/check/commands.md"],
                  ["cmp", "build/check/commands.md", "docs/commands.md"]], 960),
        ("scripts", [build, [python, "tests/run_python.py", "tests/scripts"]], 1020),
        ("unit", [units, (*unit_tests("build"),)], 900),
        # Each small program runs in eight modes or more: together they meet a chance often enough. `make soak` has all.
        ("preload", [build, programs, [python, "tests/preload/run.py", "--build", "build", "--fewer", "3"]], 1500),
        ("refusal", [build, programs, [python, "tests/refusal/run.py", "--build", "build", "--seconds", "30"]], 600),
        ("cli", [build, programs, ["rm", "-rf", shared],
                 ([python, "tests/run_python.py", "tests/cli", "--again", "--share", shared],) * 3], 1500),
        ("torch", [build, [python, "scripts/gates/smoke_torch.py"]], 1500),
        ("stress", [["tests/stress/stress.sh", "none", "10", "4"]], 300),
        ("valgrind", [["tests/stress/valgrind.sh"]], 300),
        ("bench", [["make", JOBS, *benches, "build/bench/contended", "build/bench/small_blocks", "all", "WERROR=1"],
                   ["scripts/hardware/cores.sh", "--seconds", "120", "--threads", "1,2", "--processes", "2", "--contended", "2",
                    "--networks", "mobilenet_v2", "--size", "32", "--allocators", "glibc,memomalloc", "--turns", "1",
                    "build/check/cores"]], 720),
    ]
    # The address sanitizer's build has the undefined behaviour sanitizer in it; `make ubsan` has it alone.
    for sanitizer in ("asan", "tsan"):
        folder = f"build/{sanitizer}"
        but, naming = left_out(sanitizer)
        table.append((sanitizer, [["make", JOBS, f"MODE={sanitizer}", f"{folder}/unit_tests", *NOTING[sanitizer]], naming,
                                  tuple(fixed_addresses(half) for half in unit_tests(folder, but)),
                                  fixed_addresses(["tests/stress/stress.sh", sanitizer, "10", "4"]),
                                  *([program] for program in NOTING[sanitizer])],
                      900))
    table += [("lint", [["scripts/gates/lint.sh"]], 900), ("fuzz", [["tests/fuzz/run.sh", "4"]], 600)]
    # What needs the builds above, and a copy of them: a few rows; `make soak` takes all.
    table.append(("mutations", [units, build, programs, [python, "tests/mutations/run.py", "--turn", "3",
                                             "--seconds", "30"]], 900))
    return table


# What is done ahead, in this order, once the step AHEAD_FROM begins.
AHEAD_FROM = "preload"
AHEAD = {
    **{mode: ["make", JOBS, f"MODE={mode}", f"build/{mode}/unit_tests", f"build/{mode}/stress", *NOTING[mode]]
       for mode in ("asan", "tsan")},
    "lint": ["scripts/gates/lint.sh"],
    "fuzz": ["tests/fuzz/run.sh", "build"],
}


# How the test programs end, and what their numbers mean: (passed, failed, skipped).
COUNTS = (
    (re.compile(r"All tests passed \(.* in (\d+) test cases?\)"), lambda m: (int(m[1]), 0, 0)),
    (re.compile(r"test cases:\s*(\d+) \|(?:\s*(\d+) passed \|)?\s*(\d+) failed"),
     lambda m: (int(m[2] or 0), int(m[3]), 0)),
    (re.compile(r"^No tests ran$", re.MULTILINE), lambda m: (0, 1, 0)),
    (re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.MULTILINE),
     lambda m: (int(m[1]), int(m[2]), int(m[3] or 0))),
    (re.compile(r"^Ran (\d+) tests? .*\n\n(?:OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$", re.MULTILINE),
     lambda m: unittest_counts(int(m[1]), m[2] or "")),
)
CATCH2 = 3  # the first rows: Catch2 knows no skip, and calls such a test passed

# A test that cannot run says so in a line of its own: its name and the reason, or the reason alone.
# How the test programs name a case that failed: the project's own runners, unittest, Catch2, compilers and
# checkers, sanitizers.
FAILURES = re.compile(r"^(?:failed: .+|(?:FAIL|ERROR): .+|\S+:\d+: FAILED:|\S+:\d+:\d+: error: .+|SUMMARY: .+)$",
                      re.MULTILINE)
FAILURES_SHOWN = 10  # of a step
# A sanitizer's report says little in its last line: its stacks, each by its heading and its first frames in this tree.
REPORT = re.compile(r"^(?:WARNING: ThreadSanitizer|==\d+==ERROR: \w+Sanitizer).*?^SUMMARY: ", re.MULTILINE | re.DOTALL)
STACK = re.compile(r"^\s+((?:Read|Write|Atomic|Previous|READ|WRITE|freed by|previously|Direct leak).*):$")
FRAME = re.compile(r"^\s+#\d+ (?:0x[0-9a-f]+ in )?(.+?) \(?((?:\S*/)?(?:src|preload|planner|scheduler|tests)/\S+:\d+)")
FRAMES_SHOWN = 3  # of a stack
WIDTH_SHOWN = 240  # characters of a line
# A test that unittest names, with its words, and its traceback, and the line of that which says why.
BLOCK = re.compile(r"^((?:FAIL|ERROR): [^\n]+)\n(?:[^-\n][^\n]*\n)?-{70}\n(.*?)(?=^[=-]{70}$)", re.MULTILINE | re.DOTALL)
WHY = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Expired)\b.*", re.MULTILINE)
UNSTEADY = re.compile(r"^unsteady: .+$", re.MULTILINE)
SKIPPED = re.compile(r"^[ \t]*skipped: (.+)$", re.MULTILINE)  # indented in a warning of Catch2


def unittest_counts(ran, summary):
    """(passed, failed, skipped) of unittest's last lines; unexpected successes are failures."""
    numbers = {name: int(number) for name, number in re.findall(r"([a-z ]+)=(\d+)", summary)}
    numbers = {name.strip(): number for name, number in numbers.items()}
    failed = sum(numbers.get(name, 0) for name in ("failures", "errors", "unexpected successes"))
    skipped = numbers.get("skipped", 0)
    return max(ran - failed - skipped, 0), failed, skipped


def count(log, succeeded):
    """(passed, failed, reasons of the skipped) that a step's log tells.

    A skip that is counted somewhere but has no line with its reason is a failure. A step that counts no
    cases is one, which is skipped where the log says so; one that counts them, and comes to none, is a failure.
    """
    reasons = list(dict.fromkeys(SKIPPED.findall(log)))
    found = [(row, read(match)) for row, (pattern, read) in enumerate(COUNTS) for match in pattern.finditer(log)]
    passed, failed, counted = (sum(numbers[i] for _, numbers in found) for i in range(3))
    failed += max(counted - len(reasons), 0)
    if any(row < CATCH2 for row, _ in found):
        passed -= min(max(len(reasons) - counted, 0), passed)
    if not succeeded:
        failed = max(failed, 1)
    elif not found and not reasons:
        passed = 1
    elif not passed and not reasons:
        failed = max(failed, 1)
    return passed, failed, reasons


def read_allowed(path=ALLOWED):
    """(step, pattern, why) of each skip that is allowed on a machine that has everything installed."""
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split(" | ")]
        if len(cells) != 3 or not all(cells):
            raise SystemExit(f"{path.name}:{number}: step | pattern | why")
        rows.append(tuple(cells))
    return rows


def rows_of_left_out(packages):
    """Rows as read_allowed()'s for what these packages' tests say."""
    return [("*", f"*{word}*", package) for package in packages for part, word in LACKING if part in package]


def why_allowed(step, reason, rows):
    """Why a step may skip this, or None. Patterns are a shell's, but for [ and ], which stand for themselves."""
    return next((why for where, pattern, why in rows if fnmatch.fnmatchcase(step, where) and
                 fnmatch.fnmatchcase(reason, pattern.replace("[", "[[]"))), None)


def wait_with_clock(process, seconds):
    """Waits for its end, TimeoutExpired after so many seconds; a terminal is shown the step's name and its clock."""
    while seconds > 0 and sys.stderr.isatty():
        try:
            process.wait(timeout=min(1, seconds))
            return
        except subprocess.TimeoutExpired:
            seconds -= 1
            CLOCK.show()
    process.wait(timeout=max(seconds, 0))


class Clock:
    """A line on the terminal: which step has been running for how long."""

    def start(self, name):
        self.name, self.began = name, time.monotonic()

    def show(self):
        print(f"\r\033[K  {self.name}: {time.monotonic() - self.began:.0f} s", end="", file=sys.stderr, flush=True)

    def clear(self):
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)


CLOCK = Clock()


def perform(commands, log, limit):
    """Runs commands at once; whether all succeeded. What the first prints goes into `log`, the rest follows."""
    log.writelines(f"$ {' '.join(command)}\n" for command in commands)
    log.flush()
    began, running, problems = time.monotonic(), [], []
    outputs = [log, *(tempfile.TemporaryFile("w+", errors="replace") for _ in commands[1:])]
    try:
        for command, output in zip(commands, outputs):
            running.append(subprocess.Popen(command, cwd=ROOT, stdout=output,
                                            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL))
        for process in running:
            wait_with_clock(process, max(limit - (time.monotonic() - began), 1))
    except (OSError, subprocess.TimeoutExpired) as error:
        problems.append(str(error))
    for process in running:
        process.kill()  # after the time limit; those that have ended do not mind
        if process.wait() != 0:
            problems.append(f"exit code {process.returncode}")
    for output in outputs[1:]:
        output.seek(0)
        log.write(output.read())
        output.close()
    log.writelines(f"{problem}\n" for problem in problems)
    return not problems


def processor_seconds():
    """What all processes that were waited for have used so far."""
    used = os.times()
    return used.children_user + used.children_system


def first_failures(log):
    """The first lines of a step's log that name what failed, and why, each cut to a width that can be read."""
    why = {name: [f"  {line}" for line in WHY.findall(text)[-1:]] for name, text in BLOCK.findall(log)}
    found = dict.fromkeys(line[:WIDTH_SHOWN] for name in FAILURES.findall(log) for line in [name, *why.get(name, ())])
    more = [f"and {len(found) - FAILURES_SHOWN} more"] if len(found) > FAILURES_SHOWN else []
    return [*list(found)[:FAILURES_SHOWN], *more, *sanitizer_stacks(log)]


def sanitizer_stacks(log):
    """The stacks of a log's first sanitizer report: headings, and the first frames of each in this tree."""
    report, shown, left = REPORT.search(log), [], 0
    for line in report[0].splitlines() if report else ():
        if heading := STACK.match(line):
            shown.append(heading[1][:WIDTH_SHOWN])
            left = FRAMES_SHOWN
        elif not line.strip():
            left = 0
        elif left and (frame := FRAME.match(line)):
            shown.append(f"  {frame[2]} {frame[1]}"[:WIDTH_SHOWN])
            left -= 1
    return shown[:2 * FAILURES_SHOWN]


def run_step(name, commands, limit, allowed):
    """Runs a step's commands up to the first that fails; returns ((passed, failed, skipped), what to show later).

    `allowed`: what may be skipped, or None for everything.
    """
    path = LOGS / f"{name}.log"
    CLOCK.start(name)
    began, used_before, succeeded = time.monotonic(), processor_seconds(), True
    with path.open("w", encoding="utf-8") as log:
        for stage in commands:
            at_once = stage if isinstance(stage, tuple) else (stage,)
            succeeded = perform(at_once, log, limit - (time.monotonic() - began))
            if not succeeded:
                break
    text = path.read_text(encoding="utf-8", errors="replace")
    passed, failed, reasons = count(text, succeeded)
    refused = [] if allowed is None else [one for one in reasons if why_allowed(name, one, allowed) is None]
    verdict = "FAILED" if failed or refused else "ok"
    CLOCK.clear()
    print(f"{verdict:7}{name:10}{passed:6} passed {failed + len(refused):4} failed "
          f"{len(reasons) - len(refused):4} skipped{time.monotonic() - began:8.1f} s, "
          f"{processor_seconds() - used_before:.0f} s of processor")
    for line in [*(first_failures(text) if failed else ()), *(line[:WIDTH_SHOWN] for line in UNSTEADY.findall(text)), *(f"not allowed, skipped: {one}" for one in refused)]:
        print(f"       {line}")
    sys.stdout.flush()
    end = [f"--- end of {path.relative_to(ROOT)}", *text.splitlines()[-TAIL_LINES:], "---"] if failed else []
    skips = [f"       skipped: {name}: {one}" for one in reasons if one not in refused]
    return (passed, failed + len(refused), len(skips)), end, skips


def main(argv=None):
    table = steps()
    names = [name for name, _, _ in table]
    parser = argparse.ArgumentParser(prog="check.sh", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-install", action="store_true", help="nothing was installed: any skip is allowed")
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"all, or some of: {' '.join(names)}")
    arguments = parser.parse_args(argv)
    wanted = arguments.steps
    unknown = [name for name in wanted if name not in names]
    if unknown:
        parser.error(f"no step {unknown[0]!r}; there are {' '.join(names)}")
    allowed = None if arguments.no_install else read_allowed()
    if LEFT_OUT.exists() and allowed is not None:
        packages = LEFT_OUT.read_text().split()
        print(f"This system's archives lack {' '.join(packages)}: what needs them may be skipped.")
        allowed += rows_of_left_out(packages)
    LOGS.mkdir(parents=True, exist_ok=True)
    for sanitizer in ("ASAN", "UBSAN", "TSAN"):  # names in reports without a symbolizer of LLVM's
        os.environ.setdefault(f"{sanitizer}_OPTIONS", "allow_addr2line=1")
    todo = [row for row in table if row[1] and (not wanted or row[0] in wanted)]
    done = []
    names = [name for name, _, _ in todo]
    with Ahead({step: AHEAD[step] for step in AHEAD if step in names}, ROOT) as ahead:
        for name, commands, limit in todo:
            if name == AHEAD_FROM:
                ahead.start()
            ahead.before(name)
            done.append(run_step(name, commands, limit, allowed))
    for later in (1, 2):
        for step in done:
            print("".join(f"{line}\n" for line in step[later]), end="")
    sums = [sum(step[0][i] for step in done) for i in range(3)]
    print("{} passed, {} failed, {} skipped".format(*sums))
    return 1 if sums[1] else 0


if __name__ == "__main__":
    sys.exit(main())
