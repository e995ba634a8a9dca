"""memomalloc.report(): what the library has done in this process, as text or, in a notebook, as a drawing."""

import html
import re

MIB = 1 << 20
SHARES = (("planned", "from a plan", "#bc4c00"), ("at_hand", "from the pool", "#d4a72c"),
          ("other", "not served", "#8c959f"))


def advice(statistics):
    """What to do next, in one sentence."""
    if statistics is None:
        return ("This process runs without the library. Start it by `memomalloc run -- COMMAND`; in a notebook, "
                "`python -m memomalloc jupyter install` and choose that kernel.")
    if statistics["large_allocations"] == 0:
        return "No large allocation was seen yet. Run your loop, then ask again."
    since = statistics["since_serving"]
    if since["large_bytes"] == 0:
        return "It still learns. Run some more iterations, then ask again; `memomalloc doctor` says more."
    if since["served_bytes"] < 0.9 * since["large_bytes"]:
        return ("Part of the loop is not served: its sizes or its order change. `memomalloc run --trace-file trace.csv` "
                "and `memomalloc report trace.csv` show where.")
    return "All is well. `memomalloc compare -- COMMAND` tells what it wins."


def marked(text):
    """Plain text as HTML, what stands in backquotes as code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", html.escape(text))


class Report:
    """The statistics of one moment. Its text says what was served and what to do next; in a notebook it draws itself."""

    def __init__(self, statistics):
        self.statistics = statistics

    def shares(self):
        """(name, share of the bytes of all large allocations, colour) of each kind; they add up to 1."""
        if not self.statistics or not self.statistics["large_bytes"]:
            return []
        large = self.statistics["large_bytes"]
        return [(name, self.statistics[f"{kind}_bytes"] / large, colour) for kind, name, colour in SHARES]

    def headline(self):
        """What was served and saved, in one sentence."""
        if self.statistics is None:
            return "MemoMalloc is not loaded."
        if not self.shares():
            return "No large block was asked for yet."
        planned, at_hand, _ = (share for _, share, _ in self.shares())
        return (f"{100 * (planned + at_hand):.0f} % of {self.statistics['large_bytes'] / MIB:,.0f} MiB in large blocks were "
                f"served, {100 * planned:.0f} % from a plan and {100 * at_hand:.0f} % from the pool; at most "
                f"{self.statistics['page_faults_avoided']:,} page faults avoided.")

    def rows(self):
        """(name, value) of the details."""
        one = self.statistics
        if one is None:
            return []
        return [("phase", one["phase"]), ("iterations", f"{one['iterations']:,}"),
                ("large allocations", f"{one['large_allocations']:,}"), ("plans", f"{one['plans']:,}"),
                ("slab", f"{one['slab_bytes'] / MIB:.1f} MiB"),
                ("the least it could be", f"{one['lower_bound_bytes'] / MIB:.1f} MiB"),
                ("most memory in use", f"{one['peak_bytes'] / MIB:.1f} MiB")]

    def __str__(self):
        lines = [self.headline(), advice(self.statistics)]
        return "\n".join(lines + [f"{name:24}{value}" for name, value in self.rows()])

    __repr__ = __str__

    def _repr_html_(self):
        bar, x = [], 0.0
        for name, share, colour in self.shares():
            bar.append(f'<rect x="{x:.2f}" y="0" width="{100 * share:.2f}" height="6" fill="{colour}">'
                       f"<title>{html.escape(name)}: {100 * share:.1f} %</title></rect>")
            x += 100 * share
        drawing = (f'<svg viewBox="0 0 100 6" style="width:100%;max-width:40em;height:1.6em" '
                   f'preserveAspectRatio="none" role="img">{"".join(bar)}</svg>') if bar else ""
        legend = " &nbsp; ".join(f'<span style="color:{colour}">&#9632;</span> {html.escape(name)} {100 * share:.0f} %'
                                 for name, share, colour in self.shares())
        table = "".join(f'<tr><td style="text-align:left">{html.escape(name)}</td>'
                        f'<td style="text-align:right">{html.escape(value)}</td></tr>' for name, value in self.rows())
        return (f"<div><p><b>{html.escape(self.headline())}</b><br>{marked(advice(self.statistics))}</p>"
                f"{drawing}<p>{legend}</p><table>{table}</table></div>")
