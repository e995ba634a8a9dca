#!/usr/bin/env python3
"""Boots guests of two and four memory nodes in QEMU, and counts there on which node the pages of a loop's blocks and
weights lie after 100 iterations (nodes.c), without the library and with it, free and under a filter that refuses all
calls on nodes, as containers do. Prints the table, also written to build/vm/nodes.md; exit code 1 where the library's
rows are not as `wanted` says. Nothing is said of time: the guests are emulated, or share their processors."""

import argparse
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import image
import run

sys.path.insert(0, str(run.ROOT / "scripts/tables"))
import measured

ROOT = run.ROOT
BELOW = run.BELOW
PROCESSORS = 4
# Scenario: what it is, and where its blocks are to lie at the end: on one node, or over all.
SCENARIOS = {
    "team": ("four threads on all nodes, as OpenMP's, write each block in parts", "all"),
    "team-moves": ("the same; all begin on the first node", "all"),
    "bound": ("two servers, each bound to a node", "own"),
    "moves": ("a server of one thread that moves to the last node", "last"),
    "roams": ("a server of one thread that goes on moving", "all"),
}
MOST_STRAYS = 0.1  # of the pages that are to lie on one node
LEAST_SHARE = 0.5  # of a node's even part, where they are to be spread


def archive(target):
    """An initramfs with the C library, our library and the counting program."""
    folders = image.unpacked("x86_64", target.parent, ("busybox-static", "libc6", "libgcc-s1", "libstdc++6"))
    guest = image.skeleton(folders, HERE / "nodes_init")
    program = BELOW / "nodes"
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", program, HERE / "nodes.c"], check=True)
    guest.copy("vm/nodes", program)
    guest.copy("vm/libmemomalloc.so", ROOT / "build/libmemomalloc.so")
    target.write_bytes(guest.compressed())
    return target


def command_line(nodes, initrd, accelerator, console, scenarios, variables):
    each = PROCESSORS // nodes
    words = [f"console=ttyS0 quiet loglevel=1 panic=-1 rootfstype=ramfs memo.nodes={nodes}",
             f"memo.scenarios={','.join(scenarios)}", *(f"memo.set={variable}" for variable in variables)]
    memory = []
    for node in range(nodes):
        memory += ["-object", f"memory-backend-ram,id=memory{node},size={1024 // nodes}M",
                   "-numa", f"node,nodeid={node},memdev=memory{node},cpus={node * each}-{node * each + each - 1}"]
    return ["qemu-system-x86_64", "-machine", "pc", "-accel", accelerator, "-cpu",
            "host" if accelerator == "kvm" else "max", "-smp", str(PROCESSORS), "-m", "1024", *memory, "-nodefaults",
            "-display", "none", "-no-reboot", "-serial", f"file:{console}",
            "-kernel", str(image.kernel("x86_64", 4, "6.1", BELOW)), "-initrd", str(initrd), "-append", " ".join(words)]


def right(pages, wanted, node):
    """True if the pages lie as is wanted; `node`: the one that a server is bound to."""
    total = sum(pages)
    if not total:
        return False
    if wanted == "all":
        return min(pages) >= LEAST_SHARE * total / len(pages)
    return pages[node if wanted == "own" else -1] >= (1 - MOST_STRAYS) * total


def faults(rows, nodes, scenarios, moves):
    """What is not as it should be, a line each. `moves`: MEMOMALLOC_NUMA has its default."""
    expected = sum(2 * 2 * (2 if name == "bound" else 1) for name in scenarios)
    found = [] if len(rows) == expected else [f"{nodes} nodes: {len(rows)} rows of {expected}"]
    for row in rows:
        wanted = SCENARIOS[row["scenario"]][1]
        name = f"{nodes} nodes, {row['scenario']}, filter {row['filter']}, library {row['library']}"
        if row["status"] != 0:
            found.append(f"{name}: ended with {row['status']}")
        if moves and row["library"] and not right(row["blocks"], wanted, row["node"]):
            found.append(f"{name}: blocks lie on {row['blocks']}")
        # A filter keeps weights from being moved.
        if moves and row["library"] and not row["filter"] and not right(row["weights"], wanted, row["node"]):
            found.append(f"{name}: weights lie on {row['weights']}")
    return found


def shares(pages):
    total = sum(pages)
    return " ".join(f"{round(100 * count / total)}" for count in pages) if total else "-"


def markdown(rows, nodes):
    lines = [f"| {nodes} nodes: % of the pages on each | calls on nodes | blocks, without | with | weights, without | with |",
             "|---|---|---|---|---|---|"]
    for name in SCENARIOS:
        for filtered in (0, 1):
            cells = {library: [row for row in rows if (row["scenario"], row["filter"], row["library"]) ==
                               (name, filtered, library)] for library in (0, 1)}
            if cells[0] and cells[1]:
                texts = ["; ".join(shares(row[kind]) for row in cells[library]) for kind in ("blocks", "weights")
                         for library in (0, 1)]
                lines.append(f"| {SCENARIOS[name][0]} | {'refused' if filtered else 'allowed'} | " +
                             " | ".join(texts) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, action="append", choices=(2, 4))
    parser.add_argument("--scenario", action="append", choices=tuple(SCENARIOS))
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a variable for the programs")
    parser.add_argument("--accel", choices=("auto", "kvm", "tcg"), default="auto")
    parser.add_argument("--limit", type=int, default=3600, help="seconds for each guest (%(default)s)")
    parser.add_argument("--document", action="store_true", help="put the table into docs/nodes.md")
    arguments = parser.parse_args()
    if subprocess.run([ROOT / "scripts/install_deps.sh", "vm"], stdout=sys.stderr, check=False).returncode:
        return 2
    BELOW.mkdir(parents=True, exist_ok=True)
    initrd = archive(BELOW / "nodes.cpio.gz")
    scenarios = arguments.scenario or list(SCENARIOS)
    accelerator = run.accelerator("x86_64", arguments.accel, "guest: done",
                                  lambda kind, console: command_line(2, initrd, kind, console, [], []))
    trouble, tables = [], []
    for nodes in arguments.nodes or (2, 4):
        console = BELOW / f"nodes{nodes}.log"
        text = run.told_by(command_line(nodes, initrd, accelerator, console, scenarios, arguments.set), console,
                           arguments.limit)
        rows = [json.loads(found) for found in re.findall(r"row: (\{.*\})", text)]
        trouble += faults(rows, nodes, scenarios, not any("MEMOMALLOC_NUMA" in each for each in arguments.set))
        tables.append(markdown(rows, nodes))
    told = f"{run.version_of_emulator()} with {accelerator}, {PROCESSORS} processors in each guest, Debian's kernel 6.1."
    table = "\n".join(tables) + f"\n{told}\n"
    (BELOW / "nodes.md").write_text(table)
    print(table)
    if arguments.document:
        measured.replace("docs/nodes.md", {"nodes": [measured.stamp("make vm-nodes"), told, "", *"\n".join(tables).splitlines()]})
    for text in trouble:
        print(f"failed: {text}")
    return 1 if trouble else 0


if __name__ == "__main__":
    sys.exit(main())
