#!/usr/bin/env python3
"""Makes graphs of up to 10^5 operators and more, and measures `memomalloc schedule` on them.

    large_graphs.py cells --nodes 100000 -o cells.json    one graph, by family, size and seed
    large_graphs.py --write                               each family under several time limits

Real networks end at about 10^4 operators; what lies beyond is shown with graphs of the shapes that networks,
task graphs and expression trees have. Their own orders are those that a framework would take.
"""
import argparse
import os
import pathlib
import sys
import tempfile
from random import Random

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / folder) for folder in ("scripts", "scripts/tables")]

import results as kept
from graph_writer import GraphWriter
from schedule_tables import markdown_table, run_tool


class Maker:
    """A graph in the making: each call adds an operator with one result of 1 to 64 units."""

    def __init__(self, name, seed):
        self.writer = GraphWriter(name)
        self.random = Random(seed)
        self.read = set()

    def node(self, inputs, size=None):
        i = len(self.writer.nodes)
        result = f"t{i}"
        self.writer.add_tensor(result, result, size or self.random.randint(1, 64))
        self.writer.nodes.append({"name": f"n{i}", "op": "made up", "inputs": inputs, "outputs": [result]})
        self.read.update(inputs)
        return result

    def update(self, gradient):
        """An operator that reads a gradient and makes nothing."""
        i = len(self.writer.nodes)
        self.writer.nodes.append({"name": f"n{i}", "op": "update", "inputs": [gradient], "outputs": []})

    def finish(self, outputs):
        self.writer.outputs = outputs
        return self.writer


def training(nodes, seed):
    """Layers with skips, then backward through them, then all updates."""
    make = Maker("training", seed)
    layers = nodes // 4
    results = [make.node([])]
    for i in range(layers):
        results.append(make.node([results[i]] + ([results[i - 3]] if i % 4 == 3 else [])))
    gradient, gradients = make.node([results[-1]]), []
    for i in reversed(range(layers)):
        gradients.append(make.node([gradient, results[i]]))
        gradient = make.node([gradient, results[i + 1]])
    for weight in gradients:
        make.update(weight)
    return make.finish([gradient])


def cells(nodes, seed):
    """Cells of ten operations on earlier states and five sums, wired at random; unused states are joined."""
    make = Maker("cells", seed)
    before = last = make.node([])
    while len(make.writer.nodes) < nodes:
        states, used = [before, last], set()
        for _ in range(5):
            pair = [make.random.choice(states) for _ in range(2)]
            used.update(pair)
            states.append(make.node([make.node([state]) for state in pair]))
        before, last = last, make.node([state for state in states if state not in used])
    return make.finish([last])


def tree(nodes, seed):
    """Partial results merged two or three at a time, the oldest first."""
    make = Maker("tree", seed)
    waiting = [make.node([]) for _ in range(nodes * 3 // 5)]
    head = 0
    while len(waiting) - head > 1:
        take = waiting[head:head + make.random.randint(2, 3)]
        head += len(take)
        waiting.append(make.node(take))
    return make.finish([waiting[-1]])


def branches(nodes, seed):
    """Forks into a hundred branches of ten operators, run level by level, and joins."""
    make = Maker("branches", seed)
    last = make.node([])
    while len(make.writer.nodes) < nodes:
        ends = [last] * 100
        for _ in range(10):
            ends = [make.node([end]) for end in ends]
        last = make.node(ends)
    return make.finish([last])


def window(reach):
    def family(nodes, seed):
        """Each operator reads one to three of the last results."""
        make = Maker(f"window {reach}", seed)
        results = []
        for _ in range(nodes):
            recent = results[-reach:]
            results.append(make.node(make.random.sample(recent, min(len(recent), make.random.randint(1, 3)))))
        return make.finish([results[-1]])
    return family


FAMILIES = {"training": training, "cells": cells, "tree": tree, "branches": branches, "window10": window(10),
            "window100": window(100)}
HEADINGS = ("family", "nodes", "given order", "best bound", "limit s", "peak", "over bound", "found by",
            "plan's height / peak", "order s")


def table_rows(nodes, limits, seed):
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, family in FAMILIES.items():
            path = os.path.join(folder, f"{name}.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(family(nodes, seed).to_json())
            found = []
            for limit in limits:
                print(f"{name}, {limit} s", file=sys.stderr)
                found.append((limit, run_tool(path, limit)))
            bound = max(outcome["lower_bound"] for _, outcome in found)
            rows += [(name, outcome["nodes"], outcome["framework_peak"], bound, limit, outcome["peak"],
                      f"{100 * (outcome['peak'] / bound - 1):.1f} %", outcome["found_by"],
                      f"{outcome['height'] / outcome['peak']:.3f}", f"{outcome['seconds']:.1f}")
                     for limit, outcome in found]
    return rows


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("family", nargs="?", choices=FAMILIES, help="one graph of this family; without: the table")
    parser.add_argument("--nodes", type=int, default=100000, help="operators, about (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of sizes and wiring (%(default)s)")
    parser.add_argument("--limits", default="0.1,1,10", help="seconds to schedule, for the table (%(default)s)")
    parser.add_argument("--write", action="store_true", help="keep the table in results/")
    parser.add_argument("-o", "--output", help="file of the graph (standard output)")
    arguments = parser.parse_args(argv)
    if arguments.family:
        text = FAMILIES[arguments.family](arguments.nodes, arguments.seed).to_json()
        with open(arguments.output, "w", encoding="utf-8") if arguments.output else sys.stdout as file:
            file.write(text)
        return
    limits = [float(limit) for limit in arguments.limits.split(",")]
    lines = markdown_table(HEADINGS, table_rows(arguments.nodes, limits, arguments.seed))
    print("\n".join(lines))
    if arguments.write:
        kept.keep("large_graphs", "scripts/experiments/large_graphs.py", lines)


if __name__ == "__main__":
    main()
