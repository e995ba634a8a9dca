#!/usr/bin/env python3
"""Memory under changing shapes: resident memory after each of many iterations, for each allocator.

Every iteration takes a sequence of a new random length (BERT-base) or images of a new random size
(resnet18). Written to --output: shapes.csv (task, allocator, iteration, KiB) and shapes.svg, drawn if
matplotlib is installed. Prints the peak, the growth and the time of the first iteration.
"""

import argparse
import csv
import pathlib
import statistics
import sys
import tempfile

import allocators
import runner
import summary
from runner import table

SEQUENCES, IMAGES = "sequences", "images"
TASKS = {
    SEQUENCES: table.Workload(SEQUENCES, "bench/workloads/transformer.py",
                              "--task bert_random --threads 2", 500, 100),
    IMAGES: table.Workload(IMAGES, "bench/workloads/serve.py", "--random-sizes --threads 2", 500, 100),
}


def measure(task, allocator, arguments):
    """(figures, levels in KiB after each iteration) of one run, or (None, [])."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "levels")
        figures = runner.run(task, allocator, arguments, arguments.iterations, ("--levels", str(path)))
        return figures, [int(line) for line in path.read_text().split()] if figures else []


def row(figures, levels):
    """The cells of a line of the printed table."""
    quarter = max(1, len(levels) // 4)
    second = statistics.median(levels[quarter:2 * quarter])
    last = statistics.median(levels[-quarter:])
    return [figures["workload"], figures["allocator"], f"{figures['peak_rss_kib'] / 1024:.0f}",
            f"{figures['rss_before_kib'] / 1024:.0f}", f"{second / 1024:.0f}", f"{last / 1024:.0f}",
            f"{(last - second) / 1024:+.1f}", f"{figures['faults_per_iteration_steady']:.0f}",
            f"{figures['first_ms']:.0f}", f"{figures['p50_ms']:.1f}",
            f"{100 * runner.held(figures):.1f} %" if "planned_share" in figures else ""]


def draw(curves, path):
    """A panel for each task, a line for each allocator."""
    pyplot = runner.pyplot()
    if pyplot is None:
        return
    tasks = list(dict.fromkeys(task for task, _ in curves))
    figure, panels = pyplot.subplots(1, len(tasks), figsize=(6.5 * len(tasks), 4.5), squeeze=False)
    for panel, task in zip(panels[0], tasks):
        for (of, name), levels in curves.items():
            if of == task:
                ours = name == allocators.OURS
                panel.plot([level / 1024 for level in levels], label=name, zorder=3 if ours else 2,
                           linewidth=2 if ours else 0.8, color="black" if ours else None)
        panel.set_xlabel("iteration")
        panel.set_ylabel("resident memory after it, MiB")
        panel.set_title(task)
        panel.grid(linewidth=0.3)
    panels[0][-1].legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(path, bbox_inches="tight")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=runner.names(TASKS, "task"), default=list(TASKS),
                        help=f"comma between them ({','.join(TASKS)})")
    parser.add_argument("--allocators", type=runner.names(allocators.BY_NAME, "allocator"),
                        default=list(allocators.BY_NAME), help="(all that are installed)")
    parser.add_argument("--iterations", type=int, default=500, help="of each run (%(default)s)")
    runner.add_options(parser)
    arguments = parser.parse_args(argv)
    chosen = allocators.chosen(arguments.allocators, arguments.library)
    tasks = [TASKS[name] for name in arguments.tasks]
    arguments.output.mkdir(parents=True, exist_ok=True)
    progress, curves, failed = runner.Progress(len(tasks) * len(chosen)), {}, 0
    heading = summary.rows_table(
        ["task", "allocator", "peak MiB", "before", "second quarter", "last quarter", "growth",
         "faults/iteration", "first ms", "p50 ms", "served"], [])
    print("\n".join(heading))
    with (arguments.output / "shapes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("task", "allocator", "iteration", "rss_kib"))
        for task in tasks:
            for allocator in chosen:
                figures, levels = measure(task, allocator, arguments)
                progress.step()
                failed += figures is None
                if figures:
                    curves[task.name, allocator.name] = levels
                    writer.writerows((task.name, allocator.name, number, level)
                                     for number, level in enumerate(levels))
                    print("| " + " | ".join(row(figures, levels)) + " |", flush=True)
    if curves:
        draw(curves, arguments.output / "shapes.svg")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
