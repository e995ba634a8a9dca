"""Finds a function by its name, and breaks it: what a row of rows.py says, independent of file, line and neighbours.

A function is named as its callers name it: `name`, or `Class::name` with the class, struct or innermost name space; in
Python `name` or `Class.name`. A constant is named too (`kName`), and a row of a .def table or a class without a function.
The kind of break is one of KINDS; its text stands once in all functions of that name.
"""

import ast
import pathlib
import re

KINDS = ("drop", "swap", "never", "always", "first")
FOLDERS = ("src", "preload", "planner", "scheduler", "python", "scripts", "tests/preload", "tests/refusal")
ENDINGS = (".h", ".cc", ".c", ".def", ".py")


class Lost(LookupError):
    """The tree has not what a row breaks: the row is to be changed, or goes."""


def blank(text):
    """C++ without comments, literals and lines of the preprocessor, each character in its place."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?:.*?)\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|^[ \t]*#(?:\\\n|[^\n])*',
                         re.DOTALL | re.MULTILINE)
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


BRACKET = re.compile(r"[][(){}]")


def closing(text, at):
    """The place behind the bracket that closes the one at `at`."""
    depth = 0
    for found in BRACKET.finditer(text, at):
        depth += 1 if found[0] in "([{" else -1
        if depth == 0:
            return found.end()
    return len(text)


SPECIFIERS = re.compile(r"(?:\s|const\b|noexcept\b|override\b|final\b|->\s*[\w:<>*&, ]+?(?=\s*\{))*")
INITIALIZER = re.compile(r"\s*[:,]\s*[\w:]+(?:<[^()]*?>)?\s*(?=[({])")


def body_behind(code, at):
    """(start, end) of the body of a definition whose parameters begin at `at`, or None: it is a call or a declaration."""
    at = SPECIFIERS.match(code, closing(code, at)).end()
    while found := INITIALIZER.match(code, at):
        at = SPECIFIERS.match(code, closing(code, found.end())).end()
    return (at, closing(code, at)) if code[at:at + 1] == "{" else None


def scopes(code, qualifier):
    """The bodies of classes, structs and name spaces of a name."""
    for found in re.finditer(rf"\b(?:class|struct|namespace|enum class)\s+(?:\[\[.*?\]\]\s*)?(?:\w+::)*{qualifier}\b[^;{{()]*\{{", code):
        yield found.end() - 1, closing(code, found.end() - 1)


def places_in_cxx(text, code, name):
    """(start, end) of each definition of a function, or of a constant or a table's row, or of a class."""
    qualifier, _, last = name.rpartition("::")
    last = re.escape(last)
    spans = set()
    if qualifier:
        starts = [found.end() - 1 for found in re.finditer(rf"\b{qualifier}::{last}\s*\(", code)]
        for scope, end in scopes(code, qualifier):
            starts += [found.end() - 1 for found in re.compile(rf"(?<![\w:.>]){last}\s*\(").finditer(code, scope, end)]
    else:
        starts = [found.end() - 1 for found in re.finditer(rf"(?<![\w.>]){last}\s*\(", code)]
    for start in starts:
        span = body_behind(code, start)
        if span:
            spans.add((code.rfind("\n", 0, start) + 1, span[1]))
    if not spans and not qualifier:
        for found in re.finditer(rf"^[^\n]*\b{last}\b(?:\[[^\]]*\])?\s*(?:=|\{{|;)", code, re.MULTILINE):
            spans.add((found.start(), code.find(";", found.start()) + 1))
        spans.update((found.start(), found.end()) for found in
                     re.finditer(rf"^[A-Z_]+\((?:[^\n]*, *)?\"?{last}\b[^\n]*(?:\n(?![A-Z_]+\(|//|#)[^\n]+)*", text, re.MULTILINE))
    if not spans:
        spans.update(scopes(code, name))
    return spans


def places_in_python(text, _, name):
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    spans, want = set(), name.split(".")

    def visit(node, path):
        for child in ast.iter_child_nodes(node):
            inner = path
            names = [getattr(child, "name", None)]
            if isinstance(child, ast.Assign):
                names = [getattr(target, "id", None) for target in child.targets]
            if isinstance(child, (ast.FunctionDef, ast.ClassDef, ast.Assign)):
                inner = path + names[:1]
                if inner[-len(want):] == want:
                    spans.add((starts[child.lineno - 1], starts[child.end_lineno]))
            visit(child, inner)

    visit(ast.parse(text), [])
    return spans


class Tree:
    """The sources below a root, read once."""

    def __init__(self, root):
        self.root, self.texts, self.codes, self.found = pathlib.Path(root), {}, {}, {}
        for folder in FOLDERS:
            for path in sorted((self.root / folder).rglob("*")):
                if path.suffix in ENDINGS and path.is_file():
                    self.texts[path.relative_to(root).as_posix()] = path.read_text(encoding="utf-8")

    def code(self, name):
        if name not in self.codes:
            self.codes[name] = blank(self.texts[name])
        return self.codes[name]

    def places(self, function):
        """(file, start, end) of all that has the name."""
        if function not in self.found:
            last = re.split(r"::|\.", function)[-1]
            self.found[function] = [
                (name, *span) for name, text in self.texts.items() if last in text
                for span in sorted((places_in_python if name.endswith(".py") else places_in_cxx)(text, self.code(name), function))]
        return self.found[function]


def statement(code, at, start):
    """(start, end) of the statement, or the clause with its block, that has the place `at`."""
    first = max(code.rfind(mark, start, at) for mark in ";{}") + 1
    first += len(code[first:at]) - len(code[first:at].lstrip())
    end, last = first, len(code)
    while end < last and code[end] not in ";{}":
        end = closing(code, end) if code[end] in "([" else end + 1
    end = closing(code, end) if code[end] == "{" else end + 1
    return first, end


def broken(tree, function, kind, text):
    """(file, its text with the break)."""
    wanted = text.split(" => ", 1)[0] if kind == "swap" else text
    places = tree.places(function)
    if not places:
        raise Lost(f"no function is called {function}")
    if kind == "first":
        found = [(name, tree.texts[name].index("{", start), end) for name, start, end in places]
        if len(found) != 1:
            raise Lost(f"{len(found)} functions are called {function}")
        name, at, _ = found[0]
        source = tree.texts[name]
        return name, f"{source[:at + 1]}\n  {text}{source[at + 1:]}"
    found = {(name, at.start()) for name, start, end in places
             for at in re.compile(re.escape(wanted)).finditer(tree.texts[name], start, end)}
    if len(found) != 1:
        raise Lost(f"{function} has {wanted!r} {len(found)} times, in {', '.join(sorted({one[0] for one in places}))}")
    name, at = found.pop()
    source, end = tree.texts[name], at + len(wanted)
    if kind == "drop":
        start = max(start for file, start, stop in places if file == name and start <= at < stop)
        if name.endswith(".py"):
            at, end = source.rfind("\n", 0, at) + 1, source.index("\n", end) + 1
        else:
            at, end = statement(tree.code(name), at, start)
        new = ""
    elif kind == "swap":
        new = text.split(" => ", 1)[1]
    else:
        if re.search(r"(?:\.|->|::)$", source[:at]):
            raise Lost(f"{function} has {wanted!r} as a part of a longer name")
        operator = {"never": ("false &&", "False and"), "always": ("true ||", "True or")}[kind][name.endswith(".py")]
        new = f"({operator} ({wanted}))"
    return name, source[:at] + new + source[end:]
