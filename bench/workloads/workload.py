"""What every workload of this folder shares: its options, and the line of JSON that it prints.

A workload builds its program, returns a step, and lets measure.loop call it. It knows no allocator;
only where the process has our library loaded, its own figures of the loop are printed as well.
"""

import argparse
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import measure


def parser(text, iterations):
    """An argument parser with the options that all workloads take."""
    options = argparse.ArgumentParser(description=text)
    options.add_argument("--iterations", type=int, default=iterations,
                         help="steps to measure, at least 2 (%(default)s)")
    options.add_argument("--threads", type=int, default=1,
                         help="threads of the computation (%(default)s)")
    options.add_argument("--seed", type=int, default=0, help="of weights and inputs (%(default)s)")
    options.add_argument("--levels", type=pathlib.Path,
                         help="write resident memory in KiB after each measured iteration here")
    return options


def limit_threads(threads):
    """Thread counts for libraries that read them from the environment when they are imported."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, str(threads))


def torch_for(arguments):
    """Imports torch with the thread count and the seed of the options."""
    import torch

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    return torch


def run(step, arguments, label, settled=None):
    """Measures the step and prints one line of JSON.

    `settled`: the iteration from which on the library's shares are to be judged; the middle if None.
    """
    figures = {name: str(value) if isinstance(value, pathlib.Path) else value
               for name, value in vars(arguments).items() if value is not None}
    levels = []
    figures |= measure.loop(step, arguments.iterations, label, settled, levels)
    if arguments.levels:
        arguments.levels.write_text("".join(f"{level}\n" for level in levels))
    measure.print_json(figures)
