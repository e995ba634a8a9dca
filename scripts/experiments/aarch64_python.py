"""Debian's Python for arm64, packages of the package index and an emulator, all unpacked below build/cross/aarch64:
what a program of another processor needs to run here. Nothing is installed."""

import pathlib
import shutil
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/packages"))
import debian_packages

HERE = ROOT / "build/cross/aarch64"
TORCH = "torch==2.10.0"  # the first whose AArch64 wheels hold an allocator of their own
NEEDED = (TORCH, "numpy", "typing_extensions", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "filelock", "fsspec")
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")
PYTHON = ("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib")
LIBRARIES = ("libexpat1", "libffi8", "libssl3", "libbz2-1.0", "libuuid1", "libcrypt1", "liblzma5", "zlib1g")
# One that has neither signed pointers nor vectors of any length, which take an emulator long.
PROCESSOR = "neoverse-n1"


def compile_all(folder):
    """By this machine's interpreter, if it is the same: an emulated one takes minutes."""
    if sys.version_info[:2] == (3, 11):
        command = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", folder]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL)


def prepare_emulator():
    """Of a release that is new enough, as scripts/packages/cross.sh says; it reads $MEMO_DEBIAN_MIRROR, too."""
    machine = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()
    packages = debian_packages.Packages(HERE, "bookworm-backports", machine)
    return packages.unpack("qemu-user") / "usr/bin/qemu-aarch64"


def prepare_python():
    """Debian's interpreter and its modules in one folder, its libraries among the processor's own."""
    target = HERE / "python"
    if (target / "done").exists():
        return target
    packages = debian_packages.Packages(HERE, "bookworm", "arm64")
    for package in PYTHON:
        shutil.copytree(packages.unpack(package) / "usr", target, symlinks=True, dirs_exist_ok=True)
    for package in LIBRARIES:
        for found in packages.unpack(package).rglob("*.so*"):
            place = HERE / "root/lib" / found.name
            if not place.exists() and found.exists():
                shutil.copy(found, place)
    compile_all(target / "lib")
    (target / "done").touch()
    return target


def prepare_packages():
    target = HERE / "packages"
    if (target / "done").exists():
        return target
    wheels = HERE / "wheels"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
               "--python-version", "3.11", "--dest", wheels]
    subprocess.run(command + [f"--platform={name}" for name in PLATFORMS] + list(NEEDED), check=True)
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
    compile_all(target)
    (target / "done").touch()
    return target


def command(script, library, *arguments):
    """Runs a script by the emulated interpreter; `library`: what is preloaded there, or None."""
    words = [prepare_emulator(), "-cpu", PROCESSOR, "-L", HERE / "root", "-E", f"PYTHONHOME={prepare_python()}",
             "-E", f"PYTHONPATH={prepare_packages()}", "-E", "PYTHONDONTWRITEBYTECODE=1"]
    words += ["-E", f"LD_PRELOAD={library}"] if library else []
    return [str(word) for word in [*words, HERE / "python/bin/python3.11", script, *arguments]]
