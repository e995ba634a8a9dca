#!/usr/bin/env python3
"""Writes the generated parts of the documents: from the .def files, docstrings, headers and results/.

A document holds `<!-- table:NAME -->` and, below it, `<!-- /table -->`; what stands between is
replaced by table NAME. `--check` changes nothing and exits with 1 when a document is stale.
"""

import argparse
import pathlib
import re
import sys

import compared
import folders
import gen_api

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Table:
    """One .def file: its row macros and the columns that a reader sees."""

    def __init__(self, source, macros, headings, columns):
        self.source, self.macros, self.headings, self.columns = source, macros, headings, columns


def option_name(row):
    return f"`MEMOMALLOC_{row[1].upper()}`"


def option_default(row):
    kind, default, unit = row[0], re.sub(r"^.*::k", "", row[2]), row[3]
    if kind == "Size":
        return human_size(default)
    if kind in ("Choice", "Trust", "Numa"):
        return default.lower()
    return f"{default} {unit}" if unit in ("ms", "s") else default or "unset"


def human_size(text):
    """65536 -> 64K; anything that is no whole number of KiB stays as it is."""
    if not re.fullmatch(r"\d+", text):
        return text
    value, suffix = int(text), ""
    for next_suffix in ("K", "M", "G"):
        if value == 0 or value % 1024:
            break
        value, suffix = value // 1024, next_suffix
    return f"{value}{suffix}"


def integer(text):
    """The value of a C++ integer: 64ULL << 20, 1'000'000, 8."""
    base, _, shift = re.sub(r"(?<=\d)(?:ULL|UL|U)\b|'", "", text).partition("<<")
    return int(base) << int(shift or 0)


def threshold(row):
    value, unit = integer(row[2]), row[3]
    if unit == "bytes":
        return human_size(str(value))
    if unit == "ns":
        sizes = ((10**9, "s"), (10**6, "ms"), (10**3, "us"), (1, "ns"))
        return next(f"{value // size} {name}" for size, name in sizes if value % size == 0)
    return f"1/{value}" if unit.startswith("one ") else f"{value} {unit}"


def phase(name):
    return name.removeprefix("k").lower()


def words(name):
    """kRestartLog -> restart log"""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.strip().removeprefix("k")).lower()


def effects(row):
    return ", ".join(words(each) for each in row[4].split("|")) if row[4] != "0" else ""


def condition(row):
    return {"kLearns": "there is memory to learn", "kCannot": "there is none"}.get(row[2], "")


def drawing():
    """The transitions between different phases as a diagram in Mermaid's language."""
    table, edges = TABLES["transitions"], {}
    for start, event, _, to, *_ in rows(source_text(table.source), table.macros):
        if start != to:
            events = edges.setdefault((phase(start), phase(to)), [])
            if words(event) not in events:
                events.append(words(event))
    return ["```mermaid", "stateDiagram-v2", "  [*] --> idle",
            *(f"  {start} --> {to}: {', '.join(events)}" for (start, to), events in edges.items()), "```"]


def first_sentence(path):
    """Of the comment that begins a file, without its remarks on threads."""
    words = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("//"):
            break
        words += line[2:].split()
        if words[-1].endswith("."):
            break
    text = " ".join(words)
    return re.sub(r"\s*\b(?:Hot|Cold)\b[^.]*\.$", "", re.split(r"(?<=[a-z)])\. ", text)[0].rstrip(".") + ".")


def preload_files():
    """The files of preload/: what each header, or a source without one, says of itself."""
    folder = ROOT / "preload"
    found = {path.stem: path for path in sorted(folder.glob("*.cc"))} | {path.stem: path for path in sorted(folder.glob("*.h"))}
    return ["| file | what it is |", "| --- | --- |",
            *(f"| `{path.name}` | {first_sentence(path).replace('|', chr(92) + '|')} |" for _, path in sorted(found.items()))]


