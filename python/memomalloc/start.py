"""memomalloc.enable(): the library for a program that is not started by `memomalloc run`."""

import importlib.util
import os
import pathlib
import sys

# This variable has the number of the process that restarted itself. LD_PRELOAD does not show a restart: the dynamic
# linker may remove it.
_RESTARTED = "_MEMOMALLOC_RESTARTED"


def preloadable(library):
    """The library, by its whole path if it has one. RuntimeError where LD_PRELOAD cannot name it."""
    path = os.path.abspath(library) if "/" in library else library
    if " " in path or ":" in path:
        raise RuntimeError(f"memomalloc: LD_PRELOAD cannot name {path!r}, whose path has a blank or a colon, where its list is "
                           "divided; install it elsewhere, or name a link to it that has neither")
    return path


def preload_list(library, rest):
    """The value of LD_PRELOAD with our library first, and what was there behind it, once each."""
    entries = [library, *(entry for entry in rest.replace(" ", ":").split(":") if entry)]
    kept = {}
    for entry in entries:
        name = os.path.basename(entry)
        # Another build of the same library would be loaded beside ours, and never reached.
        kept.setdefault("libmemomalloc" if name.startswith("libmemomalloc.so") else entry, entry)
    return ":".join(kept.values())


def settings(options):
    """MEMOMALLOC_ variables from keywords: threshold="16K" is MEMOMALLOC_THRESHOLD=16K, True is 1, False is 0."""
    return {f"MEMOMALLOC_{name.upper()}": str(int(value)) if isinstance(value, bool) else str(value)
            for name, value in options.items()}


def opening():
    """The start hook, which stands by itself next to this package's modules."""
    name = "_memomalloc_opening"
    if name not in sys.modules:
        path = pathlib.Path(__file__).parent / "opening" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def in_notebook():
    """True in a kernel of Jupyter, whose front end would lose it if it started again."""
    return "ipykernel" in sys.modules


def is_worker():
    """True in a process that another Python has forked or spawned: its command is its parent's, or works once."""
    forked = int(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[6]) & 0x40  # PF_FORKNOEXEC
    multiprocessing = sys.modules.get("multiprocessing")
    return bool(forked) or (multiprocessing is not None and multiprocessing.parent_process() is not None)


def own_command():
    """The words that this process was started with."""
    words = pathlib.Path("/proc/self/cmdline").read_bytes().split(b"\0")[:-1]
    return [os.fsdecode(word) for word in words]


def enable(library, loaded, restart, options):
    """See memomalloc.enable."""
    if library is None:
        raise RuntimeError("memomalloc.enable: this package carries no library (it is a source folder); "
                           "name one by library=..., as build/libmemomalloc.so")
    library = preloadable(os.path.abspath(library))
    if not os.path.exists(library):
        raise FileNotFoundError(f"memomalloc.enable: there is no {library}")
    before = os.environ.get("LD_PRELOAD", "")
    again = library in before.split(":")
    os.environ["LD_PRELOAD"] = preload_list(library, before)
    os.environ.update(settings(options))
    os.environ.update(opening().variables(os.environ))
    opening().install()
    if loaded or not restart:
        return loaded
    if in_notebook():
        raise RuntimeError("memomalloc.enable: a notebook's kernel cannot restart by itself; "
                           "`python -m memomalloc jupyter install` adds a kernel that runs with the library")
    if sys.argv[:1] in ([""], ["-"]) and not (sys.stdin and sys.stdin.isatty()):
        raise RuntimeError("memomalloc.enable: a script that is read from standard input cannot be read again; "
                           "name its file, or start it by `memomalloc run`")
    if is_worker():
        raise RuntimeError("memomalloc.enable: a worker that another process has forked or spawned cannot restart; "
                           "start the first process by `memomalloc run`")
    # It was started with the library, which the loader refused with a line on stderr, or left out.
    if again or os.environ.get(_RESTARTED) == str(os.getpid()):
        return False
    os.environ[_RESTARTED] = str(os.getpid())
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os.execv(sys.executable, own_command())
