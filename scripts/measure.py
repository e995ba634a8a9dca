"""The one measuring loop that scripts/infer.py and every program of bench/workloads share.

Measures a step that is called again and again in this process: latency, page faults, system time,
resident memory and a checksum of what the step returned. It knows no allocator; whoever compares
allocators starts the same program twice. Reading clocks and hashing happen between the timed steps.
"""

import gc
import hashlib
import json
import os
import resource
import statistics
import sys
import time

from each_iteration import Records
from loaded_library import library_function, library_stats

PAGE_KIB = resource.getpagesize() // 1024


class Progress:
    """A bar on stderr, drawn only on a terminal and at most ten times a second."""

    def __init__(self, total, label):
        self.total, self.label, self.drawn = total, label, 0.0
        self.enabled = sys.stderr.isatty() and total > 0

    def update(self, done):
        now = time.monotonic()
        if not self.enabled or (now - self.drawn < 0.1 and done < self.total):
            return
        self.drawn = now
        filled = 30 * done // self.total
        bar = "#" * filled + "." * (30 - filled)
        end = "\n" if done >= self.total else ""
        sys.stderr.write(f"\r{self.label} [{bar}] {done}/{self.total}{end}")
        sys.stderr.flush()


class Checksum:
    """SHA-256 over the exact bytes of everything added, and the sum of the values for a reader."""

    def __init__(self):
        self.sha, self.total = hashlib.sha256(), 0.0

    def add(self, value):
        if value is None:
            return
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, (list, tuple)):
            for item in value:
                self.add(item)
            return
        if isinstance(value, (bool, int, float, str, bytes)):
            self.sha.update(value if isinstance(value, bytes) else repr(value).encode())
            self.total += float(value) if isinstance(value, (int, float)) else 0.0
            return
        if hasattr(value, "detach"):  # a torch tensor
            value = value.detach().numpy()
        import numpy

        array = numpy.ascontiguousarray(value)
        self.sha.update(array.reshape(-1).view(numpy.uint8).data)
        self.total += float(array.sum(dtype=numpy.float64))


def rss_kib():
    """Resident memory of this process now, KiB."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * PAGE_KIB


def peak_rss_kib():
    """Highest resident memory of this program, KiB.

    VmHWM starts again at exec; ru_maxrss would inherit the peak of whoever started the process.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1])
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def quantile(values, share):
    """The smallest value that at least `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1))]


def growth(levels):
    """How much the median level rose from the first to the last quarter of the given readings."""
    quarter = max(1, len(levels) // 4)
    return int(statistics.median(levels[-quarter:]) - statistics.median(levels[:quarter]))


def shares(end, start=None):
    """Of the bytes of all large calls between two statistics (`start` None: since the process began),
    the shares that came from a plan's slab and from memory at hand in the pool; zeros if there were none.
    """
    def bytes_of(name):
        if name not in end:
            raise LookupError(f"the library that is loaded does not count {name}; build it again (make)")
        return end[name] - (start[name] if start else 0)

    large = bytes_of("large_bytes")
    return {f"{kind}_share": bytes_of(f"{kind}_bytes") / large if large else 0.0
            for kind in ("planned", "at_hand")}


def marker():
    """What begins an iteration in the library's trace, where MEASURE_MARKS asks for it; else nothing is printed."""
    tell = library_function("memomalloc_iteration") if os.environ.get("MEASURE_MARKS") else None
    return tell or (lambda: None)


class Gate:
    """Lets another process do its turns between this one's: bench/turns.py starts both.

    The variable MEASURE_TURNS says from which iteration on turns count (a whole number of turns), how many iterations each has,
    and the descriptors on which one byte asks for a turn and one grants it.
    """

    def __init__(self, text):
        self.first, self.length, self.granted, self.asked = map(int, text.split())

    @staticmethod
    def of_environment():
        text = os.environ.get("MEASURE_TURNS")
        return Gate(text) if text else None

    def wait(self, index):
        """Before an iteration: waits where a turn begins."""
        if index % self.length == 0:
            os.write(self.asked, b".")
            os.read(self.granted, 1)

    def end(self):
        """After the last iteration: the other process may be in its last turn, so what follows waits for its end."""
        os.write(self.asked, b".")
        os.read(self.granted, 1)

    def medians(self, values):
        """Of each whole turn that counts, without its first iteration, which finds the other process' data in the caches."""
        starts = range(self.first, len(values) - self.length + 1, self.length)
        return [round(statistics.median(values[start + 1:start + self.length]), 4) for start in starts]


