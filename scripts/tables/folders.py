"""The folders of the product as a drawing: which includes which, from the code itself."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOPS = ("src", "preload", "planner", "scheduler", "include")
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([\w/.]+)[">]', re.MULTILINE)


def folder_of(path):
    """src/engine/lane.h -> engine; src/cli/run/x.cc -> cli; planner/x.h -> planner."""
    parts = path.split("/")
    return parts[1] if parts[0] == "src" and len(parts) > 2 else parts[0]


def graph(root):
    """{folder: the other folders that its files include}."""
    files = [path for top in TOPS for path in (root / top).rglob("*") if path.suffix in (".h", ".cc", ".def")]
    names = {path.relative_to(root).as_posix() for path in files}
    found = {}
    for path in files:
        folder = folder_of(path.relative_to(root).as_posix())
        targets = found.setdefault(folder, set())
        for spelled in INCLUDE.findall(path.read_text(encoding="utf-8")):
            name = next((one for one in (spelled, f"include/{spelled}") if one in names), None)
            if name and folder_of(name) != folder:
                targets.add(folder_of(name))
    return found


def reached(edges, start):
    """All folders below one."""
    below, waiting = set(), list(edges.get(start, ()))
    while waiting:
        folder = waiting.pop()
        if folder not in below:
            below.add(folder)
            waiting += edges.get(folder, ())
    return below


def drawing(root=ROOT):
    """In Mermaid's language; an arrow that follows from two others is left out."""
    edges = graph(root)
    arrows = {}
    for folder in sorted(edges):
        own = sorted(to for to in edges[folder]
                     if not any(to in reached(edges, other) for other in edges[folder] if other != to))
        arrows.setdefault(" & ".join(own), []).append(folder)
    return ["```mermaid", "flowchart TD",
            *(f"  {' & '.join(folders)} --> {own}" for own, folders in arrows.items() if own), "```"]
