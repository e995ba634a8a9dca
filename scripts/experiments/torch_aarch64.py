#!/usr/bin/env python3
"""Runs small networks of torch for AArch64 under qemu, without the library and with it, and prints a table.

Debian's Python for arm64, torch and numpy from the package index are unpacked below build/cross, after
`scripts/packages/cross.sh aarch64 build` has built the library. torch's import alone takes a minute of an emulator's time, so
both runs do all cases each. Exit code 1 if an output differs, or less than 98 % of a loop's large bytes came from plan
and pool once it was known.
"""

import argparse
import concurrent.futures
import json
import pathlib
import shutil
import subprocess
import sys
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/packages"))

import debian_packages

ROOT = pathlib.Path(__file__).resolve().parents[2]
TORCH = "torch==2.10.0"  # the first whose AArch64 wheels hold an allocator of their own
NEEDED = (TORCH, "numpy", "typing_extensions", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "filelock", "fsspec")
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")
PYTHON = ("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib")
LIBRARIES = ("libexpat1", "libffi8", "libssl3", "libbz2-1.0", "libuuid1", "libcrypt1", "liblzma5", "zlib1g")
LEAST_SHARE = 0.98
IN_CHILDREN = ("forked children", "DataLoader with a worker")  # whose large blocks are not the counted process'


def compile_all(folder):
    """By this machine's interpreter, if it is the same: an emulated one takes minutes."""
    if sys.version_info[:2] == (3, 11):
        subprocess.run([sys.executable, "-m", "compileall", "-q", folder], check=False, stdout=subprocess.DEVNULL)


def prepare_python(here):
    """Debian's interpreter and its modules in one folder, its libraries among the processor's own."""
    target = here / "python"
    if (target / "done").exists():
        return target
    unpack = [sys.executable, ROOT / "scripts/packages/debian_packages.py", "--below", here, "--suite", "bookworm",
              "--architecture", "arm64", *PYTHON, *LIBRARIES]
    subprocess.run(unpack, check=True, stdout=subprocess.DEVNULL)
    for package in PYTHON:
        shutil.copytree(here / "debs" / package / "usr", target, symlinks=True, dirs_exist_ok=True)
    for package in LIBRARIES:
        for found in (here / "debs" / package).rglob("*.so*"):
            place = here / "root/lib" / found.name
            if not place.exists() and found.exists():
                shutil.copy(found, place)
    compile_all(target / "lib")
    (target / "done").touch()
    return target


def prepare_packages(here):
    target = here / "packages"
    if (target / "done").exists():
        return target
    wheels = here / "wheels"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
               "--python-version", "3.11", "--dest", wheels]
    subprocess.run(command + [f"--platform={name}" for name in PLATFORMS] + list(NEEDED), check=True)
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
    compile_all(target)
    (target / "done").touch()
    return target


def emulator(here):
    own = here / "debs/qemu-user/usr/bin/qemu-aarch64"
    return own if own.exists() else pathlib.Path(shutil.which("qemu-aarch64") or "qemu-aarch64")


def run_cases(here, library, iterations):
    """The cases' figures by name; `library`: what is preloaded, or None."""
    python, packages = here / "python", here / "packages"
    command = [emulator(here), "-L", here / "root", "-E", f"PYTHONHOME={python}", "-E", f"PYTHONPATH={packages}",
               "-E", "PYTHONDONTWRITEBYTECODE=1"]
    command += ["-E", f"LD_PRELOAD={library}"] if library else []
    command += [python / "bin/python3.11", ROOT / "scripts/experiments/torch_cases.py", "--iterations", iterations]
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=True)
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    return {each["case"]: each for each in figures}


def share(figures):
    """Of the large bytes of a loop's second half, from plan and pool; None if there were none."""
    if not figures["large_bytes"]:
        return None
    return (figures["planned_bytes"] + figures["at_hand_bytes"]) / figures["large_bytes"]


def table(without, with_library):
    """(the table's lines, how many rows are not as they must be)."""
    lines = ["| case | output | large calls | large bytes, MiB | % from plan, at hand in the pool |", "| --- | --- | --- | --- | --- |"]
    failed = 0
    for name, plain in without.items():
        figures = with_library[name]
        equal = plain["checksum"] == figures["checksum"]
        part, large = share(figures), figures["large_bytes"]
        shares = "-" if part is None else f"{100 * figures['planned_bytes'] / large:.1f}, {100 * figures['at_hand_bytes'] / large:.1f}"
        lines.append(f"| {name} | {'equal' if equal else 'DIFFERS'} | {figures['large_allocations']} | {large / 2**20:.1f} | {shares} |")
        seen = part >= LEAST_SHARE if part is not None else name in IN_CHILDREN
        failed += not (equal and seen)
    return lines, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=pathlib.Path, default=ROOT / "build/aarch64/libmemomalloc.so")
    parser.add_argument("--iterations", type=int, default=12, help="of each case (%(default)s)")
    arguments = parser.parse_args()
    here = ROOT / "build/cross/aarch64"
    if not arguments.library.exists():
        parser.error(f"{arguments.library} is missing; scripts/packages/cross.sh aarch64 build makes it")
    try:
        prepare_python(here)
    except debian_packages.Unavailable as reason:
        parser.error(str(reason))
    prepare_packages(here)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = pool.map(lambda library: run_cases(here, library, arguments.iterations), (None, arguments.library))
        without, with_library = runs
    lines, failed = table(without, with_library)
    print("\n".join(lines))
    print(f"{len(without) - failed} passed, {failed} failed")
    return 1 if failed or not without else 0


if __name__ == "__main__":
    sys.exit(main())