TABLES = {
    "preload": preload_files,
    "transitions": Table("src/engine/tracker.def", ("TRANSITION",), ("phase", "event", "condition", "next phase", "besides", "when"),
                         (lambda row: phase(row[0]), lambda row: words(row[1]), condition, lambda row: phase(row[3]),
                          effects, lambda row: row[5])),
    "phases": drawing,
    "folders": folders.drawing,
    "compared": compared.table,
    "python_api": gen_api.python_api,
    "c_api": gen_api.c_api,
    "process": Table("src/io/status_page_numbers.def", ("PROCESS",), ("field", "meaning"), (lambda row: f"`{row[0]}`", lambda row: row[1])),
    "options": Table("src/base/options.def", ("OPTION",), ("variable", "default", "meaning"),
                     (option_name, option_default, lambda row: row[4])),
    "counters": Table("src/base/counters.def", ("COUNTER",), ("counter", "unit", "meaning"),
                      (lambda row: f"`{row[0]}`", lambda row: row[1], lambda row: row[2])),
    "hooks": Table("preload/hooks.def", ("HOOK", "ENTRY", "OPERATOR", "PEER"), ("function", "kind"),
                   (lambda row: f"`{row[0]}`", lambda row: row[1])),
    "tuning": Table("src/base/tuning.def", ("TUNING", "FIXED"), ("name", "value", "why", "noticed by"),
                    (lambda row: f"`{row[1]}`", threshold, lambda row: row[4], lambda row: row[5])),
    "planners": Table("planner/planners.def", ("ROW",), ("name", "exact", "source"),
                      (lambda row: f"`{row[0]}`",
                       lambda row: "yes" if row[2] in ("true", "yes", "exact", "1") else "no",
                       lambda row: row[3])),
}

TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|[(),]|[^\s"(),]+|\s+', re.DOTALL)


def source_text(name):
    """The text of a table's file, with the .def files that it includes after its own rows."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return text + "".join(source_text(found) for found in re.findall(r'^#include "([^"]+\.def)"', text, re.MULTILINE))


def rows(text, macros):
    """The arguments of each macro call in a .def file; adjacent strings are joined, quotes dropped.

    Preprocessor lines and comments count for nothing. Parentheses inside an argument nest.
    """
    text = re.sub(r"^\s*#.*(?:\\\n.*)*$", "", text, flags=re.MULTILINE)
    depth, arguments, quoted, name, found = 0, [], False, "", []
    for token in TOKEN.findall(text):
        if token.startswith(("//", "/*")):
            continue
        if depth == 0:
            if token == "(":
                depth, arguments, quoted = 1, [""], False
            elif token.strip():
                name = token
            continue
        if token == ")" and depth == 1:
            depth = 0
            if name in macros:
                found.append([argument.strip() for argument in arguments])
        elif token == "," and depth == 1:
            arguments.append("")
            quoted = False
        elif token.startswith('"'):
            arguments[-1] = (arguments[-1] if quoted else "") + token[1:-1].replace('\\"', '"')
            quoted = True
        elif not (quoted and token.isspace()):
            depth += {"(": 1, ")": -1}.get(token, 0)
            arguments[-1] += " " if token.isspace() else token
    return found


def render(table):
    """The table as Markdown lines."""
    if callable(table):
        return table()
    text = source_text(table.source)
    lines = [f"| {' | '.join(table.headings)} |", "|" + " --- |" * len(table.headings)]
    for row in rows(text, table.macros):
        try:
            cells = [column(row).replace("|", "\\|") for column in table.columns]
        except IndexError:
            raise SystemExit(f"{table.source}: row {row} has too few columns") from None
        lines.append(f"| {' | '.join(cells)} |")
    return lines


MARKED = re.compile(r"(<!-- table:(\w+) -->\n).*?(<!-- /table -->)", re.DOTALL)


def fill(text, document):
    def replace(match):
        if match.group(2) not in TABLES:
            raise SystemExit(f"{document}: unknown table {match.group(2)!r}; "
                             f"there are {', '.join(TABLES)}")
        return match.group(1) + "\n".join(render(TABLES[match.group(2)])) + "\n" + match.group(3)

    return MARKED.sub(replace, text)


def documents():
    for pattern in ("*.md", "docs/**/*.md", "planner/*.md", "scheduler/*.md", "src/**/*.md", "preload/*.md"):
        yield from sorted(ROOT.glob(pattern))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; 1 if stale")
    check = parser.parse_args(argv).check
    stale = 0
    for path in documents():
        old = path.read_text(encoding="utf-8")
        name = path.relative_to(ROOT)
        new = fill(old, name)
        if new == old:
            continue
        stale += 1
        print(f"{name}: {'stale; run scripts/tables/gen_tables.py' if check else 'written'}")
        if not check:
            path.write_text(new, encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
