"""Planned GPU memory for torch, without a change of the program:

    import memomalloc.cuda
    memomalloc.cuda.enable()            # before CUDA is used first

torch's tensors then come from libmemomalloc-cuda.so: it learns the loop, lays its tensors out once, and moves physical
memory to where it is needed instead of keeping it twice. torch.cuda.memory_stats(), memory_allocated(),
memory_summary() and the functions beside them go on working.

    memomalloc.cuda.enable(observe=True)    # learns, serves nothing, and tells at the end what it would have saved
    memomalloc.cuda.stats()                 # torch's keys, and planned, reused and other bytes
    memomalloc.cuda.release()               # what no tensor needs, to the driver
    memomalloc.cuda.sleep(), wake()         # physical memory away and back; addresses stay
"""

import atexit
import ctypes
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Iterable, Optional

__all__ = ["enable", "enabled", "memory_summary", "release", "sleep", "stats", "wake"]

_library: Optional[ctypes.CDLL] = None
_observing = False
_ABLE = "_MEMOMALLOC_GPUS"  #: set for the processes that this one starts: all GPUs can be served, and none needs to ask
_FIRST_PAUSE = 10.0  #: seconds; each further one is twice as long

#: hook of torch's pluggable allocator -> function of ours; torch sets them as addresses
_HOOKS = {"set_init_fn": "memomalloc_cuda_init", "set_reset_fn": "memomalloc_cuda_reset",
          "set_memory_fraction_fn": "memomalloc_cuda_memory_fraction",
          "set_base_alloc_fn": "memomalloc_cuda_base_alloc",
          "set_record_stream_fn": "memomalloc_cuda_record_stream",
          "set_begin_allocate_to_pool": "memomalloc_cuda_begin_pool",
          "set_end_allocate_to_pool_fn": "memomalloc_cuda_end_pool",
          "set_release_pool": "memomalloc_cuda_release_pool"}


def _say(text: str) -> None:
    try:
        if sys.stderr is not None:
            print(f"memomalloc: cuda: {text}", file=sys.stderr, flush=True)
    except (OSError, ValueError):  # what is only told ends no program
        pass


def _path(library: Optional[str]) -> Optional[str]:
    """The shared object: the one given, the package's, or the one next to the library that is loaded."""
    from memomalloc import _loaded_path

    candidates = [library, pathlib.Path(__file__).parent / "lib/libmemomalloc-cuda.so.1"]
    if _loaded_path():
        candidates.append(pathlib.Path(str(_loaded_path())).parent / "libmemomalloc-cuda.so")
    return next((str(path) for path in candidates if path and os.path.exists(path)), None)


def _program() -> str:
    """The memomalloc command: the package's, the one next to the library that is loaded, or PATH's."""
    from memomalloc import _loaded_path, command

    candidates = [command.program(), *([pathlib.Path(str(_loaded_path())).parent / "memomalloc"] if _loaded_path() else []),
                  shutil.which("memomalloc")]
    return next((str(path) for path in candidates if path and os.path.exists(path)), "memomalloc")


def enabled() -> bool:
    """True once torch's tensors come from the library."""
    return _library is not None


def _sees_gpus(torch: Any) -> bool:
    """False where torch certainly finds none. torch.cuda.is_available() would start CUDA's driver: then it is too late to set
    CUDA_VISIBLE_DEVICES, and a child by fork can use no GPU."""
    count = getattr(torch.cuda, "_device_count_nvml", lambda: -1)  # -1: unknown
    return bool(torch.backends.cuda.is_built() and count() != 0)


def enable(observe: bool = False, *, library: Optional[str] = None) -> bool:
    """Gives torch's GPU memory to the library; True if that worked.

    Call it before CUDA is used first: RuntimeError afterwards, since torch cannot change its allocator then.
    Where there is no GPU, one that cannot map memory, no driver or no torch with CUDA, a line on stderr says so and the program
    goes on.
    observe: torch keeps its own allocator; at the end, and by stats(), it is told what a plan would have saved.
    library: another libmemomalloc-cuda.so than the package's. FileNotFoundError where there is none.
    """
    import torch

    global _library
    if enabled() or (_observing and observe):
        return True
    if not _sees_gpus(torch):
        _say("torch sees no GPU here; nothing is changed")
        return False
    if torch.cuda.is_initialized():
        raise RuntimeError("memomalloc.cuda.enable: CUDA is in use already; call it first, before any tensor is on a GPU")
    if observe:
        return _observe(library)
    path = _path(library)
    if path is None:
        raise FileNotFoundError("memomalloc.cuda.enable: this package carries no libmemomalloc-cuda.so; "
                                "name one by library=..., as build/libmemomalloc-cuda.so")
    shared = ctypes.CDLL(path)
    shared.memomalloc_cuda_problem.restype = ctypes.c_char_p
    problem = "" if _ABLE in os.environ else shared.memomalloc_cuda_problem().decode()
    if problem:
        _say(f"{problem}; nothing is changed")
        return False
    os.environ[_ABLE] = "1"
    allocator = torch.cuda.memory.CUDAPluggableAllocator(path, "memomalloc_cuda_malloc", "memomalloc_cuda_free")
    inner = allocator.allocator()
    missing = [name for name in _HOOKS if not hasattr(inner, name)]
    if missing:
        _say(f"this torch has no {', '.join(missing)}; nothing is changed (torch 2.1 and newer have them)")
        return False
    for hook, function in _HOOKS.items():
        getattr(inner, hook)(ctypes.cast(getattr(shared, function), ctypes.c_void_p).value)
    torch.cuda.memory.change_current_allocator(allocator)
    shared.memomalloc_cuda_stats_json.restype = ctypes.c_size_t
    shared.memomalloc_cuda_stats_json.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]
    _library = shared
    _answer_torch(torch)
    if os.environ.get("MEMOMALLOC_STATS", "0") not in ("", "0") or os.environ.get("MEMOMALLOC_VERBOSE", "0") not in ("", "0"):
        atexit.register(_tell_at_exit, os.getpid())
    return True


