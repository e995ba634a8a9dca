#!/usr/bin/env python3
"""What was measured: results/NAME/DATE.csv, one row a measurement, and beside it a JSON that says how.

The JSON holds title, command, commit, date, machine, kernel, versions and repetitions; `about` says what the columns mean.
No document holds a measured table: the site and the pictures read the newest file of a name.
"""

import argparse
import csv
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys

import printed

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "results"
KEPT = ("title", "about")  # what a new run takes over from the last one
# Of results that programs on other machines write in a form of their own, what is not there is so.
DEFAULTS = {"command": "-", "commit": "unknown", "date": "-", "machine": "-", "kernel": "-", "versions": {}, "repetitions": 1}
NEEDED = ("title", "command", "commit", "date", "machine", "kernel", "versions", "repetitions")


def machine():
    """The processors of this machine, in words."""
    model = next((line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())
    return f"{os.cpu_count()} cores of {model}"


def commit(root=ROOT):
    """The commit that is measured, "unknown" if nothing tells.

    MEMO_COMMIT; in a copy of the tree, whose .git is missing or knows nothing of it, what scripts/hardware/prepare.sh has laid
    into build/hardware/commit; else git's.
    """
    def git(*words):
        try:
            done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)
        except OSError:
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    told = os.environ.get("MEMO_COMMIT", "")
    carried = pathlib.Path(root) / "build/hardware/commit"
    if not told and carried.exists():
        told = carried.read_text(encoding="utf-8").strip()
        if git("rev-parse", "--verify", "--quiet", told.removesuffix("-dirty") + "^{commit}"):
            told = ""  # this is where it was made
    own = git("rev-parse", "--show-toplevel") == str(pathlib.Path(root).resolve())
    return told or (git("describe", "--always", "--dirty", "--exclude=*") if own else "") or "unknown"


def names(folder=FOLDER):
    """The names that have results, in order."""
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and any(path.glob("*.csv")))


def newest(name, folder=FOLDER):
    """(rows, how they were measured) of the newest run. LookupError if there is none."""
    files = sorted((folder / name).glob("*.csv"))
    if not files:
        raise LookupError(f"there are no results of {name}")
    with files[-1].open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    how = json.loads(files[-1].with_suffix(".json").read_text(encoding="utf-8"))
    return rows, {"title": name, **DEFAULTS, **how}


def store(name, command, rows, *, repetitions=1, versions=None, folder=FOLDER, **more):
    """Writes rows (dicts) as today's run of a name, and returns the path of the CSV.

    Title and explanation are the last run's unless they are given.
    """
    kept = {}
    if (folder / name).is_dir() and any((folder / name).glob("*.csv")):
        _, before = newest(name, folder)
        kept = {key: before[key] for key in KEPT if key in before}
    today = datetime.date.today().isoformat()
    how = {"title": name, "command": command, "commit": commit(), "date": today, "machine": machine(),
           "kernel": platform.release().split("-")[0], "versions": versions or {}, "repetitions": repetitions, **kept, **more}
    (folder / name).mkdir(parents=True, exist_ok=True)
    path = folder / name / f"{today}.csv"
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    path.with_suffix(".json").write_text(json.dumps(how, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def markdown(rows):
    """A table's lines: column names are headings, with spaces for underscores."""
    if not rows:
        return []
    lines = [f"| {' | '.join(column.replace('_', ' ') for column in rows[0])} |", "|" + " --- |" * len(rows[0])]
    return lines + ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row.values()) + " |" for row in rows]


def source(how):
    """The line that stands below a table: command, commit, date, machine."""
    versions = "".join(f", {name} {version}" for name, version in how["versions"].items())
    return (f"`{how['command']}`, {how['repetitions']} repetitions; commit {how['commit'] or 'unknown'}, {how['date']}, "
            f"{how['machine']}, Linux {how['kernel']}{versions}.")


def keep(name, command, lines, **more):
    """Stores the table of a name that a program has printed, and returns the path of the CSV."""
    return store(name, command, printed.rows(name, lines), **more)


def main(argv=None):
    parser = argparse.ArgumentParser(description="Keeps what a bench program has printed: results.py NAME COMMAND < OUTPUT")
    parser.add_argument("name", metavar="NAME", choices=sorted(printed.TABLES), help=f"one of {', '.join(sorted(printed.TABLES))}")
    parser.add_argument("command", metavar="COMMAND", help="what printed it, as it was called")
    parser.add_argument("--repetitions", type=int, default=1, help="of each row (%(default)s)")
    parser.add_argument("--version", action="append", default=[], metavar="NAME=VERSION", help="of what was measured with")
    arguments = parser.parse_args(argv)
    try:
        path = keep(arguments.name, arguments.command, sys.stdin.read().splitlines(), repetitions=arguments.repetitions,
                    versions=dict(each.split("=", 1) for each in arguments.version))
    except printed.Unreadable as error:
        print(f"results.py: {error}", file=sys.stderr)
        return 1
    print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
