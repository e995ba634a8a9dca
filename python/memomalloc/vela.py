"""Vela, the compiler for Arm's Ethos-U processors, with our planner in the place of its hill climbing.

    python -m memomalloc.vela MODEL.tflite [vela's own options]

`install()` does the same in a program that calls Vela itself. Vela judges each allocation as it judges its
own. It is Vela's core in Python that takes ours, for Ethos-U55 and U65: the one in C++, which is the default
from Vela 5 on, lets nobody in. Tried with ethos-u-vela 5.2.
"""

from __future__ import annotations

import sys
from typing import Any, Optional, Sequence

from ethosu.vela import hillclimb_allocation

from memomalloc import dsa

__all__ = ["CORE", "allocate_live_ranges", "install", "main"]

#: The option of Vela's command that asks for its core in Python.
CORE = "--debug-force-legacy-core"

_SECONDS = 10.0  # the planner's own default; it stops at the lower bound


def allocate_live_ranges(live_ranges: Sequence[Any], max_iterations: Optional[int] = None,
                         memory_limit: Optional[int] = None) -> list[int]:
    """An address in bytes for each of Vela's live ranges, which live from start_time to end_time, both inclusive.

    The signature is that of Vela's own function. Its two limits end a search that may not end by itself: ours
    ends at the lower bound or after ten seconds, so that neither is needed.
    """
    del max_iterations, memory_limit
    if not live_ranges:
        return []
    plan = dsa.plan([one.start_time for one in live_ranges], [one.end_time + 1 for one in live_ranges],
                    [one.size for one in live_ranges], alignment=[one.get_alignment() for one in live_ranges],
                    seconds=_SECONDS)
    return [int(offset) for offset in plan.offsets]


def install() -> None:
    """From now on Vela's allocator "HillClimb", its default, is ours, in this process."""
    hillclimb_allocation.allocate_live_ranges = allocate_live_ranges


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Vela's command with our planner; its exit code."""
    from ethosu.vela import vela

    install()
    return int(vela.main([*(sys.argv[1:] if arguments is None else arguments), CORE]) or 0)


if __name__ == "__main__":
    sys.exit(main())
