#!/usr/bin/env python3
"""Measures planned GPU memory on a machine with a GPU: scripts/hardware/gpu.sh calls it.

For each workload one process with torch's own allocator, one with expandable segments and one with the library take
turns on the GPU: memory reserved and alive at the peak, time of a step, losses compared to the bit, and those of a second
process with torch's own allocator, which tell how far a loss can be repeated at all. Then the largest batch within a quarter
of the memory, a process with the plans of an earlier one, torch.compile, and what else a program may do. Parts come in order
of their worth and stop when the time is up; a failure of one leaves the others' figures. All processes are started before
the first part, since importing torch takes as long as a part. Writes DATE.json and DATE.csv.

It needs the tree, torch with CUDA, and build/libmemomalloc-cuda.so or an installed wheel; for `memomalloc run --cuda` also
build/memomalloc and build/libmemomalloc.so. `scripts/hardware/prepare.sh gpu`
lays together what a copy of the tree needs. --tiny goes through all parts with small networks, without a GPU on the
processor, where no allocator is measured.
"""

import argparse
import contextlib
import csv
import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Iterator, Optional

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "scripts/tables"))

import results

ALLOCATORS = ("native", "expandable", "memomalloc")
PAIR = ("native", "memomalloc")
PART_SECONDS = 100  # after which a part's processes are given up
COMMANDED = """
import os, torch
os.environ["CUDA_VISIBLE_DEVICES"] = "0"
child = os.fork()
one = torch.ones(1 << 22, device="cuda" if torch.cuda.is_available() else "cpu")
print("child:" if child == 0 else "parent:", float(one.sum()), torch.cuda.device_count(), flush=True)
if child:
    print("child ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    import memomalloc.cuda
    print(memomalloc.cuda.memory_summary())
"""
SHOWN_STEPS = 6  # With stored plans, the rows give the planned share of the first steps, as many as this.


class Process:
    """A child that answers within a time, or is given up."""

    def __init__(self, allocator: str, arguments: argparse.Namespace, **variables: str) -> None:
        self.allocator = allocator
        self.child = subprocess.Popen(
            [sys.executable, str(HERE / "gpu_child.py"), allocator, str(arguments.library),
             "tiny" if arguments.tiny else "usual"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **variables})
        self.answers: queue.Queue[Optional[str]] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self.answers.put(line)
        self.answers.put(None)

    def ask(self, *words: Any) -> None:
        try:
            assert self.child.stdin is not None
            self.child.stdin.write(json.dumps(words) + "\n")
            self.child.stdin.flush()
        except OSError:
            pass  # it has ended, which answer() tells

    def answer(self, until: float) -> dict[str, Any]:
        try:
            line = self.answers.get(timeout=max(0.1, until - time.monotonic()))
        except queue.Empty:
            self.end()
            return {"error": "no answer in time"}
        if line is None:
            self.answers.put(None)  # for what is asked later
            return {"error": f"the process ended with code {self.child.wait()}"}
        return dict(json.loads(line))

    def end(self) -> None:
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()

    def quit(self) -> None:
        """Lets it end as a program does: what it has learned is saved."""
        self.ask("quit")
        try:
            self.child.wait(20)
        except subprocess.TimeoutExpired:
            self.end()


