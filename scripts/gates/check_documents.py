#!/usr/bin/env python3
"""Holds the documents to the tree: counts and lists that they give, and names that they use.

What stands between `<!-- tree:NAME -->` and `<!-- /tree -->` is counted here. Without options every document that
disagrees is named, exit code 1; --write puts the tree's values in. Names that are no more (a variable, a path, a test in
quotes) are named either way, with file and line. So is what makes a page hard to read (readable.py). The last line has the
pages' figures.
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

import gen_tables  # noqa: E402
import readable  # noqa: E402


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
    return [(row.elts[0].value, row.elts[5].value, constants.get(getattr(row.elts[4], "id", ""), ""))
            for row in module_of("tests/mutations/rows.py")["ROWS"].elts]


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
    """Every Markdown file that belongs to the project, but the notes on what was tried."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout.split()
    return [ROOT / name for name in dict.fromkeys(listed) if (ROOT / name).exists() and not name.startswith("results/")]


def notes():
    """The notes of results/ on what was tried and left."""
    return sorted((ROOT / "results/notes").glob("*.md"))


PROMISES = ROOT / "tests/promises.csv"


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the tree's counts and lists into the documents")
    write = parser.parse_args(argv).write
    folders = {path.name for path in ROOT.iterdir() if path.is_dir()} - {"build"}
    settings, tests, wrong = variables(), unit_tests(), 0
    pages = documents()
    figures = readable.Figures()
    for path in pages:
        text = path.read_text(encoding="utf-8")
        new, told = fill(text)
        if write and new != text:
            path.write_text(new, encoding="utf-8")
            told = [sentence for sentence in told if sentence.startswith("nothing")]
        # What is generated names what its source names.
        written = MARKED.sub(lambda match: "\n" * match[0].count("\n"), new)
        told += names_in(path, written, folders, settings, tests)
        told += readable.faults(path.relative_to(ROOT).as_posix(), new, figures)
        for sentence in told:
            print(f"{path.relative_to(ROOT)}:{'' if sentence[0].isdigit() else ' '}{sentence}")
        wrong += len(told)
    rest = [f"{path.relative_to(ROOT)}: {sentence}" for path in notes()
            for sentence in readable.note_faults(path.name, path.read_text(encoding="utf-8"))]
    rest += [f"{PROMISES.relative_to(ROOT)}:{sentence}"
             for sentence in names_in(PROMISES, PROMISES.read_text(encoding="utf-8"), folders, settings, tests)]
    rest += figures.over() if pages and pages[0].is_relative_to(ROOT) and len(pages) > 5 else []
    print(*rest, figures, sep="\n")
    return 1 if wrong or rest else 0


if __name__ == "__main__":
    sys.exit(main())
