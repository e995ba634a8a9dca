#!/usr/bin/env python3
"""Measures `memomalloc schedule` on real networks and prints the table of scheduler/README.md.

    schedule_tables.py             one network of each family, inference and training, batch 1 and 32
    schedule_tables.py --all       every torchvision classification and segmentation network
    schedule_tables.py --quick     four small graphs, about a minute

Sizes come from fake tensors, so no network is computed. Each row is written to --csv as soon as it is
known; rows that stand there are not measured again.
"""
import argparse
import bisect
import csv
import json
import os
import subprocess
import sys
import tempfile
import time

import networks
from reorder import find_tool

FAMILIES = ("resnet18", "resnet50", "mobilenet_v2", "nas", "unet", "alexnet", "vgg16", "squeezenet1_0", "densenet121",
            "googlenet", "inception_v3", "shufflenet_v2_x1_0", "mnasnet1_0", "mobilenet_v3_large", "efficientnet_b0",
            "resnext50_32x4d", "regnet_y_400mf", "convnext_tiny", "vit_b_16", "swin_t", "bert", "gpt2",
            "deeplabv3_resnet50", "fcn_resnet50", "lraspp_mobilenet_v3_large", "wide_resnet50_2", "maxvit_t")
QUICK = (("resnet18", False, 1), ("resnet18", True, 1), ("nas", False, 1), ("unet", True, 1))
COLUMNS = ("network", "mode", "batch", "nodes", "resident", "torch_peak", "peak", "lower_bound", "optimal", "found_by",
           "height", "coalesced_peak", "caching_reserved", "caching_fragmentation", "export_seconds", "seconds")
MIB = 1 << 20


