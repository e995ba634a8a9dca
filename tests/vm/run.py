#!/usr/bin/env python3
"""Boots the cells of tests/vm/cells.py in QEMU, and holds each conformance program and a numpy loop in the guest to
what they do there without the library. Debian's kernels and packages are unpacked below
build/vm. Prints a table, also written to build/vm/table.md, and `N passed, N failed`; exit code 1 if any failed."""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "tests/preload")]
import cells
import common
import guest
import image

BELOW = ROOT / "build/vm"
PROCESSORS = 2
# neoverse-n1 has pages of 16 KiB, and none of the pointer signatures that an emulator takes long for.
EMULATORS = {
    "x86_64": (["qemu-system-x86_64", "-machine", "pc"], "max", "ttyS0"),
    "aarch64": (["qemu-system-aarch64", "-machine", "virt,gic-version=3"], "neoverse-n1", "ttyAMA0"),
}
SECONDS_TO_BOOT = 30  # with hardware's help; where it takes longer, it is none
# What may be skipped in a guest: a program, and how its reason begins. All else that is skipped has failed.
ALLOWED_SKIPS = (
    ("grown", "there is no room for the blocks"),
    ("grown", "fails without the library: SIGKILL"),  # more than the group's limit
    ("replaced", "fails without the library: SIGKILL"),
    ("replaced", "fails without the library: exit 1"),  # a block of gigabytes, under strict overcommit
    ("sparse", "fails without the library: exit 1"),  # huge pages, or those of 64 KiB, make more of it resident
    ("unwritten", "fails without the library: exit 1"),
    ("waiting_children", "there is no room for the children"),
    ("written_pages", "fails without the library: exit 1"),  # strict overcommit
)
BOOTS = 3  # of a guest whose kernel panics before its first process


@dataclasses.dataclass
class Outcome:
    cell: cells.Cell
    counts: dict
    facts: dict
    seconds: float
    trouble: list  # of text, a line or more each
    skipped: list

    @property
    def passed(self):
        return not self.trouble


def command_line(cell, initrd, accelerator, console, programs=(), variables=(), times=1):
    """QEMU's arguments for a cell; the guest's console goes to the file `console`. An emulated guest takes long for
    everything: it holds programs to what they print on this machine, and asks itself only where that differs; and
    programs repeat less. `programs`, `variables`, `times`: as main()'s --program, --set and --times."""
    emulated = accelerator != "kvm"
    command, model, line = EMULATORS[cell.processor]
    # ramfs: what the archive holds is then not counted against the limit of strict overcommit.
    words = [f"console={line}", "quiet", "loglevel=1", "panic=-1", "rootfstype=ramfs", f"memo.thp={cell.thp}",
             f"memo.overcommit={cell.overcommit}", f"memo.limit={cells.CGROUP_LIMIT << 20}",
             f"memo.cgroup={cell.cgroup}", f"memo.expected={int(emulated)}",
             f"memo.slower={guest.SLOWER if emulated else 1}", f"memo.only={','.join(programs)}",
             f"memo.times={times}"]
    words += [f"memo.set={variable}" for variable in variables]
    nodes = []
    for node in range(cell.nodes):
        nodes += ["-object", f"memory-backend-ram,id=memory{node},size={cell.memory // cell.nodes}M",
                  "-numa", f"node,nodeid={node},memdev=memory{node}," + (
                      f"cpus={node}" if cell.nodes == PROCESSORS else f"cpus=0-{PROCESSORS - 1}")]
    return command + [
        "-accel", accelerator, "-cpu", "host" if accelerator == "kvm" else model, "-smp", str(PROCESSORS),
        "-m", str(cell.memory), *nodes, "-nodefaults", "-display", "none", "-no-reboot",
        "-serial", f"file:{console}",
        "-kernel", str(image.kernel(cell.processor, cell.pages, cell.kernel, BELOW)),
        "-initrd", str(initrd), "-append", " ".join(words)]


def boot(command, limit):
    """Runs a guest to its end or its time's, at a lower priority; True if it turned itself off."""
    process = subprocess.Popen(["nice", "-n", "5", *command], stdin=subprocess.DEVNULL)
    try:
        return process.wait(limit) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        process.kill()
        process.wait()


def died_at_boot(console):
    """True if the kernel panicked before the guest's first process had said what it is. Where processors are emulated, a
    kernel may meet its own breakpoints while it changes its code (seen once: Linux 7.3, QEMU 7.2; `Oops: int3` in
    sched_clock_cpu)."""
    return "Kernel panic" in console and "guest: " not in console


def told_by(command, console, limit):
    """The text of the console, which goes to the file `console`, of a guest that runs as boot() says. One that died at boot
    is booted again."""
    for left in reversed(range(BOOTS)):
        console.unlink(missing_ok=True)
        boot(command, limit)
        text = console.read_text(errors="replace") if console.exists() else ""
        if not left or not died_at_boot(text):
            return text
        print(f"{console.stem}: its kernel panicked before the first process; booted again", flush=True)


