"""Medians of paired ratios, their intervals, and the Markdown tables made of them.

A repetition runs all allocators next to each other, so a ratio is taken within each repetition; the
estimate is the median of these. Its interval lies between two of the ratios, as the sign test has
it: no matter how they are distributed, the true median is outside in at most 5 % of cases. Six
ratios are the fewest for which that can be said; below SURE_FROM repetitions the least and the
greatest are given instead, and called a range.
"""

import dataclasses
import math
import statistics

import luck

SURE_FROM = 7  # repetitions from which on an interval is given
ERROR = 0.05  # share of intervals that may miss the true median
SHARES = ("planned_share", "at_hand_share", "steady_planned_share", "steady_at_hand_share")
FEW_FAULTS = 10  # page faults an iteration: who takes more faults (fifty of huge pages are 100 MiB)


class Results:
    """The rows of one comparison, by workload and allocator; repetitions in order."""

    def __init__(self, rows, order=(), by_speed=False):
        self.cells, self.by_speed = {}, by_speed
        rows = sorted(rows, key=lambda row: order.index(row["allocator"])) if order else rows
        for row in rows:
            self.cells.setdefault(row["workload"], {}).setdefault(row["allocator"], []).append(row)

    def values(self, workload, allocator, key):
        return [float(row[key]) for row in self.cells[workload][allocator]]

    def median(self, workload, allocator, key):
        return statistics.median(self.values(workload, allocator, key))

    def ratios(self, workload, a, b, key):
        """The figure of `a` over that of `b` in each repetition in which both ran: the median over their turns."""
        mine, theirs = ({row.get("repetition", index): row
                         for index, row in enumerate(self.cells[workload][name])} for name in (a, b))
        return {number: statistics.median(turn_ratios(mine[number], theirs[number], key, self.by_speed))
                for number in mine.keys() & theirs.keys()}

    def estimate(self, workload, a, b, key):
        return estimate(self.ratios(workload, a, b, key).values())

    def mean_estimate(self, workloads, a, b, key):
        """Of the geometric mean over the workloads, taken within each repetition that has them all; where a run failed
        in each of them, of their medians."""
        found = [self.ratios(workload, a, b, key) for workload in workloads]
        complete = set.intersection(*(set(ratios) for ratios in found))
        if not complete:
            return estimate([geometric_mean([statistics.median(ratios.values()) for ratios in found])])
        return estimate([geometric_mean([ratios[number] for ratios in found]) for number in sorted(complete)])

    @property
    def repetitions(self):
        return max((len(runs) for cell in self.cells.values() for runs in cell.values()), default=0)

    def only(self, workloads):
        """These results of the workloads named alone."""
        return Results([row for name, cell in self.cells.items() if name in workloads
                        for runs in cell.values() for row in runs], by_speed=self.by_speed)

    def peers(self, workload, ours):
        return [name for name in self.cells[workload] if name != ours]

    def calm_peers(self, workload, ours):
        """Those of the others that take at most FEW_FAULTS faults an iteration in the steady state."""
        return [name for name in self.peers(workload, ours)
                if self.median(workload, name, "faults_per_iteration_steady") <= FEW_FAULTS]

    def least(self, workload, key, names):
        """The name with the least median, or None if there is no name."""
        return min(names, key=lambda name: self.median(workload, name, key), default=None)

    def over_least(self, workload, name, key, names):
        """The name's median over the least of the names'; None if there is no name."""
        least = self.least(workload, key, names)
        return least and ratio(self.median(workload, name, key), self.median(workload, least, key))


def ratio(a, b):
    return a / b if b else math.nan


TURNS = {"p50_ms": "turns_ms", "cpu_ms": "turns_cpu_ms"}  # what rows of processes that took turns have of a figure


def turn_ratios(mine, theirs, key, by_speed=False):
    """The figure of one row over that of another: one ratio, or where both took turns one for each pair of
    neighbouring turns; `by_speed`: each over how long the machine needed for the same work just then."""
    turns = TURNS.get(key)
    if not (turns and mine.get(turns) and theirs.get(turns)):
        return [ratio(float(mine[key]), float(theirs[key]))]
    scales = [row["turns_speed_ms"] if by_speed else [1.0] * len(row[turns]) for row in (mine, theirs)]
    return [ratio(a / scale_a, b / scale_b)
            for a, scale_a, b, scale_b in zip(mine[turns], scales[0], theirs[turns], scales[1])]


@dataclasses.dataclass(frozen=True)
class Estimate:
    """The median of the ratios of some repetitions; `low` and `high` are an interval if `sure`, else the range."""

    middle: float
    low: float
    high: float
    repetitions: int

    @property
    def sure(self):
        return self.repetitions >= SURE_FROM

    def __str__(self):
        if self.repetitions < 2:
            return f"{self.middle:.2f}"
        ends = f"{self.low:.2f}", f"{self.high:.2f}"
        return f"{self.middle:.2f} " + ("[{}, {}]" if self.sure else "({} to {})").format(*ends)


def left_out(count):
    """How many of `count` ordered ratios lie outside the interval on each side: the sign test."""
    outside = 0.0  # the probability that so few of the ratios, or fewer, lie on one side of the true median
    for found in range(count):
        outside += math.comb(count, found) / 2**count
        if 2 * outside > ERROR:
            return max(found - 1, 0)
    return 0


