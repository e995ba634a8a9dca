"""Graphs of torch.fx for the scheduler: what each node makes, reads and must follow.

`describe` writes a graph as docs/file-formats.md says. What must keep its place is held by control
edges: writers of a storage and its readers, random numbers, effects, collective operations, and on both
sides of a fence: a node of which nothing is known.
"""

from __future__ import annotations

import json
from typing import Any, Iterable, Mapping, Optional

__all__ = ["DYING_INPUTS", "GraphWriter", "describe", "describe_values"]

DYING_INPUTS = "(inputs that die)"  # the node that makes what the caller gives up; no operator has such a name


class GraphWriter:
    """Collects tensors and nodes; knows which storage each tensor uses and who touched it last."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tensors: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []
        self.outputs: list[str] = []
        self.owner_of: dict[Any, str] = {}  # storage key -> name of the tensor that owns it
        self.last_writer: dict[Any, str] = {}  # storage key -> node
        self.readers: dict[Any, set[str]] = {}  # storage key -> nodes that read since the last write
        self.last_effect: Optional[str] = None
        self.last_fence: Optional[str] = None
        self.since_fence: set[str] = set()
        self.held: list[Any] = []  # keeps fake storages alive, so that their keys stay unique

    def add_tensor(self, name: str, key: Any, size: int, kind: str = "activation") -> None:
        entry: dict[str, Any] = {"name": name}
        if key in self.owner_of:
            entry["alias_of"] = self.owner_of[key]
        else:
            self.owner_of[key] = name
            entry["bytes"] = size
        if kind != "activation":
            entry["kind"] = kind
        self.tensors.append(entry)

    def order_after_effects(self, node: str, reads: set[Any], writes: set[Any], effect: bool,
                            fence: bool = False) -> set[str]:
        """The nodes that must precede: writers of what is read, readers of what is written, the last
        effect, the last fence; all since that one before a fence."""
        after = {self.last_fence}
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
        if fence:
            after |= self.since_fence
            self.last_fence, self.since_fence = node, set()
        else:
            self.since_fence.add(node)
        return {name for name in after if name is not None and name != node}

    def to_json(self) -> str:
        """One tensor and one node per line, so that an error's line number says something."""
        def lines(items: list[dict[str, Any]]) -> str:
            return "[\n" + ",\n".join("  " + json.dumps(item) for item in items) + "\n ]"
        return (f'{{"format": "memomalloc-graph", "version": 1, "name": {json.dumps(self.name)},\n'
                f' "tensors": {lines(self.tensors)},\n "nodes": {lines(self.nodes)},\n'
                f' "outputs": {json.dumps(self.outputs)}}}\n')


def _tensors_in(value: Any) -> list[Any]:
    """The tensors of a node's result, in order; None for other leaves."""
    import torch
    from torch.utils import _pytree

    leaves = _pytree.tree_flatten(value)[0]
    return [leaf if isinstance(leaf, torch.Tensor) else None for leaf in leaves]


def _bytes_of(tensor: Any) -> int:
    """Bytes of a tensor's storage. A size that depends on a symbol is what it was in the example, without
    a guard; 0 where it depends on data."""
    size = tensor.untyped_storage().nbytes()
    if isinstance(size, int):
        return size
    from torch.fx.experimental import symbolic_shapes

    if hasattr(symbolic_shapes, "optimization_hint"):
        return int(symbolic_shapes.optimization_hint(size, fallback=0))
    return int(symbolic_shapes.hint_int(size, fallback=0))


def _schema_arguments(node: Any) -> list[tuple[Any, Any]]:
    """Pairs (argument of the operator's schema, what the node gives it)."""
    schema = getattr(node.target, "_schema", None)
    return [(argument, node.args[i] if i < len(node.args) else node.kwargs.get(argument.name))
            for i, argument in enumerate(schema.arguments if schema else ())]


def _written_arguments(node: Any) -> set[Any]:
    """The argument nodes that the operator writes: those that its schema names, and the running
    statistics of normalisations, of which most schemas say nothing."""
    from torch.fx import Node

    given = _schema_arguments(node)
    name = str(node.target)
    fixed = any(value is False for argument, value in given if argument.name in ("training", "use_input_stats"))
    statistics = not fixed and not any(word in name for word in ("functional", "no_training", "backward"))
    found = set()
    for argument, value in given:
        writes = argument.alias_info is not None and argument.alias_info.is_write
        if writes or (statistics and argument.name in ("running_mean", "running_var")):
            values = value if isinstance(value, (list, tuple)) else [value]
            found |= {v for v in values if isinstance(v, Node)}
    return found


