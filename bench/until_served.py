#!/usr/bin/env python3
"""After how many iterations a program is served, and what it costs where belief was wrong: counted from traces.

`memomalloc analyze` runs the engine on each trace. An iteration is served if at least 95 % of its large bytes come from
a plan, or from a plan or reused from the pool, which costs no page fault either. Told is how many iterations
came before the first from which on all are. Programs are recorded first (--record), with the iterations' marks, which
the engine is not told when it is counted; random ones are drawn again, with their seeds.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import allocators
import children  # noqa: F401 (makes scripts/ importable, which has measure)
import measure
import random_traces
import runner
import summary
import unseen_loops
from program_loops import arrays, networks
from runner import ROOT, table

MIB = 1 << 20
SERVED = 0.95  # of an iteration's large bytes
RECORDED = 20  # iterations of a program that is recorded
GOLDEN = sorted((ROOT / "tests/golden/traces").glob("*.csv.gz"))
LOOPS = {loop.__name__: loop for module in (arrays, networks) for loop in module.LOOPS} | unseen_loops.BY_NAME


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="record the programs again, also those that are there")
    parser.add_argument("--workloads", type=runner.names(table.BY_NAME, "workload", {
        "suite": table.SUITE, "untuned": table.UNTUNED, "none": (),
        "all": [name for name, one in table.BY_NAME.items() if one.environment == "torch"]}), default=[],
        help="of bench/run.py, comma between them; suite, untuned or all (none)")
    parser.add_argument("--programs", type=runner.names(LOOPS, "program", {"all": LOOPS, "none": ()}),
                        default=list(LOOPS), help=f"loops, comma between them, or none (all): {', '.join(LOOPS)}")
    parser.add_argument("--traces", type=pathlib.Path, nargs="*", default=GOLDEN, help="recorded traces (tests/golden)")
    parser.add_argument("--seeds", type=int, default=20, help="random programs of each kind (%(default)s)")
    parser.add_argument("--each", action="store_true", help="print the shares of each iteration, too")
    parser.add_argument("--loop", help=argparse.SUPPRESS)
    runner.add_options(parser)
    return parser.parse_args(argv)


def run_loop(name):
    """In the child: the loop's iterations, each of which is marked."""
    tell = measure.marker()
    step = LOOPS[name]()
    for _ in range(RECORDED):
        tell()
        step()
    tell()


def record(name, command, arguments):
    """The trace of the command's process; None if it failed."""
    folder = arguments.output / "traces"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.csv"
    if path.exists() and not arguments.record:
        return path
    ours = allocators.chosen([allocators.OURS], arguments.library)[0]
    with tempfile.TemporaryDirectory() as own:
        environment = ours.environment(os.environ) | {"MEMOMALLOC_TRACE_FILE": f"{own}/%p.csv", "MEASURE_MARKS": "1"}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True)
        _, err = process.communicate()
        trace = pathlib.Path(own, f"{process.pid}.csv")
        if process.returncode != 0 or not trace.exists():
            print(f"left out: {name} (code {process.returncode}: {' | '.join(err.strip().splitlines()[-1:])})",
                  file=sys.stderr)
            return None
        path.write_bytes(trace.read_bytes())
    return path


def programs(arguments):
    """(name, trace) of all that is asked for."""
    for name in arguments.workloads:
        workload = table.BY_NAME[name]
        command = [arguments.python_torch, str(ROOT / workload.program), *workload.arguments.split(),
                   "--iterations", str(RECORDED)]
        command += ["--json"] if workload.program == "scripts/infer.py" else []
        yield name, record(name, command, arguments)
    for name in arguments.programs:
        yield name, record(name, [arguments.python_torch, __file__, "--loop", name], arguments)
    for path in arguments.traces:
        yield path.name.split(".")[0], path