class Measurement:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.end = time.monotonic() + arguments.seconds  # The time limit of all parts.
        self.until = self.end  # The time limit of the current part.
        facts = machine()
        self.result: dict[str, Any] = {
            "title": "Planned GPU memory: reserved memory, step time and largest batch beside torch's own allocator",
            "command": " ".join(["scripts/hardware/gpu.sh", *sys.argv[1:]]), "commit": results.commit(),
            "date": datetime.date.today().isoformat(), "machine": facts.pop("machine"), "kernel": facts.pop("kernel"),
            "versions": facts, "repetitions": arguments.rounds, "parts": {}, "left_out": [], "seconds": {}}
        self.rows: list[dict[str, Any]] = []
        self.waiting: list[Process] = []  # started, and asked for nothing yet
        self.plans = tempfile.TemporaryDirectory()

    def start(self, parts: list[tuple[str, ...]]) -> None:
        """Starts the processes of all parts: each is used once."""
        self.waiting += [Process(allocator, self.arguments) for allocators in parts for allocator in allocators]

    @contextlib.contextmanager
    def taken(self, *allocators: str) -> Iterator[list[Process]]:
        """A process of each allocator, one that waits or a new one; they end with the block."""
        processes = []
        try:
            for allocator in allocators:
                one = next((process for process in self.waiting if process.allocator == allocator), None)
                if one is not None:
                    self.waiting.remove(one)
                processes.append(one or Process(allocator, self.arguments))
            yield processes
        finally:
            for process in processes:
                process.end()

    def end_all(self) -> None:
        for process in self.waiting:
            process.end()
        self.plans.cleanup()

    def part(self, name: str, least: float, function: Any, *given: Any) -> None:
        """Runs the part if `least` seconds are left, and writes what there is by then."""
        if self.end - time.monotonic() < least:
            self.result["left_out"].append(name)
        else:
            print(f"{name} ({self.end - time.monotonic():.0f} s left)", file=sys.stderr, flush=True)
            begun = time.monotonic()
            self.until = min(self.end, begun + PART_SECONDS)
            try:
                self.result["parts"][name] = function(*given)
            except Exception as error:  # the other parts' figures are worth having
                self.result["parts"][name] = {"error": f"{type(error).__name__}: {error}"}
            self.result["seconds"][name] = round(time.monotonic() - begun, 1)
        self.write()

    def write(self) -> None:
        folder = self.arguments.output
        folder.mkdir(parents=True, exist_ok=True)
        stem = folder / self.result["date"]
        stem.with_suffix(".json").write_text(json.dumps(self.result, indent=1) + "\n")
        with stem.with_suffix(".csv").open("w", newline="") as file:
            names = ["part", "allocator", "figure", "value", "unit"]
            writer = csv.DictWriter(file, names, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)

    def row(self, part: str, allocator: str, figure: str, value: Any, unit: str) -> None:
        self.rows.append({"part": part, "allocator": allocator, "figure": figure, "value": value, "unit": unit})

    def all_of(self, processes: list[Process], *words: Any) -> dict[str, dict[str, Any]]:
        for process in processes:
            process.ask(*words)
        return {process.allocator: process.answer(self.until) for process in processes}

    def workload(self, name: str, rounds: int, allocators: tuple[str, ...] = ALLOCATORS) -> dict[str, Any]:
        with self.taken(*allocators) as processes:
            return self._workload(name, rounds, processes)

    def _workload(self, name: str, rounds: int, processes: list[Process]) -> dict[str, Any]:
        found: dict[str, Any] = {"make": self.all_of(processes, "make", name, 0)}
        # One after the other: what each needs at most must not wait for the others' kernels.
        first = {}
        for process in processes:
            process.ask("steps", self.arguments.first)
            first[process.allocator] = process.answer(self.until)
        found["first"] = first
        losses = {allocator: answer.get("losses") for allocator, answer in first.items()}
        native = losses.get("native")
        found["losses_equal"] = {allocator: value is not None and value == native for allocator, value in losses.items()}
        alive = [process for process in processes if "error" not in first[process.allocator]]
        usual = statistics.median(first[alive[0].allocator]["seconds"][1:]) if alive else 1.0
        count = max(2, min(50, int(self.arguments.turn / usual)))
        turns: dict[str, list[float]] = {process.allocator: [] for process in alive}
        for number in range(rounds):
            for process in alive[number % len(alive):] + alive[:number % len(alive)]:
                process.ask("run", count)
                turns[process.allocator].append(process.answer(self.until).get("step", float("nan")))
        found["turns"], found["steps_a_turn"] = turns, count
        found["memory"] = self.all_of(processes, "memory")
        for allocator, values in turns.items():
            memory = found["memory"][allocator]
            self.row(name, allocator, "step", statistics.median(values), "s")
            self.row(name, allocator, "step over native", statistics.median(
                [one / other for one, other in zip(values, turns.get("native", values))]), "")
            for figure in ("reserved", "requested"):
                self.row(name, allocator, f"{figure} at the peak", memory.get(figure), "bytes")
            if memory.get("requested"):
                self.row(name, allocator, "reserved over requested", memory["reserved"] / memory["requested"], "")
            self.row(name, allocator, "losses equal to native's", int(found["losses_equal"][allocator]), "")
        return found

    def repeated(self, name: str) -> dict[str, Any]:
        """The losses of another process with torch's own allocator: equal, or the workload cannot tell allocators apart."""
        with self.taken("native") as (process,):
            process.ask("make", name, 0)
            process.ask("steps", self.arguments.first)
            found = {"make": process.answer(self.until), "first": process.answer(self.until)}
        before = self.result["parts"].get(name, {}).get("first", {}).get("native", {}).get("losses")
        equal = before is not None and found["first"].get("losses") == before
        self.row(name, "native, again", "losses equal to native's", int(equal), "")
        return found

    def stored(self, name: str) -> dict[str, Any]:
        """A process learns and saves its plans, the next one finds them: what share of each step's bytes is planned."""
        found = {}
        for number in ("first", "second"):
            process = Process("memomalloc", self.arguments, MEMOMALLOC_PLANS=self.plans.name)
            try:
                process.ask("make", name, 0)
                process.ask("steps", max(self.arguments.first, SHOWN_STEPS))
                found[number] = {"make": process.answer(self.until), **process.answer(self.until)}
                process.quit()
            finally:
                process.end()
            for step, share in enumerate(found[number].get("planned", [])[:SHOWN_STEPS], 1):
                self.row(f"{name}, {number} process", "memomalloc", f"planned share of step {step}", share, "")
        found["plans"] = len(os.listdir(self.plans.name))
        return found

    def largest(self, name: str, first: int, grain: int) -> dict[str, Any]:
        with self.taken(*ALLOCATORS) as processes:
            found = self.all_of(processes, "largest", name, 0.25, first, grain)
        for allocator, answer in found.items():
            self.row(name, allocator, "largest batch in a quarter of the memory", answer.get("batch"), "")
        return found

    def smoke(self) -> dict[str, Any]:
        with self.taken(*PAIR) as processes:
            found = self.all_of(processes, "smoke")
        found["memomalloc run --cuda"] = self.by_the_command()
        return found

    def by_the_command(self) -> dict[str, Any]:
        """A program that knows nothing of the library, and chooses its GPU once torch is imported."""
        if not (ROOT / "build/memomalloc").exists():
            return {"error": "there is no build/memomalloc"}
        done = subprocess.run([ROOT / "build/memomalloc", "run", "--cuda", "--", sys.executable, "-c", COMMANDED],
                              capture_output=True, text=True, check=False, timeout=max(1.0, self.until - time.monotonic()))
        return {"code": done.returncode, "stdout": done.stdout, "stderr": done.stderr[-2000:]}


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    gpu = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"], capture_output=True,
        text=True, check=False).stdout.strip() if shutil.which("nvidia-smi") else ""
    facts: dict[str, Any] = {"machine": f"{results.machine()}; {gpu or 'no GPU'}", "kernel": platform.release().split("-")[0],
                             "python": platform.python_version(), "libc": " ".join(platform.libc_ver())}
    for package in ("torch", "torchvision", "transformers"):
        try:
            facts[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            facts[package] = None
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "results/gpu", metavar="FOLDER",
                        help="[default: results/gpu]")
    parser.add_argument("--library", type=pathlib.Path, default=ROOT / "build/libmemomalloc-cuda.so", metavar="FILE",
                        help="[default: build/libmemomalloc-cuda.so]")
    parser.add_argument("--seconds", type=float, default=390, help="for all parts [default: 390]")
    parser.add_argument("--turn", type=float, default=0.8, help="seconds of one turn [default: 0.8]")
    parser.add_argument("--first", type=int, default=8, help="steps before the turns [default: 8]")
    parser.add_argument("--rounds", type=int, default=6, help="turns of each [default: 6]")
    parser.add_argument("--only", default="", metavar="PARTS", help="parts by name, with commas between")
    parser.add_argument("--tiny", action="store_true", help="small networks, to try the script itself")
    arguments = parser.parse_args()
    if not arguments.library.exists():
        arguments.library = ""  # the installed package's
    measurement = Measurement(arguments)

    def workload(name: str) -> tuple[Any, ...]:
        return name, 30, ALLOCATORS, measurement.workload, (name, arguments.rounds)

    # name, the least seconds it needs, its processes
    parts: list[tuple[Any, ...]] = [
        ("smoke", 20, PAIR, measurement.smoke, ()),
        workload("transformer-mixed"), workload("transformer"),
        ("transformer again", 10, ("native",), measurement.repeated, ("transformer",)),
        ("largest transformer", 40, ALLOCATORS, measurement.largest, ("transformer", 16, 1)),
        ("stored transformer", 25, (), measurement.stored, ("transformer",)),
        ("compiled", 40, PAIR, measurement.workload, ("compiled", 3, PAIR)),
        workload("resnet50"), workload("experts"), workload("generate"),
        ("largest resnet50", 40, ALLOCATORS, measurement.largest, ("resnet50", 288, 8))]
    only = [name for name in arguments.only.split(",") if name]
    if unknown := set(only) - {part[0] for part in parts}:
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(part[0] for part in parts)}")
    parts = [part for part in parts if not only or part[0] in only]
    try:
        measurement.start([part[2] for part in parts if part[1] <= arguments.seconds])
        for name, least, _, function, given in parts:
            measurement.part(name, least, function, *given)
    finally:
        measurement.end_all()
    print(json.dumps({"left_out": measurement.result["left_out"], "rows": len(measurement.rows)}))


if __name__ == "__main__":
    main()
