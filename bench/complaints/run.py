#!/usr/bin/env python3
"""Public complaints about memory that grows or does not come back, each as a small program, under each allocator:

    bench/complaints/run.py [--only TEXT] [--rounds 1] [--jobs 1] [--json FILE] [--table]

MiB after the loop and ten seconds later (of the program and what it has started), the peak, and seconds of the processor.
A program whose library is not installed is named and left out; MEMO_PYTHON names the interpreter. `--table FILE.json`
prints the table of docs/complaints.md of what was measured.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import allocators  # noqa: E402

ROOT = HERE.parent.parent
HELPERS = {"run", "measure", "encoder", "onnx_models", "models"}
NAMES = ("glibc", "jemalloc", "tcmalloc", "mimalloc", "memomalloc")
PYTHON = os.environ.get("MEMO_PYTHON", sys.executable)
PATIENCE = 900  # seconds
MEMORY, TIME = 1.10, 1.02  # that a row may be over the best of the others


def run(program, name):
    """One run: the figures, or the last line of what went wrong."""
    one = next(one for one in allocators.ALLOCATORS if one.name == name)
    if one.library() is None:
        return f"{name} is not installed"
    done = subprocess.run([PYTHON, str(HERE / f"{program}.py")], env=one.environment(os.environ), text=True,
                          capture_output=True, timeout=PATIENCE, cwd=HERE)
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        return (done.stderr.splitlines() or [f"exit code {done.returncode}"])[-1]
    return json.loads(lines[-1])


def measure(programs, rounds, jobs):
    rows = {program: {} for program in programs}
    tasks = [(program, name) for program in programs for _ in range(rounds) for name in NAMES]
    with concurrent.futures.ThreadPoolExecutor(jobs) as threads:
        for (program, name), result in zip(tasks, threads.map(lambda task: run(*task), tasks)):
            if isinstance(result, str):
                print(f"{program:28} {name:11} {result}", flush=True)
                continue
            rows[program].setdefault(name, []).append(result)
            print(f"{program:28} {name:11} before {result['before']:6.0f}, after {result['after']:6.0f}, ten seconds later "
                  f"{result['later']:6.0f}, peak {result['peak']:6.0f} MiB; {result['processor_seconds']:6.1f} s",
                  flush=True)
    return {program: row for program, row in rows.items() if row}


def median(runs, key):
    return statistics.median(run[key] for run in runs)


def over_best(row, others, key):
    """This library's median over that of the best of the others, and the least and largest of the rounds' ratios to it."""
    best = min(others, key=lambda name: median(row[name], key))
    each = [ours[key] / its[key] for ours, its in zip(row["memomalloc"], row[best])]
    return median(row["memomalloc"], key) / median(row[best], key), min(each), max(each)


def verdict(ratio, least, largest, most):
    """With the rounds' range; bold where the median is above what was asked for."""
    text = f"{ratio:.2f}" if least == largest else f"{ratio:.2f} ({least:.2f} to {largest:.2f})"
    return f"**{text}**" if ratio > most else text


def table(rows):
    lines = ["| complaint | " + " | ".join(NAMES) + " | memory | time |", "|---|" + "---|" * (len(NAMES) + 2)]
    for program, row in rows.items():
        project, _, number = program.rpartition("_")
        cells = [f"{median(row[name], 'later'):.0f} of {median(row[name], 'peak'):.0f} MiB, "
                 f"{median(row[name], 'processor_seconds'):.1f} s" if name in row else "-" for name in NAMES]
        others = [name for name in NAMES[:-1] if name in row]
        verdicts = [verdict(*over_best(row, others, key), most)
                    for key, most in (("later", MEMORY), ("processor_seconds", TIME))]
        lines.append(f"| {project.replace('_', '-')}#{number} | " + " | ".join(cells + verdicts) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="programs whose names hold this")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time; seconds of the processor bear it")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--table", type=pathlib.Path, metavar="FILE.json")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(json.loads(arguments.table.read_text())))
        return
    programs = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in HELPERS and arguments.only in path.stem)
    rows = measure(programs, arguments.rounds, arguments.jobs)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
