"""What the fastest of some others would seem to be if all were equal: chance alone, with the noise of the same run.

Who takes the least of N medians takes the luckiest. How lucky, follows from how much the ratios of a row differ
between repetitions: as many allocators are drawn with that noise and no other difference.
"""

import math
import random
import statistics

DRAWS = 500
SEED = 0


def noise(results, workload, ours, key="p50_ms"):
    """Of single runs, as logarithms: how far the ratios of each pair of allocators lie from their median."""
    found = []
    for other in results.peers(workload, ours):
        logs = [math.log(ratio) for ratio in results.ratios(workload, ours, other, key).values() if ratio > 0]
        if len(logs) > 1:
            # A ratio has the noise of two runs, and its median follows it a little.
            scale = math.sqrt(len(logs) / (len(logs) - 1) / 2)
            found += [scale * (one - statistics.median(logs)) for one in logs]
    return found


def over_fastest(pool, others, repetitions):
    """(middle, 95th percentile) of the time of ours over the fastest of `others` equal ones, all of a repetition
    compared with one run of ours. None if no noise is known."""
    if not pool or not others:
        return None
    dice = random.Random(SEED)

    def runs():
        return [dice.choice(pool) * dice.choice((-1, 1)) for _ in range(repetitions)]

    drawn = []
    for _ in range(DRAWS):
        mine = runs()
        ratios = [statistics.median(a - b for a, b in zip(mine, runs())) for _ in range(others)]
        drawn.append(math.exp(max(ratios)))
    drawn.sort()
    return statistics.median(drawn), drawn[math.ceil(0.95 * DRAWS) - 1]


def of_row(results, workload, ours):
    """The same for a workload of a comparison."""
    others = results.peers(workload, ours)
    repetitions = min((len(results.ratios(workload, ours, other, "p50_ms")) for other in others), default=0)
    return over_fastest(noise(results, workload, ours), len(others), repetitions)


def cell(found):
    return f"{found[0]:.2f}, {found[1]:.2f}" if found else ""
