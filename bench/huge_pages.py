#!/usr/bin/env python3
"""How much of slabs, and of the pool's lasting blocks, lies in huge pages, and what that costs in peak memory.

Each workload stops after some iterations, and the system is asked (smaps, by `memomalloc status`). The same
without huge pages (MEMOMALLOC_HUGEPAGES=never) tells the peak that is to be compared with. Counts, not seconds.
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


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", default=list(table.SUITE),
                        type=runner.names(table.BY_NAME, "workload", {"suite": table.SUITE, "untuned": table.UNTUNED}),
                        help="comma between them; suite or untuned (suite)")
    parser.add_argument("--iterations", type=int, default=12, help="before it is asked (%(default)s)")
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
    """(status in the middle, figures at the end), either of which may be missing."""
    taker = turns.Taker(workload, allocator, arguments, arguments.iterations, 2, 1)
    asked = taker.wait() and taker.turn()
    found = status(taker.run.process.pid) if asked else {}
    return found, taker.finish()


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
        found, figures = measure(workload, ours, arguments)
        _, small = measure(workload, without, arguments)
        if not figures or not small or "resident_bytes" not in found:
            print(f"left out: {workload.name}", file=sys.stderr)
            continue
        pool = [found[name] - found[f"slab_{name}"] for name in ("huge_page_bytes", "resident_bytes")]
        slabs = [found["slab_huge_page_bytes"], found["slab_resident_bytes"]]
        rows.append([workload.name, f"{slabs[1] / 2**20:.0f}", share(*slabs), f"{pool[1] / 2**20:.0f}", share(*pool),
                     f"{figures['peak_rss_kib'] / small['peak_rss_kib']:.3f}"])
    print("\n".join(summary.rows_table(["workload", "slabs, MiB", "of these in huge pages, %", "pool, MiB",
                                        "of these in huge pages, %", "peak over that without any"], rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
