#!/usr/bin/env python3
"""Where finding an order is hard: the exact strategies beside each other, random graphs, and long runs.

Prints a table for each part; with --write it keeps them in results/. Seconds are wall
time. `exact`, `small` and `random` take about a minute each, `longest` five.
"""

import argparse
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/tables"))

import large_graphs
import results as kept
from schedule_tables import graph_file, markdown_table, run_tool

EXACT = ("downsets", "olla", "olla-joint")
SEEDS = range(1, 5)


def made(folder, family, nodes, seed):
    path = os.path.join(folder, f"{family}-{nodes}-{seed}.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(large_graphs.FAMILIES[family](nodes, seed).to_json())
    return path


def exact(folder):
    """Graphs that CBC can take (it is not begun beyond 20000 variables, about 100 nodes)."""
    graphs = [(name, graph_file(folder, name, False, 1)[0]) for name in ("alexnet", "unet")]
    graphs += [(f"window10, {nodes} nodes", made(folder, "window10", nodes, 1)) for nodes in (10, 14)]
    rows = []
    for name, path in graphs:
        cells = []
        for strategy in EXACT:
            found = run_tool(path, 120, "--strategy", strategy)
            height = f", height {found['height']}" if strategy == "olla-joint" else ""
            cells.append(f"{found['peak']}{' =' if found['optimal'] else ''}{height}, {found['seconds']:.2f} s")
        rows.append((name, found["nodes"], *cells))
    return markdown_table(("graph", "nodes", *EXACT), rows)


def random_graphs(folder):
    """Families of about 200 nodes, four seeds each, 15 s."""
    rows = []
    for family in large_graphs.FAMILIES:
        found = [run_tool(made(folder, family, 200, seed), 15) for seed in SEEDS]
        over = [100 * (one["peak"] / one["lower_bound"] - 1) for one in found]
        rows.append((family, f"{sum(one['optimal'] for one in found)} of {len(found)}", f"{min(over):.1f} to {max(over):.1f} %",
                     f"{max(one['seconds'] for one in found):.2f}"))
    return markdown_table(("family", "proved", "over the bound", "s, at most"), rows)


def over(found, least):
    """The mean and the greatest distance of what was found, in percent."""
    distances = [100 * abs(one / best - 1) for one, best in zip(found, least)]
    return f"{sum(distances) / len(distances):.1f} %, at most {max(distances):.1f} %"


def small(folder):
    """window100 where the optimum can be proved, 30 s: what is wrong, the orders or the bounds?"""
    rows = []
    for nodes in (20, 30, 40, 50, 60):
        paths = [made(folder, "window100", nodes, seed) for seed in SEEDS]
        best = [run_tool(path, 30) for path in paths]
        least = [one["peak"] for one in best if one["optimal"]]
        proved = [path for path, one in zip(paths, best) if one["optimal"]]
        by = {name: [run_tool(path, 30, "--strategy", name) for path in proved]
              for name in ("beam", "windows", "cuts", "precedences")}
        rows.append((nodes, f"{len(proved)} of {len(paths)}",
                     *(over([one["peak"] for one in by[name]], least) for name in ("beam", "windows")),
                     *(over([one["lower_bound"] for one in by[name]], least) for name in ("cuts", "precedences"))))
    return markdown_table(("nodes", "proved", "`beam` above the optimum", "`windows` above it", "bound of `cuts` below it",
                           "bound of `precedences` below it"), rows)


def longest(folder):
    """The largest training graph of the tables under two limits."""
    path, _ = graph_file(folder, "maxvit_t", True, 1)
    rows = []
    for seconds in (60, 300):
        found = run_tool(path, seconds)
        rows.append(("maxvit_t, training, batch 1", found["nodes"], seconds, found["peak"], found["lower_bound"],
                     f"{100 * (found['peak'] / found['lower_bound'] - 1):.2f} %", f"{found['seconds']:.0f}"))
    return markdown_table(("graph", "nodes", "limit s", "peak", "bound", "over the bound", "order s"), rows)


PARTS = {"exact": exact, "small": small, "random": random_graphs, "longest": longest}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=list(PARTS), default=list(PARTS), help=f"(all of {', '.join(PARTS)})")
    parser.add_argument("--write", action="store_true", help="keep the tables in results/")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.parts:
            lines = PARTS[name](folder)
            print("\n".join(lines), flush=True)
            if arguments.write:
                kept.keep(f"hard_{name}", f"scripts/experiments/hard_orders.py {name}", lines)


if __name__ == "__main__":
    sys.exit(main())
