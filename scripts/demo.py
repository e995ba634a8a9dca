#!/usr/bin/env python3
"""Runs scripts/infer.py with and without the library, interleaved, and prints both side by side.

Exit code 0: the outputs are equal; 1: they differ, or the library wrote no statistics; 2: bad usage
or a run that failed.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts/pictures"))
import svg  # noqa: E402


def parse(argv):
    parser = argparse.ArgumentParser(prog="demo.sh", description=__doc__)
    parser.add_argument("--model", default="mobilenet_v2", help="a network of torchvision (%(default)s)")
    parser.add_argument("--batch", type=int, default=8, help="images at once (%(default)s)")
    parser.add_argument("--size", type=int, default=224, help="pixels per side (%(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="torch's threads (%(default)s)")
    parser.add_argument("--iterations", type=int, default=50, help="per run (%(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each kind (%(default)s)")
    parser.add_argument("--library", default=str(ROOT / "build/libmemomalloc.so"),
                        help="what to preload")
    parser.add_argument("--picture", type=pathlib.Path, default=ROOT / "build/demo.svg",
                        help="where the figures are drawn (%(default)s)")
    parser.add_argument("--json", action="store_true", help="all figures as one JSON object")
    return parser.parse_args(argv)


def run_with_clock(command, environment):
    """The finished process with its output; a terminal is shown for how long it has been running."""
    began, tells = time.monotonic(), sys.stderr.isatty()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        while True:
            try:
                output = process.communicate(timeout=1 if tells else None)[0]
                break
            except subprocess.TimeoutExpired:
                print(f"\r  {time.monotonic() - began:.0f} s", end="", file=sys.stderr, flush=True)
    if tells:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    return subprocess.CompletedProcess(command, process.returncode, output)


def run(arguments, preload):
    """One run of infer.py; returns (its figures, the library's statistics or None)."""
    command = [sys.executable, str(ROOT / "scripts/infer.py"), "--json"]
    for name in ("model", "batch", "size", "threads", "iterations"):
        command += [f"--{name}", str(getattr(arguments, name))]
    with tempfile.TemporaryDirectory() as folder:
        stats = pathlib.Path(folder) / "stats.json"
        environment = dict(os.environ)
        if preload:
            rest = [os.environ["LD_PRELOAD"]] if os.environ.get("LD_PRELOAD") else []
            environment["LD_PRELOAD"] = ":".join([arguments.library, *rest])
            environment["MEMOMALLOC_STATS_FILE"] = str(stats)
        done = run_with_clock(command, environment)
        if done.returncode != 0:
            print(f"demo.sh: infer.py failed with code {done.returncode}"
                  f"{' under the library' if preload else ''}; see its message above", file=sys.stderr)
            raise SystemExit(2)
        figures = json.loads(done.stdout.splitlines()[-1])
        return figures, json.loads(stats.read_text()) if stats.exists() else None


def median(runs, key):
    return statistics.median(figures[key] for figures in runs)


ROWS = (  # figure, its key, unit, divisor, digits
    ("latency p50", "p50_ms", "ms", 1, 1),
    ("latency p99", "p99_ms", "ms", 1, 1),
    ("page faults per iteration", "faults_per_iteration_steady", "", 1, 0),
    ("system time per iteration", "system_ms_per_iteration", "ms", 1, 1),
    ("peak resident memory", "peak_rss_kib", "MiB", 1024, 1),
)


def table(without, with_library):
    """The lines of the side-by-side table; medians over the runs."""
    lines = [f"{'':28}{'without':>14}{'with':>14}{'ratio':>9}"]
    for label, key, unit, divisor, digits in ROWS:
        a, b = median(without, key) / divisor, median(with_library, key) / divisor
        ratio = f"{b / a:.2f}" if a else "-"
        lines.append(f"{label:28}{f'{a:.{digits}f} {unit}'.strip():>14}"
                     f"{f'{b:.{digits}f} {unit}'.strip():>14}{ratio:>9}")
    return lines


def draw(without, with_library, title, path):
    """Two bars for each figure, of which the longer one has the whole width."""
    left, width, top, row = 12, 330, 56, 52
    picture = svg.Picture(top + row * len(ROWS) + 8, title, "Each figure without and with the library.")
    picture.text(left, 24, title, "head")
    picture.text(left, 43, "without the library", "theirs strong")
    picture.text(left + 160, 43, "with it", "ours strong")
    for number, (label, key, unit, divisor, digits) in enumerate(ROWS):
        values = median(without, key) / divisor, median(with_library, key) / divisor
        y = top + row * number
        picture.text(left, y + 14, label, "strong")
        for value, kind, below in zip(values, ("theirs", "ours"), (18, 32)):
            length = width * value / max(*values, 1e-9)
            picture.rectangle(left, y + below, max(length, 1), 12, kind)
            picture.text(left + length + 6, y + below + 10, f"{value:,.{digits}f} {unit}".strip(), "small")
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path)


