"""The `memomalloc` command of the wheel: becomes the program that the package carries."""

import os
import pathlib
import sys


def main():
    program = pathlib.Path(__file__).parent / "bin/memomalloc"
    if not program.exists():
        print(f"memomalloc: there is no {program}; in a source folder, `make` builds build/memomalloc, "
              "and `pip install .` a package that carries it", file=sys.stderr)
        sys.exit(2)
    os.execv(program, ["memomalloc", *sys.argv[1:]])
