"""Time and peak RSS of this library compared with each other allocator, from the newest results."""

import pathlib
import sys

import svg

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tables"))
import compared

BAR, GROUP, TOP = 16, 58, 66
NAMES, ZERO, UNIT = 12, 386, 9.6  # where names and bars begin; units for one percent


def read():
    return [row for row in compared.rows() if "." not in row["name"]]


def draw(rows, path):
    height = TOP + GROUP * len(rows) + 44
    picture = svg.Picture(height, "Time and peak memory compared with other allocators",
                          "; ".join(f"{row['title']}: time {compared.percent(row['time'])}, peak RSS {compared.percent(row['peak'])}"
                                    for row in rows))
    picture.text(NAMES, 24, "MemoMalloc compared with other allocators", "head")
    picture.text(NAMES, 46, "A bar to the left: less time, or less memory. 0: the same.", "small")
    for value in (-20, -15, -10, -5, 0):
        picture.line(ZERO + UNIT * value, TOP, ZERO + UNIT * value, TOP + GROUP * len(rows), "mark" if value == 0 else "grid")
        picture.text(ZERO + UNIT * value, TOP + GROUP * len(rows) + 16, f"{'−' if value else ''}{abs(value)} %", "small", "middle")
    y = TOP
    for row in rows:
        picture.text(NAMES, y + 22, row["title"].replace(" 5.3.0", "").replace(" 2.10", ""), "strong")
        picture.text(NAMES, y + 38, f"{row['workloads']} workloads", "small")
        for place, (name, kind) in enumerate((("time", "ours"), ("peak", "theirs"))):
            change, top = 100 * (row[name] - 1), y + 8 + place * (BAR + 4)
            left = ZERO + UNIT * min(change, 0)
            picture.rectangle(left, top, max(abs(change) * UNIT, 1), BAR, kind)
            picture.text(ZERO + 6 + UNIT * max(change, 0), top + 12, f"{compared.percent(row[name])} {'time' if name == 'time' else 'peak'}", "small")
        y += GROUP
    picture.text(NAMES, height - 10, "Orange: time. Blue: peak RSS. Tuned: set to retain freed memory.", "small")
    picture.save(path)
