#!/usr/bin/env python3
"""Holds the documents to the tree: counts and lists that they give, and names that they use.

What stands between `<!-- tree:NAME -->` and `<!-- /tree -->` is counted or listed here. Without options
every document that disagrees is named, exit code 1; --write puts the tree's values in. Names that are no
more (a variable, a path, a test in quotes) are told either way, with file and line.
"""

import argparse
import ast
import functools
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts/gates"), str(ROOT / "scripts/tables")]

import check  # noqa: E402
import gen_tables  # noqa: E402


@functools.cache
def preload_counts():
    """How many preload checks and modes there are where every other allocator is installed, as their runner says."""
    told = subprocess.run([sys.executable, ROOT / "tests/preload/run.py", "--count"], capture_output=True, text=True,
                          check=True)
    return json.loads(told.stdout)


def module_of(path):
    """The names that a Python file gives constants at its top; nothing of it is run."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {target.id: node.value for node in tree.body if isinstance(node, ast.Assign)
            for target in node.targets if isinstance(target, ast.Name)}


def programs():
    """The names of the small programs of the preload checks."""
    folder = ROOT / "tests/preload/programs"
    return sorted(path.stem for path in folder.iterdir() if path.suffix in (".c", ".cc"))


TEST_CASE = re.compile(r'^TEST_CASE(?:_METHOD\(\s*\w+,|\()\s*"((?:[^"\\]|\\.|"\s*")*)"', re.MULTILINE)


def unit_tests():
    """The names of all unit tests."""
    return [re.sub(r'"\s*"', "", name).replace('\\"', '"') for path in sorted(ROOT.glob("tests/*/*_test.cc"))
            for name in TEST_CASE.findall(path.read_text(encoding="utf-8"))]


def mutations():
    """(what is broken, the test that notices) of each row of the mutations."""
    constants = {"UNIT": "unit", "PRELOAD": "preload", "SCRIPT": "script"}
    rows = []
    for row in module_of("tests/mutations/run.py")["MUTATIONS"].elts:
        if isinstance(row, ast.Starred):  # SOME_ROWS, of some_rows.py
            rows += module_of(f"tests/mutations/{row.value.id.lower()}.py")[row.value.id].elts
        else:
            rows.append(row)
    return [(row.elts[0].value, row.elts[5].value, constants.get(getattr(row.elts[4], "id", ""), ""))
            for row in rows]


def mutations_by_test():
    """(what is broken, its test in code font) for each test, in the order of its first row."""
    broken = {}
    for what, test, _ in mutations():
        broken.setdefault(test, []).append(what)
    return [("; ".join(whats), f"`{test}`") for test, whats in broken.items()]


def table(headings, rows):
    """A Markdown table's text."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def words(path, name):
    """How many words a constant of a Python file has: a tuple's elements, or a text's."""
    value = module_of(path)[name]
    if isinstance(value, ast.Call):  # "a b c".split()
        return len(value.func.value.value.split())
    return len(value.elts)


VALUES = {
    "programs": lambda: len(programs()),
    "modes": lambda: preload_counts()["modes"],
    "unwound programs": lambda: words("tests/preload/run.py", "UNWOUND"),
    "programs that count pages": lambda: words("tests/preload/run.py", "COUNT_PAGES"),
    "preload checks": lambda: preload_counts()["checks"],
    "unit tests": lambda: len(unit_tests()),
    "mutations": lambda: len(mutations()),
    "untuned workloads": lambda: words("bench/workloads/table.py", "UNTUNED"),
    "fuzzers": lambda: len(list(ROOT.glob("tests/fuzz/*_fuzz.cc"))),
    "CPython's modules": lambda: words("tests/preload/real_programs.py", "PYTHON_TESTS_LONG"),
    "numpy's modules": lambda: words("tests/preload/real_programs.py", "NUMPY_TESTS"),
    "table of mutations": lambda: table(("broken", "noticed by"), mutations_by_test()),
    "table of skips": lambda: table(("step", "test: reason", "why it may be skipped"),
                                    [(f"`{step}`", f"`{text}`", why) for step, text, why in check.read_allowed()]),
}

