#!/usr/bin/env python3
"""Compares allocators on real workloads: interleaved runs, medians of paired ratios with intervals.

Each repetition runs each workload once under each allocator, in an order shuffled again. With --turns this library's process and
one of each other allocator take turns of a few iterations, which shows differences of 1 % on a machine whose speed
drifts by ten times as much. Written to --output: raw.csv (a row a run), summary.md (machine,
settings, tables), plot.svg if matplotlib is installed. Exit code 1 if an output differs between allocators or a run fails.
"""

import argparse
import csv
import datetime
import os
import pathlib
import platform
import subprocess
import sys

import allocators
import micro
import runner
import summary
import turns
import turns_tables
import verdicts
from runner import ROOT, table

GROUPS = {"all": tuple(table.BY_NAME), "suite": table.SUITE, "quick": table.QUICK, "untuned": table.UNTUNED,
          "main": tuple(name for name in table.BY_NAME if name not in table.FRAMEWORKS)}


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=runner.names(table.BY_NAME, "workload", GROUPS),
                        help="comma between them; all, main (without frameworks' own), suite, untuned (on which "
                             "nothing was ever set) or quick (all, or with --quick quick)")
    parser.add_argument("--allocators", type=runner.names(allocators.BY_NAME, "allocator"),
                        default=list(allocators.BY_NAME),
                        help="comma between them (all that are installed)")
    parser.add_argument("--peer", type=runner.peer, action="append", default=[], metavar="NAME=LIBRARY[,VARIABLE=VALUE...]",
                        help="another allocator as a row, or one of these under other settings; may be given again")
    parser.add_argument("--repetitions", type=int, help="(5, or with --quick 2)")
    parser.add_argument("--quick", action="store_true", help="few iterations, repetitions, workloads")
    parser.add_argument("--turns", type=int, default=0, metavar="N",
                        help="processes that take N turns each; an allocator beside itself is --allocators "
                             "memomalloc --peer again=build/libmemomalloc.so")
    turns.add_seed(parser)
    parser.add_argument("--list", action="store_true", help="the workloads and allocators")
    parser.add_argument("--no-micro", action="store_true", help="leave the cost of single calls out")
    runner.add_options(parser)
    arguments = parser.parse_args(argv)
    arguments.repetitions = arguments.repetitions or (2 if arguments.quick else 5)
    arguments.workloads = arguments.workloads or list(GROUPS["quick" if arguments.quick else "all"])
    return arguments


def first_line(command):
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip().split("\n")[0]
    except OSError:
        return "unknown"


def machine(arguments, chosen):
    """Lines that tell where and with what the figures were made."""
    def read(path, start=""):
        try:
            lines = pathlib.Path(path).read_text(encoding="ascii").splitlines()
        except OSError:
            return "unknown"
        return next((line for line in lines if line.startswith(start)), "unknown")

    model = read("/proc/cpuinfo", "model name").split(":")[-1].strip()
    memory = int(read("/proc/meminfo", "MemTotal").split()[1]) / 2**20
    versions = first_line([arguments.python_torch, "-c", "import sys, torch, numpy; print('Python', "
                           "sys.version.split()[0], 'torch', torch.__version__, 'numpy', numpy.__version__)"])
    lines = [f"- {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC, {model}, "
             f"{os.cpu_count()} cores, {memory:.0f} GiB, Linux {platform.release()}, transparent huge "
             f"pages {read('/sys/kernel/mm/transparent_hugepage/enabled')}",
             f"- {versions}; {' '.join(platform.libc_ver())}",
             f"- project at {first_line(['git', '-C', str(ROOT), 'describe', '--always', '--dirty'])}",
             f"- load average at the start {os.getloadavg()[0]:.2f}; "
             f"{arguments.repetitions} repetitions"
             + (f" of {arguments.turns} turns" if arguments.turns else "") + f", orders of seed {arguments.seed}"]
    for allocator in chosen:
        settings = " ".join(f"{name}={value}" for name, value in allocator.settings)
        lines.append(f"- {allocator.name}: {allocators.version(allocator)}{', ' + settings if settings else ''}")
    return lines


def shuffled(repetitions, workloads, chosen, seed):
    """(repetition, workload, allocator) of each run, in an order of allocators that is shuffled again."""
    for repetition, workload, group in turns.groups(repetitions, workloads, chosen, seed):
        for allocator in group:
            yield repetition, workload, allocator


def interleaved(arguments, workloads, chosen):
    """Figures of each run, None of one that failed."""
    for repetition, workload, allocator in shuffled(arguments.repetitions, workloads, chosen, arguments.seed):
        figures = runner.run(workload, allocator, arguments, workload.quick if arguments.quick else None)
        yield figures and figures | {"repetition": repetition}


