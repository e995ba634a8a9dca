"""ExecuTorch's memory-planning pass, with our planner.

    from executorch.exir import ExecutorchBackendConfig
    from memomalloc.executorch import planning_pass

    program = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning_pass()))

`algorithm` is the same for who builds the pass by hand: it goes into a MemoryPlanningAlgorithmSuite,
beside ExecuTorch's own. A plan is at most as high as what the lifetimes allow; the program computes
the same. Tried with ExecuTorch 1.5.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import Any, Iterable

from executorch.exir.memory_planning import MemoryAlgoResult, MemoryPlanningAlgorithmSuite, SpecAllocResult
from executorch.exir.passes import MemoryPlanningPass

from memomalloc import dsa

__all__ = ["algorithm", "planning_pass"]

_SECONDS = 10.0  # the planner's own default; it stops at the lower bound
_FIRST_BUFFER = 1  # ExecuTorch's buffer 0 is that of the constants
_ONE_OBJECT = 0  # the verifier wants tensors that share bytes to be of one object; the whole buffer is one


def algorithm(alignment: int, specs: Iterable[Any], graph_module: Any, graph_signature: Any,
              extra_padding: int = 0, *, seconds: float = _SECONDS, planner: str = "portfolio") -> Any:
    """Where each tensor lies, as a MemoryAlgoResult; nothing is changed but the tensors' alignment.

    alignment: bytes, of each offset and size.
    specs: the TensorSpecs to place, with their lifetimes: the first and the last step, both inclusive.
    graph_module: its input_mem_buffer_sizes (bytes for each buffer, of control flow) stay below all tensors.
    extra_padding: bytes behind the highest tensor of each buffer.
    seconds, planner: as dsa.plan() has them, for each buffer.

    Raises ValueError where a tensor has no lifetime or does not fit the storage that it is said to lie in.
    """
    buffers: dict[int, list[Any]] = defaultdict(list)
    places: dict[Any, Any] = {}
    inside = []
    for spec in specs:
        spec.realign(alignment)
        places[spec] = SpecAllocResult(_FIRST_BUFFER if spec.mem_id is None else spec.mem_id, _ONE_OBJECT, 0)
        if None in spec.lifetime:
            raise ValueError(f"a tensor of {spec.allocated_memory} bytes has no lifetime: {spec}")
        if spec.storage_base is None:
            buffers[places[spec].mem_id].append(spec)
        else:
            inside.append(spec)
    reserved = list(getattr(graph_module, "input_mem_buffer_sizes", None) or [])
    sizes = [0] * max(len(reserved), max(buffers, default=_FIRST_BUFFER) + 1)
    sizes[:len(reserved)] = reserved
    for buffer, tensors in buffers.items():
        plan = dsa.plan([spec.lifetime[0] for spec in tensors], [spec.lifetime[1] + 1 for spec in tensors],
                        [spec.allocated_memory for spec in tensors], alignment=[alignment] * len(tensors),
                        seconds=seconds, planner=planner)
        start = -(-sizes[buffer] // alignment) * alignment
        for spec, offset in zip(tensors, plan.offsets):
            places[spec].mem_offset = start + int(offset)
        sizes[buffer] = start + plan.height + extra_padding
    for spec in inside:
        _place_inside(spec, places)
    return MemoryAlgoResult(places, sizes)


def _place_inside(spec: Any, places: dict[Any, Any]) -> None:
    """A tensor that lies in another's storage, which may itself lie in one."""
    seen, offset, base = {spec}, spec.storage_base_offset, spec.storage_base
    while base.storage_base is not None and base not in seen:
        seen.add(base)
        offset += base.storage_base_offset
        base = base.storage_base
    if base in seen or base not in places:
        raise ValueError(f"the storage of a tensor of {spec.allocated_memory} bytes is not planned: {spec}")
    if offset < 0 or offset + spec.allocated_memory > base.allocated_memory:
        raise ValueError(f"a tensor of {spec.allocated_memory} bytes does not fit its storage at {offset}: {spec}")
    places[spec].mem_id, places[spec].mem_offset = places[base].mem_id, places[base].mem_offset + offset


def planning_pass(*, seconds: float = _SECONDS, planner: str = "portfolio", **options: Any) -> Any:
    """A MemoryPlanningPass by our planner; `options` are those of the pass (alignment, alloc_graph_input, ...)."""
    ours = functools.partial(algorithm, seconds=seconds, planner=planner)
    return MemoryPlanningPass(memory_planning_algo=MemoryPlanningAlgorithmSuite([ours]), **options)