def command_beside(python):
    """The command that a wheel has put next to this interpreter, as the reader's shell finds it."""
    command = python.parent / "memomalloc"
    if not command.exists() or shutil.which("memomalloc") == str(command):
        return "memomalloc"
    return os.path.relpath(command)


def next_lines(arguments):
    """What to do next, with the command that belongs to the library."""
    command = ROOT / "build/memomalloc"
    if pathlib.Path(arguments.library).parent != command.parent:  # of a wheel
        command, make = command_beside(pathlib.Path(sys.executable)), ""
    else:
        command, make = os.path.relpath(command), "make && "
    rows = ((f"{make}{command} doctor", "is it on?"), (f"{command} run", "your program with it"),
            (f"{command} compare", "what does it save?"))
    return ["next:", *(f"  {words + ' -- python YOUR.py':56} # {text}" for words, text in rows)]


def share_lines(with_library, stats):
    """What the library counted: shares of the bytes of all large allocations, medians over the runs; and its slab."""
    lines = []
    for when, start in (("whole run", ""), ("second half", "steady_")):
        planned, at_hand = (100 * median(with_library, f"{start}{kind}_share") for kind in ("planned", "at_hand"))
        lines.append(f"{f'large bytes, {when}':28}{'':14}{f'{planned:.2f} %':>14} from the slab, "
                     f"{at_hand:.2f} % from the pool")
    slab, bound = stats.get("slab_bytes", 0), stats.get("lower_bound_bytes", 0)
    return [*lines, f"{'slab / lower bound':28}{'':14}{f'{slab / 2**20:.1f} MiB':>14}"
                    f"{f' / {bound / 2**20:.1f} MiB'}"]


def main(argv=None):
    arguments = parse(argv)
    without, with_library, stats = [], [], None
    for number in range(arguments.rounds):
        print(f"running {arguments.model} without and with the library, round {number + 1} of {arguments.rounds}",
              file=sys.stderr)
        without.append(run(arguments, preload=False)[0])
        figures, stats = run(arguments, preload=True)
        with_library.append(figures)
    checksums = {figures["checksum"] for figures in without + with_library}
    if arguments.json:
        print(json.dumps({"without": without, "with": with_library, "stats": stats}))
    else:
        print(f"{arguments.model}, batch {arguments.batch}, {arguments.size} pixels, "
              f"{arguments.threads} thread(s), torch {without[0]['torch']}; medians of "
              f"{arguments.rounds} run(s) of {arguments.iterations} iterations each, interleaved; "
              "latency and faults of each run's second half")
        print("\n".join(table(without, with_library)))
        if stats:
            print("\n".join(share_lines(with_library, stats)))
        print(f"{'output':28}{'equal' if len(checksums) == 1 else 'DIFFERENT':>28}")
        title = f"{arguments.model}, batch {arguments.batch}, {arguments.threads} thread(s)"
        draw(without, with_library, title, arguments.picture)
        print(f"\npicture: {os.path.relpath(arguments.picture)}")
        print("\n".join(next_lines(arguments)))
    if not stats:
        print(f"demo.sh: {arguments.library} wrote no statistics; was it loaded? "
              "Try MEMOMALLOC_VERBOSE=1", file=sys.stderr)
        return 1
    return 0 if len(checksums) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
