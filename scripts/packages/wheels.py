#!/usr/bin/env python3
"""Wheels for any Linux with glibc 2.28 or newer, with library, command, Python module and man pages: into dist/.

build: compiles for both processors with the compiler that PyPI carries as ziglang, which knows older glibcs; what
debuggers read goes to build/manylinux-PROCESSOR/debug. check: holds each wheel to what it must be, `auditwheel show`
included. test: runs the conformance programs, a real network and the planner on the binaries of the wheels, the
other processor's under qemu. Exit code 0: all is well; 1: something is not, and is named; 2: bad usage.
"""

import argparse
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import zipfile

import debian_packages
import wheel_checks

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
TOOLS = BUILD / "wheels/tools"
# Pinned: another version of the compiler is another library.
PACKAGES = ("ziglang==0.17.1", "auditwheel==6.8.2", "setuptools>=77", "wheel")
GLIBC = "2.28"  # of 2018: Debian 10, Ubuntu 20.04, RHEL 8
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
# Headers without a library; the same for every processor.
HEADERS = ("CLI", "nlohmann", "xxhash.h")
PARTS = ("libmemomalloc.so", "memomalloc", "libmemomalloc-dsa.so", "libmemomalloc-cuda.so")


def say(*words):
    print("wheels.py:", *words, flush=True)


def run(*command, **options):
    return subprocess.run([str(word) for word in command], cwd=ROOT, check=True, **options)


def tools():
    """The interpreter of the environment with compiler and auditwheel, made where it is missing."""
    python = TOOLS / "bin/python"
    done = TOOLS / "done"
    if not done.exists() or done.read_text() != " ".join(PACKAGES):
        say("installing", *PACKAGES)
        run(sys.executable, "-m", "venv", "--clear", TOOLS)
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES)
        done.write_text(" ".join(PACKAGES))
    return python


def assemble(processor):
    """A folder with the headers and the static zlib that the compiler does not bring."""
    root = BUILD / f"wheels/root-{processor}"
    shutil.rmtree(root, ignore_errors=True)
    (root / "include").mkdir(parents=True)
    (root / "lib").mkdir()
    for name in HEADERS:
        source = pathlib.Path("/usr/include") / name
        if not source.exists():
            sys.exit(f"wheels.py: {source} is missing; run scripts/install_deps.sh wheels as root")
        (root / "include" / name).symlink_to(source)
    packages = debian_packages.Packages(BUILD / f"wheels/debian-{processor}", "bookworm", DEBIAN[processor])
    zlib = packages.unpack("zlib1g-dev")
    for header in ("zlib.h", "zconf.h"):
        shutil.copy2(next((zlib / "usr/include").rglob(header)), root / "include")
    shutil.copy2(next(zlib.rglob("libz.a")), root / "lib")
    return root


def split(processor, source, target, debug):
    """Copies a binary without what debuggers read, which goes to a file that the copy names."""
    objcopy = f"{processor}-linux-gnu-objcopy"
    run(objcopy, "--only-keep-debug", "--compress-debug-sections", source, debug)
    run(objcopy, "--strip-all", f"--add-gnu-debuglink={debug}", source, target)


def build(processor):
    if not shutil.which(f"{processor}-linux-gnu-objcopy"):
        sys.exit(f"wheels.py: {processor}-linux-gnu-objcopy is missing; run scripts/install_deps.sh wheels as root")
    python, root = tools(), assemble(processor)
    mode = f"manylinux-{processor}"
    say("compiling for", processor)
    run("make", f"-j{os.cpu_count() or 1}", f"MODE={mode}", "HAVE_CBC=", "WERROR=1", f"CROSS={root}",
        f"CXX={python} -m ziglang c++ -target {processor}-linux-gnu.{GLIBC}", "all")
    ready = BUILD / mode / "ready"
    shutil.rmtree(ready, ignore_errors=True)
    (BUILD / mode / "debug").mkdir(exist_ok=True)
    ready.mkdir()
    for part in PARTS:
        split(processor, BUILD / mode / part, ready / part, BUILD / mode / f"debug/{part}.debug")
    share(ready / "share")
    pack(python, processor, ready)


