#!/usr/bin/env python3
"""The thesis' comparison of planning strategies: height over the lower bound, and seconds, for each.

Takes recorded traces (those of tests/golden/traces with a period, unless others are named), lets
`memomalloc analyze` find each one's period, plans it by every planner, prints a table, and writes
strategies.csv and a heap map (SVG) of the default planner and of first fit for each trace to --output.
Exit code 1 if the default planner's height is more than 0.5 % above the bound. With --instances the
problems are twelve published ones, of which some cannot come near the bound.
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys

import results as kept
from results import ROOT

DEFAULT = "portfolio"
DRAWN = (DEFAULT, "first-fit")
CLOSE = 1.005
INSTANCES = [ROOT / f"tests/golden/instances/{name}.csv" for name in (
    *(f"minimalloc/{name}.1048576" for name in "ADGJK"),
    *(f"pisarchyk_lee/{name}" for name in ("deeplab_v3", "inception_v3", "mobilenet_v2", "posenet")),
    "iopddl/G_1", "somas/resnet50", "iopddl/S_1")]


def command(*words):
    process = subprocess.run([str(ROOT / "build/memomalloc"), *map(str, words)], capture_output=True, text=True)
    return process.stdout if process.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=pathlib.Path)
    parser.add_argument("--instances", action="store_true", help="plan published problems instead of traces")
    parser.add_argument("--seconds", type=float, default=1, help="most time for each planner (%(default)s)")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build/strategies", metavar="FOLDER")
    parser.add_argument("--write", action="store_true", help="keep the table in results/")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    columns = {}  # by trace or instance: its rows by planner
    for path in INSTANCES if arguments.instances else arguments.traces or sorted((ROOT / "tests/golden/traces").glob("*.csv.gz")):
        name, problem = path.name.split(".")[0], path
        if not arguments.instances:
            problem = arguments.output / f"{name}.problem.csv"
            problem.unlink(missing_ok=True)
            command("analyze", path, "--problem", problem)
        rows = problem.exists() and command("plan", problem, "--compare", "--json", "--seconds", arguments.seconds)
        if not rows:
            print(f"{name}: no period, left out", file=sys.stderr)
            continue
        columns[name] = {row["planner"]: row for row in json.loads(rows)}
        for planner in DRAWN:
            command("plan", problem, "--planner", planner, "--svg", arguments.output / f"{name}.{planner}.svg")
    if not columns:
        parser.error("no trace has a period; is build/memomalloc built?")
    planners = list(next(iter(columns.values())))
    with open(arguments.output / "strategies.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["trace", "buffers", "planner", "lower_bound", "height", "ratio", "seconds"])
        for name, rows in columns.items():
            for planner, row in rows.items():
                ratio = row["height"] / row["lower_bound"] if row["height"] is not None else ""
                writer.writerow([name, row["buffers"], planner, row["lower_bound"], row["height"], ratio, row["seconds"]])
    lines = ["| planner |" + "".join(f" {name} ({rows[DEFAULT]['buffers']}) |" for name, rows in columns.items()),
             "|---|" + "---:|" * len(columns)]
    for planner in planners:
        cells = []
        for rows in columns.values():
            row = rows[planner]
            known = row["height"] is not None
            cells.append(f"{row['height'] / row['lower_bound']:.4f}, {row['seconds'] * 1000:.1f} ms" if known else "–")
        lines.append(f"| `{planner}` | " + " | ".join(cells) + " |")
    print("\n".join(lines))
    if arguments.write:
        kept.keep(*(("planners", "scripts/tables/strategy_table.py --instances") if arguments.instances else
                    ("strategies", "scripts/tables/strategy_table.py")), lines)
    return int(not arguments.instances and any(rows[DEFAULT]["height"] > CLOSE * rows[DEFAULT]["lower_bound"] for rows in columns.values()))


if __name__ == "__main__":
    sys.exit(main())
