#!/usr/bin/env python3
"""Runs every check of the project, one step after another, and counts the cases of each.

A step's output goes to build/check/STEP.log; of a step that fails the end is shown. The last line
is `N passed, N failed`. Exit code 0 if nothing failed, 1 otherwise, 2 for bad usage.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOGS = ROOT / "build/check"
JOBS = f"-j{os.cpu_count() or 1}"
TAIL_LINES = 40


LEAKS = "LSAN_OPTIONS=suppressions=tests/stress/lsan.supp:print_suppressions=0"


# Unit tests that a sanitizer cannot run: the thread sanitizer takes address space of its own, and
# does not follow threads that a forked child of a threaded process starts.
NOT_UNDER = {"tsan": ' ~"os: the limit on address space is seen"'
                     ' ~"threads: a forked child lives on by itself*"'}


def unit_tests(build, but=""):
    """The unit tests of a build as two commands, of about the same length, that run at once."""
    halves = f"[engine]{but},[schedule]{but}", f"~[engine] ~[schedule]{but}"
    return [["env", LEAKS, f"{build}/unit_tests", half] for half in halves]


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
    """(name, commands, most seconds) of each step, in order; commands in a tuple run at once."""
    python = sys.executable
    benches = [f"build/bench/{path.stem}" for path in sorted(ROOT.glob("bench/*.cc"))]
    table = [
        ("layers", [[python, "scripts/check_layers.py"]], 60),
        ("scripts", [[python, "-m", "unittest", "discover", "-s", "tests/scripts"]], 120),
        ("build", [["make", JOBS, "all", "WERROR=1"]], 900),
        ("docs", [[python, "scripts/gen_man.py", "--markdown", "build/check/commands.md"],
                  ["cmp", "build/check/commands.md", "docs/commands.md"]], 60),
        ("unit", [["make", JOBS, "build/unit_tests", "WERROR=1"], (*unit_tests("build"),)], 900),
        ("preload", [["make", JOBS, "programs", "WERROR=1"],
                     [python, "tests/preload/run.py", "--build", "build"]], 600),
        ("refusal", [[python, "tests/refusal/run.py", "--build", "build", "--seconds", "40"]], 600),
        ("cli", [[python, "-m", "unittest", "discover", "-s", "tests/cli"]], 600),
        ("torch", [[python, "scripts/smoke_torch.py"]], 600),
        ("stress", [["tests/stress/stress.sh", "none", "10", "4"]], 300),
        ("valgrind", [["tests/stress/valgrind.sh"]], 300),
        ("fuzz", [["tests/fuzz/run.sh", "4"]], 600),
        ("lint", [["scripts/lint.sh"]], 900),
        ("bench", [["make", JOBS, *benches, "WERROR=1"]] if benches else [], 600),
    ]
    # The address sanitizer's build has the undefined behaviour sanitizer in it; `make ubsan` has it alone.
    for sanitizer in ("asan", "tsan"):
        build = f"build/{sanitizer}"
        tests = unit_tests(build, NOT_UNDER.get(sanitizer, ""))
        table.append((sanitizer, [["make", JOBS, f"MODE={sanitizer}", f"{build}/unit_tests"],
                                  tuple(fixed_addresses(half) for half in tests),
                                  fixed_addresses(["tests/stress/stress.sh", sanitizer, "10", "4"])],
                      900))
    return table


COUNTS = (  # how the test programs end, and what their numbers mean
    (re.compile(r"All tests passed \(.* in (\d+) test cases?\)"), lambda m: (int(m[1]), 0)),
    (re.compile(r"test cases:\s*(\d+) \|(?:\s*(\d+) passed \|)?\s*(\d+) failed"),
     lambda m: (int(m[2] or 0), int(m[3]))),
    (re.compile(r"^(\d+) passed, (\d+) failed", re.MULTILINE), lambda m: (int(m[1]), int(m[2]))),
    (re.compile(r"^Ran (\d+) tests? .*\n\nOK", re.MULTILINE), lambda m: (int(m[1]), 0)),
    (re.compile(r"^Ran (\d+) tests? .*\n\nFAILED \((.*)\)", re.MULTILINE),
     lambda m: unittest_counts(int(m[1]), m[2])),
)


def unittest_counts(ran, summary):
    failed = sum(int(number) for number in re.findall(r"(?:failures|errors)=(\d+)", summary))
    return ran - failed, failed


def count(log, succeeded):
    """(passed, failed) that a step's log tells; a step without cases counts as one."""
    found = [read(match) for pattern, read in COUNTS for match in pattern.finditer(log)]
    passed, failed = sum(pair[0] for pair in found), sum(pair[1] for pair in found)
    if succeeded and failed == 0:
        return max(passed, 1), 0
    return passed, max(failed, 1)


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
            process.wait(timeout=max(limit - (time.monotonic() - began), 1))
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


def run_step(name, commands, limit):
    """Runs a step's commands up to the first that fails; returns (passed, failed)."""
    path = LOGS / f"{name}.log"
    began, succeeded = time.monotonic(), True
    with path.open("w", encoding="utf-8") as log:
        for stage in commands:
            at_once = stage if isinstance(stage, tuple) else (stage,)
            succeeded = perform(at_once, log, limit - (time.monotonic() - began))
            if not succeeded:
                break
    text = path.read_text(encoding="utf-8", errors="replace")
    passed, failed = count(text, succeeded)
    verdict = "FAILED" if failed else "ok"
    print(f"{verdict:7}{name:10}{passed:6} passed {failed:4} failed"
          f"{time.monotonic() - began:8.1f} s", flush=True)
    for line in text.splitlines():
        if line.startswith("skipped:"):
            print(f"       {line}")
    if failed:
        print(f"--- end of {path.relative_to(ROOT)}")
        print("\n".join(text.splitlines()[-TAIL_LINES:]))
        print("---", flush=True)
    return passed, failed


def main(argv=None):
    table = steps()
    names = [name for name, _, _ in table]
    parser = argparse.ArgumentParser(prog="check.sh", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"all, or some of: {' '.join(names)}")
    wanted = parser.parse_args(argv).steps
    unknown = [name for name in wanted if name not in names]
    if unknown:
        parser.error(f"no step {unknown[0]!r}; there are {' '.join(names)}")
    LOGS.mkdir(parents=True, exist_ok=True)
    passed = failed = 0
    for name, commands, limit in table:
        if (wanted and name not in wanted) or not commands:
            continue
        step_passed, step_failed = run_step(name, commands, limit)
        passed, failed = passed + step_passed, failed + step_failed
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