MARKED = re.compile(r"(<!-- tree:([^>]*?) -->)(.*?)(<!-- /tree -->)", re.DOTALL)


def fill(text):
    """(the text with the tree's values, a sentence for each that was another or is unknown)."""
    told = []

    def replace(match):
        name, old = match[2], match[3].strip()
        if name not in VALUES:
            told.append(f"nothing is called {name!r}; there are {', '.join(VALUES)}")
            return match[0]
        new = str(VALUES[name]())
        if old != new:
            told.append(f"{name}: {f'{old} stands there, the tree has {new}' if len(new) < 20 else 'stale'}")
        return match[1] + (f"\n{new}\n" if "\n" in new else new) + match[4]

    return MARKED.sub(replace, text), told


def variables():
    """The names of the settings, after MEMOMALLOC_."""
    option = gen_tables.TABLES["options"]
    text = (ROOT / option.source).read_text(encoding="utf-8")
    return {row[1].upper() for row in gen_tables.rows(text, option.macros)}


# A quoted word that is a path of this tree, if its first folder is one: `tests/fuzz/run.sh 30`, `bench/*.py`.
PATH = re.compile(r"`\.?/?((?:[\w.-]+/)+[\w.*-]*)[^`]*`")
LINK = re.compile(r"\]\((?!\w+:|#)([^)#]+)")
# A quoted unit test, `layer: what is true ...`; one with a star is a pattern of the list of skips.
QUOTED_TEST = re.compile(r"`([a-z][a-z ]*: [^`*]+)`")
NAMED_VARIABLE = re.compile(r"\bMEMOMALLOC_([A-Z][A-Z_]*[A-Z])\b")


def known_test(name, names):
    """Whether a unit test is called so; `...` stands for anything."""
    pattern = ".*".join(map(re.escape, name.split("...")))
    return any(re.fullmatch(pattern, other) for other in names)


def names_in(path, text, folders, settings, tests):
    """A sentence with its line for each name that the tree does not have."""
    for number, line in enumerate(text.splitlines(), 1):
        for name in NAMED_VARIABLE.findall(line):
            if name not in settings:
                yield f"{number}: there is no variable MEMOMALLOC_{name}"
        for name in PATH.findall(line):
            if name.split("/")[0] in folders and not any(
                    any(folder.glob(name.rstrip("/"))) for folder in (ROOT, path.parent)):
                yield f"{number}: there is no {name}"
        for name in LINK.findall(line):
            if not (path.parent / name).exists():
                yield f"{number}: the link to {name} leads nowhere"
        layers = {test.split(":")[0] for test in tests}
        for name in QUOTED_TEST.findall(line):
            if name.split(":")[0] in layers and not known_test(name, tests):
                yield f"{number}: there is no test {name!r}"


def documents():
    """Every Markdown file that belongs to the project."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout.split()
    return [ROOT / name for name in listed if (ROOT / name).exists()]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the tree's counts and lists into the documents")
    write = parser.parse_args(argv).write
    folders = {path.name for path in ROOT.iterdir() if path.is_dir()} - {"build"}
    settings, tests, wrong = variables(), unit_tests(), 0
    for path in documents():
        text = path.read_text(encoding="utf-8")
        new, told = fill(text)
        if write and new != text:
            path.write_text(new, encoding="utf-8")
            told = [sentence for sentence in told if sentence.startswith("nothing")]
        # What is generated names what its source names.
        written = MARKED.sub(lambda match: "\n" * match[0].count("\n"), new)
        told += names_in(path, written, folders, settings, tests)
        for sentence in told:
            print(f"{path.relative_to(ROOT)}:{'' if sentence[0].isdigit() else ' '}{sentence}")
        wrong += len(told)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
