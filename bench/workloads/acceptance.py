#!/usr/bin/env python3
"""Whether the library does for real programs what it promises: a table, asked, measured, met.

Training, servers, changing shapes, unordered pools and memory that comes back, each run under the
library and under the allocators it is held against. Served shares, page faults and memory do not
depend on how busy the machine is. Written to --output: acceptance.md, acceptance.csv (the lines) and
acceptance_raw.csv (the runs). Exit code 1 if a line is not met.
"""

import argparse
import csv
import dataclasses
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import allocators
import runner
import table
import verdicts

OURS = allocators.OURS
PEERS = tuple(name for name in allocators.BY_NAME if name != OURS)


@dataclasses.dataclass(frozen=True)
class Case:
    """A workload, the allocators it is run under beside ours, and what is asked of the runs."""

    workload: table.Workload
    peers: tuple
    checks: tuple  # functions of (our figures, peers' figures by name) -> (asked, measured, met)


def held(least, when="in the second half"):
    def check(ours, peers):
        share = 100 * runner.held(ours)
        return (f"of large bytes {when}, planned or reused from the pool: at least {least} %",
                f"{share:.2f} % ({100 * ours['steady_planned_share']:.2f} from the plan; whole run "
                f"{100 * runner.held(ours, ''):.2f} %)", share >= least)

    return check


def few_faults(ours, peers):
    steady, all_of_it = ours["faults_per_iteration_steady"], ours["faults_per_iteration"]
    return ("page faults an iteration at most 100", f"{steady} ({all_of_it} with learning)",
            steady <= 100)


def leanest(ours, peers):
    """The peak against the least of the peers that were run."""
    name = min(peers, key=lambda one: peers[one]["peak_rss_kib"])
    least, peak = peers[name]["peak_rss_kib"] / 1024, ours["peak_rss_kib"] / 1024
    others = "the leanest other's" if len(peers) > 1 else f"{name}'s"
    return (f"peak memory at most {others}",
            f"{peak:.1f} MiB, {name} {least:.1f}: {peak / least:.3f}", peak <= least)


def no_growth(ours, peers):
    """The level of the last quarter over that of the third; 1 % is the reading's own noise."""
    growth, level = ours["growth_kib"], ours["steady_rss_kib"]
    return ("memory not growing", f"{growth / 1024:+.1f} MiB of {level / 1024:.0f}",
            growth <= level / 100)


def same_output(ours, peers):
    differing = [name for name, run in peers.items() if run["checksum"] != ours["checksum"]]
    return ("the same output", f"differs from {', '.join(differing)}" if differing else "equal",
            not differing)


def comes_back(seconds):
    """Resident memory some seconds after the loop, over its level before."""
    def check(ours, peers):
        before, after = ours["before_kib"], ours["after_kib"][seconds - 1]
        return (f"memory within 5 % of its level before the loop after {seconds} s",
                f"{after / 1024:.0f} MiB, {after / before:.3f} of before, "
                f"{after / ours['cold_kib']:.3f} of before any iteration",
                after <= 1.05 * before and ours["equal"])

    return check


TRAINING = (held(98), few_faults, leanest, same_output)


def program(name, script, arguments, iterations):
    return table.Workload(name, f"bench/workloads/{script}.py", arguments, iterations, iterations)


CASES = (
    *(Case(table.BY_NAME[name], PEERS, TRAINING) for name in (
        "train_resnet18_b16_t2", "train_transformer_b8_t2", "train_embedding_t2",
        "train_embedding_workers_t2")),
    *(Case(table.BY_NAME[name], ("glibc",), (held(99), same_output)) for name in (
        "serve_two_threads", "serve_two_models")),
    Case(table.BY_NAME["alternate_b1_b4"], ("glibc",), (held(98), same_output)),
    Case(table.BY_NAME["alternate_rounds_b1_b4"], ("glibc",),
         (held(98, "from the second round on"), same_output)),
    Case(program("bert_random_b1_t2", "transformer", "--task bert_random --threads 2", 500),
         ("glibc",), (held(90), leanest, no_growth, same_output)),
    *(Case(table.BY_NAME[name], ("glibc",), (held(90), same_output)) for name in (
        "jax_perceptron", "jax_convolutional")),
    Case(program("release_on_request", "release", "--release --pause 2 --threads 2", 20), ("glibc",),
         (comes_back(2), same_output)),
    Case(program("release_after_loop", "release", "--pause 10 --threads 2", 20), ("glibc",),
         (comes_back(10), same_output)),
)


def judge(case, arguments, file, progress):
    """Runs a case; its lines as (workload, asked, measured, met)."""
    name, runs = case.workload.name, {}
    writer = csv.DictWriter(file, runner.COLUMNS, extrasaction="ignore", restval="")
    if not runner.can_run(case.workload, arguments):
        return [(name, "to be run", "not run: --python-jax is missing", False)]
    for allocator in allocators.chosen((OURS, *case.peers), arguments.library):
        figures = runner.run(case.workload, allocator, arguments,
                             case.workload.quick if arguments.quick else None)
        progress.step()
        if figures:
            runs[allocator.name] = figures
            writer.writerow(figures)
            file.flush()
    ours = runs.pop(OURS, None)
    if ours is None or not runs:
        return [(name, "to run to its end", "failed", False)]
    return [(name, *check(ours, runs)) for check in case.checks]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="workloads, comma between them (all)")
    parser.add_argument("--quick", action="store_true", help="few iterations")
    runner.add_options(parser)
    arguments = parser.parse_args(argv)
    names = [case.workload.name for case in CASES]
    wanted = arguments.only.split(",") if arguments.only else names
    for name in wanted:
        if name not in names:
            parser.error(f"no workload {name!r}; there are {', '.join(names)}")
    cases = [case for case in CASES if case.workload.name in wanted]
    arguments.output.mkdir(parents=True, exist_ok=True)
    progress = runner.Progress(sum(1 + len(case.peers) for case in cases))
    with (arguments.output / "acceptance_raw.csv").open("w", newline="") as file:
        file.write(",".join(runner.COLUMNS) + "\n")
        lines = []
        shown = verdicts.as_table([], "workload")
        print("\n".join(shown))
        for case in cases:
            found = judge(case, arguments, file, progress)
            lines += found
            shown += verdicts.as_table(found, "workload")[2:]
            print("\n".join(shown[-len(found):]), flush=True)
    with (arguments.output / "acceptance.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("workload", "asked", "measured", "met"))
        writer.writerows(lines)
    met = sum(line[-1] for line in lines)
    end = f"\n{met} of {len(lines)} met"
    text = "\n".join(["# Asked, measured, met", "", *shown, end])
    (arguments.output / "acceptance.md").write_text(text + "\n", encoding="utf-8")
    print(end)
    return 0 if met == len(lines) else 1


if __name__ == "__main__":
    sys.exit(main())
