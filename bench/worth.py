#!/usr/bin/env python3
"""What each part of the library is worth: programs with the library as it is, and with one part switched off or on.

Each workload runs under each of STATES: recorded streams (`memomalloc replay`), rows of bench/workloads/table.py
(--workloads), programs of bench/growing.py (--growing) and commands of your own (--program). Counted are the process' page
faults, those of a steady iteration where the program tells of them, the peak of resident memory, and the share of large bytes
that a plan placed. With --instructions the streams are replayed once more under callgrind, nothing written, by the release
build. Trials and parametric plans have no switch: a debug build (`make MODE=debug lib`) takes their thresholds from the
environment, and with another --library these states are left out. Written to results/worth.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

import children
from runner import ROOT, table

import results

RELEASE = ROOT / "build/libmemomalloc.so"
TRACES = {path.name.split(".")[0]: path for path in sorted((ROOT / "tests/golden/traces").glob("*.csv.gz"))}
NEVER = 1_000_000_000  # more calls than any stream has


@dataclasses.dataclass(frozen=True, eq=False)
class State:
    """What is set in the environment; {plans}: a folder with plans that an earlier run has made."""

    name: str
    variables: dict
    tuned: bool = False


STATES = (
    State("as it is", {}),
    State("the pool alone", {"MEMOMALLOC_SLAB_LIMIT": "1"}),
    State("with a plan cache", {"MEMOMALLOC_PLANS": "{plans}"}),
    State("no huge pages", {"MEMOMALLOC_HUGEPAGES": "never"}),
    State("no trials", {"MEMO_TUNE": "kNoMoreTrials=1"}, tuned=True),
    State("no parametric plans", {"MEMO_TUNE": f"kMinSymbolicCalls={NEVER}"}, tuned=True),
)
FIGURES = ("faults", "steady_faults", "peak_kib", "planned_percent", "instructions")


def environment(variables, library):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMO")}
    return kept | variables | {"LD_PRELOAD": str(library)}


def run(command, variables, library):
    """FIGURES of one run of the command under the library, but for instructions."""
    with tempfile.TemporaryDirectory() as folder:
        stats = pathlib.Path(folder, "stats.json")
        process = subprocess.Popen([str(word) for word in command], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                                   env=environment(variables | {"MEMOMALLOC_STATS_FILE": str(stats)}, library))
        said = process.stdout.read().splitlines()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"worth.py: {shlex.join(map(str, command))} ended with {process.returncode}")
        told = json.loads(stats.read_text(encoding="utf-8")) if stats.exists() else {"planned_bytes": 0, "large_bytes": 0}
    last = json.loads(said[-1]) if said and said[-1].startswith("{") else {}
    steady = last.get("faults_per_iteration_steady", last.get("late"))
    return {"faults": used.ru_minflt, "steady_faults": None if steady is None else round(steady, 1),
            "peak_kib": used.ru_maxrss, "planned_percent": round(100 * told["planned_bytes"] / max(1, told["large_bytes"]), 1)}


def instructions(command, variables):
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *map(str, command), "--no-touch"],
                          cwd=ROOT, env=environment(variables, RELEASE), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True, check=True)
    return int(re.search(r"Collected : (\d+)", done.stderr)[1])


def medians(samples):
    found = {}
    for name in FIGURES:
        values = [sample[name] for sample in samples if sample.get(name) is not None]
        found[name] = statistics.median(values) if values else ""
    return found


def rows(arguments, workloads):
    """A row for each workload and state; medians, the states in turns."""
    tuned = "debug" in arguments.library.parts
    for name, command in workloads.items():
        with tempfile.TemporaryDirectory() as plans:
            chosen = [state for state in STATES if (tuned or not state.tuned) and state.name in arguments.states]
            set_to = {state: {key: value.format(plans=plans) for key, value in state.variables.items()} for state in chosen}
            if any("MEMOMALLOC_PLANS" in variables for variables in set_to.values()):
                run(command, {"MEMOMALLOC_PLANS": plans}, arguments.library)
            samples = {state: [] for state in chosen}
            for _ in range(arguments.runs):
                for state in chosen:
                    samples[state].append(run(command, set_to[state], arguments.library))
            for state in chosen:
                if arguments.instructions and "replay" in command and not state.tuned:
                    samples[state].append({"instructions": instructions(command, set_to[state])})
                row = {"workload": name, "state": state.name} | medians(samples[state])
                print("  ".join(str(value) for value in row.values()), flush=True)
                yield row


def names(text):
    return [word for word in text.split(",") if word]


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", default=list(TRACES), type=names, help="comma between them; '' for none (all)")
    parser.add_argument("--workloads", default=[], type=names, help="rows of bench/workloads/table.py, as many iterations as --quick has")
    parser.add_argument("--growing", default=[], type=names, help="programs of bench/growing.py")
    parser.add_argument("--program", action="append", default=[], metavar="NAME=COMMAND", help="a further workload")
    parser.add_argument("--states", default=[state.name for state in STATES], type=names,
                        help="of " + ", ".join(state.name for state in STATES) + " (all)")
    parser.add_argument("--library", type=pathlib.Path, default=ROOT / "build/debug/libmemomalloc.so")
    parser.add_argument("--python-torch", default=sys.executable, help="with torch (this one)")
    parser.add_argument("--iterations", type=int, default=1, help="of each trace (%(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="of each state (%(default)s)")
    parser.add_argument("--instructions", action="store_true", help="of the traces, some 50 times as long")
    return parser.parse_args(argv)


def main(argv=None):
    arguments = parse(argv)
    by_name = {row.name: row for row in table.WORKLOADS}
    workloads = {name: [ROOT / "build/memomalloc", "replay", TRACES[name], "--iterations", arguments.iterations]
                 for name in arguments.traces}
    for row in (by_name[name] for name in arguments.workloads):
        workloads[row.name] = [arguments.python_torch, row.program, *row.arguments.split(), "--iterations", row.quick,
                               *(["--json"] if row.program == "scripts/infer.py" else [])]
    for name in arguments.growing:
        workloads[name] = [arguments.python_torch, "bench/growing.py", "--child", name, "--passes", 12]
    workloads |= {name: shlex.split(command) for name, _, command in (text.partition("=") for text in arguments.program)}
    words = sys.argv[1:] if argv is None else argv
    path = results.store("worth", shlex.join(["bench/worth.py", *words]), list(rows(arguments, workloads)), repetitions=arguments.runs)
    print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
