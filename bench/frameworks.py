#!/usr/bin/env python3
"""What the library sees of each framework, and what it gains.

Each row is a workload run in turn with glibc alone and with the library before it. Large bytes are
those that the framework asks of malloc in blocks of 64 KiB and more: what a pool of the framework's
own hides is not among them. Written to --output: frameworks.csv; printed as Markdown.
"""

import argparse
import csv
import statistics
import sys

import allocators
import runner
import summary
from runner import table

ROWS = (  # framework, what is visible, what to do, the workload that shows it, and as what
    ("PyTorch on x86-64", "every tensor and packing buffer", "nothing",
     "eager_resnet18_b4_t2", "resnet18 b4"),
    ("PyTorch, training", "the same, and gradients", "nothing",
     "train_resnet18_b16_t2", "resnet18 b16"),
    ("TorchScript", "every tensor", "nothing", "torchscript_resnet18_b4_t2", "resnet18 b4"),
    ("torch.compile", "what generated code takes from torch", "nothing",
     "compile_resnet18_b4_t2", "resnet18 b4"),
    ("numpy", "every large array", "nothing", "numpy_images", "image pipeline"),
    ("scipy", "every large array", "nothing", "scipy_signal", "filters, spectrograms"),
    ("pandas", "every large column", "nothing", "pandas_groupby", "filter, join, group-by"),
    ("scikit-learn", "every large array", "nothing", "sklearn_fit", "scaler, PCA, regression"),
    ("ONNX Runtime", "with its arena, a few blocks that stay", "see next row",
     "onnxruntime_arena", "residual network b4"),
    ("ONNX Runtime, no arena", "every tensor", "`enable_cpu_mem_arena = False`",
     "onnxruntime_no_arena", "residual network b4"),
    ("TensorFlow, Keras", "oneDNN's pool hides its own reuse", "see next row",
     "tensorflow_mobilenet_v2", "MobileNetV2 b8"),
    ("TensorFlow, no oneDNN", "every tensor", "`TF_ENABLE_ONEDNN_OPTS=0`",
     "tensorflow_no_pool", "MobileNetV2 b8"),
    ("JAX on the CPU", "its buffers, from threads in no fixed order", "nothing",
     "jax_perceptron", "perceptron b64"),
    ("JAX on the CPU", "the same", "nothing", "jax_convolutional", "convolutions b16"),
)
MEASURED = ("user_ms_per_iteration", "system_ms_per_iteration", "p50_ms", "faults_per_iteration_steady", "peak_rss_kib",
            "planned_share", "at_hand_share", "steady_planned_share", "steady_at_hand_share", "large_bytes_per_iteration")


def measure(workload, pair, arguments):
    """Medians of the interleaved repetitions by allocator name; None if a run failed."""
    runs = {allocator.name: [] for allocator in pair}
    for _ in range(arguments.repetitions):
        for allocator in pair:
            figures = runner.run(workload, allocator, arguments,
                                 workload.quick if arguments.quick else None)
            if figures is None:
                return None
            runs[allocator.name].append(figures)
    return {name: {key: statistics.median(run.get(key, 0) for run in found) for key in MEASURED}
            for name, found in runs.items()}


def processor(figures):
    """Processor time of an iteration, ms: steadier than the clock where the machine is busy."""
    return figures["user_ms_per_iteration"] + figures["system_ms_per_iteration"]


def cells(row, plain, ours):
    framework, visible, advice, _, shown = row
    return [f"{framework}: {shown}", visible, advice,
            f"{ours['large_bytes_per_iteration'] / 2**20:.1f} MiB",
            f"{100 * ours['steady_planned_share']:.1f}, {100 * ours['steady_at_hand_share']:.1f}",
            f"{100 * runner.held(ours, ''):.1f}",
            f"{plain['faults_per_iteration_steady']:.0f}, {ours['faults_per_iteration_steady']:.0f}",
            f"{processor(ours) / processor(plain):.2f}",
            f"{ours['peak_rss_kib'] / plain['peak_rss_kib']:.2f}"]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="workloads, comma between them (those of all rows)")
    parser.add_argument("--repetitions", type=int, default=1, help="(%(default)s)")
    parser.add_argument("--quick", action="store_true", help="few iterations")
    runner.add_options(parser)
    arguments = parser.parse_args(argv)
    pair = allocators.chosen(["glibc", allocators.OURS], arguments.library)
    arguments.output.mkdir(parents=True, exist_ok=True)
    wanted = arguments.only.split(",") if arguments.only else [row[3] for row in ROWS]
    for name in set(wanted) - {row[3] for row in ROWS}:
        parser.error(f"no row of {name!r}; there are {', '.join(row[3] for row in ROWS)}")
    rows = [row for row in ROWS
            if row[3] in wanted and runner.can_run(table.BY_NAME[row[3]], arguments)]
    print("\n".join(summary.rows_table(
        ["framework", "what is visible", "what to do", "large bytes an iteration",
         "% of them in the second half planned, reused from the pool", "% of the whole run from both",
         "page faults an iteration, without and with", "processor time", "peak memory"], [])))
    failed, progress = 0, runner.Progress(len(rows))
    with (arguments.output / "frameworks.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("workload", "allocator", *MEASURED))
        for row in rows:
            found = measure(table.BY_NAME[row[3]], pair, arguments)
            progress.step()
            failed += found is None
            if found:
                writer.writerows((row[3], name, *figures.values()) for name, figures in found.items())
                print("| " + " | ".join(cells(row, *found.values())) + " |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
