#!/usr/bin/env python3
"""Judges results/targets.toml by the newest results, and prints what is asked, measured and missed.

--missed leaves out what is met; --markdown prints the table of the site's page. Exit code 0, with --strict 1 if anything is
missed; 2 if a target names a result or a column that is not there.
"""

import argparse
import math
import operator
import pathlib
import re
import sys
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "tables"))
import results

TARGETS = results.FOLDER / "targets.toml"
JUDGES = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
FORMULA = re.compile(r"(\w+)\((\w+)(?: ([/=]) (\w+))?\)")
MEANS = {"max": max, "min": min, "sum": sum, "mean": lambda values: sum(values) / len(values),
         "geomean": lambda values: math.exp(sum(map(math.log, values)) / len(values))}
WORST = 3  # rows that a missed target names


class Unknown(Exception):
    """A target names what is not there."""


def values(rows, formula):
    """[(value, row)] of a formula's rows that have one, and the formula's function."""
    match = FORMULA.fullmatch(formula)
    if not match or match[1] not in {*MEANS, "count"}:
        raise Unknown(f"formula {formula!r} cannot be read")
    function, column, sign, other = match.groups()
    for name in (column, other) if sign == "/" else (column,):
        if rows and name not in rows[0]:
            raise Unknown(f"formula {formula!r}: there is no column {name!r}")
    if function == "count":
        return function, [(1, row) for row in rows if other in row[column].split()]
    if sign == "/":
        return function, [(float(row[column]) / float(row[other]), row) for row in rows if row[column] and row[other]]
    return function, [(float(row[column]), row) for row in rows if row[column] != ""]


def chosen(target, rows, where):
    """The rows whose columns are as `where` says; Unknown if there is none."""
    for column, wanted in where.items():
        if rows and column not in rows[0]:
            raise Unknown(f"{target['result']}: there is no column {column!r}")
        allowed = wanted if isinstance(wanted, list) else [wanted]
        rows = [row for row in rows if row[column] in map(str, allowed)]
    if not rows:
        raise Unknown(f"{target['result']}: no row is as {where}")
    return rows


def name_column(rows):
    """The first column in which the rows differ: it tells them apart."""
    return next((column for column in rows[0] if len({row[column] for row in rows}) > 1), next(iter(rows[0])))


def judge(target, folder=results.FOLDER):
    """{asked, measured, met, rows}: the target's value, whether it is met, and by how many of its rows."""
    try:
        rows, how = results.newest(target["result"], folder)
    except LookupError as error:
        raise Unknown(str(error)) from None
    every, rows = rows, chosen(target, rows, target.get("where", {}))
    if "over" in target:
        column, least = FORMULA.fullmatch(target["formula"])[2], {}
        for row in (row for row in chosen(target, every, target["over"]) if row[column]):
            name = next(iter(row.values()))
            least[name] = min(least.get(name, math.inf), float(row[column]))
        rows = [row | {column: float(row[column]) / least[name]} for row in rows
                if row[column] and (name := next(iter(row.values()))) in least]
    function, found = values(rows, target["formula"])
    sign, limit = target["limit"].split()
    measured = len(found) if function == "count" else MEANS[function]([value for value, _ in found])
    met = JUDGES[sign](measured, float(limit))
    bad = [(value, row) for value, row in found if function in ("max", "min") and not JUDGES[sign](value, float(limit))]
    bad.sort(key=lambda pair: pair[0], reverse=sign.startswith("<"))
    worst = [f"{row[name_column(rows)]} {value:.4g}" for value, row in bad[:WORST]] if len(found) > 1 else []
    more = [f"{len(bad) - WORST} more"] if len(bad) > WORST else []
    share = f"{len(found) - len(bad)} of {len(found)} rows" if function in ("max", "min") and len(found) > 1 else ""
    return {"asked": target["asked"], "limit": target["limit"], "measured": f"{measured:.4g}", "met": "yes" if met else "no",
            "rows_that_meet_it": share, "worst": ", ".join(worst + more), "result": target["result"], "date": how["date"]}


def read(path=TARGETS):
    return tomllib.loads(path.read_text(encoding="utf-8"))["target"]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missed", action="store_true", help="leave out what is met")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument("--strict", action="store_true", help="exit code 1 if anything is missed")
    arguments = parser.parse_args(argv)
    try:
        judged = [judge(target) for target in read()]
    except Unknown as error:
        print(f"targets.py: {error}", file=sys.stderr)
        return 2
    missed = sum(row["met"] == "no" for row in judged)
    shown = [row for row in judged if row["met"] == "no" or not arguments.missed]
    if arguments.markdown:
        print("\n".join(results.markdown(shown)))
    else:
        for row in shown:
            details = "; ".join(filter(None, (row["rows_that_meet_it"], row["worst"])))
            print(f"{'met   ' if row['met'] == 'yes' else 'MISSED'} {row['asked']}: {row['measured']} (asked {row['limit']}; {row['date']})"
                  + (f"; {details}" if details else ""))
    print(f"{len(judged) - missed} met, {missed} missed")
    return 1 if missed and arguments.strict else 0


if __name__ == "__main__":
    sys.exit(main())
