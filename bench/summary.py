"""Medians, ratios with bootstrap confidence intervals, and the Markdown tables made of them.

A ratio compares medians over the repetitions. Its interval resamples whole repetitions, in which the
allocators ran next to each other, 2000 times and takes the middle 95 %.
"""

import math
import random
import statistics

RESAMPLES = 2000
FEW_FAULTS = 10  # page faults an iteration: who takes more faults (fifty of huge pages are 100 MiB)


class Results:
    """The rows of one comparison, by workload and allocator; repetitions in order."""

    def __init__(self, rows, order=()):
        self.cells = {}
        rows = sorted(rows, key=lambda row: order.index(row["allocator"])) if order else rows
        for row in rows:
            self.cells.setdefault(row["workload"], {}).setdefault(row["allocator"], []).append(row)

    def values(self, workload, allocator, key):
        return [float(row[key]) for row in self.cells[workload][allocator]]

    def median(self, workload, allocator, key):
        return statistics.median(self.values(workload, allocator, key))

    def peers(self, workload, ours):
        return [name for name in self.cells[workload] if name != ours]

    def calm_peers(self, workload, ours, most=FEW_FAULTS):
        """Those of the others that take at most so many faults an iteration in the steady state."""
        return [name for name in self.peers(workload, ours)
                if self.median(workload, name, "faults_per_iteration_steady") <= most]

    def least(self, workload, key, names):
        """The name with the least median, or None if there is no name."""
        return min(names, key=lambda name: self.median(workload, name, key), default=None)

    def over_least(self, workload, name, key, names):
        """The name's median over the least of the names'; None if there is no name."""
        least = self.least(workload, key, names)
        return least and ratio(self.median(workload, name, key), self.median(workload, least, key))


def ratio(a, b):
    return a / b if b else math.nan


def ratio_of(a, b):
    """(median a / median b, low, high); low and high are None below three repetitions."""
    return mean_ratio_of([(a, b)])


def mean_ratio_of(pairs):
    """As ratio_of, of the geometric mean over several pairs, each with repetitions of its own."""
    def mean_of(sample):
        return geometric_mean([ratio(statistics.median(a), statistics.median(b)) for a, b in sample])

    middle = mean_of(pairs)
    if min(len(values) for pair in pairs for values in pair) < 3:
        return middle, None, None
    dice, found = random.Random(1), []
    for _ in range(RESAMPLES):
        sample = []
        for a, b in pairs:
            count = min(len(a), len(b))
            picked = [dice.randrange(count) for _ in range(count)]
            sample.append(([a[i] for i in picked], [b[i] for i in picked]))
        found.append(mean_of(sample))
    found.sort()
    return middle, found[RESAMPLES // 40], found[-RESAMPLES // 40]


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))


def show(triple):
    middle, low, high = triple
    return f"{middle:.2f}" if low is None else f"{middle:.2f} [{low:.2f}, {high:.2f}]"


def rows_table(headings, rows):
    lines = [f"| {' | '.join(headings)} |", "|" + " --- |" * len(headings)]
    return lines + [f"| {' | '.join(row)} |" for row in rows]


def full_table(results):
    """Every workload under every allocator."""
    rows = []
    for workload, allocators in results.cells.items():
        for name, runs in allocators.items():
            def value(key, name=name, workload=workload):
                return results.median(workload, name, key)

            served = [float(run["served_share"]) for run in runs if run.get("served_share")]
            rows.append([workload, name, f"{value('p50_ms'):.1f}", f"{value('p99_ms'):.1f}",
                         f"{value('first_ms'):.0f}", f"{value('faults_per_iteration_steady'):.0f}",
                         f"{value('system_ms_per_iteration'):.1f}",
                         f"{value('peak_rss_kib') / 1024:.0f}",
                         f"{value('steady_over_before_kib') / 1024:.0f}",
                         f"{100 * statistics.median(served):.2f} %" if served else ""])
    return rows_table(["workload", "allocator", "p50 ms", "p99 ms", "first ms", "faults/iteration",
                       "system ms", "peak MiB", "steady MiB over before", "served"], rows)


