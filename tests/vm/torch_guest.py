#!/usr/bin/env python3
"""Runs a case of torch_cases.py in an emulated machine of another processor, with a kernel of its own, without the library
and with it, and prints peak memory and page faults. A program that is emulated alone (torch_aarch64.py) has its emulator's
memory and faults, and most of what it advises the kernel is ignored. A guest takes five minutes and 3 GiB."""

import argparse
import json
import pathlib
import re
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests/preload"), str(ROOT / "scripts/experiments"), str(ROOT / "scripts/tables")]
import aarch64_python
import image
import results as kept
import run

MIB = 3072
PACKAGES = ("busybox-static", "libc6", "libgcc-s1", "libstdc++6", "libunwind8", *aarch64_python.LIBRARIES,
            *aarch64_python.PYTHON)
LEFT_OUT = ("torch/include/", "torch/test/", "torch/share/", "numpy/_core/include/", "functorch/")
INIT = """#!/bin/busybox sh
export PATH=/usr/sbin:/usr/bin HOME=/tmp
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev
busybox mkdir -p /dev/shm
busybox mount -t tmpfs shm /dev/shm
export USER=root LOGNAME=root PYTHONPATH=/packages PYTHONDONTWRITEBYTECODE=1
echo "guest: $(busybox uname -r)"
for library in "" /vm/libmemomalloc.so; do
  LD_PRELOAD=$library /usr/bin/python3.11 /vm/torch_cases.py @ARGUMENTS@ | busybox sed "s/^/case: /"
done
echo "guest: done"
busybox poweroff -f
"""


def archive(target, arguments):
    """Not compressed: an emulated processor takes minutes for that."""
    here = run.BELOW / "torch-init"
    here.write_text(INIT.replace("@ARGUMENTS@", arguments))
    here.chmod(0o755)
    folders = image.unpacked("aarch64", run.BELOW, PACKAGES)
    image.compile_python([folder for name, folder in folders.items() if "python" in name])
    guest = image.skeleton(folders, here)
    guest.copy("vm/torch_cases.py", ROOT / "scripts/experiments/torch_cases.py")
    guest.copy("vm/libmemomalloc.so", ROOT / "build/aarch64/libmemomalloc.so")
    packages = aarch64_python.prepare_packages()
    for path in sorted(packages.rglob("*")):
        name = str(path.relative_to(packages))
        if path.is_file() and not name.startswith(LEFT_OUT):
            guest.copy(f"packages/{name}", path)
    target.write_bytes(guest.whole())
    return target


def table(console):
    """(the lines of what a guest said, whether it came to its end with outputs that are equal)."""
    found = [json.loads(each) for each in re.findall(r"case: (\{.*\})", console)]
    half = len(found) // 2
    pairs = list(zip(found[:half], found[half:]))
    lines = ["| case | output | peak memory, without, with, MiB | page faults of the second half, without, with |",
             "| --- " * 4 + "|"]
    lines += [f"| {figures['case']} | {'equal' if plain['checksum'] == figures['checksum'] else 'DIFFERS'} | "
              f"{plain['peak_kib'] / 1024:.1f}, {figures['peak_kib'] / 1024:.1f} | {plain['faults']}, {figures['faults']} |"
              for plain, figures in pairs]
    served = all(plain["checksum"] == figures["checksum"] and "planned_bytes" in figures for plain, figures in pairs)
    return lines, bool(pairs) and served and "guest: done" in console


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="training", help="cases whose name contains this text (%(default)s)")
    parser.add_argument("--write", action="store_true", help="keep the table in results/")
    parser.add_argument("--iterations", type=int, default=12, help="of each case (%(default)s)")
    parser.add_argument("--limit", type=int, default=7200, help="seconds for the guest (%(default)s)")
    arguments = parser.parse_args()
    run.BELOW.mkdir(parents=True, exist_ok=True)
    initrd = archive(run.BELOW / "torch.cpio", f"--only '{arguments.only}' --iterations {arguments.iterations}")
    machine, model, line = run.EMULATORS["aarch64"]
    console = run.BELOW / "torch.log"
    started = time.monotonic()
    told = run.told_by(machine + [
        "-accel", "tcg,thread=multi", "-cpu", model, "-smp", "1", "-m", str(MIB), "-nodefaults", "-display", "none",
        "-no-reboot", "-serial", f"file:{console}", "-kernel", str(image.kernel("aarch64", 4, "6.1", run.BELOW)),
        "-initrd", str(initrd), "-append", f"console={line} quiet loglevel=1 panic=-1 rootfstype=ramfs"],
        console, arguments.limit)
    lines, good = table(told)
    print("\n".join(lines) + f"\n{time.monotonic() - started:.0f} s")
    if arguments.write:
        command = f"tests/vm/torch_guest.py --only '{arguments.only}'"
        kept.keep("torch_guest", command, lines)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
