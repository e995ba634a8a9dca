#!/usr/bin/env python3
"""Writes the computation graph of a network as JSON (docs/graph-format.md).

    export_graph.py resnet18 -o resnet18.json                 inference, from torch.export
    export_graph.py resnet18 --train --batch 32 -o step.json  a training step, from AOTAutograd
    export_graph.py --onnx model.onnx -o model.json           an ONNX file

Nothing is computed and no weight is stored: sizes come from fake tensors, so a network larger than the
memory can be exported. `describe` does the same for any exported torch.fx graph.
"""
import argparse
import json
import os
import pathlib
import sys

import refusal

RESIDENT = ("weight", "input")


class GraphWriter:
    """Collects tensors and nodes; knows which storage each tensor uses and who touched it last."""

    def __init__(self, name):
        self.name = name
        self.tensors, self.nodes, self.outputs = [], [], []
        self.owner_of = {}      # storage key -> name of the tensor that owns it
        self.last_writer = {}   # storage key -> node
        self.readers = {}       # storage key -> nodes that read since the last write
        self.last_effect = None
        self.held = []          # keeps fake storages alive, so that their keys stay unique

    def add_tensor(self, name, key, size, kind="activation"):
        entry = {"name": name}
        if key in self.owner_of:
            entry["alias_of"] = self.owner_of[key]
        else:
            self.owner_of[key] = name
            entry["bytes"] = size
        if kind != "activation":
            entry["kind"] = kind
        self.tensors.append(entry)

    def order_after_effects(self, node, reads, writes, effect):
        """The nodes that must precede: writers of what is read, readers of what is written."""
        after = set()
        for key in reads | writes:
            after.add(self.last_writer.get(key))
            self.readers.setdefault(key, set()).add(node)
        for key in writes:
            after |= self.readers[key]
            self.readers[key] = set()
            self.last_writer[key] = node
        if effect:
            after.add(self.last_effect)
            self.last_effect = node
        return after - {None, node}

    def to_json(self):
        """One tensor and one node per line, so that an error's line number says something."""
        def lines(items):
            return "[\n" + ",\n".join("  " + json.dumps(item) for item in items) + "\n ]"
        return (f'{{"format": "memomalloc-graph", "version": 1, "name": {json.dumps(self.name)},\n'
                f' "tensors": {lines(self.tensors)},\n "nodes": {lines(self.nodes)},\n'
                f' "outputs": {json.dumps(self.outputs)}}}\n')


def tensors_in(value):
    """The tensors of a node's result, in order; None for other leaves."""
    import torch
    from torch.utils import _pytree

    leaves = _pytree.tree_flatten(value)[0]
    return [leaf if isinstance(leaf, torch.Tensor) else None for leaf in leaves]


def written_arguments(node):
    """The argument nodes that the operator's schema says it writes."""
    from torch.fx import Node

    schema = getattr(node.target, "_schema", None)
    found = set()
    for i, argument in enumerate(schema.arguments if schema else ()):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
            values = value if isinstance(value, (list, tuple)) else [value]
            found |= {v for v in values if isinstance(v, Node)}
    return found


def has_effect(node):
    """Random numbers and effects outside the tensors: such nodes keep their mutual order."""
    import torch
    from torch.fx.node import _side_effectful_functions

    tags = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded in tags or node.target in _side_effectful_functions


def overwritable(node, result, arguments):
    """Pairs (result, argument) that an element-wise operator could keep in one place."""
    import torch

    # Batch norm with given statistics scales and shifts each element, though torch does not tag it so.
    fixed_norm = node.target is torch.ops.aten.batch_norm.default and not node.args[5]
    pointwise = torch.Tag.pointwise in getattr(node.target, "tags", ())
    if not (pointwise or fixed_norm) or not isinstance(result, torch.Tensor):
        return []
    return [a for a, value in arguments if isinstance(value, torch.Tensor)
            and value.shape == result.shape and value.dtype == result.dtype
            and value.stride() == result.stride()]