def _figures(device: int) -> dict[str, Any]:
    """The library's figures; {} before the device's first tensor."""
    assert _library is not None
    size = 16384
    while True:
        buffer = ctypes.create_string_buffer(size)
        needed = _library.memomalloc_cuda_stats_json(device, buffer, size)
        if needed < size:
            return dict(json.loads(buffer.value))
        size = needed + 1024


def _index(device: Any) -> int:
    import torch

    if device is None:
        return int(torch.cuda.current_device())
    return int(torch.cuda._utils._get_device_index(device, optional=True))


def stats(device: Any = None) -> dict[str, Any]:
    """The device's figures: torch's keys ("allocated_bytes.all.peak", "reserved_bytes.all.peak", ...) and the library's.

    planned_bytes: placed where a plan says; reused_bytes: from memory that was held; other_bytes: for which memory was
    mapped; of tensors of 1 MiB and more. plan_bytes, lower_bound_bytes: the plan's height, and the least possible.
    Where the program is observed: what memomalloc plan says of the allocations until now. {} where nothing is enabled, and
    before the device's first tensor.
    """
    if _observing:
        return _observed([_index(device)]).get(_index(device), {})
    return _figures(_index(device)) if enabled() else {}


def _human(number: float) -> str:
    return f"{number / 2 ** 30:.2f} GiB" if number >= 2 ** 30 else f"{number / 2 ** 20:.1f} MiB"


def _sentence(device: int) -> str:
    one = _figures(device)
    large = one["planned_bytes"] + one["reused_bytes"] + one["other_bytes"]
    parts = [f"{100 * one[name + '_bytes'] / large:.0f} % {word}" for name, word in
             (("planned", "planned"), ("reused", "reused"), ("other", "new"))] if large else ["no large tensors"]
    return (f"device {device}: {', '.join(parts)}; reserved {_human(one['reserved_bytes.all.peak'])} at most, "
            f"alive {_human(one['requested_bytes.all.peak'])} at the peak; plans {one['plans']}, phase {one['phase']}")


def _tell_at_exit(process: int) -> None:
    import torch

    if os.getpid() != process:  # a child by os.fork that ends as a program does
        return
    for device in range(torch.cuda.device_count() if torch.cuda.is_initialized() else 0):
        if _figures(device).get("reserved_bytes.all.peak"):
            _say(_sentence(device))


def memory_summary(device: Any = None) -> str:
    """The device's memory in a few lines, for people."""
    if not enabled():
        return "memomalloc.cuda is not enabled"
    index = _index(device)
    one = _figures(index)
    if not one:
        return f"device {index}: no tensor until now"
    rows = [("alive now", one["requested_bytes.all.current"]), ("alive at the peak", one["requested_bytes.all.peak"]),
            ("reserved now", one["reserved_bytes.all.current"]), ("reserved at the peak", one["reserved_bytes.all.peak"]),
            ("height of the plan", one["plan_bytes"]), ("least possible", one["lower_bound_bytes"])]
    width = max(len(name) for name, _ in rows)
    return "\n".join([_sentence(index)] + [f"  {name:{width}}  {_human(value):>12}" for name, value in rows])


def release(device: Any = None) -> None:
    """Returns to the driver what no tensor needs. Plans stay, and are served again when calls fit."""
    if enabled():
        _library.memomalloc_cuda_release(-1 if device is None else _index(device))  # type: ignore[union-attr]


def sleep(device: Any = None, *, keep: bool = True) -> None:
    """Takes away the physical memory of all tensors, whose addresses stay. Use none of them until wake().

    keep: their contents are copied to the host's memory, and back by wake(); else they are lost. RuntimeError, and
    nothing has changed, while a graph is captured or where the host has too little memory.
    """
    if enabled() and _library.memomalloc_cuda_sleep(-1 if device is None else _index(device), int(keep)):  # type: ignore[union-attr]
        raise RuntimeError("memomalloc.cuda.sleep: a stream is captured, or the host has too little memory")


