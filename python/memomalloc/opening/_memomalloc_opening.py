"""Lets the library see what frameworks keep in memory pools of their own: an import hook that acts when one is imported.

Each opening changes where memory comes from, and no result. What the program asks for by name is left as it asks:
an arena of onnxruntime, a cache of MLX, a memory pool of pyarrow. MEMOMALLOC_OPEN chooses: `all` (the default), `none`, names
with commas between them, or names to leave out with `-` in front.

This file stands by itself: it is imported before the program, by an interpreter that may have no memomalloc.
"""

import importlib
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_TOLD = "_MEMOMALLOC_TOLD"  # what this process' parents have told already
_NOTES = "_MEMOMALLOC_NOTES"  # a file of `memomalloc doctor`, which tells in place of us


def wanted(name, choice=None):
    """True if MEMOMALLOC_OPEN has this opening; planned GPU memory is asked for by MEMOMALLOC_CUDA."""
    if name == "cuda":
        return os.environ.get("MEMOMALLOC_CUDA") == "1"
    words = [word.strip() for word in (os.environ.get("MEMOMALLOC_OPEN", "") if choice is None else choice).split(",")]
    chosen = [word for word in words if word and word != "all" and not word.startswith("-")]
    return "none" not in words and "-" + name not in words and (not chosen or name in chosen)


def _library():
    """The path of the library in this process, None where it is not or does nothing."""
    if os.environ.get("MEMOMALLOC_DISABLE") == "1":
        return None
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:
            paths = [line.split(None, 5)[5].strip() for line in lines if "/libmemomalloc.so" in line]
    except OSError:
        return None
    return next((path for path in paths if os.path.basename(path).startswith("libmemomalloc.so")), None)


def _write(line):
    """On stderr, where there is one that takes it."""
    try:
        if sys.stderr is not None:
            sys.stderr.write(f"memomalloc: {line}\n")
    except (OSError, ValueError):
        pass


def _tell(name, what):
    """One line, once for a process and the children that it makes later."""
    notes = os.environ.get(_NOTES)
    if notes:
        try:
            with open(notes, "a", encoding="utf-8") as file:
                file.write(f"{os.getpid()} {name}: {what}\n")
        except OSError:
            pass
        return
    told = os.environ.get(_TOLD, "")
    if name in told.split(",") or os.environ.get("MEMOMALLOC_VERBOSE") == "0" or sys.stderr is None:
        return
    os.environ[_TOLD] = told + "," + name if told else name
    _write(f"{name}: {what} (MEMOMALLOC_OPEN=-{name} leaves it as it was)")


def _package(name):
    """A module of memomalloc: the program's own, else that of the package around this folder. ImportError without either."""
    parent = os.path.dirname(os.path.dirname(_HERE))
    behind = parent not in sys.path and os.path.exists(os.path.join(parent, "memomalloc", "__init__.py"))
    if behind:
        sys.path.append(parent)
    try:
        return importlib.import_module("memomalloc." + name)
    finally:
        if behind:
            sys.path.remove(parent)


def _onnxruntime(module):
    options = getattr(module, "SessionOptions", None)
    arena = getattr(options, "enable_cpu_mem_arena", None)
    if not hasattr(arena, "__set__"):
        return
    begin = options.__init__

    def __init__(self, *words, **named):
        begin(self, *words, **named)
        arena.__set__(self, False)

    def ask(self, value):
        arena.__set__(self, value)
        if value and os.environ.get(_NOTES):
            _tell("onnxruntime", "the program asks for the arena by name")

    options.__init__ = __init__
    options.enable_cpu_mem_arena = property(arena.__get__, ask, doc=arena.__doc__)
    default = getattr(module, "get_default_session_options", None)
    if default is not None:

        def get_default_session_options():
            answer = default()
            arena.__set__(answer, False)
            return answer

        module.get_default_session_options = get_default_session_options
    _tell("onnxruntime", "sessions take tensors from malloc, not from an arena, unless the program sets enable_cpu_mem_arena")


def _mlx(module):
    device = getattr(module, "default_device", None)
    if device is None or "cpu" not in str(device()).lower() or not hasattr(module, "set_cache_limit"):
        return
    module.set_cache_limit(0)
    _tell("mlx", "freed arrays go back to malloc, not into MLX's cache, unless the program calls set_cache_limit")


def _numpy(_):
    # Elsewhere arrays come from malloc by themselves.
    if sys.version_info < (3, 15) or getattr(sys, "_is_gil_enabled", lambda: True)():
        return
    try:
        numpy = _package("numpy")
    except ImportError:
        return
    if numpy.use_malloc():
        _tell("numpy", "arrays come from malloc, not from CPython's mimalloc")


