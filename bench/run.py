#!/usr/bin/env python3
"""Compares allocators on real workloads: interleaved runs, medians, ratios with intervals.

Each repetition runs each workload once under each allocator, in an order shuffled anew. Written to
--output: raw.csv (a row a run), summary.md (machine, settings, tables), plot.svg if matplotlib is
installed. Exit code 1 if an output differs between allocators or a run fails.
"""

import argparse
import csv
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import random
import subprocess
import sys
import tempfile
import time

import allocators
import summary

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench/workloads"))
import table

COLUMNS = ("workload allocator repetition p50_ms p99_ms first_ms faults_per_iteration "
           "faults_per_iteration_steady user_ms_per_iteration system_ms_per_iteration peak_rss_kib "
           "rss_before_kib steady_rss_kib steady_over_before_kib growth_kib served_share slab_bytes "
           "lower_bound_bytes checksum").split()


def names(known, what):
    def parse(text):
        chosen = text.split(",")
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"no {what} {name!r}; there are {', '.join(known)}")
        return chosen

    return parse


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=names(table.BY_NAME, "workload"),
                        help="comma between them (all, or with --quick six)")
    parser.add_argument("--allocators", type=names(allocators.BY_NAME, "allocator"),
                        help="comma between them (all that are installed)")
    parser.add_argument("--repetitions", type=int, help="(5, or with --quick 2)")
    parser.add_argument("--quick", action="store_true", help="few iterations, repetitions, workloads")
    parser.add_argument("--timeout", type=int, default=600, help="seconds a run (%(default)s)")
    parser.add_argument("--python-torch", default=sys.executable, help="with torch (this one)")
    parser.add_argument("--python-jax", help="with JAX and TensorFlow; without it they are left out")
    parser.add_argument("--library", help=f"to preload as {allocators.OURS} (build/libmemomalloc.so)")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build/bench")
    parser.add_argument("--list", action="store_true", help="the workloads and allocators")
    arguments = parser.parse_args(argv)
    arguments.repetitions = arguments.repetitions or (2 if arguments.quick else 5)
    arguments.workloads = arguments.workloads or (
        list(table.QUICK) if arguments.quick else list(table.BY_NAME))
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
             f"{arguments.repetitions} repetitions"]
    for allocator in chosen:
        version = allocators.package_version(allocator.package) if allocator.package else "this project"
        settings = " ".join(f"{name}={value}" for name, value in allocator.settings)
        lines.append(f"- {allocator.name}: {version}{', ' + settings if settings else ''}")
    return lines


def served(stats):
    """The library's own figures of a run as columns; empty for other allocators."""
    since = stats.get("since_serving", {})
    large = since.get("large_bytes", 0)
    return {"served_share": since.get("served_bytes", 0) / large if large else 0.0,
            "slab_bytes": stats.get("slab_bytes", 0),
            "lower_bound_bytes": stats.get("lower_bound_bytes", 0)}


