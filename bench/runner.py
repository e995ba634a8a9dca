"""Runs one workload under one allocator in a process of its own, and reads what it printed.

run.py, turns.py, acceptance.py, frameworks.py and shapes.py share it, and the options that say with which
Python and which build of the library.
"""

import argparse
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

COLUMNS = ("workload allocator repetition p50_ms p99_ms cpu_ms first_ms faults_per_iteration "
           "faults_per_iteration_steady user_ms_per_iteration system_ms_per_iteration peak_rss_kib "
           "rss_before_kib steady_rss_kib steady_over_before_kib growth_kib planned_share "
           "at_hand_share steady_planned_share steady_at_hand_share large_bytes_per_iteration slab_bytes lower_bound_bytes run_seconds checksum "
           "turns_ms turns_cpu_ms turns_speed_ms").split()


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


def slab(stats):
    """What the library says of its slabs, as columns; empty for other allocators."""
    return {name: stats.get(name, 0) for name in ("slab_bytes", "lower_bound_bytes")} if stats else {}


def held(figures, when="steady_"):
    """The share of large bytes that came from a plan's slab or from memory reused from the pool, in the
    second half of a run, or with `when` empty in the whole of it."""
    return figures[f"{when}planned_share"] + figures[f"{when}at_hand_share"]


def can_run(workload, arguments):
    return workload.environment == "torch" or bool(arguments.python_jax)


class Run:
    """A workload's process under an allocator, from its start to its figures.

    Under our library its statistics are there too, as "stats". `iterations` is the workload's own
    number if None; `extra` are further arguments of its program; `more` adds to its environment, and keeps the
    descriptors `kept` open.
    """

    def __init__(self, workload, allocator, arguments, iterations=None, extra=(), more=(), kept=()):
        self.workload, self.allocator, self.timeout = workload, allocator, arguments.timeout
        python = arguments.python_jax if workload.environment == "jax" else arguments.python_torch
        command = [python, str(ROOT / workload.program), *workload.arguments.split(),
                   "--iterations", str(iterations or workload.iterations), *extra]
        command += ["--json"] if workload.program == "scripts/infer.py" else []
        self.folder = tempfile.TemporaryDirectory()
        environment = allocator.environment(os.environ) | dict(more)
        # Beside itself under another name it must not be the only one that writes statistics.
        if allocator.name == allocators.OURS and not more:
            environment["MEMOMALLOC_STATS_FILE"] = str(pathlib.Path(self.folder.name, "stats-%p.json"))
        self.began = time.monotonic()
        self.said = [open(pathlib.Path(self.folder.name, name), "w+", encoding="utf-8", errors="replace")
                     for name in ("out", "err")]
        self.process = subprocess.Popen(command, env=environment, stdout=self.said[0], stderr=self.said[1],
                                        pass_fds=kept)

    def finish(self):
        """Waits for the end; the figures, or None with a line on stderr if it failed."""
        late = ""
        try:
            self.process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            late = f"\nstopped after {self.timeout} s"
        out, err = (self.said_in(file) for file in self.said)
        own = pathlib.Path(self.folder.name, f"stats-{self.process.pid}.json")
        stats = json.loads(own.read_text()) if own.exists() else {}
        self.folder.cleanup()
        if self.process.returncode != 0 or not out.strip():
            print(f"\n{self.workload.name} under {self.allocator.name} failed with code {self.process.returncode}: "
                  f"{' | '.join((err + late).strip().splitlines()[-2:])}", file=sys.stderr)
            return None
        figures = json.loads(out.splitlines()[-1])
        figures |= {"workload": self.workload.name, "allocator": self.allocator.name,
                    "run_seconds": round(time.monotonic() - self.began, 1)}
        return figures | slab(stats) | ({"stats": stats} if stats else {})

    @staticmethod
    def said_in(file):
        file.seek(0)
        with file:
            return file.read()


def run(workload, allocator, arguments, iterations=None, extra=()):
    """One run from start to end; returns its figures, or None with a line on stderr if it failed."""
    return Run(workload, allocator, arguments, iterations, extra).finish()


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