def _pyarrow(_):
    if os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system") == "system":
        _tell("pyarrow", "ARROW_DEFAULT_MEMORY_POOL=system: its buffers come from malloc")


def _openvino(_):
    if os.environ.get("TBB_ENABLE_SANITIZERS") == "1":
        _tell("openvino", "TBB_ENABLE_SANITIZERS=1: oneTBB's plug-in has the same malloc as the process")


def _vllm(_):
    entries = os.environ.get("LD_PRELOAD", "").replace(" ", ":").split(":")
    if any("libtcmalloc" in entry for entry in entries):
        return
    place = os.path.join(_HERE, "libtcmalloc-is-not-needed")
    for i, entry in enumerate(entries):
        if os.path.isabs(entry) and os.path.basename(entry).startswith("libmemomalloc.so"):
            # By the real paths: `..` behind a link leads elsewhere.
            place = os.path.realpath(place)
            folder = os.path.realpath(os.path.dirname(entry))
            entries[i] = os.path.join(place, os.path.relpath(folder, place), os.path.basename(entry))
            if os.path.exists(entries[i]):
                os.environ["LD_PRELOAD"] = ":".join(entry for entry in entries if entry)
                _tell("vllm", "its tcmalloc is not put in front of the library")
            return


def _cuda(_):
    try:
        cuda = _package("cuda")
    except ImportError:
        raise ImportError("planned GPU memory is in memomalloc's wheel, which is not installed") from None
    cuda.enable(observe=os.environ.get("MEMOMALLOC_OBSERVE") == "1")


# Module, opening, what is done before its code runs, and after.
_ACTIONS = {
    "onnxruntime.capi._pybind_state": ("onnxruntime", None, _onnxruntime),
    "mlx.core": ("mlx", None, _mlx),
    "numpy": ("numpy", None, _numpy),
    "pyarrow": ("pyarrow", _pyarrow, None),
    "openvino": ("openvino", _openvino, None),
    "vllm": ("vllm", _vllm, None),
    "torch": ("cuda", None, _cuda),
}


def _act(action, module):
    if action is None:
        return
    # A framework of another release may have changed what an action relies on: the program goes on without it.
    try:
        action(module)
    except Exception as error:
        # The user asked for planned GPU memory: its failure is reported unless MEMOMALLOC_VERBOSE=0.
        if os.environ.get("MEMOMALLOC_VERBOSE", "1" if action is _cuda else "0") != "0":
            _write(f"{getattr(module, '__name__', action.__name__)} stays as it is: {error}")


class _Finder:
    """Asks the other finders for the modules above, and has their code run between two actions."""

    def find_spec(self, name, path=None, target=None):
        action = _ACTIONS.get(name)
        if action is None:
            return None
        opening, before, after = action
        if not wanted(opening) or _library() is None:
            return None
        spec = None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is not self and find is not None:
                spec = find(name, path, target)
                if spec is not None:
                    break
        if spec is None:
            return None
        loader = spec.loader  # another tool may put its own in this place
        run = getattr(loader, "exec_module", None)
        # A loader of one module; one that many modules share is left alone.
        if run is not None and getattr(loader, "name", None) == name:

            def exec_module(module):
                loader.__dict__.pop("exec_module", None)
                _act(before, None)
                run(module)
                _act(after, module)

            loader.exec_module = exec_module
        else:
            _act(before, None)
        return spec


def install():
    """Once for a process."""
    if any(isinstance(one, _Finder) for one in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder())
    for name, (opening, before, after) in _ACTIONS.items():
        module = sys.modules.get(name)
        if module is not None and wanted(opening) and _library() is not None:
            for action in (before, after):
                _act(action, module)


def variables(environment):
    """What a process needs for the openings: PYTHONPATH with this folder first, and settings that are not set yet."""
    choice = environment.get("MEMOMALLOC_OPEN", "")
    closed = "none" in [word.strip() for word in choice.split(",")] and environment.get("MEMOMALLOC_CUDA") != "1"
    if closed or environment.get("MEMOMALLOC_DISABLE") == "1":
        return {}
    rest = environment.get("PYTHONPATH", "")
    found = {"PYTHONPATH": rest if _HERE in rest.split(":") else _HERE + (":" + rest if rest else "")}
    if wanted("pyarrow", choice) and "ARROW_DEFAULT_MEMORY_POOL" not in environment:
        found["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    return found
