"""Runs one workload under one allocator in a process of its own, and reads what it printed.

run.py, acceptance.py, frameworks.py and shapes.py share it, and the options that say with which
Python and which build of the library.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import allocators

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench/workloads"))
import table  # noqa: F401 (others take it from here, past the path)

COLUMNS = ("workload allocator repetition p50_ms p99_ms first_ms faults_per_iteration "
           "faults_per_iteration_steady user_ms_per_iteration system_ms_per_iteration peak_rss_kib "
           "rss_before_kib steady_rss_kib steady_over_before_kib growth_kib planned_share "
           "at_hand_share steady_planned_share steady_at_hand_share large_bytes_per_iteration slab_bytes lower_bound_bytes run_seconds checksum").split()


def add_options(parser):
    """The options that every program which runs workloads takes."""
    parser.add_argument("--timeout", type=int, default=600, help="seconds a run (%(default)s)")
    parser.add_argument("--python-torch", default=sys.executable, help="with torch (this one)")
    parser.add_argument("--python-jax", help="with JAX and TensorFlow; without it they are left out")
    parser.add_argument("--library", help=f"to preload as {allocators.OURS} (build/libmemomalloc.so)")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build/bench",
                        help="folder for tables and CSV (build/bench)")


def peer(text):
    """For options: an allocator of the user's."""
    try:
        return allocators.peer(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def chosen(wanted, library, peers=()):
    """The installed allocators among the names, ours from `library` if that is not None; and the peers."""
    found = []
    for allocator in [*(allocators.BY_NAME[name] for name in wanted), *peers]:
        name = allocator.name
        if library and name == allocators.OURS:
            allocator = dataclasses.replace(allocator, preload=str(pathlib.Path(library).resolve()))
        if allocator.library() is None:
            print(f"left out: {name} ({allocator.preload} is not here)", file=sys.stderr)
        else:
            found.append(allocator)
    return found


def slab(stats):
    """What the library says of its slabs, as columns; empty for other allocators."""
    return {name: stats.get(name, 0) for name in ("slab_bytes", "lower_bound_bytes")} if stats else {}


def held(figures, when="steady_"):
    """The share of large bytes that came from a plan's slab or from memory at hand in the pool, in the
    second half of a run, or with `when` empty in the whole of it."""
    return figures[f"{when}planned_share"] + figures[f"{when}at_hand_share"]


def can_run(workload, arguments):
    return workload.environment == "torch" or bool(arguments.python_jax)


def run(workload, allocator, arguments, iterations=None, extra=()):
    """One run; returns its figures, or None with a line on stderr if it failed.

    Under our library its statistics are there too, as "stats". `iterations` is the workload's own
    number if None; `extra` are further arguments of its program.
    """
    python = arguments.python_jax if workload.environment == "jax" else arguments.python_torch
    command = [python, str(ROOT / workload.program), *workload.arguments.split(),
               "--iterations", str(iterations or workload.iterations), *extra]
    command += ["--json"] if workload.program == "scripts/infer.py" else []
    with tempfile.TemporaryDirectory() as folder:
        environment = allocator.environment(os.environ)
        if allocator.name == allocators.OURS:
            environment["MEMOMALLOC_STATS_FILE"] = str(pathlib.Path(folder, "stats-%p.json"))
        began = time.monotonic()
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        try:
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
        stats = json.loads(own.read_text()) if own.exists() else {}
    figures |= {"workload": workload.name, "allocator": allocator.name,
                "run_seconds": round(time.monotonic() - began, 1)}
    return figures | slab(stats) | ({"stats": stats} if stats else {})


def names(known, what, groups=()):
    """A parser of options: names with commas between them, each a `what` in `known`, or a group's name."""
    def parse(text):
        chosen = groups[text] if text in groups else text.split(",")
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"no {what} {name!r}; there are {', '.join(known)}")
        return list(chosen)

    return parse


def pyplot():
    """matplotlib.pyplot, drawing to files; None, with a word on stderr, where it is not installed."""
    try:
        import matplotlib
    except ImportError:
        print("no plot: matplotlib is not installed", file=sys.stderr)
        return None
    matplotlib.use("svg")
    from matplotlib import pyplot as drawing
    return drawing


class Progress:
    """How many of the runs are done and how long the rest takes, on a terminal's stderr."""

    def __init__(self, total):
        self.total, self.done, self.began = total, 0, time.monotonic()

    def step(self):
        self.done += 1
        if sys.stderr.isatty():
            left = (time.monotonic() - self.began) / self.done * (self.total - self.done)
            end = "\n" if self.done >= self.total else ""
            print(f"\r{self.done}/{self.total} runs, about {left / 60:.0f} min left ", end=end,
                  file=sys.stderr, flush=True)
