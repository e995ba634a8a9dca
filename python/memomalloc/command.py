"""The `memomalloc` command of the wheel: becomes the program that the package carries,
but for `memomalloc jupyter`, which is Python's own."""

import os
import pathlib
import sys


def program():
    """The program that the package carries; a source folder has none."""
    return pathlib.Path(__file__).parent / "bin/memomalloc"


def main():
    if sys.argv[1:2] == ["jupyter"]:
        from memomalloc import jupyter, library_path

        sys.exit(jupyter.main(sys.argv[2:], library_path()))
    if not program().exists():
        print(f"memomalloc: there is no {program()}; in a source folder, `make` builds build/memomalloc, "
              "and `pip install .` a package that carries it", file=sys.stderr)
        sys.exit(2)
    os.execv(program(), ["memomalloc", *sys.argv[1:]])