class Outcome:
    """What the engine makes of a trace."""

    def __init__(self, threads):
        iterations = [thread["iterations"] for thread in threads]
        count = min(map(len, iterations), default=0) - 1  # after the last mark the program ends
        sums = [[sum(one[at][kind] for one in iterations) for kind in range(4)] for at in range(max(count, 0))]
        self.planned = [planned / asked if asked else 1.0 for asked, planned, *_ in sums]
        self.held = [(planned + at_hand) / asked if asked else 1.0 for asked, planned, at_hand, _ in sums]
        self.fresh = sum(one[3] for one in sums)
        self.bytes = sum(thread["bytes"] for thread in threads)
        self.trials = [sum(thread["trials"][name] for thread in threads) for name in ("begun", "lost", "lost_bytes")]
        self.broken = sum(thread["counters"]["diverged"] for thread in threads)
        self.missed = sum(thread["counters"]["fallback_allocations"] for thread in threads)

    @staticmethod
    def until(shares):
        """Iterations before the first from which on all are served; None if the last one is not."""
        count = next((at for at in range(len(shares), 0, -1) if shares[at - 1] < SERVED), 0)
        return count if count < len(shares) else None


def analyze(path):
    done = subprocess.run([str(ROOT / "build/memomalloc"), "analyze", str(path), "--json"], capture_output=True,
                          text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return Outcome(json.loads(done.stdout)["threads"])


def said(count, shares):
    return f"not within {len(shares)}" if count is None else str(count)


def row(name, outcome):
    begun, lost, lost_bytes = outcome.trials
    return [name, *(said(Outcome.until(shares), shares) for shares in (outcome.planned, outcome.held)),
            f"{begun}, {lost}", f"{lost_bytes / MIB:.1f}", f"{outcome.fresh / MIB:.0f}", str(outcome.broken),
            str(outcome.missed)]


HEADINGS = ("program", "iterations until a plan serves", "until plan or pool serve", "trials: begun, lost",
            "slabs of lost trials, MiB", "touched first, MiB", "times learned again", "calls that missed a plan")


def kind_row(kind, seeds, folder):
    """All random programs of a kind together."""
    found = []
    for seed in range(seeds):
        path = pathlib.Path(folder, "random.csv.gz")
        random_traces.write(path, kind, seed)
        found.append(analyze(path))
    cells = []
    for shares in ([one.planned for one in found], [one.held for one in found]):
        counts = [Outcome.until(one) for one in shares]
        known = sorted(count for count in counts if count is not None)
        cells.append(f"{sum(count <= 3 for count in known)} of {seeds} by the third; "
                     f"worst {known[-1] if len(known) == seeds else 'not at all'}")
    begun, lost, lost_bytes = (sum(one.trials[at] for one in found) for at in range(3))
    return [kind.__name__, *cells, f"{begun}, {lost}", f"{lost_bytes / MIB:.1f}",
            f"{sum(one.fresh for one in found) / MIB:.0f}", str(sum(one.broken for one in found)),
            str(sum(one.missed for one in found))]


def main(argv):
    arguments = parse(argv)
    if arguments.loop:
        run_loop(arguments.loop)
        return 0
    rows = []
    for name, path in programs(arguments):
        if path is None:
            continue
        outcome = analyze(path)
        if not outcome.planned:
            print(f"left out: {name} (nothing in {path} marks its iterations)", file=sys.stderr)
            continue
        rows.append(row(name, outcome))
        if arguments.each:
            print(name, *(f"{planned:.2f}/{held:.2f}" for planned, held in zip(outcome.planned, outcome.held)))
    print("\n".join(summary.rows_table(HEADINGS, rows)))
    if arguments.seeds:
        with tempfile.TemporaryDirectory() as folder:
            rows = [kind_row(kind, arguments.seeds, folder) for kind in random_traces.KINDS]
        print(f"\nRandom programs, seeds 0 to {arguments.seeds - 1} of each kind:\n")
        print("\n".join(summary.rows_table(HEADINGS, rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
