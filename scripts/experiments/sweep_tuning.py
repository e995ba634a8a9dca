#!/usr/bin/env python3
"""Halves and doubles each threshold of src/base/tuning.def, and tells who notices.

A debug build (`make MODE=debug all build/debug/unit_tests`) takes the values from the environment. For each
value it runs the unit test that the row names, `memomalloc analyze` over the recorded traces, and `memomalloc
replay` of them under the library; an answer or a counter that differs from the one without a change has noticed.
Counters that differ between runs of the same are left out. Rows of kind FIXED cannot be set, and are not tried.
Prints a row for each value; exit code 1 where a row names a test that does not notice either value, or nobody
notices although the row does not say `nothing:`, 2 where there is no debug build.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/tables"))

import gen_tables  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACES = sorted((ROOT / "tests/golden/traces").glob("*.csv.gz"))
LIMIT = 300  # seconds; a threshold may make a test slow, which counts as noticed
REPEATS = 3  # of what is compared with
PLANNER = "best-fit"  # takes no time limit, and no search in the background follows it
NO_TEST = ("nothing: ", "measurement: ", "preload: ")


def rows():
    """(name, value, who is said to notice) of each row that can be set."""
    text = gen_tables.source_text("src/base/tuning.def")
    return [(row[1], gen_tables.integer(row[2]), row[5]) for row in gen_tables.rows(text, ("TUNING",))]


def run(command, tuning="", **variables):
    """The command's exit code and output with a setting such as kFit=16."""
    environment = {**os.environ, "MEMO_TUNE": tuning, **variables}
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, text=True, errors="replace", timeout=LIMIT,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout


def untimed(value):
    """A JSON value without what a clock has told."""
    if isinstance(value, dict):
        return {key: untimed(inner) for key, inner in value.items() if "seconds" not in key and key != "pid"}
    return [untimed(inner) for inner in value] if isinstance(value, list) else value


def analyzed(build, trace, tuning):
    code, text = run([build / "memomalloc", "analyze", trace, "--json", "--planner", PLANNER, "--plan-time", "60000"],
                     tuning)
    return {"analyze": untimed(json.loads(text)) if code == 0 else code}


def replayed(build, trace, tuning, folder):
    """The counters of a library that serves the trace."""
    stats = pathlib.Path(folder) / "stats.json"
    stats.unlink(missing_ok=True)
    code, _ = run([build / "memomalloc", "replay", trace, "--no-touch", "--iterations", "2"], tuning,
                  LD_PRELOAD=str(build / "libmemomalloc.so"), MEMOMALLOC_STATS_FILE=str(stats),
                  MEMOMALLOC_PLANNER=PLANNER, MEMOMALLOC_PLAN_TIME="60000")
    return untimed(json.loads(stats.read_text())) if code == 0 and stats.exists() else {"failed": code}


def answers(build, tuning, folder):
    """What the traces give, as {(trace, name): value}."""
    found = {}
    for trace in TRACES:
        name = trace.name.removesuffix(".csv.gz")
        for part in (analyzed(build, trace, tuning), replayed(build, trace, tuning, folder)):
            found.update({(name, key): value for key, value in part.items()})
    return found


def steady(several):
    """The answers that all of several runs agree on."""
    first, *others = several
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}


def changed(expected, found):
    """The names of what differs, by trace: `vit_b1 (analyze, plans)`."""
    traces = {}
    for trace, key in expected:
        if found.get((trace, key)) != expected[trace, key]:
            traces.setdefault(trace, []).append(key)
    return [f"{trace} ({', '.join(keys[:3])}{', ...' if len(keys) > 3 else ''})" for trace, keys in traces.items()]


def test_notices(build, test, tuning):
    """Whether the row's unit test fails with the setting; None where the row names none."""
    if test.startswith(NO_TEST):
        return None
    return run([build / "unit_tests", test.replace(",", "\\,")], tuning)[0] != 0


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/debug")
    parser.add_argument("--only", default="", help="rows whose name contains this text")
    arguments = parser.parse_args(argv)
    build = arguments.build.resolve()
    if not (build / "unit_tests").exists() or not (build / "libmemomalloc.so").exists():
        print(f"{build}: no debug build; make MODE=debug all build/debug/unit_tests", file=sys.stderr)
        return 2
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        expected = steady([answers(build, "", folder) for _ in range(REPEATS)])
        print(f"{len(TRACES)} traces, {len(expected)} answers that repeat")
        for name, value, test in (row for row in rows() if arguments.only in row[0]):
            by_test, by_trace = [], []
            for other in (value // 2, value * 2):
                if other in (0, value):
                    continue
                tuning = f"{name}={other}"
                by_test.append(test_notices(build, test, tuning))
                by_trace.append(changed(expected, answers(build, tuning, folder)))
                told = "the test, " if by_test[-1] else ""
                print(f"{tuning:32} {told}{'; '.join(by_trace[-1]) or 'no trace'}", flush=True)
            silent = not any(by_test) and not any(by_trace)
            if (silent and not test.startswith(NO_TEST)) or (by_test and False in by_test and not any(by_test)):
                wrong += 1
                print(f"{name:32} NOT NOTICED BY {test}", flush=True)
    print(f"{wrong} rows whose test does not notice")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
