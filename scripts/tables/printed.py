"""How the tables that bench programs print become rows of results: what each cell's figures are called.

A cell is read by a pattern: "text NAME" as it stands, "numbers A B C" its numbers in order, "estimate A [NAME]" a value with
`(low to high)` or `[low, high]` and, after that, a name; "-" is left out. Columns that are one allocator each become rows.
"""

import dataclasses
import re

NUMBER = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?")
ESTIMATE = re.compile(r"([\d.]+)?(?: ?[\[(]([\d.]+)(?: to |, )([\d.]+)[\])])?(?: (.*))?")


@dataclasses.dataclass(frozen=True)
class Table:
    """The patterns of a table's columns; `melted`: heading -> pattern of the columns that become rows, in any number."""

    patterns: tuple
    melted: str = ""  # the pattern of each column from len(patterns) on that is not in `last`
    last: tuple = ()  # patterns of the columns behind those; they belong to this library's row
    key: str = "allocator"
    bold: tuple = ()  # names of a melted cell's parts; those that are bold are listed as `worse_than_glibc`


class Unreadable(Exception):
    """A table is not as its pattern says."""


def clean(cell):
    return re.sub(r"<!--.*?-->", "", cell).replace("**", "").replace("`", "").strip()


def cell_values(pattern, cell):
    """{column: value} of a cell."""
    kind, *names = pattern.split()
    cell = clean(cell)
    if kind == "-":
        return {}
    if kind == "text":
        return {names[0]: cell}
    if kind == "numbers":
        found = [number.replace(",", "") for number in NUMBER.findall(cell)]
        if len(found) > len(names):
            raise Unreadable(f"{cell!r} has more numbers than {' '.join(names)}")
        return dict(zip(names, found + [""] * (len(names) - len(found))))
    match = ESTIMATE.fullmatch(cell)
    if not match:
        raise Unreadable(f"{cell!r} is no estimate")
    values = {names[0]: match[1] or "", f"{names[0]}_low": match[2] or "", f"{names[0]}_high": match[3] or ""}
    return values | ({names[1]: match[4] or ""} if names[1:] else {})


def tables(lines):
    """[(headings, rows)] of the Markdown tables in some lines."""
    found, part = [], []
    for line in [*lines, ""]:
        if line.startswith("|"):
            part.append([cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])])
        elif part:
            if len(part) > 2:
                found.append((part[0], part[2:]))
            part = []
    return found


def rows(name, lines):
    """The rows of the first table in some lines that is as TABLES says of a name. Unreadable if none is."""
    table, problem = TABLES[name], "there is no table"
    for headings, body in tables(lines):
        try:
            return _rows(table, headings, [row for row in body if row[0] != "geometric mean"])
        except Unreadable as error:
            problem = str(error)
    raise Unreadable(f"{name}: {problem}")


def _rows(table, headings, body):
    first, last = len(table.patterns), len(headings) - len(table.last)
    if not table.melted and len(headings) != first or last < first:
        raise Unreadable(f"the table has {len(headings)} columns")
    found = []
    for cells in body:
        keys = {name: value for pattern, cell in zip(table.patterns, cells) for name, value in cell_values(pattern, cell).items()}
        if not table.melted:
            found.append(keys)
            continue
        ours = {name: value for pattern, cell in zip(table.last, cells[last:]) for name, value in cell_values(pattern, cell).items()}
        for heading, cell in zip(headings[first:last], cells[first:last]):
            found.append({**keys, table.key: heading, **cell_values(table.melted, cell), **(ours if heading == "memomalloc" else {})})
            if table.bold:
                parts = zip(table.bold, re.split(r", (?=\**\d)", cell))
                found[-1]["worse_than_glibc"] = " ".join(part for part, text in parts if "**" in text)
    columns = dict.fromkeys(name for row in found for name in row)
    return [{name: row.get(name, "") for name in columns} for row in found]


WORKLOADS = ("text workload", "numbers time_ms", "estimate time_over_fastest fastest", "numbers equal_middle equal_95",
             "estimate time_over_glibc", "numbers tail least_tail_of_others", "estimate peak_over_leanest leanest",
             "numbers steady_mib least_steady_mib_of_calm_others", "numbers faults_glibc faults")
EACH = ("text allocator", "estimate time", "-", "estimate peak", "numbers own_time_over_fastest_other")
TAIL = ("text workload", "estimate tail", "estimate least_tail_of_others other", "text beyond_the_spread", "numbers slow iterations",
        "numbers plan", "numbers threads", "numbers faults", "numbers waited", "numbers host", "numbers none",
        "numbers other_slow other_iterations other_plan other_threads other_faults other_waited other_host other_none")
UNTIL = ("text program", "text until_plan", "text until_plan_or_pool", "numbers speculative dropped", "numbers dropped_slabs_mib",
         "numbers touched_first_mib", "numbers learned_again", "numbers missed_calls")
