"""What every workload of this folder shares: its options, and the line of JSON that it prints.

A workload builds its program, returns a step, and lets measure.loop call it. It knows no allocator;
only where the process has our library loaded, its own figures of the loop are printed as well.
"""

import argparse
import ctypes
import json
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


def library_function(name):
    """A function of memomalloc/memomalloc.h, or None in a process that runs without the library."""
    return getattr(ctypes.CDLL(None), name, None)


def stats():
    """The library's figures of now, zeros in a process that runs without it."""
    ask = library_function("memomalloc_stats_json")
    if ask is None:
        return {"large_bytes": 0, "served_bytes": 0}
    buffer = ctypes.create_string_buffer(1 << 14)
    ask(buffer, ctypes.c_size_t(len(buffer)))
    return json.loads(buffer.value)


class Watch:
    """A step that notes the library's figures at two iterations, and the levels between all."""

    def __init__(self, step, settled):
        self.step, self.settled = step, settled
        self.noted, self.levels = [], []

    def __call__(self, index):
        if index in (0, self.settled):
            self.noted.append(stats())
        if index:
            self.levels.append(measure.rss_kib())
        return self.step(index)

    def figures(self, iterations):
        """Large bytes asked for in an iteration, and the share served of those from `settled` on."""
        start, settled, end = *self.noted, stats()
        self.levels.append(measure.rss_kib())
        large = end["large_bytes"] - settled["large_bytes"]
        share = (end["served_bytes"] - settled["served_bytes"]) / large if large else 0.0
        return {"large_bytes_per_iteration": (end["large_bytes"] - start["large_bytes"]) / iterations,
                "settled_served_share": share}


def run(step, arguments, label, settled=None):
    """Measures the step and prints one line of JSON.

    `settled`: the iteration from which on the served share is to be judged; the middle if None.
    """
    iterations = arguments.iterations
    watch = Watch(step, iterations // 2 if settled is None else settled)
    figures = {name: str(value) if isinstance(value, pathlib.Path) else value
               for name, value in vars(arguments).items() if value is not None}
    figures |= measure.loop(watch, iterations, label) | watch.figures(iterations)
    if arguments.levels:
        arguments.levels.write_text("".join(f"{level}\n" for level in watch.levels))
    measure.print_json(figures)
