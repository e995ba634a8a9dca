#!/usr/bin/env python3
"""Draws what cores.sh measured: step time relative to glibc, and resident memory, over threads; and prints it as tables.

The marks of a line are medians, its band the quartiles of the rounds. Tables go to stdout as Markdown.
"""

import argparse
import json
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import plotting
import refusal

COLOURS = {"glibc": "#6b7280", "tcmalloc": "#2563eb", "jemalloc": "#059669", "mimalloc": "#9333ea", "memomalloc": "#c2410c"}
TITLES = {"threads": "threads", "server": "a server's threads", "processes": "processes of one thread",
          "contended": "threads that allocate"}
BASE = "glibc"


def read(path):
    writer = f"scripts/hardware/cores.sh {path.parent}"
    with refusal.plainly(f"{writer} writes it"):
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
            result["rows"][0]["figures"]
        except (ValueError, KeyError, IndexError, TypeError):
            refusal.refuse(f"{path}: this is no run of cores.sh, or one without rows", f"{writer} writes it")
    return result


def series(rows):
    """{(kind, network): {allocator: {count: figures}}} in the order of the file."""
    result = {}
    for row in rows:
        count = row["processes"] if row["kind"] == "processes" else row["threads"]
        lines = result.setdefault((row["kind"], row["network"]), {})
        for name, figures in row["figures"].items():
            lines.setdefault(name, {})[count] = figures
    return result


def line(axis, name, points, read_one):
    """One allocator's line; a row of one count is a point."""
    counts = sorted(count for count in points if read_one(points[count]) is not None)
    if not counts:
        return
    spreads = [read_one(points[count]) for count in counts]
    style = {"color": COLOURS.get(name, "black"), "label": name, "marker": "o", "markersize": 3,
             "linewidth": 2 if name == "memomalloc" else 1}
    axis.plot(counts, [one["median"] for one in spreads], **style)
    axis.fill_between(counts, [one["lower"] for one in spreads], [one["upper"] for one in spreads],
                      color=style["color"], alpha=0.12, linewidth=0)


def alone(value):
    return None if value is None else {"median": value, "lower": value, "upper": value}


def over_counts(axis, counts, title):
    axis.set_title(title, fontsize=9)
    axis.set_xscale("log", base=2)
    axis.set_xticks(counts, counts)
    axis.minorticks_off()
    axis.set_ylim(bottom=0)
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.25)


def draw(groups, path):
    """Two panels for each group of several counts: the ratio to glibc, and memory (a micro-benchmark's: pairs alone)."""
    shown = [(key, lines) for key, lines in groups.items() if any(len(points) > 1 for points in lines.values())]
    if not shown:
        return False
    pyplot = plotting.pyplot()
    figure, axes = pyplot.subplots(len(shown), 2, figsize=(8, 2.2 * len(shown)), squeeze=False)
    for (left, right), ((kind, network), lines) in zip(axes, shown):
        counts = sorted({count for points in lines.values() for count in points})
        for name, points in lines.items():
            line(left, name, points, lambda one: one.get("ratio"))
            line(right, name, points, lambda one: alone(one["rss_mib"]))
        what = "pairs a second" if kind == "contended" else "step time"
        over_counts(left, counts, f"{network}, {what} over glibc's")
        over_counts(right, counts, f"{network}, resident memory, MiB")
        left.set_xlabel(f"{TITLES[kind]} at once", fontsize=8)
        right.set_xlabel(f"{TITLES[kind]} at once", fontsize=8)
        if kind == "contended":
            left.set_ylim(auto=True)
            left.set_yscale("log")
    axes[0][1].legend(fontsize=7, ncols=2)
    figure.tight_layout()
    plotting.save(figure, path)
    return True


def told(spread, digits=3):
    return f"{spread['median']:.{digits}f} ({spread['lower']:.{digits}f} to {spread['upper']:.{digits}f})"


def short(value):
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def tables(result, groups):
    machine = result["machine"]
    yield (f"{machine['processor']}, {machine['processors']} processors, {machine['memory_gib']:.0f} GiB, {machine['system']}, "
           f"Linux {machine['kernel']}; {result['date']}, commit {result['commit'][:12]}; `{result['command']}`")
    for (kind, network), lines in groups.items():
        pairs = kind == "contended"
        yield ""
        yield f"{network}, {TITLES[kind]}:"
        yield ""
        names = ("at once", "allocator", "million pairs a second" if pairs else "step, ms", "over glibc's (quartiles)",
                 "page faults a pair" if pairs else "page faults a step", "system time, us" if pairs else "system time, ms",
                 "resident, MiB", "peak, MiB", "planned", "reused")
        yield "| " + " | ".join(names) + " |"
        yield "|" + " --- |" * len(names)
        for count in sorted({count for points in lines.values() for count in points}):
            for name, points in lines.items():
                if count not in points:
                    continue
                one = points[count]
                time = one["pairs_per_second"]["median"] / 1e6 if pairs else one["step_ms"]["median"]
                share = [f"{one[column]:.0%}" if column in one else "" for column in ("planned_share", "at_hand_share")]
                cells = (str(count), name, short(time), told(one["ratio"], 2 if pairs else 3) if "ratio" in one else "",
                         short(one.get("faults")), short((one.get("system_ms") or 0) * (1e3 if pairs else 1)),
                         short(one["rss_mib"]), short(one["peak_mib"]), *share)
                yield "| " + " | ".join(cells) + " |"
    for failure in result["failures"]:
        yield f"\nFailed: {failure['row']}, {failure['allocator']}: {failure['error']}"
    if result["left_out"]:
        yield f"\nLeft out, since the time was over: {', '.join(result['left_out'])}."


def geometric_means(groups):
    """Step time over glibc's, over all rows of networks, a line for each allocator."""
    logs = {}
    for (kind, _), lines in groups.items():
        if kind != "contended":
            for name, points in lines.items():
                logs.setdefault(name, []).extend(math.log(one["ratio"]["median"]) for one in points.values() if "ratio" in one)
    yield ""
    yield "| allocator | step time over glibc's, geometric mean | rows |"
    yield "| --- | --- | --- |"
    for name, values in logs.items():
        if values and name != BASE:
            yield f"| {name} | {math.exp(sum(values) / len(values)):.3f} | {len(values)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=pathlib.Path, metavar="DATE.json")
    parser.add_argument("-o", "--output", type=pathlib.Path,
                        help="the figure; the ending tells its format (DATE.svg beside the run)")
    arguments = parser.parse_args()
    result = read(arguments.run)
    groups = series(result["rows"])
    output = arguments.output or arguments.run.with_suffix(".svg")
    print("\n".join([*tables(result, groups), *geometric_means(groups)]))
    if draw(groups, output):
        print(output, file=sys.stderr)


if __name__ == "__main__":
    main()
