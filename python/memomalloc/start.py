"""memomalloc.enable(): the library for a program that is not started by `memomalloc run`."""

import importlib.util
import os
import pathlib
import sys


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


def own_command():
    """The words that this process was started with."""
    words = pathlib.Path("/proc/self/cmdline").read_bytes().split(b"\0")[:-1]
    return [os.fsdecode(word) for word in words]


def enable(library, loaded, restart, options):
    """See memomalloc.enable."""
    if library is None:
        raise RuntimeError("memomalloc.enable: this package carries no library (it is a source folder); "
                           "name one by library=..., as build/libmemomalloc.so")
    library = os.path.abspath(library)
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
    if again:  # it was started with the library, which the loader refused with a line on stderr
        return False
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, own_command())
