#!/usr/bin/env python3
"""Measures `memomalloc schedule` on real networks and prints its tables.

    schedule_tables.py --write     networks of each family, inference and training, batch 1 and 32
    schedule_tables.py --all       every torchvision classification and segmentation network
    schedule_tables.py --quick     four small graphs, about a minute

Sizes come from fake tensors, so no network is computed. Each row is written to --csv as soon as it is
known. A file that has rows already is refused, unless --resume takes them for measured, and says so.
Exit code 1 if an order was refused or a network failed, each of which is named and has no row; 2 for
bad usage.
"""
import argparse
import csv
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

import check_order
import results as kept
import networks
from caching_allocator import MIB, caching_reserved, everything_at_once
from reorder import find_tool

FAMILIES = ("alexnet", "vgg16", "resnet18", "resnet50", "wide_resnet50_2", "resnext50_32x4d", "regnet_y_400mf",
            "densenet121", "googlenet", "inception_v3", "squeezenet1_0", "mobilenet_v2", "mobilenet_v3_large",
            "mnasnet1_0", "shufflenet_v2_x1_0", "efficientnet_b0", "convnext_tiny", "vit_b_16", "swin_t", "maxvit_t",
            "deeplabv3_resnet50", "fcn_resnet50", "lraspp_mobilenet_v3_large", "unet", "nas", "bert", "gpt2")
# (network, training?, batch) that torch itself refuses, with the reason; said below the table.
IMPOSSIBLE = {("deeplabv3_resnet50", True, 1): "torch normalises no single value a channel (its pooled image is 1 x 1)"}
QUICK = (("resnet18", False, 1), ("resnet18", True, 1), ("nas", False, 1), ("unet", True, 1))
COLUMNS = ("network", "mode", "batch", "nodes", "resident", "torch_peak", "peak", "lower_bound", "optimal", "found_by",
           "height", "coalesced_peak", "coalesced_height", "caching_reserved", "everything", "export_seconds", "seconds")


def run_tool(graph, seconds, *options):
    """What `memomalloc schedule --json` says of a graph file. Raises check_order.Refused for a wrong order."""
    with tempfile.TemporaryDirectory() as folder:
        order = os.path.join(folder, "order.json")
        command = [find_tool(), "schedule", graph, "--json", "--output", order, "--seconds", str(seconds), *options]
        report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        with open(graph, encoding="utf-8") as graph_json, open(order, encoding="utf-8") as order_json:
            check_order.check(json.load(graph_json), json.load(order_json))
        return report


def graph_file(folder, network, train, batch):
    """(path of the exported graph, seconds that it took); a file that is there is taken as it is."""
    path = os.path.join(folder, f"{network}-{'training' if train else 'inference'}-{batch}.json")
    start = time.monotonic()
    if not os.path.exists(path):
        text = networks.describe_step(network, train, batch).to_json()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return path, time.monotonic() - start


def measure(network, train, batch, seconds, folder):
    """One row, by column."""
    path, exported = graph_file(folder, network, train, batch)
    found = run_tool(path, seconds)
    coalesced = run_tool(path, seconds, "--coalesce")
    with open(path, encoding="utf-8") as file:
        graph = json.load(file)
    return {"network": network, "mode": "training" if train else "inference", "batch": batch,
            "nodes": found["nodes"], "resident": found["resident"], "torch_peak": found["framework_peak"],
            "peak": found["peak"], "lower_bound": found["lower_bound"], "optimal": int(found["optimal"]),
            "found_by": found["found_by"], "height": found["height"], "coalesced_peak": coalesced["peak"],
            "coalesced_height": coalesced["height"], "caching_reserved": caching_reserved(graph),
            "everything": everything_at_once(graph), "export_seconds": round(exported, 1),
            "seconds": round(found["seconds"], 3)}


HEADINGS = ("network", "batch", "nodes", "weights, inputs MiB", "torch's order MiB", "ours MiB", "bound MiB", "saved",
            "with overwriting MiB", "plan's height / ours", "torch's fragmentation", "s")


def markdown_table(headings, rows):
    """A Markdown table's lines."""
    return [f"| {' | '.join(headings)} |", "|" + "---|" * len(headings),
            *(f"| {' | '.join(map(str, row))} |" for row in rows)]


def cells(row):
    mib = {name: float(row[name] or "nan") / MIB for name in COLUMNS[4:15] if name != "found_by"}
    return (row["network"], row["batch"], row["nodes"], f"{mib['resident']:.1f}", f"{mib['torch_peak']:.1f}",
            f"{mib['peak']:.1f}", f"{mib['lower_bound']:.1f}{' =' if int(row['optimal']) else ''}",
            f"{100 * (1 - mib['peak'] / mib['torch_peak']):.1f} %", f"{mib['coalesced_peak']:.1f}",
            f"{mib['height'] / mib['peak']:.3f}", f"{100 * (1 - mib['torch_peak'] / mib['caching_reserved']):.1f} %",
            f"{float(row['seconds']):.2f}")


def kept_row(row):
    """A row of results/schedule."""
    mib = {name: float(row[name] or "nan") / MIB for name in COLUMNS[4:15] if name != "found_by"}
    return {"network": row["network"], "mode": row["mode"], "batch": row["batch"], "nodes": row["nodes"],
            "resident_mib": f"{mib['resident']:.1f}", "torch_peak_mib": f"{mib['torch_peak']:.1f}",
            "peak_mib": f"{mib['peak']:.1f}", "bound_mib": f"{mib['lower_bound']:.1f}",
            "proved": "yes" if int(row["optimal"]) else "no",
            "saved_percent": f"{100 * (1 - mib['peak'] / mib['torch_peak']):.1f}",
            "overwriting_peak_mib": f"{mib['coalesced_peak']:.1f}", "height_over_peak": f"{mib['height'] / mib['peak']:.3f}",
            "caching_fragmentation_percent": f"{100 * (1 - mib['torch_peak'] / mib['caching_reserved']):.1f}",
            "seconds": f"{float(row['seconds']):.2f}"}


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else math.nan


