#!/usr/bin/env python3
"""Fails when the tree breaks its own order.

Checked: includes point downwards only (folder = layer); hot folders, which run inside malloc, reach
no header that allocates, locks or prints, not even through another project header; no layer may include
what none of its files does. Prints `file:line: reason` for each fault; exit code 1 if there is any.
"""

import argparse
import pathlib
import re
import sys

# folder: (hot, what it may include besides itself; a folder or one file). Longest prefix wins.
LAYERS = {
    "include": (False, ()),
    "src/base": (True, ()),
    "planner": (False, ("include",)),
    "scheduler": (False, ("include",)),
    "src/trace": (True, ("src/base",)),
    # Decides without memory: it knows no page map, as src/serve knows no plan.
    "src/follow": (True, ("src/base",)),
    "src/serve": (True, ("src/base", "src/trace")),
    "src/learn": (False, ("src/base", "src/trace", "src/follow/plan.h", "src/follow/steps.h",
                          "include")),
    "src/io": (False, ("src/base", "src/trace", "src/follow/plan.h", "src/follow/plan_name.h", "src/follow/steps.h")),
    "src/engine": (True, ("src/base", "src/trace", "src/follow", "src/serve", "src/learn/learn.h")),
    # GPU memory: the engine's learning over memory of its own.
    "src/gpu": (False, ("src/base", "src/trace/event.h", "src/follow", "src/learn/learn.h", "src/io/plan_cache.h",
                        "src/io/plan_cache_name.h", "src/io/shared_file.h", "src/io/status_page.h")),
    "src/cli": (False, ("src/cli/base",)),
    "src/cli/base": (False, ("src/base/loop.h", "src/base/nearest_name.h", "src/io/replace_file.h")),
    "src/cli/trace": (False, ("src/cli/base", "src/base", "src/engine/lane.h", "src/engine/tracker.h", "src/learn",
                              "src/io", "include")),
    "src/cli/run": (False, ("src/cli/base", "src/base", "src/io/plan_cache.h", "include/dsa/planner.h")),
    "src/cli/status": (False, ("src/cli/base", "src/base", "src/io/status_page.h", "src/io/status_page_numbers.def")),
    "src/cli/plan": (False, ("src/cli/base", "src/cli/trace", "src/base", "src/io", "planner/mip_model.h", "include")),
    "src/cli/report": (False, ("src/cli/base", "src/cli/trace", "src/base", "src/trace/ops.def", "src/follow/plan.h",
                               "src/learn", "include")),
    "src/cli/compare": (False, ("src/cli/base", "src/cli/trace", "src/cli/run", "src/cli/report", "src/base",
                                "src/io/trace_csv.h")),
    # The second door: what a process reads when it starts and writes when it ends.
    "preload": (True, ("src/base", "src/engine", "src/io/export.h", "src/io/shared_file.h", "src/io/plan_cache.h",
                        "src/io/status_page.h", "src/io/status_page_numbers.def", "include/memomalloc")),
}
FREE = ("tests", "bench")  # may include anything, and count in no layer

BANNED_IN_HOT = frozenset(
    "any condition_variable cstdio deque exception filesystem format forward_list fstream functional "
    "future iomanip iostream istream list map memory memory_resource mutex ostream queue random regex "
    "set shared_mutex sstream stack stdexcept stdio.h streambuf string thread unordered_map "
    "unordered_set variant vector".split())

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
CODE = (".h", ".cc", ".c", ".def")
COUNTED = CODE + (".py", ".sh")


def layer_of(path):
    """The folder of LAYERS that owns a path, or None."""
    owners = [folder for folder in LAYERS if path == folder or path.startswith(folder + "/")]
    return max(owners, key=len, default=None)


def may_include(folder, target):
    _, allowed = LAYERS[folder]
    return layer_of(target) == folder or any(target == entry or target.startswith(entry + "/") for entry in allowed)


class Tree:
    """The source files below a root and what each includes."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.files = {}
        for top in ("include", "src", "planner", "scheduler", "preload", "tests", "bench", "scripts"):
            for path in sorted((self.root / top).rglob("*")):
                if path.is_file() and path.suffix in COUNTED:
                    name = path.relative_to(self.root).as_posix()
                    self.files[name] = path.read_text(encoding="utf-8").splitlines()

    def resolve(self, includer, spelled):
        """The project file that an include names, or None for a system header."""
        beside = (pathlib.PurePosixPath(includer).parent / spelled).as_posix()
        for candidate in (spelled, f"include/{spelled}", beside):
            if candidate in self.files:
                return candidate
        return None

    def includes(self, name):
        """(line number, project file or None, spelled name) of each include of a file."""
        for number, line in enumerate(self.files.get(name, ()), 1):
            match = INCLUDE.match(line)
            if match:
                spelled = match.group(1) or match.group(2)
                yield number, self.resolve(name, spelled), spelled

    def banned_reached(self, name, seen):
        """(banned header, the project file that includes it) reachable from a file."""
        if name in seen:
            return None
        seen.add(name)
        for _, target, spelled in self.includes(name):
            if target is None and spelled in BANNED_IN_HOT:
                return spelled, name
            found = target and self.banned_reached(target, seen)
            if found:
                return found
        return None


def faults(tree):
    for name in tree.files:
        folder = layer_of(name)
        if not name.endswith(CODE) or name.startswith(FREE):
            continue
        if folder is None:
            if name.startswith(("src/", "planner/", "scheduler/", "preload/")):
                yield f"{name}:1: in no layer; add its folder to LAYERS of scripts/gates/check_layers.py"
            continue
        for number, target, spelled in tree.includes(name):
            if target and not may_include(folder, target):
                yield f"{name}:{number}: {folder} may not include {target}"
            if not LAYERS[folder][0]:
                continue
            if target is None and spelled in BANNED_IN_HOT:
                yield f"{name}:{number}: <{spelled}> is banned in {folder}, which runs inside malloc"
            elif target and layer_of(target) and not LAYERS[layer_of(target)][0]:
                found = tree.banned_reached(target, set())
                if found:
                    yield (f"{name}:{number}: reaches <{found[0]}> through {found[1]}; "
                           f"{folder} runs inside malloc")


def unused_edges(tree):
    """A fault for each entry of LAYERS that permits what no file does."""
    used = {(layer_of(name), target) for name in tree.files for _, target, _ in tree.includes(name)
            if target and layer_of(name) is not None}
    for folder, (_, allowed) in LAYERS.items():
        for entry in allowed:
            if not any(owner == folder and (target == entry or target.startswith(entry + "/")) for owner, target in used):
                yield f"scripts/gates/check_layers.py: no file of {folder} includes {entry}; take it out of LAYERS"


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parents[2])
    tree = Tree(parser.parse_args(argv).root)
    found = [*faults(tree), *unused_edges(tree)]
    print("\n".join(found) if found else f"layers: {len(tree.files)} files in order")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
