#!/usr/bin/env python3
"""Shows that the tests can fail: breaks a copy of the tree, one function at a time, and runs the test that must notice.

rows.py has the breaks, breaking.py finds the functions. A row passes when its test does on the whole copy and fails on the
broken one; a row that no function fits any more fails, and is told with what was found. --turn takes so many rows, those
after the commit before's, so that all have their turn; where git has not all commits, it takes them by chance, and prints
the seed. Rows that --seconds leaves no time for are named and not counted; those whose test skips here are told with its
reason. Ends with `N passed, N failed, N skipped`; exit code 1 if any failed."""

import argparse
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

import breaking
from rows import PRELOAD, ROWS, SCRIPT, UNIT

ROOT = pathlib.Path(__file__).resolve().parents[2]


def copy_tree(target):
    """The sources as they are here, and what was built from them, with their times: little is built again."""
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                           check=True, capture_output=True, text=True).stdout.splitlines()
    for name in names:
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    for name in ("release", "libmemomalloc.so", "memomalloc", "programs", "pages.so", "unit_tests"):
        source = ROOT / "build" / name
        if source.is_dir():
            shutil.copytree(source, target / "build" / name)
        elif source.exists():
            (target / "build").mkdir(exist_ok=True)
            shutil.copy2(source, target / "build" / name)


GOALS = {UNIT: ["build/unit_tests"], PRELOAD: ["lib", "programs"], SCRIPT: ["cli", "lib"]}
NOTHING_RAN = re.compile(r"No test cases matched|preload checks: 0|^Ran 0 tests", re.MULTILINE)


def command_of(kind, test):
    """The command that runs a row's test in the root of a tree."""
    if kind == UNIT:
        return ["build/unit_tests", test.replace(",", "\\,")]
    if kind == PRELOAD:
        return [sys.executable, "tests/preload/run.py", "--build", "build", "--only", test]
    file, _, name = test.partition(" ")
    folder = "tests/cli" if (ROOT / "tests/cli" / file).exists() else "tests/scripts"
    return [sys.executable, "tests/run_python.py", folder, "-p", file, *(["-k", name] if name else [])]


class Skips(Exception):
    """The test of a row does not run on this machine, and why."""


def passes(tree, kind, test):
    """True if the test passes in the tree; raises LookupError if the tree cannot be built, and Skips where the
    test skips, which has not passed: it would be taken for one that notices nothing."""
    built = subprocess.run(["make", "-s", f"-j{os.cpu_count()}", *GOALS[kind]], cwd=tree, capture_output=True, text=True)
    if built.returncode:
        raise LookupError(f"it does not compile:\n{built.stderr[:2000]}")
    done = subprocess.run(command_of(kind, test), cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=600, errors="replace")
    if NOTHING_RAN.search(done.stdout):
        raise LookupError(f"there is no test {test!r}")
    skipped = re.search(r"^skipped: (.*)", done.stdout, re.MULTILINE)
    if skipped:
        raise Skips(skipped[1])
    return done.returncode == 0


def judge(tree, sources, row):
    """What is wrong with a row, or an empty string."""
    _, function, kind_of_break, text, kind, test = row
    name, mutated = breaking.broken(sources, function, kind_of_break, text)
    if not passes(tree, kind, test):
        return "the test fails without the mutation"
    path = tree / name
    path.write_text(mutated, encoding="utf-8")
    try:
        return "the test does not notice" if passes(tree, kind, test) else ""
    finally:
        path.write_text(sources.texts[name], encoding="utf-8")


def chosen(arguments):
    """The rows to try, in order: those named, or some of them."""
    rows = [row for row in ROWS if arguments.only in row[0]]
    if arguments.turn is None:
        return rows
    commits = commit_count()
    if commits is None:
        print(f"seed {arguments.seed}", flush=True)
        return random.Random(arguments.seed).sample(rows, min(arguments.turn, len(rows)))
    return in_turn(rows, arguments.turn, commits)


def in_turn(rows, count, commits):
    """So many rows, beginning where those of the commit before ended."""
    return [rows[(commits * count + i) % len(rows)] for i in range(min(count, len(rows)))]


def commit_count():
    """How many commits there are up to this one, or None where some of them were not fetched."""
    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    return None if git("rev-parse", "--is-shallow-repository") == "true" else int(git("rev-list", "--count", "HEAD"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose name contains this text")
    parser.add_argument("--turn", type=int, metavar="COUNT", help="so many of them, others for the next commit")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 2**31), help="of the chance")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no row later than this, but the first")
    arguments = parser.parse_args()
    began, passed, failed, skipped = time.monotonic(), 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        copy_tree(tree)
        sources = breaking.Tree(tree)
        for row in chosen(arguments):
            if passed + failed + skipped and time.monotonic() - began > arguments.seconds:
                print(f"no time {row[0]}", flush=True)
                continue
            try:
                wrong = judge(tree, sources, row)
            except Skips as reason:
                skipped += 1
                print(f"skipped: {row[0]}: {reason}", flush=True)
                continue
            except (subprocess.SubprocessError, LookupError) as error:
                wrong = str(error)
            failed, passed = failed + bool(wrong), passed + (not wrong)
            print(f"{'FAILED' if wrong else 'noticed':8}{row[0]} ({row[-1]}) {wrong}", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed + skipped else 0


if __name__ == "__main__":
    sys.exit(main())
