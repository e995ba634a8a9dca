"""MemoMalloc from inside a Python program that runs with it.

    memomalloc run -- python infer.py

works without this module. A program may use it to mark where iterations begin, to read the
statistics, and to release memory:

    import memomalloc
    for batch in batches:
        memomalloc.iteration()  # or `with memomalloc.iteration():` around what belongs to it
        network(batch)
    print(memomalloc.stats()["planned_bytes"])

Every function works without the library too: it then does nothing, and stats() is None.
"""

import contextlib
import ctypes
import json
import os
import pathlib

__all__ = ["enable", "environment", "iteration", "library_path", "loaded", "release", "reorder", "report", "stats",
           "version"]

_process = ctypes.CDLL(None)


def _function(name, result=None, arguments=()):
    """The preloaded library's function, or None."""
    function = getattr(_process, name, None)
    if function is not None:
        function.restype, function.argtypes = result, arguments
    return function


_version = _function("memomalloc_version", ctypes.c_char_p)
_iteration = _function("memomalloc_iteration")
_stats = _function("memomalloc_stats_json", ctypes.c_size_t, (ctypes.c_char_p, ctypes.c_size_t))
_release = _function("memomalloc_release")


def library_path():
    """The library that this package carries, for LD_PRELOAD; None in a source folder."""
    path = pathlib.Path(__file__).parent / "lib/libmemomalloc.so.1"
    return str(path) if path.exists() else None


def _loaded_path():
    """The file of the library in this process; None without it."""
    try:
        lines = pathlib.Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    paths = (line.split(maxsplit=5)[5].removesuffix(" (deleted)") for line in lines if "/libmemomalloc.so" in line)
    return next((path for path in paths if pathlib.Path(path).name.startswith("libmemomalloc.so")), None)


def environment(library=None, **options):
    """The variables with which another process runs with the library: a dictionary of texts.

    For what starts processes that do not inherit this one's environment, or should not:

        ray.init(runtime_env={"env_vars": memomalloc.environment(stats_file="/tmp/%p.json")})
        subprocess.run(command, env=os.environ | memomalloc.environment(status=True))

    An option is a MEMOMALLOC_ variable's name in small letters; True and False are 1 and 0. Variables that are
    set in this process hold unless an option says otherwise, and other libraries of its LD_PRELOAD stay. PYTHONPATH has
    the start hook that makes memory pools of frameworks visible, unless open="none". `library`
    is the library's path: by itself the one in this process, else the package's, else the installed one.
    """
    from memomalloc import start

    library = start.preloadable(os.fspath(library or _loaded_path() or library_path() or "libmemomalloc.so.1"))
    variables = {name: value for name, value in os.environ.items() if name.startswith("MEMOMALLOC_")}
    preload = start.preload_list(library, os.environ.get("LD_PRELOAD", ""))
    variables |= start.settings(options) | {"LD_PRELOAD": preload}
    return variables | start.opening().variables({**os.environ, **variables})


def loaded():
    """True in a process that runs under the library."""
    return _version is not None


def version():
    """The loaded library's version, None without it."""
    return _version().decode() if loaded() else None


def iteration():
    """An iteration of this thread begins here. Optional: iterations are found without it.

    A plain call, `with memomalloc.iteration():` and `@memomalloc.iteration()` before a function all
    mark it; the iteration ends where the next begins.
    """
    return _Iteration()


class _Iteration(contextlib.ContextDecorator):
    def __init__(self):
        self._begin()
        self._begun = True

    def __enter__(self):
        if not self._begun:  # a later call of a decorated function, or an object that is used again
            self._begin()
        self._begun = False

    def __exit__(self, *_):
        return False

    @staticmethod
    def _begin():
        if loaded():
            _iteration()


def stats():
    """The library's statistics as a dictionary, None without it."""
    if not loaded():
        return None
    size = _stats(None, 0) + 1024  # room for digits that grow between the two calls
    buffer = ctypes.create_string_buffer(size)
    _stats(buffer, size)
    return json.loads(buffer.value)


def release():
    """Releases slabs and free memory to the system; they are taken again when next needed."""
    if loaded():
        _release()


def enable(*, restart=False, library=None, **options):
    """Lets every program that this one starts from now on run with the library; True if this one does already.

    For workers that a program spawns, and for scripts: `restart` restarts this program, with its arguments, if
    it runs without the library. Call it first then, since what was done before is done again. Options are settings:
    enable(threshold="16K") sets MEMOMALLOC_THRESHOLD. Memory pools of frameworks that are imported later become visible,
    as with `memomalloc run`; open="none" leaves them. `library`: another than the loaded one, or the package's; FileNotFoundError
    if it is not there. RuntimeError without one, or if this program cannot restart: a notebook, a forked or spawned worker,
    a script from standard input.
    """
    from memomalloc.start import enable as by_environment

    return by_environment(library or _loaded_path() or library_path(), loaded(), restart, options)


def report():
    """What the library has done in this process so far; a notebook draws it, elsewhere print it."""
    from memomalloc.summary import Report

    return Report(stats())


def reorder(module, example_inputs, seconds=10.0):
    """A network of torch with its operators in the order that needs least memory: memomalloc.torch.reorder."""
    from memomalloc.torch import reorder as by_torch

    return by_torch(module, example_inputs, seconds)
