#!/usr/bin/env python3
"""Fails when the tree grows away from its design.

Checked: the graph of includes and of Python imports has no circle, and no arrow from a lower folder back up; no two
places of src, planner, scheduler and preload share six lines of code; each threshold of src/base/tuning*.def names a
test that there is, and they are no more than MAX_THRESHOLDS; what is global in preload is a member of the one
object there, reset in a forked child by the rows of preload/features.def; comments have at most 100 columns. Prints a line for each fault; exit code 1 if there
is any.
"""

import argparse
import ast
import pathlib
import re
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / folder) for folder in ("scripts/gates", "scripts/tables")]

import check_layers  # noqa: E402
import gen_tables  # noqa: E402

MAX_SHARED = 5  # lines
MAX_THRESHOLDS = 110
MAX_GLOBALS = 3  # of preload: the one object, and two that cannot be in it
REPEATS = ("src/", "planner/", "scheduler/", "preload/")
# Python folders, the lowest first; a file may import those of its own and of lower ones.
PYTHON = ("python", "scripts", "scripts/tables", "scripts/packages", "scripts/gates", "scripts/site", "scripts/experiments", "bench", "scripts/hardware", "tests")
NOT_OURS = ("tests/golden/",)  # data
TEXT = (".h", ".cc", ".c", ".def", ".py", ".sh", ".mk", ".js", ".css", ".html", ".md")


def tracked(root):
    """The project's text files by name, as lines."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"],
                            capture_output=True, text=True, check=True).stdout.split("\n")
    files = {}
    for name in listed:
        path = pathlib.Path(root, name)
        if name.endswith(TEXT) and not name.startswith(NOT_OURS) and path.is_file():
            files[name] = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return files


def code_of(line):
    return re.sub(r'"(?:\\.|[^"\\])*"', '""', line).split("//")[0].strip()


# Includes and imports.

def unit(name):
    """A header and its source are one unit: what either includes, the other depends on."""
    return re.sub(r"\.(h|cc|c)$", "", name)


def include_graph(root, merged):
    tree = check_layers.Tree(root)
    graph = {}
    for name in tree.files:
        node = unit(name) if merged else name
        graph.setdefault(node, set())
        for _, target, _ in tree.includes(name):
            if target and not target.endswith(".def") and (not merged or unit(target) != node):
                graph[node].add(unit(target) if merged else target)
    return graph


def imported(text):
    """The modules that a Python file names, and the files that it loads by their path."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "spec_from_file_location":
            yield from (inner.value for inner in ast.walk(node)
                        if isinstance(inner, ast.Constant) and str(inner.value).endswith(".py"))


def import_graph(files):
    """{file: the project's files that it imports}; a module is looked for beside the file, then in the folders that
    its text names."""
    sources = {name: "\n".join(lines) for name, lines in files.items() if name.endswith(".py")}
    graph = {name: set() for name in sources}
    for name, text in sources.items():
        folders = [str(pathlib.PurePosixPath(name).parent)]
        folders += [folder for folder in sorted({str(pathlib.PurePosixPath(other).parent) for other in sources})
                    if re.search(rf'"{re.escape(folder)}["/]', text)]
        for module in imported(text):
            if module in sources:
                graph[name].add(module)
            path = module.replace(".", "/")
            for folder in folders:
                found = [one for one in (f"{folder}/{path}.py", f"{folder}/{path}/__init__.py") if one in sources]
                if found:
                    graph[name].update(found)
                    break
    return graph


def circles(graph):
    """The strongly connected parts of more than one node, each a sorted list (Tarjan, 1972)."""
    number, low, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for target in sorted(graph.get(node, ())):
            if target not in number:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], number[target])
        if low[node] == number[node]:
            part = []
            while not part or part[-1] != node:
                part.append(stack.pop())
            if len(part) > 1:
                found.append(sorted(part))

    sys.setrecursionlimit(10000)
    for node in sorted(graph):
        if node not in number:
            visit(node)
    return sorted(found)


def rank(name):
    return max((at for at, folder in enumerate(PYTHON) if name.startswith(folder + "/")),
               key=lambda at: len(PYTHON[at]), default=None)


def graph_faults(root, files):
    imports = import_graph(files)
    for graph in (include_graph(root, True), imports):
        for part in circles(graph):
            yield f"circle {' '.join(part)}", len(part)
    for name, targets in imports.items():
        for target in sorted(targets):
            ranks = rank(name), rank(target)
            if None not in ranks and ranks[0] < ranks[1]:
                yield f"upward {name} {target}", 1


# Repeats.

def code_lines(lines):
    """(number, text) of the lines that say something: no comment, include, brace or label alone."""
    for number, line in enumerate(lines, 1):
        text = code_of(line)
        if re.search(r"\w", text) and not text.startswith(("#include", "namespace", "public:", "private:", "using ")):
            yield number, re.sub(r"\s+", " ", text)


