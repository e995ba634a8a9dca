#!/usr/bin/env python3
"""Checks an order file against its graph (docs/file-formats.md) and shares no code with the scheduler.

    check_order.py graph.json order.json     exit code 0: the order can be run and is what it says; 1: it is not

Replays the order: each node once, after its control edges and the makers of what it reads. Adds up what is
alive at each node, and looks whether tensors that live at the same time lie apart.
"""
import argparse
import bisect
import sys
from collections import Counter

import refusal
from caching_allocator import owner


class Refused(Exception):
    """What is wrong with an order; names the node or the tensor."""


class Replay:
    def __init__(self, graph, order):
        self.tensors = {t["name"]: t for t in graph["tensors"]}
        self.nodes = {n["name"]: n for n in graph["nodes"]}
        self.order = order["order"]
        self.outputs = {owner(self.tensors, name) for name in graph["outputs"]}
        self.born, self.dies = {}, {}  # storage -> position of its maker, of its last reader

    def resident(self, name):
        return self.tensors[name].get("kind") in ("weight", "input")

    def check_precedence(self):
        count = Counter(self.order)
        wrong = [name for name in set(count) | set(self.nodes) if count[name] != 1 or name not in self.nodes]
        if wrong:
            raise Refused(f"node '{min(wrong)}' must occur once, and is there {count[min(wrong)]} times")
        made, done = {name for name in self.tensors if self.resident(name)}, set()
        for name in self.order:
            node = self.nodes[name]
            for before in node.get("after", []):
                if before not in done:
                    raise Refused(f"node '{name}' runs before '{before}', which it must follow")
            for tensor in node.get("inputs", []):
                if tensor not in made:
                    raise Refused(f"node '{name}' reads '{tensor}' before it is made")
            made.update(node.get("outputs", []))
            done.add(name)

    def find_lives(self):
        for i, name in enumerate(self.order):
            node = self.nodes[name]
            for tensor in node.get("inputs", []) + node.get("outputs", []):
                storage = owner(self.tensors, tensor)
                self.born.setdefault(storage, i)
                self.dies[storage] = i
        for storage in self.outputs & set(self.born):
            self.dies[storage] = len(self.order)
        for storage in list(self.born):
            if self.resident(storage) or self.tensors[storage]["bytes"] == 0:
                del self.born[storage], self.dies[storage]

    def peak(self):
        """Most bytes alive at a node; nothing overwritten."""
        ends, level, highest = {}, 0, 0
        for storage, i in self.dies.items():
            ends.setdefault(i, []).append(storage)
        starts = {}
        for storage, i in self.born.items():
            starts.setdefault(i, []).append(storage)
        for i, name in enumerate(self.order):
            level += sum(self.tensors[s]["bytes"] for s in starts.get(i, []))
            highest = max(highest, level + self.nodes[name].get("workspace", 0))
            level -= sum(self.tensors[s]["bytes"] for s in ends.get(i, []))
        return highest

    def may_share(self, early, late):
        """Whether `late` is made by a node that may overwrite `early`, which dies there."""
        node = self.nodes[self.order[self.born[late]]]
        return self.dies[early] == self.born[late] and any(
            output == late and owner(self.tensors, read) == early for output, read in node.get("overwrites", []))

    def check_places(self, offsets, height, coalesce):
        """Sweeps over the order. What is alive lies apart, so that only neighbours can be in the way."""
        events = sorted([(i, 1, s) for s, i in self.born.items()] + [(i + 1, 0, s) for s, i in self.dies.items()])
        alive = []  # (offset, storage), sorted
        for _, begins, storage in events:
            if storage not in offsets:
                raise Refused(f"tensor '{storage}' has no offset")
            place = (offsets[storage], storage)
            at = bisect.bisect_left(alive, place)
            if not begins:
                if at < len(alive) and alive[at] == place:
                    del alive[at]
                continue
            low, high = offsets[storage], offsets[storage] + self.tensors[storage]["bytes"]
            if low < 0 or high > height:
                raise Refused(f"tensor '{storage}' lies outside the plan's height")
            for start, other in alive[max(0, at - 1):at + 1]:
                if high <= start or start + self.tensors[other]["bytes"] <= low:
                    continue
                if not (coalesce and low == start and self.may_share(other, storage)):
                    raise Refused(f"tensors '{other}' and '{storage}' overlap")
                alive.remove((start, other))
            bisect.insort(alive, place)


def check(graph, order):
    """Raises Refused unless the order file holds for the graph file; both as parsed JSON."""
    replay = Replay(graph, order)
    replay.check_precedence()
    replay.find_lives()
    peak = replay.peak()
    if peak != order["peak"] if not order["coalesce"] else peak < order["peak"]:
        raise Refused(f"the peak is {peak} bytes, not {order['peak']}")
    if not order["lower_bound"] <= order["peak"] <= order["framework_peak"]:
        raise Refused("the peak is not between the bound and the given order's peak")
    if "offsets" in order:
        replay.check_places(order["offsets"], order["height"], order["coalesce"])


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("graph", help="graph file")
    parser.add_argument("order", help="order file of `memomalloc schedule --output`")
    arguments = parser.parse_args(argv)
    with refusal.plainly():
        graph = refusal.read_json(arguments.graph, "scripts/export_graph.py")
        order = refusal.read_json(arguments.order, "`memomalloc schedule GRAPH --output ORDER`")
    try:
        check(graph, order)
    except Refused as refused:
        print(f"{arguments.order}: {refused}", file=sys.stderr)
        return 1
    print(f"{len(order['order'])} nodes, peak {order['peak']} bytes: as told")
    return 0


if __name__ == "__main__":
    sys.exit(main())