def run(workload, allocator, arguments):
    """One run; returns its figures, or None with a line on stderr if it failed."""
    python = arguments.python_jax if workload.environment == "jax" else arguments.python_torch
    iterations = workload.quick if arguments.quick else workload.iterations
    command = [python, str(ROOT / workload.program), *workload.arguments.split(),
               "--iterations", str(iterations)]
    command += ["--json"] if workload.program == "scripts/infer.py" else []
    with tempfile.TemporaryDirectory() as folder:
        environment = allocator.environment(os.environ)
        stats = pathlib.Path(folder, "stats-%p.json")
        if allocator.name == allocators.OURS:
            environment["MEMOMALLOC_STATS_FILE"] = str(stats)
        try:
            process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
            out, err = process.communicate(timeout=arguments.timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            err += f"\nstopped after {arguments.timeout} s"
        if process.returncode != 0 or not out.strip():
            print(f"\n{workload.name} under {allocator.name} failed with code {process.returncode}: "
                  f"{' | '.join(err.strip().splitlines()[-2:])}", file=sys.stderr)
            return None
        figures = json.loads(out.splitlines()[-1])
        own = pathlib.Path(folder, f"stats-{process.pid}.json")
        return figures | (served(json.loads(own.read_text())) if own.exists() else {})


def measure_all(arguments, workloads, chosen):
    """All runs, each written to raw.csv as it ends; returns (rows, number of failed runs)."""
    arguments.output.mkdir(parents=True, exist_ok=True)
    total, done, failed, rows = arguments.repetitions * len(workloads) * len(chosen), 0, 0, []
    began, dice = time.monotonic(), random.Random(0)
    with (arguments.output / "raw.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore", restval="")
        writer.writeheader()
        for repetition in range(arguments.repetitions):
            for workload in workloads:
                for allocator in dice.sample(chosen, len(chosen)):
                    figures = run(workload, allocator, arguments)
                    done, failed = done + 1, failed + (figures is None)
                    if figures:
                        rows.append(figures | {"workload": workload.name, "repetition": repetition,
                                               "allocator": allocator.name})
                        writer.writerow(rows[-1])
                        file.flush()
                    left = (time.monotonic() - began) / done * (total - done)
                    if sys.stderr.isatty():
                        print(f"\r{done}/{total} runs, about {left / 60:.0f} min left ", end="",
                              file=sys.stderr, flush=True)
    return rows, failed


def draw(results, path):
    """A dot for each allocator: time and peak memory relative to default glibc."""
    try:
        import matplotlib
    except ImportError:
        print("no plot: matplotlib is not installed", file=sys.stderr)
        return
    matplotlib.use("svg")
    from matplotlib import pyplot

    workloads = [name for name in results.cells if "glibc" in results.cells[name]]
    if not workloads:
        return
    figure, panels = pyplot.subplots(1, 2, sharey=True, figsize=(11, 1.5 + 0.4 * len(workloads)))
    panels_keys = ((panels[0], "p50_ms", "median time"), (panels[1], "peak_rss_kib", "peak memory"))
    for panel, key, title in panels_keys:
        for allocator in allocators.ALLOCATORS:
            points = [(results.median(name, allocator.name, key) / results.median(name, "glibc", key), y)
                      for y, name in enumerate(workloads) if allocator.name in results.cells[name]]
            if points:
                ours = allocator.name == allocators.OURS
                panel.scatter(*zip(*points), label=allocator.name, marker="D" if ours else "o",
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
    chosen = [allocators.BY_NAME[name] for name in arguments.allocators or allocators.BY_NAME]
    if arguments.library:
        library = str(pathlib.Path(arguments.library).resolve())
        chosen = [dataclasses.replace(one, preload=library) if one.name == allocators.OURS else one
                  for one in chosen]
    for allocator in [one for one in chosen if one.library() is None]:
        print(f"left out: {allocator.name} ({allocator.preload} is not here)", file=sys.stderr)
        chosen.remove(allocator)
    workloads = [table.BY_NAME[name] for name in arguments.workloads
                 if arguments.python_jax or table.BY_NAME[name].environment != "jax"]
    lines = ["# Allocators on real workloads", "", *machine(arguments, chosen)]
    rows, failed = measure_all(arguments, workloads, chosen)
    results = summary.Results(rows, list(allocators.BY_NAME))
    differing = summary.checksum_faults(results)
    lines += [f"- load average at the end {os.getloadavg()[0]:.2f}", "",
              f"## {allocators.OURS} against the others", "",
              *summary.against_table(results, allocators.OURS), "", "## All runs, medians", "",
              *summary.full_table(results), "", *differing]
    text = "\n".join(lines).rstrip() + "\n"
    (arguments.output / "summary.md").write_text(text, encoding="utf-8")
    print(text)
    draw(results, arguments.output / "plot.svg")
    return 1 if differing or failed else 0


if __name__ == "__main__":
    sys.exit(main())
