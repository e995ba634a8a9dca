#!/usr/bin/env python3
"""Real networks with and without the library: equal output to the bit, memory from the slab, no faults.

Judges counts only, never times: what is asserted holds on a busy machine too, so both runs of a network
go on at once. Ends with `N passed, N failed`.
"""

import argparse
import concurrent.futures
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

import demo

# model, batch, iterations, threshold, least share of the second half's large bytes from the plan's slab,
# most faults an iteration
CASES = (
    ("resnet18", 1, 24, "64K", 0.99, 50),
    ("mobilenet_v2", 8, 16, "64K", 0.99, 50),
    ("resnet18", 1, 24, "4K", 0.98, 50),
    ("shufflenet_v2_x0_5", 2, 24, "4K", None, None),  # the output alone
)


def complaints(plain, preloaded, stats, share, faults):
    """What is wrong with a pair of runs, as a list of sentences."""
    found = []
    if plain["checksum"] != preloaded["checksum"]:
        found.append(f"output differs: {plain['sum']!r} and {preloaded['sum']!r}")
    if not stats:
        return found + ["the library wrote no statistics"]
    planned = preloaded.get("steady_planned_share", 0.0)
    if share is not None and planned < share:
        found.append(f"{planned:.4f} of the second half's large bytes from the slab, expected {share}")
    if faults is not None and preloaded["faults_per_iteration_steady"] > faults:
        found.append(f"{preloaded['faults_per_iteration_steady']} faults an iteration, "
                     f"expected at most {faults}")
    return found


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", default=str(demo.ROOT / "build/libmemomalloc.so"))
    library = parser.parse_args(argv).library
    failed = 0
    for model, batch, iterations, threshold, share, faults in CASES:
        arguments = demo.parse(["--model", model, "--batch", str(batch), "--library", library,
                                "--iterations", str(iterations)])
        os.environ["MEMOMALLOC_THRESHOLD"] = threshold
        with concurrent.futures.ThreadPoolExecutor(2) as both:
            (plain, _), (preloaded, stats) = both.map(demo.run, (arguments, arguments), (False, True))
        wrong = complaints(plain, preloaded, stats, share, faults)
        failed += bool(wrong)
        print(f"{'FAILED' if wrong else 'ok':7}{model} batch {batch} threshold {threshold}: "
              f"{100 * preloaded.get('planned_share', 0):.1f} % of all large bytes from the slab, "
              f"{100 * preloaded.get('steady_planned_share', 0):.2f} % of the second half's, "
              f"{preloaded['faults_per_iteration_steady']} faults an iteration "
              f"(without: {plain['faults_per_iteration_steady']})", flush=True)
        for sentence in wrong:
            print(f"       {sentence}")
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