def library_figures(start, settled, end, iterations):
    """What the library's statistics at three moments tell of a loop; nothing without the library."""
    if end is None:
        return {}
    return shares(end) | {f"steady_{name}": value for name, value in shares(end, settled).items()} | {
        "large_bytes_per_iteration": (end["large_bytes"] - start["large_bytes"]) / iterations}


def loop(step, iterations, label="iterations", settled=None, keep=None):
    """Calls step(index) `iterations` times (at least 2) and returns the figures as a dict.

    Units: ms, KiB, counts; shares from 0 to 1. "Steady" figures are those of the second half of the
    run, when an allocator has had time to settle (of the turns, where another process takes turns with
    this one); the library's shares, those from the iteration
    `settled` on, if that is given. A list `keep` gets the level of resident memory after each
    iteration. The result of each step is hashed and dropped before the next
    step begins, as a server drops its answer.
    """
    if iterations < 2:
        raise ValueError("at least 2 iterations are needed")
    progress, checksum = Progress(iterations, label), Checksum()
    times, processor, levels = [0.0] * iterations, [0.0] * iterations, [0] * iterations
    gate, mark, records = Gate.of_environment(), marker(), Records()
    half = gate.first if gate else iterations // 2
    gc.collect()
    before_rss, before_stats = rss_kib(), library_stats()
    settled_stats, settled = before_stats, half if settled is None else settled
    start = middle = resource.getrusage(resource.RUSAGE_SELF)
    for index in range(iterations):
        if gate:
            gate.wait(index)
        mark()
        if index == settled:
            settled_stats = library_stats()
        if index == half:
            middle = resource.getrusage(resource.RUSAGE_SELF)
        records.begin()
        began, worked = time.perf_counter_ns(), time.process_time_ns()
        result = step(index)
        processor[index] = (time.process_time_ns() - worked) / 1e6
        times[index] = (time.perf_counter_ns() - began) / 1e6
        records.end(times[index])
        checksum.add(result)
        del result
        levels[index] = rss_kib()
        progress.update(index + 1)
    end = resource.getrusage(resource.RUSAGE_SELF)
    if gate:
        gate.end()
    records.write()
    if keep is not None:
        keep.extend(levels)
    steady = times[half:]
    turns = {"turns_ms": gate.medians(times), "turns_cpu_ms": gate.medians(processor)} if gate else {}
    return {
        "iterations": iterations,
        "first_ms": round(times[0], 3),
        "p50_ms": round(statistics.median(steady), 3),
        "p99_ms": round(quantile(steady, 0.99), 3),
        "cpu_ms": round(statistics.median(processor[half:]), 3),
        "faults_per_iteration": round((end.ru_minflt - start.ru_minflt) / iterations, 1),
        "faults_per_iteration_steady": round(
            (end.ru_minflt - middle.ru_minflt) / (iterations - half), 1),
        "user_ms_per_iteration": round(
            (end.ru_utime - middle.ru_utime) * 1e3 / (iterations - half), 3),
        "system_ms_per_iteration": round(
            (end.ru_stime - middle.ru_stime) * 1e3 / (iterations - half), 3),
        "peak_rss_kib": peak_rss_kib(),
        "rss_before_kib": before_rss,
        "steady_rss_kib": int(statistics.median(levels[half:])),
        "steady_over_before_kib": int(statistics.median(levels[half:])) - before_rss,
        "growth_kib": growth(levels[half:]),
        "checksum": checksum.sha.hexdigest(),
        "sum": checksum.total,
    } | turns | library_figures(before_stats, settled_stats, library_stats(), iterations)


def print_json(figures):
    print(json.dumps(figures), flush=True)


def print_text(figures):
    print(f"latency p50          {figures['p50_ms']:.2f} ms")
    print(f"latency p99          {figures['p99_ms']:.2f} ms")
    print(f"first iteration      {figures['first_ms']:.2f} ms")
    print(f"faults per iteration {figures['faults_per_iteration']:.1f}"
          f" ({figures['faults_per_iteration_steady']:.1f} in the second half)")
    print(f"peak RSS             {figures['peak_rss_kib'] / 1024:.1f} MiB")
    if figures.get("large_bytes_per_iteration"):  # none where the library is switched off
        for when, start in (("whole run", ""), ("second half", "steady_")):
            planned, at_hand = (100 * figures[f"{start}{kind}_share"] for kind in ("planned", "at_hand"))
            print(f"large bytes, {when}: {planned:.2f} % from the plan's slab, {at_hand:.2f} % at hand in the "
                  f"pool, {100 - planned - at_hand:.2f} % neither")
    print(f"checksum             {figures['checksum'][:16]} (sum {figures['sum']:.6g})", flush=True)