def _has_effect(node: Any) -> bool:
    """Random numbers, collective operations and effects outside the tensors: they keep their mutual order."""
    import torch
    from torch.fx.node import _side_effectful_functions

    target = node.target
    if torch.Tag.nondeterministic_seeded in getattr(target, "tags", ()) or target in _side_effectful_functions:
        return True
    schema = getattr(target, "_schema", None)
    return bool(schema is not None and ("c10d" in schema.name.split("::")[0] or not schema.returns))


def _is_fence(node: Any, result: Any) -> bool:
    """Nothing moves across a node of which nothing is known, or that gives a tensor another storage: all
    but torch's operators, taking parts of a result, and arithmetic of plain numbers."""
    import torch

    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        name = str(target._schema.name).split("::")[-1]
        return name == "set_" or name.startswith("resize_")
    if node.op != "call_function" or getattr(target, "__module__", None) not in ("_operator", "math", "torch"):
        return True
    numbers = (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)
    return bool(getattr(target, "__name__", None) != "getitem" and not isinstance(result, numbers))


def _same_elements(tensor: Any, other: Any) -> bool:
    """Does each element of one lie where that of the other does, or neither anywhere near?"""
    if tensor.untyped_storage()._cdata != other.untyped_storage()._cdata:
        return True
    return bool(tensor.element_size() == other.element_size() and tensor.shape == other.shape
                and tensor.stride() == other.stride() and tensor.storage_offset() == other.storage_offset())


def _overwritable(node: Any, result: Any, arguments: list[tuple[str, Any]]) -> list[str]:
    """The arguments that an element-wise operator could keep its result in. Not one of which it reads another
    view as well: it may have overwritten what it is still to read there."""
    import torch

    # Batch norm with given statistics scales and shifts each element, though torch does not tag it so.
    fixed_norm = node.target is torch.ops.aten.batch_norm.default and not node.args[5]
    pointwise = torch.Tag.pointwise in getattr(node.target, "tags", ())
    if not (pointwise or fixed_norm) or not isinstance(result, torch.Tensor):
        return []
    read = [tensor for _, value in arguments for tensor in _tensors_in(value) if tensor is not None]
    return [a for a, value in arguments if isinstance(value, torch.Tensor)
            and value.shape == result.shape and value.dtype == result.dtype
            and value.stride() == result.stride() and all(_same_elements(value, other) for other in read)]