def taking_turns(arguments, workloads, chosen):
    """The same of runs that take turns."""
    speed = turns.Speed()
    for number, workload, pair in turns.pairs(arguments.repetitions, workloads, chosen, allocators.OURS, arguments.seed):
        for figures in turns.measure(workload, pair, arguments, speed):
            yield figures and figures | {"repetition": number}


def measure_all(arguments, workloads, chosen):
    """All runs, each written to raw.csv as it ends; returns (rows, number of failed runs). Ctrl-C ends them."""
    arguments.output.mkdir(parents=True, exist_ok=True)
    rows, failed = [], 0
    each = 2 * (len(chosen) - 1) if arguments.turns else len(chosen)
    progress = runner.Progress(arguments.repetitions * len(workloads) * each)
    with (arguments.output / "raw.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, runner.COLUMNS, extrasaction="ignore", restval="")
        writer.writeheader()
        try:
            for figures in (taking_turns if arguments.turns else interleaved)(arguments, workloads, chosen):
                failed += figures is None
                if figures:
                    rows.append(figures)
                    writer.writerow(figures)
                    file.flush()
                progress.step()
        except KeyboardInterrupt:
            print(f"\nended after {len(rows)} runs; the tables are of these", file=sys.stderr)
    return rows, failed


def against(results, title, names):
    """The tables of ours against the others over one group of workloads, apart from other groups."""
    group = results.only(names)
    if not group.cells:
        return []
    return [f"## {title}", "", *summary.against_table(group, allocators.OURS), "",
            *summary.each_table(group, allocators.OURS), ""]


def judged_page(results, workloads, arguments):
    """The tables of interleaved runs, and what is asked line by line."""
    judged = verdicts.lines(results, allocators.OURS, [workload.name for workload in workloads if workload.large_batch])
    judged += [] if arguments.no_micro else micro.lines(arguments.library)
    return [summary.legend(results.repetitions), "",
            *against(results, "Workloads on which nothing was ever set", table.UNTUNED),
            *against(results, "Workloads that the library was developed with",
                     [name for name in table.BY_NAME if name not in table.UNTUNED]),
            "## What is asked", "", *verdicts.as_table(judged), ""]


def draw(results, order, path):
    """A dot for each allocator: time and peak memory relative to default glibc."""
    pyplot = runner.pyplot()
    workloads = [name for name in results.cells if "glibc" in results.cells[name]]
    if pyplot is None or not workloads:
        return
    figure, panels = pyplot.subplots(1, 2, sharey=True, figsize=(11, 1.5 + 0.4 * len(workloads)))
    panels_keys = ((panels[0], "p50_ms", "median time"), (panels[1], "peak_rss_kib", "peak memory"))
    for panel, key, title in panels_keys:
        for allocator in order:
            points = [(results.median(name, allocator, key) / results.median(name, "glibc", key), y)
                      for y, name in enumerate(workloads) if allocator in results.cells[name]]
            if points:
                ours = allocator == allocators.OURS
                panel.scatter(*zip(*points), label=allocator, marker="D" if ours else "o",
                              s=60 if ours else 25, alpha=0.8, zorder=3 if ours else 2)
        panel.axvline(1, color="grey", linewidth=0.8)
        panel.set_xlabel(f"{title} / default glibc (less is better)")
        panel.grid(axis="y", linewidth=0.3)
    panels[0].set_yticks(range(len(workloads)), workloads)
    panels[1].legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(path, bbox_inches="tight")


def main(argv=None):
    arguments = parse(argv)
    if arguments.list:
        print("workloads:", *table.BY_NAME, "allocators:", *allocators.BY_NAME, sep="\n  ")
        return 0
    chosen = allocators.chosen(arguments.allocators, arguments.library, arguments.peer)
    order = [allocator.name for allocator in chosen]
    if arguments.turns and (allocators.OURS not in order or len(order) < 2):
        print(f"--turns compares {allocators.OURS} with at least one other", file=sys.stderr)
        return 2
    workloads = [table.BY_NAME[name] for name in arguments.workloads
                 if runner.can_run(table.BY_NAME[name], arguments)]
    lines = ["# Allocators on real workloads", "", *machine(arguments, chosen)]
    rows, failed = measure_all(arguments, workloads, chosen)
    lines += [f"- load average at the end {os.getloadavg()[0]:.2f}", ""]
    if arguments.turns:
        results, page = turns_tables.page(rows, order, allocators.OURS, arguments)
        lines += page
    else:
        results = summary.Results(rows, order)
        lines += judged_page(results, workloads, arguments)
    differing = summary.checksum_faults(results)
    lines += ["## All runs, medians", "", *summary.full_table(results), "", *differing]
    text = "\n".join(lines).rstrip() + "\n"
    (arguments.output / "summary.md").write_text(text, encoding="utf-8")
    print(text)
    if not arguments.turns:
        draw(results, order, arguments.output / "plot.svg")
    return 1 if differing or failed else 0


if __name__ == "__main__":
    sys.exit(main())
