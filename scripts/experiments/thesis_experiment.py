#!/usr/bin/env python3
"""The experiment of the MemoMalloc thesis (chapter 4), with this library in the place of its prototype.

Networks of torchvision x batch 1, 4, 8 x images of 128 and 256 pixels x threads, each with jemalloc, its
oversize threshold at 1 MiB and all else as it comes, and with this library on glibc. Both get ten
iterations to warm up and ten that count; repeats of the two are interleaved. As in the thesis, the figure
shows the ratio of jemalloc's time to ours over the batch size times the image size, with its standard
error. The claim: 20 % less latency on average, 40 % at best. A time is the median of the ten iterations,
which a machine with other work disturbs less than their mean. Each pair of runs stands in times.csv as soon
as it is known; an interrupt, SIGTERM or the end of --minutes ends the measuring and reports what is there,
and --resume goes on from it. All configurations are measured once before any is measured again.

Exit code 0 if the claim holds here, 1 if it does not.
"""

import argparse
import csv
import itertools
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

import plotting

ROOT = pathlib.Path(__file__).resolve().parents[2]
NETWORKS = ("alexnet", "squeezenet1_0", "mobilenet_v2", "mnasnet1_0", "resnet18", "resnet50", "googlenet",
            "densenet121", "regnet_x_8gf", "vgg16", "fcn_resnet50")
QUICK_NETWORKS = ("mobilenet_v2", "resnet18", "googlenet")
ITERATIONS = 20  # the second half counts
QUICK_MINUTES = 15
MOST_SECONDS = 900  # of one run; VGG-16 on eight images takes a tenth of it
ON_AVERAGE, AT_BEST = 0.20, 0.40
JEMALLOC = {"LD_PRELOAD": "libjemalloc.so.2", "MALLOC_CONF": "oversize_threshold:1048576"}
OURS = {"LD_PRELOAD": str(ROOT / "build/libmemomalloc.so")}


def parse():
    cores = os.cpu_count() or 1
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{', '.join(QUICK_NETWORKS)}; 1 thread; 2 repeats; "
                        f"--minutes {QUICK_MINUTES}")
    parser.add_argument("--networks", nargs="+", metavar="NAME", help=f"instead of {', '.join(NETWORKS)}")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 4, 8])
    parser.add_argument("--sizes", nargs="+", type=int, default=[128, 256])
    parser.add_argument("--threads", nargs="+", type=int, help=f"default: {sorted({1, cores})}")
    parser.add_argument("--repeats", type=int, help="default: 10")
    parser.add_argument("--minutes", type=float, help="begin no pair of runs after so long (default: no limit)")
    parser.add_argument("--resume", action="store_true", help="keep the pairs that times.csv in the folder has")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build/thesis", metavar="FOLDER",
                        help="for times.csv and the figures (build/thesis)")
    arguments = parser.parse_args()
    arguments.networks = arguments.networks or list(QUICK_NETWORKS if arguments.quick else NETWORKS)
    arguments.threads = arguments.threads or ([1] if arguments.quick else sorted({1, cores}))
    arguments.repeats = arguments.repeats or (2 if arguments.quick else 10)
    if arguments.minutes is None:
        arguments.minutes = QUICK_MINUTES if arguments.quick else math.inf
    return arguments


def measure(changes, network, batch, size, threads):
    """Median milliseconds of an iteration; None if the run failed."""
    command = [sys.executable, "scripts/infer.py", "--json", "--iterations", str(ITERATIONS), "--model", network,
               "--batch", str(batch), "--size", str(size), "--threads", str(threads)]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MEMOMALLOC_", "MALLOC_"))}
    try:
        process = subprocess.run(command, cwd=ROOT, env=clean | changes, capture_output=True, text=True,
                                 timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"\n{network}, batch {batch}, {size} pixels: left out, not done after {MOST_SECONDS} s", file=sys.stderr)
        return None
    if process.returncode == 2:  # bad usage: every other run would end so, too
        print("\n" + process.stderr.strip(), file=sys.stderr)
        raise SystemExit(2)
    if process.returncode != 0 or "cannot be preloaded" in process.stderr:
        print(f"\n{network}, batch {batch}, {size} pixels: left out, exit code {process.returncode}: "
              f"{process.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return json.loads(process.stdout.splitlines()[-1])["p50_ms"]


COLUMNS = ("network", "batch", "size", "threads", "repeat", "jemalloc_ms", "ours_ms")


def run(arguments, known):
    """A row of COLUMNS for each pair of runs that is not in `known`, until the time is up."""
    cases = list(itertools.product(range(arguments.repeats), arguments.networks, arguments.batches,
                                   arguments.sizes, arguments.threads))
    done = {(repeat, *case) for *case, repeat, _jemalloc, _ours in known}
    begin = time.monotonic()
    for number, (repeat, *case) in enumerate(cases, 1):
        if (repeat, *case) in done:
            continue
        if time.monotonic() - begin > 60 * arguments.minutes:
            print(f"\nthe time is up after {number - 1} of {len(cases)} pairs; --resume goes on", file=sys.stderr)
            return
        if sys.stderr.isatty():
            print(f"\r\033[K{number}/{len(cases)} {case[0]} batch {case[1]} {case[2]} pixels", end="", file=sys.stderr)
        pair = {}
        for name, changes in sorted({"jemalloc": JEMALLOC, "ours": OURS}.items(), reverse=repeat % 2 == 1):
            pair[name] = measure(changes, *case)
        if None not in pair.values():
            yield *case, repeat, pair["jemalloc"], pair["ours"]
    if sys.stderr.isatty():
        print(file=sys.stderr)


def earlier(path):
    """The rows that an interrupted experiment left, but for one that was cut."""
    if not path.exists():
        return []
    types = (str, int, int, int, int, float, float)
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file)) or [()]
    if tuple(header) != COLUMNS:
        raise ValueError("its first line is another")
    return [tuple(convert(cell) for convert, cell in zip(types, row)) for row in rows if len(row) == len(COLUMNS)]


