#!/usr/bin/env python3
"""Plans published problems by a `memomalloc` command and holds each plan to its problem, pair by pair.

minimalloc's A to K must fit into the capacity that they were made for. Ends with `N passed, N failed`.
"""

import argparse
import csv
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAPACITY = 1048576
SECONDS = "60"  # for an emulated processor; a real one takes half of one


def fault(problem, plan):
    """What is wrong with a plan of (lower, upper, size, offset) rows by id, or None."""
    if problem.keys() != plan.keys():
        return "the plan has other buffers"
    placed = []
    for name, (lower, upper, size) in problem.items():
        if plan[name][:3] != (lower, upper, size):
            return f"buffer {name} is another one in the plan"
        placed.append((lower, upper, plan[name][3], plan[name][3] + size, name))
    placed.sort()
    for index, (_, upper, start, end, name) in enumerate(placed):
        if start < 0 or end > CAPACITY:
            return f"buffer {name} lies outside of the capacity"
        for other in placed[index + 1:]:
            if other[0] >= upper:
                break
            if start < other[3] and other[2] < end:
                return f"buffers {name} and {other[4]} overlap"
    return None


def rows(text, columns):
    return {row["id"]: tuple(int(row[column]) for column in columns) for row in csv.DictReader(text.splitlines())}


def run(command, path):
    """What is wrong with the command's plan for a file, or None."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder, "plan.csv")
        done = subprocess.run([*command, "plan", str(path), "--capacity", str(CAPACITY), "--seconds", SECONDS,
                               "--output", str(output)], capture_output=True, text=True)
        if done.returncode != 0:
            return f"exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}"
        columns = ("lower", "upper", "size")
        return fault(rows(path.read_text(), columns), rows(output.read_text(), (*columns, "offset")))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--emulator", default="", metavar="COMMAND", help="what runs another processor's command")
    parser.add_argument("command", metavar="MEMOMALLOC")
    arguments = parser.parse_args(argv)
    problems = sorted((ROOT / "tests/golden/instances/minimalloc").glob("*.csv"))
    told = {path.name: run([*arguments.emulator.split(), arguments.command], path) for path in problems}
    for name, wrong in told.items():
        if wrong:
            print(f"FAILED {name}: {wrong}")
    failed = sum(wrong is not None for wrong in told.values())
    print(f"{len(told) - failed} passed, {failed} failed")
    return 1 if failed or not told else 0


if __name__ == "__main__":
    sys.exit(main())
