"""The `memomalloc` command of the wheel: becomes the program that the package carries."""

import os
import pathlib
import sys


def main():
    program = pathlib.Path(__file__).parent / "bin/memomalloc"
    os.execv(program, ["memomalloc", *sys.argv[1:]])