class CachingAllocator:
    """torch's caching allocator for devices, as far as fragmentation goes.

    Source: the rules told in torch's notes on CUDA memory management and c10's constants: 512-byte blocks; up to
    1 MiB from segments of 2 MiB, up to 10 MiB from segments of 20 MiB, above that a segment each, rounded to 2 MiB;
    best fit; a block is split where 512 bytes (small) or more than 1 MiB (large) would be left; neighbours merge.
    On CPUs torch asks malloc instead; this is what OLLA's fragmentation is measured against.
    """

    def __init__(self):
        self.free = {True: [], False: []}  # small? -> sorted (size, segment, offset)
        self.segments = []                 # per segment: {offset: (size, free)}
        self.reserved = 0

    def allocate(self, size):
        size = max(512, -(-size // 512) * 512)
        small = size <= MIB
        pool = self.free[small]
        at = bisect.bisect_left(pool, (size, -1, -1))
        if at == len(pool):
            length = 2 * MIB if small else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
            self.segments.append({0: (length, True)})
            self.reserved += length
            bisect.insort(pool, (length, len(self.segments) - 1, 0))
            at = bisect.bisect_left(pool, (size, -1, -1))
        length, segment, offset = pool.pop(at)
        rest = length - size
        if rest >= 512 if small else rest > MIB:
            self.segments[segment][offset + size] = (rest, True)
            bisect.insort(pool, (rest, segment, offset + size))
            length = size
        self.segments[segment][offset] = (length, False)
        return small, segment, offset

    def release(self, block):
        small, segment, offset = block
        blocks, pool = self.segments[segment], self.free[small]
        length = blocks[offset][0]
        after = blocks.get(offset + length)
        if after and after[1]:
            pool.remove((after[0], segment, offset + length))
            del blocks[offset + length]
            length += after[0]
        before = next((o for o, (n, free) in blocks.items() if free and o + n == offset), None)
        if before is not None:
            pool.remove((blocks[before][0], segment, before))
            length += blocks[before][0]
            del blocks[offset]
            offset = before
        blocks[offset] = (length, True)
        bisect.insort(pool, (length, segment, offset))


def caching_reserved(graph):
    """Most bytes that the caching allocator reserves when the graph runs in its own order."""
    tensors = {t["name"]: t for t in graph["tensors"]}

    def owner(name):
        while "alias_of" in tensors[name]:
            name = tensors[name]["alias_of"]
        return name

    last, kept = {}, {owner(name) for name in graph["outputs"]}
    for i, node in enumerate(graph["nodes"]):
        for name in node["inputs"] + node["outputs"]:
            last[owner(name)] = i
    allocator, live = CachingAllocator(), {}
    for i, node in enumerate(graph["nodes"]):
        for name in node["outputs"]:
            if owner(name) == name and tensors[name]["bytes"] > 0:
                live[name] = allocator.allocate(tensors[name]["bytes"])
        for name in {owner(t) for t in node["inputs"] + node["outputs"]}:
            if last[name] == i and name in live and name not in kept:
                allocator.release(live.pop(name))
    return allocator.reserved


def run_tool(graph, seconds, *options):
    command = [find_tool(), "schedule", graph, "--json", "--seconds", str(seconds), *options]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(network, train, batch, seconds):
    """One row, by column."""
    start = time.monotonic()
    text = networks.describe_step(network, train, batch).to_json()
    exported = time.monotonic() - start
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(text)
        file.flush()
        found = run_tool(file.name, seconds)
        coalesced = run_tool(file.name, seconds, "--coalesce")
    reserved = caching_reserved(json.loads(text))
    return {"network": network, "mode": "training" if train else "inference", "batch": batch,
            "nodes": found["nodes"], "resident": found["resident"], "torch_peak": found["framework_peak"],
            "peak": found["peak"], "lower_bound": found["lower_bound"], "optimal": int(found["optimal"]),
            "found_by": found["found_by"], "height": found["height"], "coalesced_peak": coalesced["peak"],
            "caching_reserved": reserved, "caching_fragmentation": round(1 - found["framework_peak"] / reserved, 4),
            "export_seconds": round(exported, 1), "seconds": round(found["seconds"], 3)}


def markdown(rows):
    lines = ["| network | mode | batch | nodes | torch's order MiB | ours MiB | bound MiB | saved | with overwriting MiB "
             "| plan's height / ours | torch's fragmentation | s |", "|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        torch_peak, peak = float(row["torch_peak"]), float(row["peak"])
        height = float(row["height"] or 0)
        lines.append(f"| {row['network']} | {row['mode']} | {row['batch']} | {row['nodes']} | {torch_peak / MIB:.1f} "
                     f"| {peak / MIB:.1f} | {float(row['lower_bound']) / MIB:.1f}{' =' if int(row['optimal']) else ''} "
                     f"| {100 * (1 - peak / torch_peak):.1f} % | {float(row['coalesced_peak']) / MIB:.1f} "
                     f"| {height / peak:.3f} | {100 * float(row['caching_fragmentation']):.1f} % "
                     f"| {float(row['seconds']):.2f} |")
    return "\n".join(lines)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="four small graphs")
    parser.add_argument("--all", action="store_true", help="every torchvision network that is supported")
    parser.add_argument("--batches", default="1,32", help="batch sizes (%(default)s)")
    parser.add_argument("--seconds", type=float, default=60, help="most time per order (%(default)s)")
    parser.add_argument("--csv", default=os.path.join("build", "schedule_tables.csv"), help="results (%(default)s)")
    arguments = parser.parse_args(argv)
    names = networks.known() if arguments.all else FAMILIES
    jobs = QUICK if arguments.quick else [(name, train, batch) for batch in map(int, arguments.batches.split(","))
                                          for name in names for train in (False, True)]
    os.makedirs(os.path.dirname(arguments.csv) or ".", exist_ok=True)
    rows = []
    if os.path.exists(arguments.csv):
        with open(arguments.csv, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    known = {(r["network"], r["mode"] == "training", int(r["batch"])): r for r in rows}
    for job in jobs:
        if job in known:
            continue
        print(f"{job[0]} {'training' if job[1] else 'inference'} batch {job[2]}", file=sys.stderr)
        try:
            known[job] = measure(*job, arguments.seconds)
        except Exception as error:  # one network that torch cannot export must not cost the others their rows
            print(f"  left out: {str(error).strip().splitlines()[0]}", file=sys.stderr)
            continue
        with open(arguments.csv, "a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            if file.tell() == 0:
                writer.writeheader()
            writer.writerow(known[job])
    print(markdown([known[job] for job in jobs if job in known]))


if __name__ == "__main__":
    main()
