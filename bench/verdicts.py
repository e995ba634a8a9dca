"""What ours is asked to reach against all others, line by line: asked, measured, met.

Each line is judged on the medians of one comparison, and names the rows that fall short, worst first.
"""

import summary

WORST = 4  # rows that a line names


class Judge:
    """The figures of one comparison as ratios of ours to others."""

    def __init__(self, results, ours, large_batch=()):
        self.results, self.ours, self.large_batch = results, ours, set(large_batch)
        self.rows = [name for name in results.cells
                     if ours in results.cells[name] and results.peers(name, ours)]

    def median(self, row, name, key):
        return self.results.median(row, name, key)

    def over_least(self, row, key, names=None):
        """Ours over the least of the others, or of those named; None if there are none."""
        return self.results.over_least(row, self.ours, key, self.results.peers(row, self.ours)
                                       if names is None else names)

    def tail(self, row, name):
        return summary.ratio(self.median(row, name, "p99_ms"), self.median(row, name, "p50_ms"))

    def tail_over_best(self, row):
        return self.tail(row, self.ours) / min(
            self.tail(row, name) for name in self.results.peers(row, self.ours))

    def calm(self, row):
        return self.results.calm_peers(row, self.ours)

    def contended(self):
        """The rows in which the fastest or any other allocator still faults."""
        return [row for row in self.rows
                if len(self.calm(row)) < len(self.results.peers(row, self.ours))]


def every(found, most, form="{:.2f}"):
    """(measured, met) of a value that has to be at most `most` in every row; None is left out."""
    known = {row: value for row, value in found.items() if value is not None}
    bad = sorted(((value, row) for row, value in known.items() if not value <= most), reverse=True)
    text = f"{len(known) - len(bad)} of {len(known)} rows"
    if bad:
        text += "; " + ", ".join(f"{row} {form.format(value)}" for value, row in bad[:WORST])
        text += f" and {len(bad) - WORST} more" if len(bad) > WORST else ""
    return text, bool(known) and not bad


def mean(values, most):
    """(measured, met) of ratios whose geometric mean has to be at most `most`."""
    if not values:
        return "no such row", False
    middle = summary.geometric_mean(values)
    return f"{middle:.3f} over {len(values)} rows", middle <= most


def lines(results, ours, large_batch=()):
    """(asked, measured, met) triples; `large_batch`: rows of torchvision with a batch of 4 or more."""
    judge = Judge(results, ours, large_batch)
    time = {row: judge.over_least(row, "p50_ms") for row in judge.rows}
    batch = [row for row in judge.rows
             if row in judge.large_batch and "glibc" in results.cells[row]]
    return [(asked, *outcome) for asked, outcome in (
        ("median time at most 1.02 of the fastest other, every row", every(time, 1.02)),
        ("the same, geometric mean over rows where another faults: 0.97",
         mean([time[row] for row in judge.contended()], 0.97)),
        ("time at most 0.80 of glibc's, geometric mean of torchvision with batch of 4 and more",
         mean([judge.over_least(row, "p50_ms", ["glibc"]) for row in batch], 0.80)),
        ("p99/p50 at most the best other's, every row",
         every({row: judge.tail_over_best(row) for row in judge.rows}, 1.0)),
        ("peak memory at most 1.01 of the leanest other, every row",
         every({row: judge.over_least(row, "peak_rss_kib") for row in judge.rows}, 1.01, "{:.3f}")),
        ("steady memory over the level before, least of all that do not fault",
         every({row: judge.over_least(row, "steady_over_before_kib", judge.calm(row))
                for row in judge.rows}, 1.0)),
        (f"at most {summary.FEW_FAULTS} page faults an iteration in the steady state",
         every({row: judge.median(row, ours, "faults_per_iteration_steady") for row in judge.rows},
               summary.FEW_FAULTS, "{:.0f}")),
    )]


def as_table(found, *before):
    """The lines as a Markdown table; `before`: headings of what they hold before asked."""
    return summary.rows_table([*before, "asked", "measured", "met"],
                              [[*texts, "yes" if met else "**no**"] for *texts, met in found])
