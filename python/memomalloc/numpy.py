"""Gives numpy's arrays back to malloc, where CPython has an allocator of its own for them.

    import memomalloc.numpy
    memomalloc.numpy.use_malloc()

numpy from 2.5 on takes arrays from CPython's raw memory, and a free-threaded CPython from 3.15 on has that from a mimalloc
of its own. No preloaded library sees such arrays. numpy's own interface for memory handlers (NEP 49) brings them back.
Where arrays come from malloc anyway, as nearly everywhere, use_malloc() changes nothing.

The handler belongs to a context (contextvars), as numpy has it. Threads that are started later have it too where they
inherit their context, as on a free-threaded CPython from 3.14 on; elsewhere each thread calls use_malloc() itself. Arrays
that are there already keep the handler that they came from.
"""

from __future__ import annotations

import ctypes
import importlib
from typing import Any, Optional

import memomalloc

__all__ = ["handler_name", "hidden", "use_malloc"]

_CAPSULE = b"mem_handler"  # the name that numpy looks for; it must outlive the capsule
# The place of PyDataMem_SetHandler in numpy's table of functions, part of its stable interface.
_SET_HANDLER = 304
_PROBES = 4
_PROBE_BYTES = 1 << 20


def _array_module() -> Any:
    for name in ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            pass
    raise ImportError("memomalloc.numpy: there is no numpy")


def _set_handler() -> Any:
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    table = ctypes.cast(address(_array_module()._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER])


def hidden() -> bool:
    """True if large arrays of this context do not reach the library that this process has: a few are made, and counted.
    What other threads allocate meanwhile is counted, too, so that it is best asked early."""
    before = memomalloc.stats()
    if before is None:
        return False
    empty = importlib.import_module("numpy").empty
    for _ in range(_PROBES):
        empty(_PROBE_BYTES, "u1")
    return memomalloc.stats()["large_allocations"] - before["large_allocations"] < _PROBES


def use_malloc(always: bool = False) -> bool:
    """Has this context's arrays come from malloc from now on, if they do not by themselves; `always`: without a look.
    True if numpy's handler was changed."""
    handler = getattr(ctypes.CDLL(None), "memomalloc_numpy_handler", None)
    if handler is None or not (always or hidden()):
        return False
    handler.restype = ctypes.c_void_p
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    _set_handler()(capsule(handler(), _CAPSULE, None))
    return True


def handler_name(array: Any = None) -> Optional[str]:
    """The name of the handler that an array came from, or that this context's next arrays will come from."""
    module = _array_module()
    return module.get_handler_name() if array is None else module.get_handler_name(array)