def repeat_faults(files):
    """Each stretch of code that stands in two places, once, with its length in lines."""
    size, places, sources = MAX_SHARED + 1, {}, {}
    for name, lines in sorted(files.items()):
        if name.startswith(REPEATS) and name.endswith((".h", ".cc", ".c")):
            sources[name] = list(code_lines(lines))
            for at in range(len(sources[name]) - size + 1):
                key = tuple(text for _, text in sources[name][at:at + size])
                places.setdefault(key, []).append((name, at))
    told, longest = set(), {}
    for key, found in places.items():
        for one, other in zip(found, found[1:]):
            if one[0] == other[0] and other[1] - one[1] < size or (one, other) in told:
                continue
            length = 0
            while (one[1] + length < len(sources[one[0]]) and other[1] + length < len(sources[other[0]]) and
                   sources[one[0]][one[1] + length][1] == sources[other[0]][other[1] + length][1]):
                told.add(((one[0], one[1] + length), (other[0], other[1] + length)))
                length += 1
            pair = f"repeat {one[0]} {other[0]}"
            longest[pair] = longest.get(pair, 0) + length
    return longest.items()


# Global state.

VARIABLE = re.compile(r"^\s*(?:constinit|thread_local|static(?! (?:const|constexpr|inline|void|bool)\b)[^()]*[=;{])")


def state_faults(files):
    """The variables of preload that are apart from the one global, where there are more than two: the first calls of the
    operators, and the C++ runtime's places. Each struct of state.h that a forked child resets has its row."""
    found = [f"{name}:{number}" for name, lines in sorted(files.items()) if name.startswith("preload/")
             for number, line in enumerate(lines, 1) if VARIABLE.match(line)]
    if len(found) > MAX_GLOBALS:
        yield f"variables of preload that are no member of g_process: {' '.join(found)}", len(found)
    rows = set(re.findall(r"^FEATURE\(\w+, (\w+)\)", "\n".join(files.get("preload/features.def", ())), re.MULTILINE))
    state = "\n".join(files.get("preload/state.h", ()))
    for struct in re.split(r"^struct (?=\w+ {)", state, flags=re.MULTILINE)[1:]:
        name = re.match(r"\w+", struct)[0]
        if "void forked()" in struct and name not in rows:
            yield f"state::{name} has no row in preload/features.def", 1


# Comments.

WIDE = 100  # columns; clang-format keeps the code to them
NARROW = ("preload/", "src/base/", "src/trace/", "src/follow/", "src/serve/", "src/engine/", "src/io/", "src/learn/", "src/cli/", "planner/",
          "scheduler/", "include/")


def comment_faults(files):
    for name, lines in sorted(files.items()):
        if name.startswith(NARROW) and name.endswith((".h", ".cc", ".c", ".def")):
            for number, line in enumerate(lines, 1):
                if len(line) > WIDE and re.match(r"\s*(?://(?! NOLINT)|\*|/\*)", line):
                    yield f"{name}:{number}: a comment of {len(line)} columns", len(line)


# Thresholds.

def threshold_faults(files):
    text = "\n".join(line for name in sorted(files) if name.startswith("src/base/tuning") and name.endswith(".def")
                     for line in files[name])
    tests = {found for name, lines in files.items() if name.startswith("tests/") and name.endswith(".cc")
             for found in re.findall(r'TEST_CASE\w*\((?:\w+,)?\s*"([^"]*)"', "\n".join(lines))}
    names, rows = set(), gen_tables.rows(text, ("TUNING", "FIXED"))
    if len(rows) > MAX_THRESHOLDS:
        yield f"thresholds, at most {MAX_THRESHOLDS}", len(rows)
    for row in rows:
        if row[1] in names or not all(row):
            yield f"threshold {row[1]} twice, or a column is empty", 1
        names.add(row[1])
        program = re.match(r"preload: (\w+)", row[5])
        known = (row[5] in tests or row[5].startswith(("nothing: ", "measurement: ")) or
                 program and any(name.startswith(f"tests/preload/programs/{program[1]}.c") for name in files))
        if not known:
            yield f"threshold {row[1]} names no test", 1


def faults(root):
    """{fault: its figure}."""
    files = tracked(root)
    found = {}
    for part in (graph_faults(root, files), repeat_faults(files), state_faults(files), comment_faults(files), threshold_faults(files)):
        found.update(part)
    return found


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parents[2], type=pathlib.Path)
    found = sorted(f"{fault}: {figure}" for fault, figure in faults(parser.parse_args(argv).root).items())
    print("\n".join(found) if found else "design: no fault")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
