"""This library compared with each other allocator, from the newest results: the table of docs/performance.md and the chart."""

import results

# Name in the results -> how readers call it.
TITLES = {"glibc": "glibc", "glibc_tuned": "glibc, tuned", "jemalloc_tuned": "jemalloc 5.3.0, tuned", "tcmalloc_tuned": "tcmalloc 2.10, tuned",
          "jemalloc_5.3.1": "jemalloc 5.3.1, tuned", "tcmalloc_2.18.1": "tcmalloc 2.18.1, tuned", "mimalloc_3.4.3": "mimalloc 3.4.3, tuned"}


def _row(name, workloads, row, result):
    return {"name": name, "title": TITLES[name], "workloads": workloads, "time": float(row["time"]),
            "time_low": float(row["time_low"]), "time_high": float(row["time_high"]), "peak": float(row["peak"]), "result": result}


def rows():
    """A dict for each other allocator: its time and peak RSS, ours over it; what low and high are tells the result."""
    means, how = results.newest("untuned_means")
    found = [_row(row["allocator"], how["workloads"], row, "untuned_means") for row in means if row["allocator"] == "glibc"]
    interleaved, _ = results.newest("interleaved")
    workloads = len({row["workload"] for row in interleaved})
    found += [_row(row["other"], workloads, row, "interleaved_means") for name in ("glibc_tuned", "jemalloc_tuned", "tcmalloc_tuned")
              for row in results.newest("interleaved_means")[0] if row["workloads"] == "all" and row["other"] == name]
    current, _ = results.newest("peers")
    workloads = len({row["workload"] for row in current})
    return found + [_row(row["other"], workloads, row, "peers_means") for row in results.newest("peers_means")[0]]


def percent(ratio):
    """0.85 -> -15 %, with the sign that print uses."""
    value = round(100 * (ratio - 1))
    return f"{'−' if value < 0 else '+' if value else ''}{abs(value)} %"


def table():
    """The table's lines."""
    shown = [{"compared_with": row["title"], "workloads": row["workloads"], "time": percent(row["time"]),
              "time,_interval": f"{percent(row['time_low'])} to {percent(row['time_high'])}", "peak_RSS": percent(row["peak"])}
             for row in rows()]
    return results.markdown(shown)
