"""Runs a network's operators in the order that needs least memory.

    import memomalloc.torch
    fast = torch.compile(model, backend="memomalloc")      inference and training
    lean = memomalloc.reorder(model, (x,))                 the same by hand, for inference

The operators are torch's own, one after the other, as backend "aot_eager" runs them; only their order
differs, so results are equal to the bit. What a new order could change keeps its place: views of what is
written, in-place operators, random numbers, effects (memomalloc/graph.py). docs/torch-compile.md has more.

`reports()` has the peak that each graph was predicted to have before and after. MEMOMALLOC_VERBOSE=1
prints them.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import os
import sys
import warnings
from typing import Any, Callable, Mapping, Optional, Sequence

import torch

from memomalloc import graph, order

__all__ = ["Report", "backend", "reorder", "reports"]

_NAME = "memomalloc"
_SECONDS = 10.0  # the command's own default; nearly all graphs are proved optimal in less than one


@dataclasses.dataclass(frozen=True)
class Report:
    """What became of one graph. Bytes count results and, of a backward pass, what the forward pass saved;
    not weights, inputs of the forward pass, and what an operator takes for itself alone."""

    graph: str  #: "forward 0", "backward 0", "inference 1", or the class of a module given to reorder()
    operators: int
    given_peak: Optional[int]  #: bytes in torch's order; None where the graph was not understood
    peak: Optional[int]  #: bytes in the order that is run
    lower_bound: Optional[int]  #: bytes; no order needs less
    optimal: bool  #: proved: no order needs less than `peak`
    reason: Optional[str] = None  #: why torch's order was kept, where something failed

    @property
    def saving(self) -> int:
        """Bytes of the peak that the order saves."""
        return 0 if self.given_peak is None or self.peak is None else self.given_peak - self.peak


_reports: list[Report] = []
_warned = False


def reports() -> tuple[Report, ...]:
    """One report for each graph that this process has compiled or reordered, in order."""
    return tuple(_reports)


def _verbose() -> bool:
    return os.environ.get("MEMOMALLOC_VERBOSE", "0") not in ("", "0")


def _tell(report: Report) -> None:
    _reports.append(report)
    if not _verbose():
        return
    if report.given_peak is None or report.peak is None:
        text = f"torch's order kept: {report.reason}"
    else:
        bound = "least possible" if report.optimal else f"bound {report.lower_bound}"
        text = f"peak {report.given_peak} -> {report.peak} bytes, saves {report.saving} ({bound})"
    print(f"memomalloc: {report.graph}: {report.operators} operators, {text}", file=sys.stderr)


def _warn_once(report: Report) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(f"memomalloc keeps torch's order of graph {report.graph}: {report.reason} (told once; "
                      "memomalloc.torch.reports() has every graph)", RuntimeWarning, stacklevel=2)


def _reordered(module: Any, name: str, describe: Callable[[], graph.GraphWriter],
               seconds: float) -> tuple[Any, Report]:
    """The module in the better order, or as it is where no better one is found."""
    writer = describe()
    operators = len([n for n in module.graph.nodes if n.op not in ("placeholder", "get_attr", "output")])
    if operators < 2:
        return module, Report(name, operators, 0, 0, 0, True)
    found = order.find_order(writer, seconds)
    given, peak = int(found["framework_peak"]), int(found["peak"])
    lean = order.apply_order(module, found["order"]) if peak < given else module
    return lean, Report(name, operators, given, min(peak, given), int(found["lower_bound"]),
                        bool(found["optimal"]))


def _boxed(module: Any) -> Any:
    """The module as a function of one list, which it empties: inputs that nobody else holds are freed
    after their last use."""
    try:
        from torch.fx.graph import _BoxedCodeGen
    except ImportError:  # torch before 2.9
        def run(arguments: list[Any]) -> Any:
            return torch.fx.Interpreter(module).boxed_run(arguments)
    else:
        module.graph.set_codegen(_BoxedCodeGen())
        module.recompile()
        run = functools.partial(module.forward)
    run._boxed_call = True  # type: ignore[attr-defined]
    return run


class _Numbers:
    """Counts the graphs, so that a forward pass and its backward pass have one number."""

    def __init__(self) -> None:
        self.next = 0

    def take(self) -> int:
        self.next += 1
        return self.next - 1


_numbers = _Numbers()


def _compile(pass_name: str, number: int, seconds: float, module: Any, _: Sequence[Any]) -> Any:
    """One graph of AOTAutograd. Never fails: the given order is always there."""
    name = f"{pass_name} {number}"
    dying = []
    if pass_name == "backward":  # torch gives up what the forward pass saved, but for the model's own tensors
        dying = [n.name for n in module.graph.nodes
                 if n.op == "placeholder" and not n.name.startswith(("primals_", "tangents_"))]
    try:
        lean, report = _reordered(module, name, lambda: graph.describe_values(module, name, dying), seconds)
    except Exception as error:  # whatever a graph holds, the network must run
        operators = len([n for n in module.graph.nodes if n.op not in ("placeholder", "get_attr", "output")])
        lean, report = module, Report(name, operators, None, None, None, False, _first_line(error))
        _warn_once(report)
    _tell(report)
    return _boxed(lean)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _seconds_of(options: Optional[Mapping[str, Any]]) -> float:
    given = dict(options or {})
    seconds = given.pop("seconds", _SECONDS)
    if given:
        raise ValueError(f"backend memomalloc has no option {', '.join(map(repr, given))}; it has 'seconds'")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < float("inf"):
        raise ValueError(f"seconds is {seconds!r}; it must be a number of seconds, at least 0")
    return float(seconds)


def backend(module: Any, example_inputs: Sequence[Any], *, mode: Optional[str] = None,
            options: Optional[Mapping[str, Any]] = None) -> Any:
    """What torch.compile(model, backend="memomalloc", options={"seconds": 10}) calls for each graph.

    seconds: most wall time to search for the order of one graph; the search ends when it is proved.
    There are no modes. ValueError for an option that there is not.
    """
    seconds = _seconds_of(options)
    if mode not in (None, "default"):
        raise ValueError(f"backend memomalloc has no mode {mode!r}")
    from functorch.compile import min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd

    number = _numbers.take()
    compilers = {name: functools.partial(_compile, which, number, seconds)
                 for name, which in (("fw_compiler", "forward"), ("bw_compiler", "backward"),
                                     ("inference_compiler", "inference"))}
    # As aot_eager is made, so that the results are the same.
    return aot_autograd(**compilers, partition_fn=min_cut_rematerialization_partition,
                        keep_inference_input_mutations=True)(module, example_inputs)


def _exported(module: Any, example_inputs: tuple[Any, ...]) -> Any:
    """The module as a graph of torch's operators; itself if it is one."""
    operators = [n for n in getattr(getattr(module, "graph", None), "nodes", ()) if n.op.startswith("call_")]
    if isinstance(module, torch.fx.GraphModule) and operators and all(
            isinstance(n.target, torch._ops.OpOverload) or getattr(n.target, "__name__", "") == "getitem"
            for n in operators):
        module.graph.lint()
        return module
    return torch.export.export(module, example_inputs, strict=False).module()


