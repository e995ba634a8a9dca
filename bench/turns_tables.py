"""What run.py --turns prints: ours beside each other one, for each row and all rows, and beside the fastest."""

import statistics

import luck
import summary

TIME, PROCESSOR = "p50_ms", "cpu_ms"


def couples(results, ours):
    """(workload, other) of all that were compared."""
    return [(workload, other) for workload in results.cells if ours in results.cells[workload]
            for other in results.peers(workload, ours)]


def width(found):
    return found.high - found.low


def mean_width(results, ours):
    """Of the intervals of all rows, in time."""
    return statistics.fmean(width(results.estimate(workload, ours, other, TIME))
                            for workload, other in couples(results, ours))


def chosen(rows, order, ours):
    """(Results, lines): as measured, or over the machine's speed of the moment where that narrows the intervals."""
    plain, scaled = (summary.Results(rows, order, by_speed) for by_speed in (False, True))
    if not couples(plain, ours):
        return plain, []
    widths = mean_width(plain, ours), mean_width(scaled, ours)
    better = widths[1] < widths[0]
    text = (f"The intervals of time are {widths[0]:.4f} wide in the mean as measured, {widths[1]:.4f} if each turn is "
            "divided by what a fixed loop took before and after it; "
            + ("divided ones are used." if better else "what was measured is used."))
    return (scaled if better else plain), [text, ""]


def exact(found):
    """An estimate to a thousandth."""
    ends = (f" [{found.low:.3f}, {found.high:.3f}]" if found.sure else
            f" ({found.low:.3f} to {found.high:.3f})" if found.repetitions > 1 else "")
    return f"{found.middle:.3f}{ends}"


def rows_table(results, ours):
    rows = []
    for workload, other in couples(results, ours):
        time, processor = (results.estimate(workload, ours, other, key) for key in (TIME, PROCESSOR))
        peaks = [results.median(workload, name, "peak_rss_kib") for name in (ours, other)]
        faults = [results.median(workload, name, "faults_per_iteration_steady") for name in (ours, other)]
        rows.append([workload, other, exact(time), f"{width(time):.3f}", exact(processor),
                     f"{summary.ratio(*peaks):.3f}", ", ".join(f"{one:.0f}" for one in faults)])
    return summary.rows_table(["workload", "other", "time of ours over it", "width", "processor time", "peak memory",
                               "page faults an iteration, ours and its"], rows)


def others_table(results, ours):
    """Each other over all workloads: geometric means within each repetition."""
    rows = []
    for other in dict.fromkeys(other for _, other in couples(results, ours)):
        shared = [workload for workload, name in couples(results, ours) if name == other]
        cells = [exact(results.mean_estimate(shared, ours, other, key)) for key in (TIME, PROCESSOR, "peak_rss_kib")]
        rows.append([other, str(len(shared)), *cells,
                     summary.sides([results.estimate(workload, ours, other, TIME) for workload in shared])])
    return summary.rows_table(["other", "rows", "time of ours over it", "processor time", "peak memory",
                               "rows in which ours is surely faster, surely slower"], rows)


def fastest_table(results, ours):
    """Ours over the fastest other of each row, and what chance alone would show of as many equal ones."""
    rows, found, equal = [], [], []
    for workload in dict.fromkeys(workload for workload, _ in couples(results, ours)):
        ratios = {other: results.estimate(workload, ours, other, TIME) for other in results.peers(workload, ours)}
        fastest = max(ratios, key=lambda other: ratios[other].middle)
        found.append(ratios[fastest].middle)
        equal.append(luck.of_row(results, workload, ours))
        rows.append([workload, fastest, exact(ratios[fastest]), luck.cell(equal[-1])])
    if rows:
        rows.append(["geometric mean", "", f"{summary.geometric_mean(found):.3f}",
                     f"{summary.geometric_mean([middle for middle, _ in equal]):.2f}" if all(equal) else ""])
    return summary.rows_table(["workload", "fastest other", "time of ours over it",
                               "the same were all equal: middle, 95 %"], rows)


def legend(arguments):
    ends = ("In brackets its 95 % confidence interval (sign test over the pairs)."
            if arguments.repetitions >= summary.SURE_FROM else
            f"In parentheses the range of the pairs, which is no confidence interval ({summary.SURE_FROM} are needed).")
    return (f"Pairs of processes that take turns, {arguments.repetitions} for each row and other allocator, {arguments.turns} "
            f"turns each; the estimate is the median over the pairs of the median over their turns. {ends}")


def page(rows, order, ours, arguments):
    """(Results, lines of the page)."""
    results, lines = chosen(rows, order, ours)
    return results, [legend(arguments), "", *lines, *others_table(results, ours), "", *rows_table(results, ours), "",
                     "## Beside the fastest other", "", *fastest_table(results, ours), ""]
