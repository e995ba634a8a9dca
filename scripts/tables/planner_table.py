#!/usr/bin/env python3
"""Height over the lower bound of every planner on twelve instances.

Runs build/bench/planner_quality, one row for each planner of the registry (mip where the solver is linked), and
prints the Markdown; with --write it is kept in results/planners. Takes about two minutes; pinned to one core.
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile

from results import ROOT, keep

GENERATOR = ROOT / "build/bench/planner_quality"
INSTANCES = [*(f"minimalloc/{name}.1048576" for name in "ADGJK"),
             *(f"pisarchyk_lee/{name}" for name in ("deeplab_v3", "inception_v3", "mobilenet_v2", "posenet")),
             "iopddl/G_1", "somas/resnet50", "iopddl/S_1"]


def measure(seconds):
    files = [ROOT / "tests/golden/instances" / f"{name}.csv" for name in INSTANCES]
    with tempfile.NamedTemporaryFile("r", suffix=".csv") as table:
        subprocess.run([GENERATOR, "--seconds", str(seconds), "--csv", table.name, *files],
                       stdout=subprocess.DEVNULL, check=True, env={**os.environ, "MINIMALLOC": "/nonexistent"})
        return [row for row in csv.DictReader(table) if not row["capacity"]]


def cell(row):
    if row is None or not row["height"]:
        return "–"
    ratio = float(row["ratio"])
    return f"{ratio:.4f}" if ratio < 10 else f"{ratio:.1f}"


def markdown(rows):
    names = list(dict.fromkeys(row["instance"] for row in rows))
    planners = list(dict.fromkeys(row["planner"] for row in rows))
    cells = {(row["planner"], row["instance"]): row for row in rows}
    lines = ["| planner | " + " | ".join(name.split(".")[0] for name in names) + " |", "|---|" + "---:|" * len(names)]
    for planner in planners:
        row = [cells.get((planner, name)) for name in names]
        if any(entry and entry["height"] for entry in row):
            lines.append(f"| `{planner}` | " + " | ".join(map(cell, row)) + " |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1, help="most time for each planner (%(default)s)")
    parser.add_argument("--write", action="store_true", help="keep it in results/")
    arguments = parser.parse_args()
    if not GENERATOR.exists():
        parser.error("build/bench/planner_quality is not built; run `make build/bench/planner_quality`")
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    lines = markdown(measure(arguments.seconds))
    print("\n".join(lines))
    if arguments.write:
        keep("planners", f"scripts/tables/planner_table.py --seconds {arguments.seconds:g}", lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