def record(rows, path, known):
    """All rows as a list, written to `path` one by one."""
    all_rows = []
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        try:
            for row in itertools.chain(known, rows):
                all_rows.append(row)
                writer.writerow(row)
                file.flush()
        except KeyboardInterrupt:
            print("\ninterrupted; this is what was measured until now, and --resume goes on", file=sys.stderr)
    return all_rows


def ratios(rows):
    """{(network, batch, size, threads): (mean of jemalloc / ours, its standard error)}."""
    groups = {}
    for *case, _repeat, jemalloc, ours in rows:
        groups.setdefault(tuple(case), []).append(jemalloc / ours)
    return {case: (statistics.mean(values),
                   statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0)
            for case, values in groups.items()}


def draw(table, folder):
    """A figure for each number of threads: a line for each network."""
    pyplot = plotting.pyplot()
    for threads in sorted({case[3] for case in table}):
        figure, axis = pyplot.subplots(figsize=(8, 5))
        for network in sorted({case[0] for case in table}):
            points = {}
            for (name, batch, size, count), (mean, error) in table.items():
                if (name, count) == (network, threads):
                    points.setdefault(batch * size, []).append((mean, error))
            xs = sorted(points)
            means = [statistics.mean(mean for mean, _ in points[x]) for x in xs]
            errors = [max(error for _, error in points[x]) for x in xs]
            axis.plot(xs, means, marker="o", label=network)
            axis.fill_between(xs, [m - e for m, e in zip(means, errors)], [m + e for m, e in zip(means, errors)],
                              alpha=0.2)
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_xlabel("batch size x image size")
        axis.set_ylabel("jemalloc's time / MemoMalloc's")
        axis.set_title(f"{threads} thread(s); above 1 MemoMalloc is faster")
        axis.legend(fontsize=8)
        plotting.save(figure, folder / f"ratio_{threads}_threads.svg")


def report(table):
    """Prints the table and the verdict; true if the claim holds."""
    print(f"{'network':16}{'batch':>6}{'size':>6}{'threads':>8}{'ratio':>8}{'error':>8}{'less latency':>14}")
    for (network, batch, size, threads), (mean, error) in sorted(table.items()):
        print(f"{network:16}{batch:6}{size:6}{threads:8}{mean:8.2f}{error:8.2f}{100 * (1 - 1 / mean):12.0f} %")
    savings = [1 - 1 / mean for mean, _ in table.values()]
    average, best = statistics.mean(savings), max(savings)
    slower = sum(saving < 0 for saving in savings)
    holds = average >= ON_AVERAGE and best >= AT_BEST
    print(f"\nless latency than jemalloc: {100 * average:.0f} % on average, {100 * best:.0f} % at best; "
          f"slower in {slower} of {len(savings)} configurations")
    print(f"the claim ({100 * ON_AVERAGE:.0f} % on average, {100 * AT_BEST:.0f} % at best) "
          f"{'holds' if holds else 'does not hold'} here")
    return holds


def main():
    arguments = parse()
    if not pathlib.Path(OURS["LD_PRELOAD"]).exists():
        print("build/libmemomalloc.so is missing; run make", file=sys.stderr)
        return 2
    arguments.output.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    times = arguments.output / "times.csv"
    try:
        known = earlier(times) if arguments.resume else []
    except ValueError as error:
        print(f"{times}: {error}: an experiment did not write this; leave --resume out to replace it", file=sys.stderr)
        return 2
    rows = record(run(arguments, known), times, known)
    if not rows:
        print("no configuration ran with both; is libjemalloc2 installed?", file=sys.stderr)
        return 2
    table = ratios(rows)
    holds = report(table)
    draw(table, arguments.output)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
