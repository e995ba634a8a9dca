#!/usr/bin/env python3
"""Which iterations are slow, and why: p99 over p50 beside others, and the cause of each iteration above 1.05 of its run's median.

Runs are interleaved; each has --iterations after the first ten. Causes, the first of which that is true is counted:
plan (the library's own counters moved, and not as in most iterations: a call that the plan did not have, a plan made or
left, memory given back), threads (the library's own used a quarter of what the iteration took longer), faults (more than ten page faults
more than usual), waited (a thread of the program waited for a processor for a quarter of it), host (the machine's
processors were taken away), none: the same work with the same memory took longer, or the program slept. The first two
are ours. Written to --output: tail.csv, an iteration a line.
"""

import argparse
import collections
import csv
import json
import pathlib
import statistics
import sys
import tempfile

import allocators
import children  # noqa: F401 (makes scripts/ importable, which has measure)
import measure
import runner
import summary
import turns
from run import GROUPS, shuffled
from runner import table

LEARNING = 10  # iterations that do not count
SLOW = 1.05  # of the median
SHARE = 0.25  # of what an iteration took longer makes a cause
FAULTS = 10  # more than usual
FIGURES = ("ms", "cpu_ms", "library_ms", "waited_ms", "faults", "stolen_ms")  # of tail.csv
CAUSES = ("plan", "threads", "faults", "waited", "host", "none")


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=runner.names(table.BY_NAME, "workload", GROUPS), default=list(table.SUITE),
                        help="comma between them; or suite, untuned, all (suite)")
    parser.add_argument("--allocators", type=runner.names(allocators.BY_NAME, "allocator"),
                        default=["memomalloc", "jemalloc_tuned", "tcmalloc_tuned"], help="comma between them (%(default)s)")
    parser.add_argument("--peer", type=runner.peer, action="append", default=[],
                        metavar="NAME=LIBRARY[,VARIABLE=VALUE...]", help="as in run.py")
    parser.add_argument("--repetitions", type=int, default=2, help="(%(default)s)")
    parser.add_argument("--iterations", type=int, default=60, help="that count, at least (%(default)s)")
    turns.add_seed(parser)
    runner.add_options(parser)
    return parser.parse_args(argv)


class Iterations:
    """Those of one run that count."""

    def __init__(self, records):
        self.records = records
        self.median, self.faults = (statistics.median(record[key] for record in records) for key in ("ms", "faults"))
        self.tail = measure.quantile([record["ms"] for record in records], 0.99) / self.median
        # A block that the plan leaves out moves a counter in each iteration, slow or not.
        moved = collections.Counter(tuple(sorted(record["counters"].items())) for record in records)
        self.usual = dict(moved.most_common(1)[0][0])
        self.slow = [record for record in records if record["ms"] > SLOW * self.median]

    def cause(self, record):
        longer = record["ms"] - self.median
        for name, true in (("plan", record["counters"] and record["counters"] != self.usual),
                           ("threads", record["library_ms"] >= SHARE * longer),
                           ("faults", record["faults"] > self.faults + FAULTS),
                           ("waited", record["waited_ms"] >= SHARE * longer),
                           ("host", record["stolen_ms"] > 0)):
            if true:
                return name
        return "none"

    def causes(self):
        return collections.Counter(map(self.cause, self.slow))


def run(workload, allocator, arguments):
    """The iterations of one run, or None if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "each.json")
        count = LEARNING + max(arguments.iterations, workload.iterations)
        done = runner.Run(workload, allocator, arguments, count, more={"MEASURE_EACH": str(path)}).finish()
        return done and Iterations(json.loads(path.read_text())[LEARNING:])


def lines(workload, allocator, number, one):
    """Of the run with this number, a line an iteration."""
    for index, record in enumerate(one.records):
        over = record["ms"] / one.median
        yield [workload.name, allocator.name, number, LEARNING + index, round(over, 4), one.cause(record) if over > SLOW else "",
               *(round(record[key], 3) for key in FIGURES),
               " ".join(f"{key}={value}" for key, value in record["counters"].items())]


def measure_all(arguments, workloads, chosen):
    """{workload: {allocator: [Iterations of each run]}}, each run written to tail.csv as it ends; and how many failed."""
    failed, found = 0, collections.defaultdict(lambda: collections.defaultdict(list))
    progress = runner.Progress(arguments.repetitions * len(workloads) * len(chosen))
    with (arguments.output / "tail.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["workload", "allocator", "run", "iteration", "over_median", "cause", *FIGURES, "counters"])
        for number, workload, allocator in shuffled(arguments.repetitions, workloads, chosen, arguments.seed):
            one = run(workload, allocator, arguments)
            failed += one is None
            if one:
                found[workload.name][allocator.name].append(one)
                writer.writerows(lines(workload, allocator, number, one))
                file.flush()
            progress.step()
    return found, failed


def span(runs):
    tails = [one.tail for one in runs]
    return f"{statistics.median(tails):.2f} ({min(tails):.2f} to {max(tails):.2f})"


def causes(runs):
    """How many of how many are slow, and of these each cause."""
    counted = sum((one.causes() for one in runs), collections.Counter())
    slow, every = sum(len(one.slow) for one in runs), sum(len(one.records) for one in runs)
    return [f"{slow} of {every}", *(str(counted[name]) for name in CAUSES)]


def row(name, cells):
    """Ours beside the other whose tail is the shortest; "longer" if each run of ours is above each of the other's."""
    ours = cells[allocators.OURS]
    others = {other: runs for other, runs in cells.items() if other != allocators.OURS}
    if not others:
        return [name, span(ours), "", "", *causes(ours), ""]
    best = min(others, key=lambda other: statistics.median(one.tail for one in others[other]))
    longer = min(one.tail for one in ours) > max(one.tail for one in others[best])
    return [name, span(ours), f"{span(others[best])} {best}", "longer" if longer else "", *causes(ours),
            ", ".join(causes(others[best]))]


HEADINGS = ("workload", "p99 over p50", "least of the others", "beyond the runs' spread", "slow iterations", *CAUSES,
            f"the other's: slow, {', '.join(CAUSES)}")


def main(argv=None):
    arguments = parse(argv)
    chosen = allocators.chosen(arguments.allocators, arguments.library, arguments.peer)
    if allocators.OURS not in [one.name for one in chosen]:
        print(f"{allocators.OURS} has to be among the allocators", file=sys.stderr)
        return 2
    workloads = [table.BY_NAME[name] for name in arguments.workloads if runner.can_run(table.BY_NAME[name], arguments)]
    arguments.output.mkdir(parents=True, exist_ok=True)
    found, failed = measure_all(arguments, workloads, chosen)
    print(f"Runs in orders of seed {arguments.seed}.\n")
    print("\n".join(summary.rows_table(HEADINGS, [row(name, cells) for name, cells in found.items()
                                                  if allocators.OURS in cells])))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
