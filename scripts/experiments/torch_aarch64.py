#!/usr/bin/env python3
"""Runs small networks of torch for AArch64 under qemu, without the library and with it, and prints a table.

Debian's Python for arm64, torch and numpy from the package index are unpacked below build/cross, after
`scripts/packages/cross.sh aarch64 build` has built the library. Each case is two processes, each with a time of its own;
torch's import alone takes half a minute of an emulator's time. A process that does not come to its end is started again.
`--native` runs the same cases on this machine's processor with the torch of this interpreter. Exit code 1 if an output
differs, a case has not come to its end, or less than 98 % of a loop's large bytes came from plan and pool once it was known.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts/tables"), str(pathlib.Path(__file__).resolve().parent)]

import aarch64_python
import results as kept

CASES = ROOT / "scripts/experiments/torch_cases.py"
NAMES = ("training step", "transformer", "forked children", "DataLoader", "mobilenet_v2", "resnet18")
LEAST_SHARE = 0.98
# The emulator at times leaves a child waiting that is forked while there are threads, with the library as without it.
TRIES = 3
HEAD = ("| case | output | large calls | large bytes, MiB | % from plan, reused from the pool | slab, over its bound, MiB | "
        "peak memory, without, with, MiB |", "| --- " * 7 + "|")


def run_case(name, library, iterations, limit, native):
    """The case's figures; {"trouble": text} where there are none."""
    arguments = ["--only", name, "--iterations", str(iterations)]
    if native:
        command = ["env", *([f"LD_PRELOAD={library}"] if library else []), sys.executable, str(CASES), *arguments]
    else:
        command = aarch64_python.command(CASES, library, *arguments)
    for _ in range(TRIES):
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=limit, check=False)
            break
        except subprocess.TimeoutExpired:
            print(f"{name}{', with the library' if library else ''}: no end in {limit} s", file=sys.stderr, flush=True)
    else:
        return {"trouble": f"no end in {limit} s"}
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return {"trouble": f"ended with {done.returncode}"}


def share(figures):
    """Of the large bytes of a loop's second half, from plan and pool; 0 if there were none."""
    large = figures.get("large_bytes")
    return (figures["planned_bytes"] + figures["at_hand_bytes"]) / large if large else 0


def row(name, plain, figures):
    """(a line of the table, whether it is as it must be)."""
    trouble = "; ".join(f"{which}: {each['trouble']}" for which, each in (("without", plain), ("with", figures))
                        if "trouble" in each)
    if trouble:
        return f"| {name} | {trouble} | | | | | |", False
    equal, large = plain["checksum"] == figures["checksum"], figures.get("large_bytes", 0)
    shares = f"{100 * figures['planned_bytes'] / large:.1f}, {100 * figures['at_hand_bytes'] / large:.1f}" if large else "-"
    slab, bound = (figures.get(key, 0) / 2**20 for key in ("slab_bytes", "lower_bound_bytes"))
    peaks = ", ".join(f"{each['peak_kib'] / 1024:.0f}" for each in (plain, figures))
    return (f"| {figures['case']} | {'equal' if equal else 'DIFFERS'} | {figures.get('large_allocations', 0)} | "
            f"{large / 2**20:.1f} | {shares} | {slab:.2f}, {bound:.2f} | {peaks} |",
            equal and share(figures) >= LEAST_SHARE)


def table(results):
    """(the table's lines, how many rows are not as they must be); `results`: name -> (without, with)."""
    rows = [row(name, *pair) for name, pair in results.items()]
    return [*HEAD, *(line for line, _ in rows)], sum(not good for _, good in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=pathlib.Path, help="(build/aarch64/libmemomalloc.so; with --native: build/...)")
    parser.add_argument("--native", action="store_true", help="this machine's processor and interpreter")
    parser.add_argument("--iterations", type=int, default=12, help="of each case (%(default)s)")
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    parser.add_argument("--limit", type=int, default=600, help="seconds for each process (%(default)s)")
    parser.add_argument("--keep", action="store_true", help="do not run again what ran to its end before")
    parser.add_argument("--write", action="store_true", help="keep the table in results/")
    arguments = parser.parse_args()
    kind = "native" if arguments.native else "aarch64"
    library = arguments.library or ROOT / ("build" if arguments.native else "build/aarch64") / "libmemomalloc.so"
    if not library.exists():
        parser.error(f"{library} is missing; `make lib` or scripts/packages/cross.sh aarch64 build makes it")
    remembered = ROOT / f"build/cross/torch-{kind}.json"
    remembered.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(remembered.read_text()) if arguments.keep and remembered.exists() else {}
    results = {}
    for name in (name for name in NAMES if arguments.only in name):
        pair = results[name] = known.setdefault(name, [{"trouble": "not run"}, {"trouble": "not run"}])
        for place, preloaded in enumerate((None, library)):
            if "trouble" in pair[place]:
                pair[place] = run_case(name, preloaded, arguments.iterations, arguments.limit, arguments.native)
                remembered.write_text(json.dumps(known))
    lines, failed = table(results)
    print("\n".join(lines))
    if arguments.write:
        option = " --native" if arguments.native else ""
        command = f"scripts/experiments/torch_aarch64.py{option} --iterations {arguments.iterations}"
        kept.keep(f"torch_{kind}", command, lines)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