def share(folder):
    """Man pages, of what a command of this machine says, and the completion."""
    command = BUILD / f"manylinux-{platform.machine()}/memomalloc"
    if not command.exists():
        run("make", "-s", "cli")
        command = BUILD / "memomalloc"
    run(sys.executable, "scripts/tables/gen_man.py", "--command", command, "--man", BUILD / "wheels/man")
    for name in ("man1/memomalloc.1", "man7/libmemomalloc.7"):
        (folder / "man" / name).parent.mkdir(parents=True)
        shutil.copy2(BUILD / "wheels/man" / pathlib.Path(name).name, folder / "man" / name)
    completions = folder / "bash-completion/completions"
    completions.mkdir(parents=True)
    shutil.copy2(ROOT / "packaging/completion/memomalloc", completions)


def pack(python, processor, ready):
    variables = {"MEMO_BUILT": str(ready.relative_to(ROOT)),
                 "MEMO_PLATFORM": f"manylinux_{GLIBC.replace('.', '_')}_{processor}"}
    # setuptools keeps what an earlier tree had, and pip refuses two versions of one name.
    for old in (*ROOT.glob("build/lib*"), *ROOT.glob("build/bdist.*")):
        if old.is_dir():
            shutil.rmtree(old)
    for old in ROOT.glob(f"dist/memomalloc-*_{processor}.whl"):
        old.unlink()
    run(python, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation",
        "-w", ROOT / "dist", ".", env={**os.environ, **variables})


def wheel_of(processor):
    version = (ROOT / "VERSION").read_text().strip()
    name = f"memomalloc-{version}-py3-none-manylinux_{GLIBC.replace('.', '_')}_{processor}.whl"
    if not (ROOT / "dist" / name).exists():
        sys.exit(f"wheels.py: there is no dist/{name}; `make wheels` builds it")
    return ROOT / "dist" / name


def check(processor):
    wheel = wheel_of(processor)
    told = wheel_checks.complaints(wheel)
    shown = run(tools(), "-m", "auditwheel", "show", wheel, capture_output=True, text=True).stdout
    told += wheel_checks.audit_complaints(shown, wheel.name)
    say(f"{wheel.name}: {wheel.stat().st_size / 2**20:.2f} MiB,", f"{len(told)} complaint(s)" if told else "ok")
    for sentence in told:
        say("  ", sentence)
    return not told


def test(processor):
    """Runs the tests on what the wheel holds; whether all passed."""
    folder = BUILD / f"manylinux-{processor}/tested"
    shutil.rmtree(folder, ignore_errors=True)
    with zipfile.ZipFile(wheel_of(processor)) as archive:
        for part, place in (("libmemomalloc.so", "lib/libmemomalloc.so.1"), ("memomalloc", "bin/memomalloc")):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / part).write_bytes(archive.read(f"memomalloc/{place}"))
            (folder / part).chmod(0o755)
    native = platform.machine() == processor
    commands = wheel_checks.native_tests(folder) if native else [["scripts/packages/cross.sh", processor, "wheel"]]
    if native:
        run("make", "-s", f"-j{os.cpu_count() or 1}", "programs")
    passed = True
    for name in ("programs", "pages.so", "refuse.so") if native else ():
        (folder / name).symlink_to(BUILD / name)
    for command in commands:
        say(*command)
        passed = subprocess.run(command, cwd=ROOT).returncode == 0 and passed
    return passed


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", metavar="STEP", help="some of: build check test (build check)")
    parser.add_argument("--processor", action="append", choices=sorted(DEBIAN, reverse=True), help="one alone")
    arguments = parser.parse_args(argv)
    steps = {"build": build, "check": check, "test": test}
    for step in arguments.steps:
        if step not in steps:
            parser.error(f"no step {step!r}; there are {', '.join(steps)}")
    well = True
    try:
        for processor in arguments.processor or DEBIAN:
            for step in arguments.steps or ("build", "check"):
                well = steps[step](processor) is not False and well
    except debian_packages.Unavailable as reason:
        sys.exit(f"wheels.py: {reason}")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
