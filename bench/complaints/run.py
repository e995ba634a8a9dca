#!/usr/bin/env python3
"""Public complaints about memory that grows or does not come back (table.py), each as a small program: as it comes, with what
people paste in, and by `memomalloc run`.

    bench/complaints/run.py [--only TEXT] [--others jemalloc,tcmalloc,mimalloc] [--python PYTHON...] [--jobs 1]

MiB ten seconds after the loop (of the program and what it has started), in the mean while it runs, and at most; page faults and
seconds of the processor of the loop. A complaint whose packages no interpreter has is named and left out. The figures go to
results/complaints_and_fixes; with --only they are printed alone. `--table FILE.csv` prints the table of a file.
"""

import argparse
import concurrent.futures
import csv
import functools
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent), str(ROOT / "scripts/tables")]
import allocators  # noqa: E402
import measure  # noqa: E402
import results  # noqa: E402
import table  # noqa: E402

PATIENCE = 600  # seconds
LOOK = 0.1  # seconds between two looks at the memory
FIGURES = ("held", "during", "peak", "faults", "processor_seconds")
COLUMNS = ("complaint", "program", "how", *FIGURES, "note")


@functools.cache
def interpreter(pythons, packages):
    """The first that has the packages; None if none has."""
    probe = "import importlib.util as u, sys; sys.exit(any(u.find_spec(name) is None for name in sys.argv[1:]))"
    for python in pythons:
        if subprocess.run([python, "-c", probe, *packages], capture_output=True, check=False).returncode == 0:
            return python
    return None


def watch(process, looks):
    """(time, MiB) of the program and what it has started, until it ends."""
    while process.poll() is None:
        looks.append((time.monotonic(), measure.held(process.pid)))
        time.sleep(LOOK)


def measured(python, one, how):
    """One run: the figures, or a note that says why there are none."""
    name = one.paste if how == "pasted" and isinstance(one.paste, str) else how
    base = allocators.BY_NAME["glibc" if name in ("pasted", "memomalloc") else name]
    if base.library() is None:
        return {"note": f"{name} is not installed"}
    environment = base.environment(os.environ) | (one.paste if how == "pasted" and isinstance(one.paste, dict) else {})
    words = [python, str(HERE / f"{one.program[0]}.py"), *one.program[1:]]
    if how == "memomalloc":
        words = [str(ROOT / "build/memomalloc"), "run", "--", *words]
    looks = []
    with subprocess.Popen(words, env=environment, text=True, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        watcher = threading.Thread(target=watch, args=(process, looks))
        watcher.start()
        try:
            said, errors = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return {"note": f"no end within {PATIENCE} seconds"}
        finally:
            watcher.join()
    lines = said.splitlines()
    if process.returncode != 0 or not lines:
        return {"note": (errors.splitlines() or [f"exit code {process.returncode}"])[-1][:200]}
    told = json.loads(lines[-1])
    inside = [held for at, held in looks if told["begin"] <= at <= told["end"]] or [told["after"]]
    return {"held": round(told["later"], 1), "during": round(sum(inside) / len(inside), 1),
            "peak": round(max(held for _, held in looks), 1), "faults": told["faults"],
            "processor_seconds": round(told["processor_seconds"], 2)}


def measure_all(arguments):
    pythons = tuple(arguments.python or [os.environ.get("MEMO_PYTHON", sys.executable)])
    tasks = []
    for one in table.ROWS:
        if arguments.only in f"{one.report} {one.program[0]}":
            python = interpreter(pythons, one.packages)
            if python is None:
                print(f"{one.report}: {', '.join(one.packages)} is not installed", flush=True)
                continue
            for how in ("glibc", *(["pasted"] if one.paste else []), *filter(None, arguments.others.split(",")), "memomalloc"):
                tasks.append((python, one, how))
    rows, done = [], {}
    lock = threading.Lock()

    def figures(task):
        """Complaints that share a program share its runs."""
        python, one, how = task
        key = one.program, str(one.paste) if how == "pasted" else how
        with lock:
            mine = key not in done
            if mine:
                done[key] = concurrent.futures.Future()
        if mine:
            done[key].set_result(measured(python, one, how))
        return done[key].result()

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as threads:
        for (_, one, how), result in zip(tasks, threads.map(figures, tasks)):
            rows.append({"complaint": one.report, "program": " ".join(one.program), "how": how} | result)
            print(" ".join(f"{rows[-1].get(name, '')}" for name in COLUMNS), flush=True)
    return rows


def cell(row):
    if row is None or row.get("held") in (None, ""):
        return "-"
    return f"{float(row['held']):.0f} / {float(row['during']):.0f} / {float(row['peak']):.0f}, {float(row['faults']) / 1000:.0f}"


def document(rows):
    """MiB held, during, at most, and thousand faults."""
    others = sorted({row["how"] for row in rows} - {"glibc", "pasted", "memomalloc"})
    hows = ["glibc", "pasted", *others, "memomalloc"]
    lines = ["| what people report | what they paste in | " + " | ".join(hows) + " |", "|---|---|" + "---|" * len(hows)]
    for one in table.ROWS:
        own = {row["how"]: row for row in rows if row["complaint"] == one.report}
        if own:
            lines.append(f"| {one.report}: {one.says} | {one.pasted or '-'} | " +
                         " | ".join(cell(own.get(how)) for how in hows) + " |")
    return "\n".join(lines)


def write(rows):
    results.store("complaints_and_fixes", "bench/complaints/run.py", rows, title="Reports of growing memory: by default, with what "
                  "people paste in, and with the library", versions={"glibc": os.confstr("CS_GNU_LIBC_VERSION").split()[-1]},
                  about="RSS in MiB ten seconds after the loop (held), in the mean while it runs, and at most; of the program and what "
                  "it has started. Page faults and processor time of the loop.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="complaints and programs whose names hold this")
    parser.add_argument("--others", default="", help="more allocators, with commas between them")
    parser.add_argument("--python", action="append", help="an interpreter; the first that has the packages is taken")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time; seconds of the processor bear it")
    parser.add_argument("--table", type=pathlib.Path, metavar="FILE.csv")
    arguments = parser.parse_args()
    if arguments.table:
        with open(arguments.table, newline="", encoding="utf-8") as file:
            print(document(list(csv.DictReader(file))))
        return
    rows = measure_all(arguments)
    if not arguments.only:
        write(rows)
    print(document(rows))


if __name__ == "__main__":
    main()
