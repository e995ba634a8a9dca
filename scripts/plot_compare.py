#!/usr/bin/env python3
"""Draws what `memomalloc compare --csv RUNS.csv` wrote: medians as bars, least and most as whiskers."""

import argparse
import csv
import itertools
import math
import pathlib
import statistics

import plotting
import refusal

# column of the CSV, title, divisor
PANELS = (("wall_seconds", "wall time, s", 1), ("system_seconds", "system time, s", 1),
          ("minor_faults", "page faults, thousands", 1e3), ("peak_rss_bytes", "peak RSS, MiB", 2 ** 20))
PANELS_IN_A_ROW = 4


def read(path):
    """{allocator: [row, ...]} in the order of the file."""
    writer = f"`memomalloc compare --csv {path} -- COMMAND` writes it"
    runs = {}
    with refusal.plainly(writer), path.open(newline="", encoding="utf-8") as file:
        table = csv.DictReader(file)
        try:
            for row in table:
                for column, _, _ in PANELS:
                    float(row[column])
                runs.setdefault(row["allocator"], []).append(row)
        except (KeyError, TypeError, ValueError):  # another table, a line that is cut, bytes that are no text
            refusal.refuse(f"{path}:{max(table.line_num, 1)}: this is no run of `memomalloc compare`", writer)
    if not runs:
        refusal.refuse(f"{path}:1: there are no runs in it",
                       "did the command fail? `memomalloc compare` without --csv shows its messages")
    return runs


def panels(runs):
    """The fixed panels, and one for each latency that the command reported in every run."""
    rows = [row for group in runs.values() for row in group]
    own = [name for name in rows[0] if name.startswith(("p50", "p99", "first")) and all(row[name] for row in rows)]
    return [*PANELS, *((name, name, 1) for name in own)]


def draw(runs, path):
    pyplot = plotting.pyplot()
    shown = panels(runs)
    rows, columns = math.ceil(len(shown) / PANELS_IN_A_ROW), min(len(shown), PANELS_IN_A_ROW)
    figure, axes = pyplot.subplots(rows, columns, figsize=(3.6 * columns, rows * (0.36 * len(runs) + 1)),
                                   sharey=True, squeeze=False)
    names = list(runs)
    for axis, (column, title, divisor) in itertools.zip_longest(axes.flat, shown, fillvalue=(None, None, None)):
        if column is None:
            axis.set_visible(False)
            continue
        for place, name in enumerate(names):
            values = [float(row[column]) / divisor for row in runs[name]]
            middle = statistics.median(values)
            axis.barh(place, middle, color="#c2410c" if name.startswith("memomalloc") else "#8faadc")
            axis.errorbar(middle, place, xerr=[[middle - min(values)], [max(values) - middle]], color="black", capsize=3)
        axis.set_title(title, fontsize=10)
        axis.set_yticks(range(len(names)), names)
    axes[0][0].invert_yaxis()
    figure.tight_layout()
    plotting.save(figure, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=pathlib.Path, metavar="RUNS.csv")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("compare.svg"),
                        help="the figure; the ending tells its format (%(default)s)")
    arguments = parser.parse_args()
    runs = read(arguments.runs)
    draw(runs, arguments.output)
    print(arguments.output)


if __name__ == "__main__":
    main()