def accelerator(processor, asked, sign, probe):
    """`asked`, or for "auto" kvm where this machine's own processor boots with it in time, else emulation. `probe`: QEMU's
    arguments by accelerator and file of the console, for a guest that prints `sign` and turns itself off. There are
    machines whose kvm runs only kernels that were made for it."""
    if asked == "auto" and processor == platform.machine() and os.access("/dev/kvm", os.W_OK):
        console = BELOW / "kvm.log"
        console.unlink(missing_ok=True)
        booted = boot(probe("kvm", console), SECONDS_TO_BOOT) and sign in console.read_text(errors="replace")
        asked = "kvm" if booted else "tcg"
    return "kvm" if asked == "kvm" else "tcg,thread=multi"


def accelerator_for(processor, initrds, asked):
    cell = next(cell for cell in cells.CELLS if cell.processor == processor)
    # No program has "-" in its name.
    return accelerator(processor, asked, "guest:",
                       lambda kind, console: command_line(cell, initrds[processor], kind, console, programs=["-"]))


def expected_results(build, programs):
    """What programs give on this machine without the library: name -> [code, out, err]. One that cannot run here, or
    a part of it, is asked in the guest."""
    context = common.Context(build)

    def result_of(path):
        result = context.run([path] + guest.ARGUMENTS.get(path.name, []), common.SYSTEM,
                             extra={"SLOWER": str(guest.SLOWER)})
        return path.name, result

    with concurrent.futures.ThreadPoolExecutor() as pool:
        paths = [path for path in sorted(context.programs.iterdir()) if guest.chosen(path.name, programs)]
        results = dict(pool.map(result_of, paths))
    return {name: [result.code, result.out.decode(), result.err.decode()] for name, result in results.items()
            if result.code == 0 and not guest.told_to_skip(result)}


def judge(cell, console, seconds):
    """Reads a guest's console."""
    lines = [line.rstrip() for line in console.splitlines()]
    results = [re.search(r"\b(passed|failed|skipped): (\S+) \(([\d.]+) s\) (\".*\")$", line) for line in lines]
    results = [found for found in results if found]
    counts = {kind: sum(found[1] == kind for found in results) for kind in ("passed", "failed", "skipped")}
    told = re.search(r"guest: (\{.*\})", console)
    facts = json.loads(told[1]) if told else {}
    trouble = [f"{found[2]}: {json.loads(found[4])}" for found in results if found[1] == "failed"]
    skips = [(found[2], json.loads(found[4])) for found in results if found[1] == "skipped"]
    skipped = [f"{name}: {reason}" for name, reason in skips]
    trouble += [f"not allowed, skipped: {name}: {reason}" for name, reason in skips
                if not any(name == known and reason.startswith(begin) for known, begin in ALLOWED_SKIPS)]
    if f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped" not in lines:
        trouble.append("the guest did not come to its end; its last lines:\n  " + "\n  ".join(lines[-15:]))
    if not counts["passed"] or not facts:
        trouble.append("nothing passed, or the guest did not say what it is")
    trouble += [f"the guest has {name} {facts.get(name)}, not {value}" for name, value in asked_of(cell).items()
                if facts and not agrees(name, facts.get(name), value)]
    return Outcome(cell, counts, facts, seconds, trouble, skipped)


def asked_of(cell):
    values = dataclasses.asdict(cell)
    release = values.pop("kernel")
    return {**values, "release": release, "limit": cells.CGROUP_LIMIT if cell.cgroup != "none" else 0}


def agrees(name, found, asked):
    """Memory as a guest sees it lacks what the kernel itself takes. The newest kernel is later than each that has a number."""
    if name == "release":
        def number(release):
            return tuple(map(int, re.match(r"(\d+)\.(\d+)", release).groups()))

        numbers = [number(kernel) for kernel in cells.KERNELS if kernel != "newest"]
        return number(found) > max(numbers) if asked == "newest" else number(found) == number(asked)
    return asked * 3 // 4 <= found <= asked if name == "memory" else found == asked