def reorder(module: Any, example_inputs: Sequence[Any], seconds: float = _SECONDS) -> Any:
    """A torch.fx.GraphModule that computes what `module` does, in the order of least memory.

    module: a torch.nn.Module, which is exported by torch.export, or a GraphModule of torch's operators.
    example_inputs: its positional arguments; the result takes arguments of the same shapes.
    seconds: most wall time to search.

    The result shares parameters and buffers with `module`, which is not changed; `result.meta["memomalloc"]`
    is its Report. Results are equal to the bit; gradients that autograd sums over several uses of one
    tensor may be summed in another order, so train by torch.compile. What torch.export says of a module
    that it cannot trace goes through; RuntimeError or ValueError if there is no order.
    """
    given = tuple(example_inputs)
    seconds = _seconds_of({"seconds": seconds})
    exported = _exported(module, given)
    name = type(module).__name__
    lean, report = _reordered(exported, name, lambda: graph.describe(exported, given, name), seconds)
    if lean is module:  # so that the caller's is not changed by what is noted
        lean = torch.fx.GraphModule(module, module.graph)
    lean.meta["memomalloc"] = report
    _tell(report)
    return lean


def _register() -> None:
    """Makes the name known where no installed package does; torch refuses a name that it has twice."""
    found: Any = importlib.metadata.entry_points()
    group = "torch_dynamo_backends"
    entries = found.select(group=group) if hasattr(found, "select") else found.get(group, ())
    if all(entry.name != _NAME for entry in entries):
        from torch._dynamo import register_backend

        register_backend(backend, name=_NAME)


_register()
