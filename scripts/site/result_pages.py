"""The site's pages of results: one for each name of results/, the targets, the notes, and lists of the tree."""

import csv
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("scripts", "scripts/tables", "scripts/gates")]

import check  # noqa: E402
import gen_tables  # noqa: E402
import results  # noqa: E402
import targets  # noqa: E402

FOLDER = "results/"
# Group -> the names in it; a name that is in none stands last.
GROUPS = {
    "Time and memory against other allocators": ("untuned_means", "untuned", "interleaved_means", "interleaved", "peers_means", "peers",
                                                 "peers_counts", "suite_means", "suite", "losing_rows", "mobilenet_pairs", "calls"),
    "Learning and first iterations": ("programs", "programs_huge_pages_always", "until_served", "until_served_random", "first_iterations",
                                      "fault_time", "foreign_plan", "observe"),
    "Memory": ("complaints_and_fixes", "complaints", "complaints_losing", "containers", "memory_limit", "shapes", "growing", "threads", "huge_pages", "shared_weights", "numa_placement"),
    "Slow iterations": ("tail", "tail_untuned"),
    "Frameworks": ("frameworks", "hiders", "torch_aarch64", "torch_native", "torch_guest", "compile_backend", "thesis"),
    "Planner": ("planners", "strategies", "planner_asked", "planner_unasked", "plan_locality", "executorch", "vela"),
    "Scheduler": ("schedule_means", "schedule", "schedule_runs", "hard_small", "hard_random", "hard_exact", "hard_longest", "large_graphs"),
    "Tests": ("reliability", "kernels"),
}


WIDE = "---\nhide: [toc]\n---\n\n"  # no list of headings beside a wide table


def folded(row):
    """The row with its ends in the cells of their values: 0.97 (0.89–1.06)."""
    found = {}
    for column, value in row.items():
        name, _, end = column.rpartition("_")
        if end in ("low", "high") and (name in row or f"{name}_ms" in row):
            continue
        ends = [row.get(f"{stem}_{end}", "") for stem in (column, column.removesuffix("_ms")) for end in ("low", "high")]
        ends = [each for each in ends if each][:2]
        found[column] = f"{value}\u00a0({'–'.join(ends)})" if value and len(ends) == 2 else value
    return found


def page(name):
    rows, how = results.newest(name)
    rows = [folded(row) for row in rows]
    told = [how["about"]] if how.get("about") else []
    told += ["Not measured, for lack of time: " + ", ".join(how["left_out"]) + "."] if how.get("left_out") else []
    parts = [f"# {how['title']}", *told, "\n".join(results.markdown(rows)), results.source(how)]
    return WIDE + "\n\n".join(parts) + "\n"


def note_title(text):
    return text.partition("\n")[0].removeprefix("# ")


def index(notes):
    """The list of all results and notes, by group."""
    names = results.names()
    grouped = [name for group in GROUPS.values() for name in group]
    groups = {**GROUPS, "Others": tuple(name for name in names if name not in grouped)}
    lines = ["# Results", "", "**Each page has the newest run of one measurement: its table, the command, commit, machine and versions.**", "",
             "[Targets](targets.md) lists what is asked, and what is missed. A page's data are `results/NAME/DATE.csv` in the source tree.", ""]
    for title, group in groups.items():
        shown = [name for name in group if name in names]
        if shown:
            lines += [f"## {title}", "", *(f"- [{results.newest(name)[1]['title']}]({name}.md)" for name in shown), ""]
    lines += ["## Tried and left", "", *(f"- [{note_title(text)}]({pathlib.PurePath(path).relative_to('results')})"
                                          for path, text in notes.items()), ""]
    return "\n".join(lines)


def targets_page():
    rows = [targets.judge(target) for target in targets.read()]
    missed = sum(row["met"] == "no" for row in rows)
    shown = [{"asked": row["asked"], "met": "yes" if row["met"] == "yes" else "**no**",
              "measured": f"[{row['measured']}]({row['result']}.md), asked {row['limit']}", "worst_rows": row["worst"]} for row in rows]
    return (WIDE + "# Targets\n\n" f"**{len(rows) - missed} of {len(rows)} targets are met; the others say by how much they are missed.**\n\n"
            "Limits are goals, not promises. They are `results/targets.toml`; `scripts/targets.py` judges them by the newest results.\n\n"
            + "\n".join(results.markdown(shown)) + "\n")


def lists():
    """Page -> its text, of lists that the tree has."""
    thresholds = "\n".join(gen_tables.render(gen_tables.TABLES["tuning"]))
    transitions = "\n".join(gen_tables.render(gen_tables.TABLES["transitions"]))
    with (ROOT / "tests/promises.csv").open(newline="", encoding="utf-8") as file:
        promises = results.markdown(list(csv.DictReader(file)))
    skips = results.markdown([{"step": f"`{step}`", "test: reason": f"`{text}`", "why it may be skipped": why}
                              for step, text, why in check.read_allowed()])
    return {
        "thresholds.md": WIDE + "# Thresholds\n\nThe constants of `src/base/tuning*.def`, with their reasons and the tests that notice a change. They are "
                         f"no settings.\n\n{thresholds}\n\n## Phases of a lane\n\nFrom `src/engine/tracker.def`.\n\n{transitions}\n",
        "promises.md": WIDE + "# Where each promise is tested\n\nFrom `tests/promises.csv`.\n\n" + "\n".join(promises) + "\n",
        "skips.md": WIDE + "# What tests may skip\n\nFrom `tests/allowed_skips.txt`: on a machine that the check has set up, any other skip is a failure."
                    "\n\n" + "\n".join(skips) + "\n",
    }


def pages():
    """Path below the site -> text, of all pages that are made."""
    notes = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
             for path in sorted((ROOT / "results/notes").glob("*.md"))}
    found = {f"{name}.md": page(name) for name in results.names()} | {"targets.md": targets_page(), "index.md": index(notes)} | lists()
    return {FOLDER + name: text for name, text in found.items()} | notes
