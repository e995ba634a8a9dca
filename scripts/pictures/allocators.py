"""Time and peak memory against each other allocator, from the tables that bench/run.py printed into bench/README.md."""

import re

import svg

ROW = 24
NAMES, TIME, MEMORY, WIDE = 12, 152, 322, 140  # where the columns begin; how wide the two scales are
LEAST, MOST = 0.65, 1.10
# Heading in bench/README.md, and what stands above its rows.
GROUPS = (("Workloads on which nothing was ever set", "Workloads that nothing was tuned on"),
          ("Against eight other settings", "Workloads of its development"))
CELL = r"([\d.]+) [\[(]([\d.]+)(?:,| to) ([\d.]+)[\])]"


def measure(_build, root):
    """The rows of both tables: {name, time, memory}, each (middle, least, most) of ours over it."""
    text = (root / "bench/README.md").read_text(encoding="utf-8")
    groups = []
    for heading, title in GROUPS:
        part = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)[1]
        commit = re.search(r"commit (\w+)", part)[1]
        workloads = len(re.findall(r"^\| \w+_\w+ \| [\d.]+ \|", part, re.MULTILINE))
        table = part[part.index("| allocator | time of ours over it |"):]
        rows = []
        for line in table.splitlines()[2:]:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            found = [match for match in (re.fullmatch(CELL, cell) for cell in cells) if match]
            if len(found) == 2:
                time, memory = ([float(value) for value in match.groups()] for match in found)
                rows.append({"name": cells[0], "time": time, "memory": memory})
            elif not line.startswith("|"):
                break
        groups.append({"title": title, "commit": commit, "workloads": workloads, "rows": rows})
    return {"groups": groups}


def draw(data, path):
    rows = sum(len(group["rows"]) for group in data["groups"])
    height = 74 + rows * ROW + 52 * len(data["groups"]) + 34
    picture = svg.Picture(height, "Time and peak memory of this library over each other allocator's",
                          "Left of the line at 1 this library needs less; a bar spans what the repetitions spanned.")
    picture.text(NAMES, 24, "This library over each other allocator", "head")
    picture.text(TIME, 50, "time", "strong")
    picture.text(MEMORY, 50, "peak memory", "strong")

    def at(left, value):
        return left + (value - LEAST) / (MOST - LEAST) * WIDE

    y = 62
    for group in data["groups"]:
        picture.text(NAMES, y + 18, f"{group['title']}: {group['workloads']}, commit {group['commit']}", "small")
        y += 30
        bottom = y + ROW * len(group["rows"])
        for left in (TIME, MEMORY):
            for value in (0.7, 0.8, 0.9, 1.0, 1.1):
                picture.line(at(left, value), y, at(left, value), bottom, "mark" if value == 1.0 else "grid")
        for row in group["rows"]:
            picture.text(NAMES, y + 16, row["name"].replace("_", ", "))
            for left, (middle, least, most) in ((TIME, row["time"]), (MEMORY, row["memory"])):
                kind = "ours" if middle <= 1 else "theirs"
                picture.line(at(left, least), y + 12, at(left, most), y + 12, f"{kind}-line")
                picture.circle(at(left, middle), y + 12, 4.5, kind)
            y += ROW
        for left in (TIME, MEMORY):
            for value in (0.7, 0.8, 0.9, 1.0, 1.1):
                picture.text(at(left, value), y + 14, f"{value:g}", "small", "middle")
        y += 22
    picture.text(NAMES, y + 16, "Left of the green line: less with this library (orange). Right: more (blue).", "small")
    picture.text(NAMES, y + 32, "Geometric means; the bars span three repetitions.", "small")
    picture.save(path)
