"""The library that this process runs under. Imports little, so that a program which counts its own memory may ask."""

import ctypes
import json


def library_function(name):
    """A function of memomalloc/memomalloc.h, or None in a process that runs without the library."""
    return getattr(ctypes.CDLL(None), name, None)


def library_stats():
    """The statistics of the library that this process runs under; None without it."""
    ask = library_function("memomalloc_stats_json")
    if ask is None:
        return None
    buffer = ctypes.create_string_buffer(1 << 14)
    ask(buffer, ctypes.c_size_t(len(buffer)))
    return json.loads(buffer.value)