def saving(rows, before, after):
    """Mean of 1 - after / before over the rows, in per cent; sums of columns where several are given."""
    def bytes_of(row, columns):
        return sum(float(row[column]) for column in columns)
    return f"{100 * mean(1 - bytes_of(row, after) / bytes_of(row, before) for row in rows):.1f} %"


def summary(rows):
    """The averages, as Markdown lines: ours, then as OLLA and Occamy measure theirs."""
    lines = []
    for mode in ("inference", "training"):
        for batch in sorted({int(row["batch"]) for row in rows}):
            some = [r for r in rows if r["mode"] == mode and int(r["batch"]) == batch]
            if not some:
                continue
            lines.append((mode, batch, len(some), sum(int(r["optimal"]) for r in some),
                          saving(some, ("torch_peak",), ("peak",)),
                          saving(some, ("torch_peak",), ("coalesced_peak",)),
                          saving(some, ("resident", "torch_peak"), ("resident", "peak")),
                          saving(some, ("resident", "caching_reserved"), ("resident", "height")),
                          saving(some, ("resident", "everything"), ("resident", "coalesced_height"))))
    return markdown_table(("mode", "batch", "graphs", "proved", "saved by the order", "and by overwriting",
                           "by the order, weights counted", "OLLA's measure", "Occamy's measure"), lines)


def sections(rows):
    """Title of each table -> its lines."""
    tables = {mode: markdown_table(HEADINGS, [cells(r) for r in rows if r["mode"] == mode])
              for mode in ("inference", "training")}
    for (network, train, batch), reason in IMPOSSIBLE.items():
        tables["training" if train else "inference"] += ["", f"No row for {network} at batch {batch}: {reason}."]
    return {"averages": summary(rows), **tables}


def read_rows(path):
    """Rows measured earlier, by (network, training?, batch)."""
    if not os.path.exists(path):
        return {}
    with open(path, newline="", encoding="utf-8") as file:
        return {(r["network"], r["mode"] == "training", int(r["batch"])): r for r in csv.DictReader(file)}


def measure_all(jobs, arguments, folder):
    """(the rows of all jobs that could be measured, in order; a sentence for each that could not)."""
    known, failed = read_rows(arguments.csv), []
    taken = [job for job in jobs if job in known]
    if taken:
        print(f"{len(taken)} of {len(jobs)} rows are of an earlier run, from {arguments.csv}", file=sys.stderr)
    for job in jobs:
        if job in known:
            continue
        name = f"{job[0]} {'training' if job[1] else 'inference'} batch {job[2]}"
        print(name, file=sys.stderr)
        try:
            known[job] = measure(*job, arguments.seconds, folder)
        except Exception as error:  # one network that fails must not cost the others their rows
            why = "its order is refused: " if isinstance(error, check_order.Refused) else ""
            failed.append(f"{name}: {why}{(str(error).strip() or type(error).__name__).splitlines()[0]}")
            print(f"  no row: {failed[-1]}", file=sys.stderr)
            continue
        with open(arguments.csv, "a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            if file.tell() == 0:
                writer.writeheader()
            writer.writerow(known[job])
    return [known[job] for job in jobs if job in known], failed


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="four small graphs")
    parser.add_argument("--all", action="store_true", help="every torchvision network that is supported")
    parser.add_argument("--batches", default="1,32", help="batch sizes (%(default)s)")
    parser.add_argument("--seconds", type=float, default=60, help="most time per order (%(default)s)")
    parser.add_argument("--csv", default=os.path.join("build", "schedule_tables.csv"), help="results (%(default)s)")
    parser.add_argument("--resume", action="store_true", help="take the rows that --csv has, and measure the others")
    parser.add_argument("--graphs", help="folder for the exported graphs; those there are not exported again")
    parser.add_argument("--write", action="store_true", help="keep rows and averages in results/")
    arguments = parser.parse_args(argv)
    names = networks.known() if arguments.all else FAMILIES
    jobs = QUICK if arguments.quick else [(name, train, batch) for name in names
                                          for batch in map(int, arguments.batches.split(","))
                                          for train in (False, True) if (name, train, batch) not in IMPOSSIBLE]
    if not arguments.resume and read_rows(arguments.csv):
        print(f"schedule_tables.py: {arguments.csv} has rows of an earlier run; --resume takes them, another --csv "
              "measures again", file=sys.stderr)
        return 2
    os.makedirs(os.path.dirname(arguments.csv) or ".", exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.graphs or temporary
        os.makedirs(folder, exist_ok=True)
        rows, failed = measure_all(jobs, arguments, folder)
    found = sections(rows)
    print("\n\n".join("\n".join(lines) for lines in found.values()))
    if arguments.write and not failed:
        command = f"scripts/tables/schedule_tables.py --seconds {arguments.seconds:g}"
        kept.store("schedule", command, [kept_row(row) for row in rows])
        kept.keep("schedule_means", command, found["averages"])
    for sentence in failed:
        print(f"schedule_tables.py: no row for {sentence}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