def estimate(ratios):
    """The Estimate of one ratio a repetition."""
    ordered = sorted(ratios)
    aside = left_out(len(ordered)) if len(ordered) >= SURE_FROM else 0
    return Estimate(statistics.median(ordered), ordered[aside], ordered[-1 - aside], len(ordered))


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))


def legend(repetitions):
    """A sentence that says what stands beside an estimate."""
    if repetitions < 2:
        return "One repetition: single ratios, without spread."
    if repetitions < SURE_FROM:
        return (f"Medians of {repetitions} paired ratios; in parentheses the range of the {repetitions}, "
                f"which is no confidence interval ({SURE_FROM} repetitions are needed for one).")
    return (f"Medians of {repetitions} paired ratios; in brackets their 95 % confidence interval "
            "(sign test).")


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

            shares = [statistics.median(float(run[key]) for run in runs) for key in SHARES
                      if runs[0].get(key) not in (None, "")]
            rows.append([workload, name, f"{value('p50_ms'):.1f}", f"{value('p99_ms'):.1f}",
                         f"{value('first_ms'):.0f}", f"{value('faults_per_iteration_steady'):.0f}",
                         f"{value('system_ms_per_iteration'):.1f}",
                         f"{value('peak_rss_kib') / 1024:.0f}",
                         f"{value('steady_over_before_kib') / 1024:.0f}",
                         ", ".join(f"{100 * share:.1f}" for share in shares)])
    return rows_table(["workload", "allocator", "p50 ms", "p99 ms", "first ms", "faults/iteration",
                       "system ms", "peak MiB", "steady MiB over before",
                       "% of large bytes planned, reused: whole run; second half"], rows)


AGAINST = ("workload", "time, ms", "over the fastest other", "the same were all equal: middle, 95 %", "over glibc",
           "p99/p50, and the least of others", "peak over the leanest other",
           "steady over before, MiB, and the least of others that do not fault",
           "page faults an iteration, glibc and ours")


def against_table(results, ours):
    """Ours against the fastest, the leanest and glibc, workload by workload."""
    rows, to_fastest, to_glibc, equal = [], [], [], []
    for workload in results.cells:
        peers = results.peers(workload, ours)
        if ours not in results.cells[workload] or not peers:
            continue

        def median(name, key, workload=workload):
            return results.median(workload, name, key)

        def compare(key, peer, workload=workload):
            return results.estimate(workload, ours, peer, key)

        def tail(name):
            return ratio(median(name, "p99_ms"), median(name, "p50_ms"))

        fastest = results.least(workload, "p50_ms", peers)
        leanest = results.least(workload, "peak_rss_kib", peers)
        least_steady = results.least(workload, "steady_over_before_kib",
                                     results.calm_peers(workload, ours))
        to_fastest.append(compare("p50_ms", fastest).middle)
        glibc = compare("p50_ms", "glibc") if "glibc" in peers else None
        to_glibc += [glibc.middle] if glibc else []
        equal.append(luck.of_row(results, workload, ours))
        steady = [f"{median(name, 'steady_over_before_kib') / 1024:.0f}"
                  for name in (ours, least_steady) if name]
        faults = [f"{median(name, 'faults_per_iteration_steady'):.0f}"
                  for name in ("glibc", ours) if name == ours or glibc]
        rows.append([workload, f"{median(ours, 'p50_ms'):.1f}", f"{compare('p50_ms', fastest)} {fastest}",
                     luck.cell(equal[-1]), str(glibc) if glibc else "",
                     f"{tail(ours):.2f}, {min(map(tail, peers)):.2f}",
                     f"{median(ours, 'peak_rss_kib') / median(leanest, 'peak_rss_kib'):.3f} {leanest}",
                     f"{', '.join(steady)} {least_steady or '(all others fault)'}", ", ".join(faults)])
    if rows:
        rows.append(["geometric mean", "", f"{geometric_mean(to_fastest):.2f}",
                     f"{geometric_mean([middle for middle, _ in equal]):.2f}" if all(equal) else "",
                     f"{geometric_mean(to_glibc):.2f}" if to_glibc else "", "", "", "", ""])
    return rows_table(AGAINST, rows)


EACH = ("allocator", "time of ours over it", "rows in which ours is surely faster, surely slower",
        "peak memory of ours over it", "its own time over the fastest of all others")


def sides(estimates):
    """In how many rows the interval lies below 1, and above; and in how many it would by chance."""
    known = [found for found in estimates if found.sure]
    if not known:
        return f"({SURE_FROM} repetitions are needed)"
    faster, slower = sum(one.high < 1 for one in known), sum(one.low > 1 for one in known)
    return f"{faster}, {slower} of {len(known)} (by chance {ERROR / 2 * len(known):.1f} each)"


def each_table(results, ours):
    """Ours against one other at a time over all workloads, as a user chooses: geometric means.

    The last column holds each to what is asked of ours.
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
        times, peaks = (results.mean_estimate(shared, ours, other, key)
                        for key in ("p50_ms", "peak_rss_kib"))
        rows.append([other, str(times),
                     sides([results.estimate(workload, ours, other, "p50_ms") for workload in shared]),
                     str(peaks), to_fastest(other)])
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
