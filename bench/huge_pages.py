#!/usr/bin/env python3
"""How much of slabs, and of the pool's lasting blocks, lies in huge pages, and what that costs in peak memory.

Each workload works for some seconds, since memory that was in small pages is brought into huge ones a few at a time; then
the system is asked (smaps, by `memomalloc status`). The same without huge pages (MEMOMALLOC_HUGEPAGES=never) tells the
peak that is to be compared with. Counts, not times.
"""

import argparse
import dataclasses
import json
import subprocess
import sys
import time

import allocators
import runner
import summary
import turns
from runner import ROOT, table

FIRST, EACH, ENOUGH = 4, 2, 1000  # iterations before the first turn, and of a turn; turns, more than there is time for


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", default=list(table.SUITE),
                        type=runner.names(table.BY_NAME, "workload", {"suite": table.SUITE, "untuned": table.UNTUNED}),
                        help="comma between them; suite or untuned (suite)")
    parser.add_argument("--seconds", type=float, default=8, help="of its work before it is asked (%(default)s)")
    runner.add_options(parser)
    return parser.parse_args(argv)


def status(pid):
    """What the process' page says, which is written each second; a slab at rest goes after four."""
    for _ in range(20):
        done = subprocess.run([str(ROOT / "build/memomalloc"), "status", str(pid), "--json"], capture_output=True,
                              text=True)
        found = json.loads(done.stdout or "[]")
        if found and found[0].get("slab_resident_bytes"):
            return found[0]
        time.sleep(0.1)
    return found[0] if found else {}


def measure(workload, allocator, arguments):
    """Its status after so many seconds; empty if it ended before."""
    taker = turns.Taker(workload, allocator, arguments, FIRST, EACH, ENOUGH)
    going = taker.wait()
    until = time.monotonic() + arguments.seconds
    while going and time.monotonic() < until:
        going = taker.turn()
    found = status(taker.run.process.pid) if going else {}
    taker.stop()
    return found


def share(part, whole):
    return f"{100 * part / whole:.0f}" if whole else ""


def main(argv):
    arguments = parse(argv)
    shown = ("MEMOMALLOC_STATUS", "1")
    ours = dataclasses.replace(runner.chosen([allocators.OURS], arguments.library)[0], settings=(shown,))
    without = dataclasses.replace(ours, settings=(shown, ("MEMOMALLOC_HUGEPAGES", "never")))
    rows = []
    for workload in (table.BY_NAME[name] for name in arguments.workloads):
        if not runner.can_run(workload, arguments):
            continue
        found = measure(workload, ours, arguments)
        small = measure(workload, without, arguments)
        if not small or "resident_bytes" not in found:
            print(f"left out: {workload.name}", file=sys.stderr)
            continue
        pool = [found[name] - found[f"slab_{name}"] for name in ("huge_page_bytes", "resident_bytes")]
        slabs = [found["slab_huge_page_bytes"], found["slab_resident_bytes"]]
        rows.append([workload.name, f"{slabs[1] / 2**20:.0f}", share(*slabs), f"{pool[1] / 2**20:.0f}", share(*pool),
                     f"{found['peak_bytes'] / small['peak_bytes']:.3f}"])
    print("\n".join(summary.rows_table(["workload", "slabs, MiB", "of these in huge pages, %", "pool, MiB",
                                        "of these in huge pages, %", "peak over that without any"], rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
