#!/usr/bin/env python3
"""Draws what `memomalloc compare --csv RUNS.csv` wrote: medians as bars, least and most as whiskers."""

import argparse
import csv
import pathlib
import statistics
import sys

import plotting

# column of the CSV, title, divisor
PANELS = (("wall_seconds", "wall time, s", 1), ("system_seconds", "system time, s", 1),
          ("minor_faults", "page faults, thousands", 1e3), ("peak_rss_bytes", "peak RSS, MiB", 2 ** 20))


def read(path):
    """{allocator: [row, ...]} in the order of the file."""
    runs = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            runs.setdefault(row["allocator"], []).append(row)
    return runs


def panels(runs):
    """The fixed panels, and one for each latency that the command reported in every run."""
    rows = [row for group in runs.values() for row in group]
    own = [name for name in rows[0] if name.startswith(("p50", "p99", "first")) and all(row[name] for row in rows)]
    return [*PANELS, *((name, name, 1) for name in own)]


def draw(runs, path):
    pyplot = plotting.pyplot()
    shown = panels(runs)
    figure, axes = pyplot.subplots(1, len(shown), figsize=(3.4 * len(shown), 0.4 * len(runs) + 1.4), sharey=True)
    names = list(runs)
    for axis, (column, title, divisor) in zip(axes, shown):
        for place, name in enumerate(names):
            values = [float(row[column]) / divisor for row in runs[name]]
            middle = statistics.median(values)
            axis.barh(place, middle, color="#c2410c" if name.startswith("memomalloc") else "#8faadc")
            axis.errorbar(middle, place, xerr=[[middle - min(values)], [max(values) - middle]], color="black", capsize=3)
        axis.set_title(title, fontsize=10)
        axis.set_yticks(range(len(names)), names)
        axis.invert_yaxis() if axis is axes[0] else None
    figure.tight_layout()
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=pathlib.Path, metavar="RUNS.csv")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("compare.svg"),
                        help="the figure; the ending tells its format (%(default)s)")
    arguments = parser.parse_args()
    try:
        runs = read(arguments.runs)
    except (OSError, KeyError) as error:
        print(f"{arguments.runs}:1: not what `memomalloc compare --csv` writes: {error}", file=sys.stderr)
        return 2
    if not runs:
        print(f"{arguments.runs}:1: there are no runs in it", file=sys.stderr)
        return 2
    draw(runs, arguments.output)
    print(arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