AGAINST = ("workload", "time, ms", "over the fastest other", "over glibc",
           "p99/p50, and the least of others", "peak over the leanest other",
           "steady over before, MiB, and the least of others that do not fault",
           "page faults an iteration, glibc and ours")


def against_table(results, ours):
    """Ours against the fastest, the leanest and glibc, workload by workload."""
    rows, to_fastest, to_glibc = [], [], []
    for workload in results.cells:
        peers = results.peers(workload, ours)
        if ours not in results.cells[workload] or not peers:
            continue

        def median(name, key, workload=workload):
            return results.median(workload, name, key)

        def compare(key, peer, workload=workload):
            return ratio_of(results.values(workload, ours, key), results.values(workload, peer, key))

        def tail(name):
            return ratio(median(name, "p99_ms"), median(name, "p50_ms"))

        fastest = results.least(workload, "p50_ms", peers)
        leanest = results.least(workload, "peak_rss_kib", peers)
        least_steady = results.least(workload, "steady_over_before_kib",
                                     results.calm_peers(workload, ours))
        to_fastest.append(compare("p50_ms", fastest)[0])
        glibc = compare("p50_ms", "glibc") if "glibc" in peers else None
        to_glibc += [glibc[0]] if glibc else []
        steady = [f"{median(name, 'steady_over_before_kib') / 1024:.0f}"
                  for name in (ours, least_steady) if name]
        faults = [f"{median(name, 'faults_per_iteration_steady'):.0f}"
                  for name in ("glibc", ours) if name == ours or glibc]
        rows.append([workload, f"{median(ours, 'p50_ms'):.1f}", f"{show(compare('p50_ms', fastest))} {fastest}",
                     show(glibc) if glibc else "", f"{tail(ours):.2f}, {min(map(tail, peers)):.2f}",
                     f"{median(ours, 'peak_rss_kib') / median(leanest, 'peak_rss_kib'):.3f} {leanest}",
                     f"{', '.join(steady)} {least_steady or '(all others fault)'}", ", ".join(faults)])
    if rows:
        rows.append(["geometric mean", "", f"{geometric_mean(to_fastest):.2f}",
                     f"{geometric_mean(to_glibc):.2f}" if to_glibc else "", "", "", "", ""])
    return rows_table(AGAINST, rows)


EACH = ("allocator", "time of ours over it", "rows in which ours is surely faster, surely slower",
        "peak memory of ours over it", "its own time over the fastest of all others")


def each_table(results, ours):
    """Ours against one other at a time over all workloads, as a user chooses: geometric means.

    Surely: 95 % of resamplings lie on that side. The last column holds each to what is asked of ours.
    """
    def to_fastest(name):
        ratios = [results.over_least(workload, name, "p50_ms", results.peers(workload, name))
                  for workload, found in results.cells.items() if name in found and len(found) > 1]
        return f"{geometric_mean(ratios):.3f}"

    others = dict.fromkeys(name for workload, found in results.cells.items() if ours in found
                           for name in results.peers(workload, ours))
    rows = []
    for other in others:
        shared = [workload for workload, found in results.cells.items() if {ours, other} <= found.keys()]
        times, peaks = ([(results.values(workload, ours, key), results.values(workload, other, key))
                         for workload in shared] for key in ("p50_ms", "peak_rss_kib"))
        sure = [(low, high) for _, low, high in (ratio_of(*pair) for pair in times) if low is not None]
        faster, slower = sum(high < 1 for _, high in sure), sum(low > 1 for low, _ in sure)
        rows.append([other, show(mean_ratio_of(times)), f"{faster}, {slower} of {len(sure)}",
                     show(mean_ratio_of(peaks)), to_fastest(other)])
    if rows:
        rows.append([ours, "1", "", "1", to_fastest(ours)])
    return rows_table(EACH, rows)


def checksum_faults(results):
    """Sentences about workloads whose output depends on the allocator."""
    found = []
    for workload, allocators in results.cells.items():
        sums = {name: {run["checksum"] for run in runs} for name, runs in allocators.items()}
        if len(set.union(*sums.values())) > 1:
            found.append(f"{workload}: outputs differ: " + ", ".join(
                f"{name} {'/'.join(sorted(digest[:8] for digest in digests))}"
                for name, digests in sums.items()))
    return found
