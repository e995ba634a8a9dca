#!/usr/bin/env python3
"""What each part of the library is worth: recorded programs with it, and with it switched off.

Each trace is replayed (`memomalloc replay`) under the library as it is, and under each variant of FEATURES. Counted are
page faults, the peak of resident memory and, with --instructions, instructions (callgrind); seconds are a column that
nothing is judged by. Trials and parametric plans have no switch: a debug build (`make MODE=debug all`) takes the
thresholds that rule them out from the environment, and without one these rows are left out. --program adds commands of
your own, whose own page faults and peak are counted. Written to results/worth/DATE.csv and .json.
"""

import argparse
import csv
import dataclasses
import datetime
import json
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
TRACES = sorted((ROOT / "tests/golden/traces").glob("*.csv.gz"))
NEVER = 1_000_000_000  # more calls than any stream has


@dataclasses.dataclass(frozen=True)
class Feature:
    """A part of the library: what is set where it is on, and where it is off; {plans}: a folder with plans that an
    earlier run has made."""

    name: str
    on: dict
    off: dict
    debug: bool = False


FEATURES = (
    Feature("plans", {}, {"MEMOMALLOC_SLAB_LIMIT": "1"}),
    Feature("fetch of plans", {"MEMOMALLOC_PLANS": "{plans}"}, {}),
    Feature("trials", {}, {"MEMO_TUNE": f"kTrialCalls={NEVER}"}, debug=True),
    Feature("parametric plans", {}, {"MEMO_TUNE": f"kMinSymbolicCalls={NEVER}"}, debug=True),
)
COLUMNS = ("feature", "workload", "state", "faults", "peak_kib", "instructions", "seconds")


def measured(command, variables, library, instructions):
    """{faults, peak_kib, instructions, seconds} of one run of the command under the library."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MEMOMALLOC_")}
    environment |= variables | {"LD_PRELOAD": str(library)}
    began = time.monotonic()
    process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"worth.py: {shlex.join(map(str, command))} ended with {process.returncode}")
    seconds, count = time.monotonic() - began, None
    if instructions:
        done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command], cwd=ROOT,
                              env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
        found = re.search(r"Collected : (\d+)", done.stderr)
        count = int(found[1]) if found else None
    return {"faults": used.ru_minflt, "peak_kib": used.ru_maxrss, "instructions": count, "seconds": seconds}


def medians(samples):
    def median(name):
        values = [sample[name] for sample in samples if sample[name] is not None]
        return statistics.median(values) if values else None
    return {name: median(name) for name in ("faults", "peak_kib", "instructions", "seconds")}


def rows(arguments, programs):
    """A row of COLUMNS for each feature, workload and state; medians, the states in turns."""
    for feature in FEATURES:
        folder = ROOT / ("build/debug" if feature.debug else "build")
        library = folder / "libmemomalloc.so"
        if arguments.features and feature.name not in arguments.features:
            continue
        if not library.exists():
            print(f"worth.py: {feature.name}: left out, there is no {library.relative_to(ROOT)}", file=sys.stderr)
            continue
        for name, command in programs.items():
            with tempfile.TemporaryDirectory() as plans:
                states = {state: {key: value.format(plans=plans) for key, value in variables.items()}
                          for state, variables in (("on", feature.on), ("off", feature.off))}
                if "{plans}" in feature.on.values():
                    measured(command, states["on"], library, False)
                samples = {state: [] for state in states}
                for _ in range(arguments.runs):
                    for state, variables in states.items():
                        samples[state].append(measured(command, variables, library, arguments.instructions))
                for state in states:
                    yield {"feature": feature.name, "workload": name, "state": state} | medians(samples[state])


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", default=[path.name.split(".")[0] for path in TRACES],
                        type=lambda text: [word for word in text.split(",") if word], help="comma between them; '' for none")
    parser.add_argument("--features", default=[], type=lambda text: text.split(","),
                        help="of " + ", ".join(feature.name for feature in FEATURES) + " (all)")
    parser.add_argument("--program", action="append", default=[], metavar="NAME=COMMAND", help="a further workload")
    parser.add_argument("--iterations", type=int, default=1, help="of each trace (%(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="of each state (%(default)s)")
    parser.add_argument("--instructions", action="store_true", help="count them by callgrind, some 50 times as long")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "results/worth")
    return parser.parse_args(argv)


def main(argv=None):
    arguments = parse(argv)
    programs = {path.name.split(".")[0]: [ROOT / "build/memomalloc", "replay", path, "--iterations", str(arguments.iterations)]
                for path in TRACES if path.name.split(".")[0] in arguments.traces}
    programs |= {name: shlex.split(command) for name, _, command in (text.partition("=") for text in arguments.program)}
    found = list(rows(arguments, programs))
    arguments.output.mkdir(parents=True, exist_ok=True)
    date = datetime.date.today().isoformat()
    with open(arguments.output / f"{date}.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(found)
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    told = {"commit": commit, "runs": arguments.runs, "processors": os.cpu_count(), "rows": found}
    (arguments.output / f"{date}.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    for row in found:
        print("  ".join(str(row[name]) for name in COLUMNS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
