"""`python -m memomalloc jupyter install`: a kernel of Jupyter that runs with the library."""

import argparse
import json
import os
import pathlib
import re
import shutil
import sys

from memomalloc.start import preloadable

LANGUAGE = "python"


def data_folder(everyone):
    """Where Jupyter looks for kernels: the environment's own folder, or the user's."""
    if everyone:
        return pathlib.Path(sys.prefix) / "share/jupyter"
    named = os.environ.get("JUPYTER_DATA_DIR")
    if named:
        return pathlib.Path(named)
    return pathlib.Path(os.environ.get("XDG_DATA_HOME") or pathlib.Path.home() / ".local/share") / "jupyter"


def specification(library, display_name, options):
    """What kernel.json says."""
    return {"argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            "display_name": display_name, "language": LANGUAGE, "metadata": {"debugger": True},
            "env": {"LD_PRELOAD": library, **options}}


def install(arguments, library):
    if not re.fullmatch(r"[A-Za-z0-9._-]+", arguments.name) or set(arguments.name) == {"."}:
        print(f"memomalloc jupyter: {arguments.name!r} is no kernel's name: letters, digits, '.', '_' and '-'", file=sys.stderr)
        return 2
    folder = data_folder(arguments.sys_prefix) / "kernels" / arguments.name
    if arguments.action == "remove":
        if not (folder / "kernel.json").exists():
            print(f"memomalloc jupyter: there is no kernel in {folder}", file=sys.stderr)
            return 1
        shutil.rmtree(folder)
        print(f"removed {folder}")
        return 0
    if library is None:
        print("memomalloc jupyter: this package carries no library (it is a source folder); name one by "
              "--library build/libmemomalloc.so", file=sys.stderr)
        return 2
    if not os.path.exists(library):
        print(f"memomalloc jupyter: there is no {library}", file=sys.stderr)
        return 2
    try:
        library = preloadable(os.path.abspath(library))
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 2
    options = {}
    for setting in arguments.set:
        name, separator, value = setting.partition("=")
        if not separator or not name.startswith("MEMOMALLOC_"):
            print(f"memomalloc jupyter: {setting!r} is no MEMOMALLOC_NAME=VALUE", file=sys.stderr)
            return 2
        options[name] = value
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(specification(library, arguments.display_name, options), indent=1)
    (folder / "kernel.json").write_text(text + "\n", encoding="utf-8")
    print(f"installed {folder}\nChoose the kernel {arguments.display_name!r} in Jupyter; "
          "`import memomalloc; memomalloc.report()` tells there what it does.")
    try:
        import ipykernel  # noqa: F401
    except ImportError:
        print("This Python has no ipykernel, which the kernel needs: pip install ipykernel", file=sys.stderr)
        return 1
    return 0


def main(words, library):
    """The command; returns its exit code: 0 done, 1 something is missing, 2 bad usage."""
    parser = argparse.ArgumentParser(prog="memomalloc jupyter", description=__doc__)
    parser.add_argument("action", choices=("install", "remove"))
    parser.add_argument("--sys-prefix", action="store_true", default=sys.prefix != sys.base_prefix,
                        help="for this Python environment alone (the default in a virtual one), not for the user")
    parser.add_argument("--user", action="store_false", dest="sys_prefix", help="for the user")
    parser.add_argument("--name", default="memomalloc", help="the kernel's folder (%(default)s)")
    parser.add_argument("--display-name", default="Python 3 (MemoMalloc)", help="what Jupyter shows (%(default)s)")
    parser.add_argument("--set", action="append", default=[], metavar="MEMOMALLOC_NAME=VALUE", help="a setting")
    parser.add_argument("--library", default=library, help="the library (the one in this package)")
    arguments = parser.parse_args(words)
    return install(arguments, arguments.library)
