#!/usr/bin/env python3
"""Builds a free-threaded CPython from the source that Debian has, with numpy from the package index, below
build/free-threaded, and prints its path. No distribution has such an interpreter as a package. Ten minutes on two cores."""

import argparse
import os
import pathlib
import subprocess
import sys

import debian_packages

ROOT = pathlib.Path(__file__).resolve().parents[2]
BELOW = ROOT / "build/free-threaded"


def build(suite, package):
    """The interpreter's path."""
    machine = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()
    source = debian_packages.Packages(BELOW, suite, machine, "deb-src").source(package)
    target = BELOW / package
    python = target / "bin" / f"{package}t"
    if python.exists():
        return python
    log = BELOW / f"{package}.log"
    with open(log, "w", encoding="utf-8") as said:
        for command in (["./configure", "--disable-gil", f"--prefix={target}"], ["make", f"-j{os.cpu_count()}"],
                        ["make", "install"]):
            if subprocess.run(command, cwd=source, stdout=said, stderr=said, check=False).returncode:
                sys.exit(f"free_threaded.py: `{' '.join(command)}` failed; see {log}")
    return python


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", default="trixie", help="Debian's release (%(default)s)")
    parser.add_argument("--package", default="python3.13", help="(%(default)s)")
    arguments = parser.parse_args()
    try:
        python = build(arguments.suite, arguments.package)
    except debian_packages.Unavailable as reason:
        sys.exit(f"free_threaded.py: {reason}")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "numpy"], check=True, stdout=sys.stderr)
    print(python)


if __name__ == "__main__":
    main()
