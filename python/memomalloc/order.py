"""The order that `memomalloc schedule` finds for a graph, and the graph in that order."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
from typing import Any, Iterable, Optional

from memomalloc.graph import DYING_INPUTS, GraphWriter

__all__ = ["apply_order", "find_order", "find_tool"]

_KILL_SECONDS = 60  # what `memomalloc schedule` may take beyond its own limit before it counts as stuck


def find_tool() -> str:
    """The memomalloc command: the package's own, or the source folder's build, or one on the PATH."""
    here = pathlib.Path(__file__).resolve().parent
    for place in (here / "bin/memomalloc", here.parents[1] / "build/memomalloc"):
        if os.access(place, os.X_OK):
            return str(place)
    tool = shutil.which("memomalloc")
    if tool is None:
        raise FileNotFoundError("there is no memomalloc command: `make` builds it in a source folder, the wheel "
                                "carries it")
    return tool


def find_order(writer: GraphWriter, seconds: float = 10, tool: Optional[str] = None) -> dict[str, Any]:
    """`memomalloc schedule` on a GraphWriter: the order file's content. RuntimeError tells why there is none.

    A process of its own, so that the search adds nothing to the peak of the one that is to be kept low;
    the plan of the offsets is the cheapest, since only the order is wanted.
    """
    command = [tool or find_tool(), "schedule", "-", "--output", "-", "--seconds", str(seconds),
               "--planner", "greedy-by-size"]
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    try:
        done = subprocess.run(command, env=environment, input=writer.to_json(), capture_output=True, text=True,
                              timeout=seconds + _KILL_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"memomalloc schedule did not end within {seconds + _KILL_SECONDS} s") from error
    if not done.stdout.strip():
        raise RuntimeError(done.stderr.strip() or f"memomalloc schedule ended with {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    found["order"] = [name for name in found["order"] if name != DYING_INPUTS]
    return found


def apply_order(module: Any, order: Iterable[str]) -> Any:
    """A copy of the torch.fx.GraphModule with its operators in the given order of names.

    Placeholders and attributes come first, the output last. Raises ValueError if the names are not
    exactly the graph's operators; torch's own lint checks that each argument comes before its use.
    """
    import torch

    wanted = list(order)
    by_name = {n.name: n for n in module.graph.nodes if n.op not in ("placeholder", "get_attr", "output")}
    if sorted(by_name) != sorted(wanted):
        raise ValueError("the order does not name each operator of the graph once")
    first = [n for n in module.graph.nodes if n.op in ("placeholder", "get_attr")]
    last = [n for n in module.graph.nodes if n.op == "output"]
    graph: Any = torch.fx.Graph()
    copies: dict[Any, Any] = {}
    for node in first + [by_name[name] for name in wanted] + last:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.set_codegen(module.graph._codegen)
    graph.lint()
    return torch.fx.GraphModule(module, graph)