def describe(module, arguments, name, kinds=None, gradients=(), workspaces=None):
    """The GraphWriter of an exported torch.fx.GraphModule, run once on fake tensors.

    `kinds` maps a placeholder's name to "weight" where it is not an input; `gradients` holds the names of
    nodes whose results are gradients; `workspaces` maps a node to the bytes it needs for itself alone
    (workspaces.measure).
    """
    import torch
    from torch._guards import detect_fake_mode
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    state = list(module.parameters()) + list(module.buffers())
    fake = detect_fake_mode(list(arguments) + state) or FakeTensorMode(allow_non_fake_inputs=True)
    writer = GraphWriter(name)
    names = {}   # node -> names of its result's tensors, None for other leaves
    keys = {}    # node -> storage keys of its result's tensors
    results = {}

    def key_of(tensor):
        storage = tensor.untyped_storage()
        writer.held.append(storage)
        return storage._cdata

    def add_result(node, result, kind):
        tensors = tensors_in(result)
        label = [node.name if len(tensors) == 1 else f"{node.name}:{i}" for i in range(len(tensors))]
        names[node] = [n for n, t in zip(label, tensors) if t is not None]
        keys[node] = {key_of(t) for t in tensors if t is not None}
        for n, t in zip(label, tensors):
            if t is not None:
                writer.add_tensor(n, key_of(t), t.untyped_storage().nbytes(), kind)

    def add_node(node, result):
        arguments_of = node.all_input_nodes
        add_result(node, result, "gradient" if node.name in gradients else "activation")
        reads = set().union(*(keys[a] for a in arguments_of)) if arguments_of else set()
        writes = set().union(*(keys[a] for a in written_arguments(node)))
        after = writer.order_after_effects(node.name, reads, writes, has_effect(node))
        made = {a.name for a in arguments_of if a.op not in ("placeholder", "get_attr")}
        after |= {a.name for a in arguments_of if not names[a]} & made
        entry = {"name": node.name, "op": str(node.target),
                 "inputs": [n for a in arguments_of for n in names[a]], "outputs": names[node]}
        pairs = [[node.name, a.name] for a in overwritable(node, result, [(a, results[a]) for a in arguments_of])
                 if not writes]
        if pairs:
            entry["overwrites"] = pairs
        if after - made:
            entry["after"] = sorted(after - made)
        if node.name in (workspaces or {}):
            entry["workspace"] = workspaces[node.name]
        writer.nodes.append(entry)

    class Recorder(torch.fx.Interpreter):
        def run_node(self, node):
            if node.op == "get_attr" or node.op == "placeholder":
                result = super().run_node(node)
                if isinstance(result, torch.Tensor) and not isinstance(result, FakeTensor):
                    result = fake.from_tensor(result)
                kind = "weight" if node.op == "get_attr" else (kinds or {}).get(node.name, "input")
                add_result(node, result, kind)
            elif node.op == "output":
                writer.outputs.extend(sorted({n for a in node.all_input_nodes for n in names[a]}))
                result = super().run_node(node)
            else:
                result = super().run_node(node)
                add_node(node, result)
            results[node] = result
            return result

    fakes = [fake.from_tensor(a) if isinstance(a, torch.Tensor) and not isinstance(a, FakeTensor) else a
             for a in arguments]
    with fake, torch.no_grad():
        Recorder(module, garbage_collect_values=False).run(*fakes)
    return writer


def describe_input(arguments):
    """The GraphWriter of the ONNX file or of the network that the arguments name."""
    if arguments.onnx:
        from onnx_graph import describe_onnx

        return describe_onnx(arguments.onnx, arguments.batch)
    import networks

    return networks.describe_step(arguments.network, arguments.train, arguments.batch, arguments.size,
                                  arguments.measure)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     epilog="Networks: those of scripts/networks.py, and every "
                                            "torchvision classification and segmentation network.")
    parser.add_argument("network", nargs="?", help="name of the network")
    parser.add_argument("--onnx", help="read an ONNX file instead")
    parser.add_argument("--train", action="store_true", help="a training step instead of inference")
    parser.add_argument("--batch", type=int, default=1, help="samples (%(default)s)")
    parser.add_argument("--size", type=int, help="pixels a side, or tokens (the network's own)")
    parser.add_argument("--measure", action="store_true",
                        help="run the network once for the operators' own scratch memory")
    parser.add_argument("-o", "--output", default="-", help="file (standard output)")
    arguments = parser.parse_args(argv)
    if (arguments.network is None) == (arguments.onnx is None):
        parser.error("give a network or --onnx, one of the two")
    with refusal.plainly():
        text = describe_input(arguments).to_json()
        if arguments.output == "-":
            sys.stdout.write(text)
        else:
            pathlib.Path(arguments.output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
