"""How a script ends when something outside it is wrong: one line that tells what, and what to do next; exit code 2."""

import contextlib
import json
import pathlib
import sys

# What scripts/install_deps.sh installs for Python and these scripts import.
INSTALLED = ("numpy", "torch", "torchvision")


def refuse(what, advice):
    program = pathlib.Path(sys.argv[0]).name
    print(f"{program}: {what}; {advice}", file=sys.stderr)
    raise SystemExit(2)


@contextlib.contextmanager
def plainly(advice="check the path, or name another file"):
    """Tells of packages and files that are missing in this way instead of by a traceback."""
    try:
        yield
    except ModuleNotFoundError as error:
        installed = ", or run `scripts/install_deps.sh demo` and use .venv/bin/python"
        refuse(f"this Python has no package {error.name}",
               f"pip install {error.name}" + (installed if error.name in INSTALLED else ""))
    except OSError as error:
        if error.filename is None:
            raise
        refuse(f"{error.filename}: {error.strerror}", advice)


def read_json(path, maker):
    """The file's object; `maker` is the command that writes such files."""
    with open(path, encoding="utf-8") as file:
        try:
            return json.load(file)
        except ValueError as error:
            refuse(f"{path}:{getattr(error, 'lineno', 1)}: this is not JSON", f"{maker} writes it")
