#!/usr/bin/env python3
"""Runs a command under user-mode Linux (Debian's package user-mode-linux): a kernel of its own, which has cgroups of
version 2, with this machine's files. It computes at this machine's speed, on one processor; page faults and system calls take
some ten times as long, and there are no huge pages. /tmp and /dev/shm are the guest's own. Each page of the guest may be a
mapping of this machine: `sysctl vm.max_map_count` must be at least a quarter of the guest's KiB. Exit code: the command's.

    tests/vm/user_mode.py bench/containers.py --programs resnet18 --allocators glibc,memomalloc
"""

import argparse
import contextlib
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys

PAGE = 4  # KiB
MAPPINGS = pathlib.Path("/proc/sys/vm/max_map_count")
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BELOW = ROOT / "build/vm/user_mode"


def registers(folder):
    """The library that lets this kernel run on processors with more registers than it knows."""
    library = folder / "registers.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, HERE / "user_mode_registers.c"], check=True)
    return library


def init(folder):
    """The guest's first process. The kernel splits what it passes on at spaces."""
    path = folder / "init"
    path.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} "
                    f"{shlex.quote(str(HERE / 'user_mode_init.py'))} {shlex.quote(str(folder))}\n")
    path.chmod(0o755)
    return path


def run(command, megabytes, seconds, kernel):
    """The command's exit code; None if the guest came to no end of it."""
    BELOW.mkdir(parents=True, exist_ok=True)
    status, output = BELOW / "status", BELOW / "output"
    for left in (status, output):
        left.unlink(missing_ok=True)
    (BELOW / "command.json").write_text(json.dumps({"command": command, "folder": os.getcwd()}))
    # What the guest has for memory is a file in a folder that may be executed from.
    environment = {**os.environ, "TMPDIR": "/dev/shm", "LD_PRELOAD": str(registers(BELOW))}
    with (BELOW / "console").open("wb") as console:
        guest = subprocess.Popen([kernel, f"mem={megabytes}M", "rootfstype=hostfs", "rootflags=/", "rw", "con=null",
                                  "con0=fd:0,fd:1", "quiet", f"init={init(BELOW)}"], env=environment,
                                 stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT, process_group=0)
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                guest.wait(seconds)
        finally:  # its programs are processes of this machine
            with contextlib.suppress(ProcessLookupError):
                os.killpg(guest.pid, signal.SIGKILL)
            guest.wait()
    return int(status.read_text()) if status.exists() else None


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory", type=int, default=3072, help="of the guest, MiB (%(default)s)")
    parser.add_argument("--seconds", type=int, default=4 * 3600, help="after which it is ended (%(default)s)")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="and its arguments; its output is this program's")
    arguments = parser.parse_args(argv)
    kernel = shutil.which("linux.uml")
    if not arguments.command:
        parser.error("no command")
    if kernel is None:
        sys.exit("user_mode.py: install user-mode-linux")
    needed = (arguments.memory << 10) // PAGE
    if int(MAPPINGS.read_text()) < needed:
        sys.exit(f"user_mode.py: the guest needs more mappings: sysctl -w vm.max_map_count={needed}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the guest is ended, too
    status = run(arguments.command, arguments.memory, arguments.seconds, kernel)
    print((BELOW / "output").read_text(errors="replace") if (BELOW / "output").exists() else "", end="")
    if status is None:
        sys.exit(f"user_mode.py: the guest ended early, see {BELOW / 'console'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
