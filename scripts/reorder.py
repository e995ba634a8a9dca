#!/usr/bin/env python3
"""Runs a torch.fx graph's operators in the order that needs least memory.

    from reorder import reorder                   with scripts/ on PYTHONPATH
    lean = reorder(graph_module, arguments)       same function, same results, lower peak

    reorder.py resnet18 --train --batch 16            checks the results to the bit
    reorder.py resnet18 --train --batch 16 --preload build/libmemomalloc.so
                                                      and compares the slab with the prediction

Random numbers, in-place operators, views and side effects keep their order: the graph handed to
`memomalloc schedule` holds edges for them (docs/file-formats.md).
"""
import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile

import measure
import refusal
from graph_writer import describe
from memomalloc.order import apply_order, find_order, find_tool  # noqa: F401


def reorder(module, arguments, seconds=10, tool=None, kinds=None, workspaces=None):
    """The GraphModule with its operators in the order of the lowest peak that was found in `seconds`.

    `kinds` and `workspaces` are those of memomalloc.graph.describe.
    """
    writer = describe(module, arguments, "graph", kinds, workspaces=workspaces)
    return apply_order(module, find_order(writer, seconds, tool)["order"])


def digest(values):
    """SHA-256 over the bytes of all tensors in a nested result."""
    import torch
    from torch.utils import _pytree

    total = hashlib.sha256()
    for leaf in _pytree.tree_flatten(values)[0]:
        if isinstance(leaf, torch.Tensor):
            total.update(leaf.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def run_loop(module, step, iterations):
    """Digest of the last result and of the state that the steps have updated."""
    import torch

    torch.manual_seed(1)
    result = None
    with torch.no_grad():
        for _ in range(iterations):
            result = module(*step.arguments)
    state = [a for a, n in zip(step.arguments, step.module.graph.nodes) if step.kinds.get(n.name) == "weight"]
    return digest([result, state])


def child(arguments):
    """One process: builds the network and runs it in one of the two orders."""
    import networks

    step = networks.export(arguments.network, arguments.train, arguments.batch, arguments.size)
    module = step.module
    if arguments.child == "low":
        with open(arguments.order, encoding="utf-8") as file:
            module = apply_order(module, json.load(file)["order"])
    print(run_loop(module, step, arguments.iterations))


def run_child(arguments, which, order, folder):
    """(digest, statistics of the library or None) of one order in its own process."""
    stats = os.path.join(folder, f"{which}.stats.json")
    command = [sys.executable, os.path.abspath(__file__), arguments.network, "--batch", str(arguments.batch),
               "--iterations", str(arguments.iterations), "--child", which, "--order", order]
    command += ["--train"] if arguments.train else []
    command += ["--size", str(arguments.size)] if arguments.size else []
    environment = dict(os.environ)
    if arguments.preload:
        environment |= {"LD_PRELOAD": os.path.abspath(arguments.preload), "MEMOMALLOC_STATS_FILE": stats}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    if not os.path.exists(stats):
        return done.stdout.strip(), None
    with open(stats, encoding="utf-8") as file:
        return done.stdout.strip(), json.load(file)


def compare(arguments):
    """Both orders in processes of their own; prints one JSON line. 0 if the results are equal."""
    import networks

    writer = networks.describe_step(arguments.network, arguments.train, arguments.batch, arguments.size,
                                    measured=not arguments.fake)
    found = find_order(writer, arguments.seconds)
    with tempfile.TemporaryDirectory() as folder:
        order = os.path.join(folder, "order.json")
        with open(order, "w", encoding="utf-8") as file:
            json.dump(found, file)
        given, given_stats = run_child(arguments, "given", order, folder)
        low, low_stats = run_child(arguments, "low", order, folder)
    report = {"graph": writer.name, "equal": given == low, "given_peak": found["framework_peak"],
              "peak": found["peak"], "optimal": found["optimal"],
              "predicted_saving": found["framework_peak"] - found["peak"]}
    if given_stats and low_stats:
        report |= {"given_slab": given_stats["slab_bytes"], "slab": low_stats["slab_bytes"],
                   "given_bound": given_stats["lower_bound_bytes"], "bound": low_stats["lower_bound_bytes"],
                   "slab_saving": given_stats["slab_bytes"] - low_stats["slab_bytes"],
                   "planned_share": [measure.shares(s)["planned_share"] for s in (given_stats, low_stats)]}
    print(json.dumps(report))
    return 0 if report["equal"] else 1


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("network", help="see scripts/networks.py")
    parser.add_argument("--train", action="store_true", help="a training step instead of inference")
    parser.add_argument("--batch", type=int, default=1, help="samples (%(default)s)")
    parser.add_argument("--size", type=int, help="pixels a side, or tokens (the network's own)")
    parser.add_argument("--iterations", type=int, default=12, help="steps to run in each order (%(default)s)")
    parser.add_argument("--seconds", type=float, default=10, help="time to find the order (%(default)s)")
    parser.add_argument("--fake", action="store_true",
                        help="do not run the network once for the operators' scratch memory")
    parser.add_argument("--preload", help="libmemomalloc.so: run both orders under it and compare the slabs")
    parser.add_argument("--child", choices=("given", "low"), help=argparse.SUPPRESS)
    parser.add_argument("--order", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.child:
        child(arguments)
        return 0
    with refusal.plainly():
        return compare(arguments)


if __name__ == "__main__":
    sys.exit(main())