SHARES = ("numbers planned_percent reused_percent other_percent",
          "numbers planned_second_half_percent reused_second_half_percent other_second_half_percent")
TORCH = ("text case", "text output", "numbers large_calls", "numbers large_mib", "numbers planned_percent reused_percent",
         "numbers slab_mib bound_mib", "numbers peak_without_mib peak_mib")
PROGRAMS = Table(("text program",), "numbers faults system_ms processor_s peak_mib", SHARES,
                 bold=("faults", "system", "processor", "peak"))

TABLES = {
    "untuned": Table(WORKLOADS), "suite": Table(WORKLOADS), "untuned_means": Table(EACH), "suite_means": Table(EACH),
    "tail": Table(TAIL), "tail_untuned": Table(TAIL), "until_served": Table(UNTIL), "until_served_random": Table(UNTIL),
    "shapes": Table(("text allocator", "numbers before_mib", "numbers second_quarter_mib", "numbers last_quarter_mib",
                     "numbers peak_mib", "numbers faults")),
    "growing": Table(("text program",), "numbers faults faults_late peak_mib", SHARES),
    "first_iterations": Table(("text program", "text with", "numbers faults_1 faults_2 faults_3", "numbers system_ms",
                               "numbers time_ms time_low time_high", "numbers peak_mib")),
    "fault_time": Table(("text program", "text with", "numbers iteration_ms", "numbers faults_ms", "numbers clearing_ms",
                         "numbers calls_ms", "numbers share share_low share_high")),
    "programs": PROGRAMS, "programs_huge_pages_always": PROGRAMS,
    "containers": Table(("text program",), "numbers least_mib up_to_mib"),
    "frameworks": Table(("text framework", "text visible", "text setting", "numbers large_mib_an_iteration",
                         "numbers planned_percent reused_percent", "numbers whole_run_percent", "numbers faults_without faults",
                         "numbers processor_over_without", "numbers peak_over_without")),
    "torch_aarch64": Table(TORCH), "torch_native": Table(TORCH),
    "torch_guest": Table(("text case", "text output", "numbers peak_without_mib peak_mib", "numbers faults_without faults")),
    "hiders": Table(("text library", "text loop", "text named_by_doctor", "numbers large_calls served_percent", "text setting",
                     "numbers large_calls_with_setting served_with_setting_percent")),
    "compile_backend": Table(("text network", "text mode", "numbers predicted_before_mib predicted_mib", "text proved",
                              "numbers steps_eager_mib steps_aot_eager_mib steps_mib",
                              "numbers process_eager_mib process_aot_eager_mib process_mib", "numbers eager_ms aot_eager_ms ms",
                              "text equal")),
    "executorch": Table(("text network", "numbers tensors", "numbers bound_kib", "numbers naive_kib", "numbers greedy_kib",
                         "numbers ours_kib", "numbers greedy_over_bound", "numbers ours_over_bound", "numbers greedy_ms",
                         "numbers ours_ms")),
    "vela": Table(("text network", "numbers live_ranges", "numbers bound_kib", "numbers greedy_kib", "numbers hill_climb_kib",
                   "numbers ours_kib", "numbers greedy_ms", "numbers hill_climb_ms", "numbers ours_ms")),
    "planners": Table(("text planner",), "numbers height_over_bound ms", key="instance"),
    "strategies": Table(("text planner",), "numbers height_over_bound ms", key="trace"),
    "planner_asked": Table(("text problem", "text asked", "text measured", "text met")),
    "planner_unasked": Table(("text problems", "numbers buffers", "numbers limit_s", "numbers median_over_bound worst_over_bound",
                              "numbers median_s worst_s")),
    "schedule_means": Table(("text mode", "numbers batch", "numbers graphs", "numbers proved", "numbers saved_percent",
                             "numbers with_overwriting_percent", "numbers weights_counted_percent", "numbers olla_measure_percent",
                             "numbers occamy_measure_percent")),
    "hard_small": Table(("numbers nodes", "numbers proved graphs", "numbers beam_over_percent beam_worst_percent",
                         "numbers windows_over_percent windows_worst_percent", "numbers cuts_bound_below_percent cuts_worst_percent",
                         "numbers precedences_bound_below_percent precedences_worst_percent")),
    "hard_random": Table(("text family", "numbers proved graphs", "numbers over_bound_least_percent over_bound_worst_percent",
                          "numbers seconds_worst")),
    "hard_exact": Table(("text graph", "numbers nodes"), "text outcome", key="strategy"),
    "hard_longest": Table(("text graph", "numbers nodes", "numbers limit_s", "numbers peak", "numbers bound",
                           "numbers over_bound_percent", "numbers seconds")),
    "large_graphs": Table(("text family", "numbers nodes", "numbers given_peak", "numbers best_bound", "numbers limit_s",
                           "numbers peak", "numbers over_bound_percent", "text found_by", "numbers height_over_peak",
                           "numbers seconds")),
}