def wake(device: Any = None) -> None:
    """Ends sleep(). RuntimeError where the device has too little memory, or the driver refuses: call it again later."""
    if enabled() and _library.memomalloc_cuda_wake(-1 if device is None else _index(device)):  # type: ignore[union-attr]
        raise RuntimeError("memomalloc.cuda.wake: the device has too little memory, or the driver refuses")


_KINDS = ("current", "peak", "allocated", "freed")
_POOLS = ("all", "small_pool", "large_pool")
_TORCH = ("allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes", "active_bytes",
          "inactive_split_bytes", "requested_bytes")


def _as_torch(device: int) -> dict[str, Any]:
    """What torch._C._cuda_memoryStats answers; 0 where torch counts what there is none of here."""
    one = _figures(device)
    result: dict[str, Any] = {name: {pool: {kind: one.get(f"{name}.{pool}.{kind}", 0) for kind in _KINDS}
                                     for pool in _POOLS} for name in _TORCH}
    for name in ("oversize_allocations", "oversize_segments"):
        result[name] = dict.fromkeys(_KINDS, 0)
    result.update(num_alloc_retries=0, num_ooms=one.get("num_ooms", 0), num_sync_all_streams=one.get("waits", 0),
                  num_device_alloc=one.get("driver_calls", 0), num_device_free=0, max_split_size=-1)
    return result


def _answer_torch(torch: Any) -> None:
    """torch's own functions for statistics raise where the allocator is not its own: they get ours. Those of torch.accelerator
    ask the allocator that was there before."""
    def reset_peaks(device: int) -> None:
        _library.memomalloc_cuda_reset_peaks(device)  # type: ignore[union-attr]

    def reset_sums(device: int) -> None:
        pass

    torch._C._cuda_memoryStats = _as_torch
    torch._C._cuda_resetPeakMemoryStats = reset_peaks
    torch._C._cuda_resetAccumulatedMemoryStats = reset_sums
    for name, answer in (("isAllocatorInitialized", torch.cuda.is_initialized), ("getDeviceStats", _as_torch),
                         ("resetPeakStats", reset_peaks), ("resetAccumulatedStats", reset_sums),
                         ("emptyCache", torch._C._cuda_emptyCache)):
        if hasattr(torch._C, f"_accelerator_{name}"):
            setattr(torch._C, f"_accelerator_{name}", answer)


def _observe(library: Optional[str]) -> bool:
    """torch records its own allocator's events, once that has started."""
    import torch

    global _observing
    _observing = True
    torch.cuda._lazy_call(lambda: torch.cuda.memory._record_memory_history(max_entries=200000, context=None,
                                                                           stacks="python"))
    atexit.register(_tell_observed)
    path = _path(library)
    if path is not None and os.environ.get("MEMOMALLOC_STATUS", "0") not in ("", "0"):
        threading.Thread(target=_show_observed, args=(ctypes.CDLL(path),), daemon=True).start()
    return True


def _observed(devices: Optional[Iterable[int]] = None) -> dict[int, dict[str, Any]]:
    """What `memomalloc plan` says of the events recorded until now, by device; without those that held nothing."""
    import torch

    found: dict[int, dict[str, Any]] = {}
    if not torch.cuda.is_initialized():
        return found
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "snapshot.pickle")
        with open(path, "wb") as file:
            pickle.dump(torch.cuda.memory._snapshot(), file, protocol=4)
        for device in range(torch.cuda.device_count()) if devices is None else devices:
            done = subprocess.run([_program(), "plan", path, "--device", str(device), "--json"], capture_output=True,
                                  text=True, check=False)
            if done.returncode == 0:
                found[device] = dict(json.loads(done.stdout))
            elif "holds nothing" not in done.stderr:
                raise RuntimeError(f"memomalloc.cuda: {done.stderr.strip()}")
    return found


def _tell_observed() -> None:
    try:
        for device, found in _observed().items():
            _say(f"observed, device {device}: {found['sentence']}")
    except (OSError, RuntimeError, ValueError) as error:
        _say(str(error))


def _show_observed(shared: ctypes.CDLL) -> None:
    """Shows the same in `memomalloc status`, more and more seldom: a look costs time for each event that is recorded."""
    import torch

    pause = _FIRST_PAUSE
    while True:
        time.sleep(pause)
        pause *= 2
        try:
            for device, found in _observed().items():
                figures = (torch.cuda.memory_reserved(device), found["reserved"], torch.cuda.memory_allocated(device),
                           found["alive"], found["height"])
                shared.memomalloc_cuda_observed(device, (ctypes.c_uint64 * 5)(*figures))
        except (OSError, RuntimeError, ValueError):
            return  # told at exit