class _Describer:
    """Adds a graph's nodes to a writer, one after the other, with their fake results."""

    def __init__(self, writer: GraphWriter, kinds: Mapping[str, str], gradients: Iterable[str],
                 workspaces: Mapping[str, int], overwriting: bool) -> None:
        self.writer, self.kinds, self.gradients, self.workspaces = writer, kinds, set(gradients), workspaces
        self.overwriting = overwriting
        self.names: dict[Any, list[str]] = {}  # node -> names of its result's tensors
        self.keys: dict[Any, set[Any]] = {}  # node -> storage keys of its result's tensors
        self.results: dict[Any, Any] = {}

    def key_of(self, tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        self.writer.held.append(storage)
        return storage._cdata

    def add_result(self, node: Any, result: Any, kind: str) -> None:
        tensors = _tensors_in(result)
        label = [node.name if len(tensors) == 1 else f"{node.name}:{i}" for i in range(len(tensors))]
        self.names[node] = [n for n, t in zip(label, tensors) if t is not None]
        self.keys[node] = {self.key_of(t) for t in tensors if t is not None}
        self.results[node] = result
        for n, t in zip(label, tensors):
            if t is not None:
                self.writer.add_tensor(n, self.key_of(t), _bytes_of(t), kind)

    def add_node(self, node: Any, result: Any) -> None:
        arguments = node.all_input_nodes
        self.add_result(node, result, "gradient" if node.name in self.gradients else "activation")
        reads: set[Any] = set().union(*(self.keys[a] for a in arguments)) if arguments else set()
        fence = _is_fence(node, result)
        written = arguments if fence else _written_arguments(node)
        writes: set[Any] = set().union(*(self.keys[a] for a in written)) if written else set()
        after = self.writer.order_after_effects(node.name, reads, writes, fence or _has_effect(node), fence)
        computed = [a for a in arguments if a.op not in ("placeholder", "get_attr")]
        after |= {a.name for a in computed if not self.names[a]}  # numbers are no tensors: an edge stands for them
        after -= {a.name for a in computed if self.names[a]}
        entry: dict[str, Any] = {"name": node.name, "op": str(node.target),
                                 "inputs": [n for a in arguments for n in self.names[a]],
                                 "outputs": self.names[node]}
        if self.overwriting and not writes:
            pairs = [[node.name, a] for a in
                     _overwritable(node, result, [(a.name, self.results[a]) for a in arguments])]
            if pairs:
                entry["overwrites"] = pairs
        if after:
            entry["after"] = sorted(after)
        if node.name in self.workspaces:
            entry["workspace"] = self.workspaces[node.name]
        self.writer.nodes.append(entry)

    def add(self, node: Any, result: Any) -> None:
        if node.op == "output":
            self.writer.outputs.extend(sorted({n for a in node.all_input_nodes for n in self.names[a]}))
        elif node.op in ("placeholder", "get_attr"):
            default = "weight" if node.op == "get_attr" else "input"
            self.add_result(node, result, self.kinds.get(node.name, default))
        else:
            self.add_node(node, result)

    def add_dying(self, nodes: list[Any], results: list[Any]) -> None:
        """Inputs that the caller gives up: alive at the start, and free after their last reader."""
        before = set(self.writer.owner_of)
        for node, result in zip(nodes, results):
            self.add_result(node, result, "activation")
        made = [n for node in nodes for n in self.names[node]]
        if set(self.writer.owner_of) == before:
            return
        self.writer.nodes.append({"name": DYING_INPUTS, "op": "inputs", "inputs": [], "outputs": made})
        self.writer.last_fence = DYING_INPUTS


def describe(module: Any, arguments: Iterable[Any], name: str, kinds: Optional[Mapping[str, str]] = None,
             gradients: Iterable[str] = (), workspaces: Optional[Mapping[str, int]] = None) -> GraphWriter:
    """The GraphWriter of an exported torch.fx.GraphModule, run once on fake tensors.

    `kinds` maps a placeholder's name to "weight" where it is not an input; `gradients` holds the names of
    nodes whose results are gradients; `workspaces` maps a node to the bytes it needs for itself alone.
    """
    import torch
    from torch._guards import detect_fake_mode
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    given = list(arguments)
    state = list(module.parameters()) + list(module.buffers())
    fake: Any = detect_fake_mode(given + state) or FakeTensorMode(allow_non_fake_inputs=True)
    describer = _Describer(GraphWriter(name), kinds or {}, gradients, workspaces or {}, True)

    class Recorder(torch.fx.Interpreter):  # type: ignore[misc, unused-ignore]
        def run_node(self, node: Any) -> Any:
            result = super().run_node(node)
            if node.op in ("get_attr", "placeholder") and isinstance(result, torch.Tensor) and \
                    not isinstance(result, FakeTensor):
                result = fake.from_tensor(result)
            describer.add(node, result)
            return result

    fakes = [fake.from_tensor(a) if isinstance(a, torch.Tensor) and not isinstance(a, FakeTensor) else a
             for a in given]
    with fake, torch.no_grad():
        Recorder(module, garbage_collect_values=False).run(*fakes)
    return describer.writer


def describe_values(module: Any, name: str, dying: Iterable[str] = ()) -> GraphWriter:
    """The GraphWriter of a GraphModule whose nodes carry their fake results, as AOTAutograd leaves them.

    `dying`: names of the placeholders that nobody but the graph holds while it runs. ValueError names a
    node without a result.
    """
    import torch

    describer = _Describer(GraphWriter(name), {}, (), {}, False)
    given_up = set(dying)

    def value_of(node: Any) -> Any:
        if "val" in node.meta:
            return node.meta["val"]
        if node.op == "output":
            return None
        if node.op == "get_attr":
            value = module
            for part in node.target.split("."):
                value = getattr(value, part)
            return value if isinstance(value, torch.Tensor) else None
        if isinstance(node.target, torch._ops.OpOverload):
            raise ValueError(f"torch tells no result of node {node.name}")
        return None  # of a fence, which takes its inputs and keeps its place; the parts of the result are told

    nodes = list(module.graph.nodes)
    late = [n for n in nodes if n.op == "placeholder" and n.name in given_up]
    for node in nodes:
        if node.op in ("placeholder", "get_attr") and node not in late:
            describer.add(node, value_of(node))
    describer.add_dying(late, [value_of(node) for node in late])
    for node in nodes:
        if node.op not in ("placeholder", "get_attr"):
            describer.add(node, value_of(node))
    return describer.writer