def markdown(outcomes, built_from, accelerators):
    """The table, and below it what was skipped in which cells."""
    rows = ["| processor | kernel | page KiB | huge pages | overcommit | nodes | memory MiB | limit | passed | failed "
            "| skipped | seconds |", "|" + "---|" * 12]
    for outcome in outcomes:
        cell = outcome.cell
        limit = "none" if cell.cgroup == "none" else f"{cells.CGROUP_LIMIT} MiB, cgroup {cell.cgroup}"
        rows.append("| " + " | ".join(str(value) for value in (
            cell.processor, outcome.facts.get("release", cell.kernel), cell.pages, cell.thp, cell.overcommit,
            cell.nodes, cell.memory, limit, outcome.counts["passed"], outcome.counts["failed"],
            outcome.counts["skipped"], round(outcome.seconds))) + " |")
    small = sorted({outcome.facts["release"] for outcome in outcomes if outcome.facts.get("64 KiB") == "always"})
    if small:
        rows += ["", f"Where huge pages are `always`, {' and '.join(small)} had those of 64 KiB too."]
    emulation = ", ".join(f"{processor} under {name}" for processor, name in sorted(accelerators.items()))
    rows += ["", f"Commit {built_from}, {version_of_emulator()}, {emulation}, {PROCESSORS} processors in each guest."]
    return "\n".join(rows) + "\n"


def version_of_emulator():
    out = subprocess.run(["qemu-system-x86_64", "--version"], capture_output=True, text=True, check=True).stdout
    return re.sub(r" emulator version ([\d.]+).*", r" \1", out.splitlines()[0])


def commit():
    done = subprocess.run(["git", "describe", "--always", "--dirty", "--exclude=*"], cwd=ROOT, capture_output=True,
                          text=True, check=False)
    return done.stdout.strip() or "unknown"


def prepare(chosen, programs):
    """Makes what the cells are booted from; name of processor -> initramfs."""
    BELOW.mkdir(parents=True, exist_ok=True)
    settings = {"expected": expected_results(ROOT / "build", programs), "limit": 600}
    initrds = {}
    for processor in sorted({cell.processor for cell in chosen}):
        build = ROOT / "build"
        if processor != platform.machine():
            build = build / processor
            subprocess.run([ROOT / "scripts/packages/cross.sh", processor, "build"], check=True, stdout=sys.stderr)
        initrds[processor] = image.initramfs(processor, build, BELOW / f"{processor}.cpio.gz", settings)
    for cell in chosen:  # one after another, since cells that are booted at once may have the same kernel
        image.kernel(cell.processor, cell.pages, cell.kernel, BELOW)
    return initrds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the cells' names, and boot none")
    parser.add_argument("--only", action="append", metavar="TEXT",
                        help="cells whose name contains this text, or another one that is given")
    parser.add_argument("--program", action="append", default=[], metavar="TEXT",
                        help="programs whose name contains this text, or another one that is given")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="a variable for the programs, such as MEMOMALLOC_VERBOSE=1, to look into a failure")
    parser.add_argument("--times", type=int, default=1, help="that each program runs: for what comes by chance (%(default)s)")
    parser.add_argument("--accel", choices=("auto", "kvm", "tcg"), default="auto")
    parser.add_argument("--limit", type=int, default=1800, help="seconds for each cell")
    parser.add_argument("--together", type=int, default=max(1, os.cpu_count() // PROCESSORS), metavar="COUNT",
                        help="guests that run at once (%(default)s: as many as have processors of their own)")
    arguments = parser.parse_args()
    chosen = [cell for cell in cells.CELLS if any(text in cell.name for text in arguments.only or [""])]
    if arguments.list or not chosen:
        print("\n".join(cell.name for cell in chosen) or f"no cell is named {' or '.join(arguments.only)}")
        return 0 if chosen else 2
    if subprocess.run([ROOT / "scripts/install_deps.sh", "vm"], stdout=sys.stderr, check=False).returncode:
        return 2
    built_from = commit()
    initrds = prepare(chosen, arguments.program)
    accelerators = {processor: accelerator_for(processor, initrds, arguments.accel) for processor in initrds}

    def outcome_of(cell):
        console = BELOW / f"{cell.name}.log"
        started = time.monotonic()
        text = told_by(command_line(cell, initrds[cell.processor], accelerators[cell.processor], console,
                                    arguments.program, arguments.set, arguments.times), console, arguments.limit)
        return judge(cell, text, time.monotonic() - started)

    outcomes = []
    with concurrent.futures.ThreadPoolExecutor(arguments.together) as pool:
        for outcome in pool.map(outcome_of, chosen):
            outcomes.append(outcome)
            report(outcome)
            (BELOW / "table.md").write_text(markdown(outcomes, built_from, accelerators))
    print((BELOW / "table.md").read_text())
    failed = sum(not outcome.passed for outcome in outcomes)
    print(f"{len(outcomes) - failed} passed, {failed} failed")
    return 1 if failed else 0


def report(outcome):
    verdict = "passed" if outcome.passed else "failed"
    counts = ", ".join(f"{count} {kind}" for kind, count in outcome.counts.items())
    print(f"{verdict}: {outcome.cell.name} ({outcome.seconds:.0f} s; {counts})")
    for text in outcome.trouble:
        print(f"  failed: {text}")
    for text in outcome.skipped:
        print(f"  skipped: {text}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
