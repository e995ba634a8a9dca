"""One iteration's memory, as glibc places its blocks and as the plan does; from a recorded trace."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import svg

MIB = 1 << 20
TOP, HEIGHT = 78, 270  # of the panels
LEFT, PANEL, GAP = 46, 200, 26


def measure(build, root):
    """Records a network's allocations and lets `memomalloc report` place them both ways: the drawing's data."""
    with tempfile.TemporaryDirectory() as folder:
        trace, page = (pathlib.Path(folder) / name for name in ("trace.csv", "report.html"))
        variables = {**os.environ, "LD_PRELOAD": str(build / "libmemomalloc.so"), "MEMOMALLOC_TRACE_FILE": str(trace)}
        subprocess.run([sys.executable, root / "scripts/infer.py", "--model", "mobilenet_v2", "--batch", "8",
                        "--iterations", "12"], env=variables, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([build / "memomalloc", "report", trace, "-o", page], check=True, stdout=subprocess.DEVNULL)
        found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    thread = max(json.loads(found[1])["threads"], key=lambda one: one["bytes"])
    columns = ("lower", "upper", "size", "offset", "glibc")
    return {"network": "MobileNet v2, batch 8", "steps": thread["steps"], "height": thread["height"],
            "bound": thread["lowerBound"], "glibc_height": thread["glibcBytes"],
            **{name: thread["blocks"][name] for name in columns}}


def panel(picture, left, data, offsets, top_bytes):
    picture.rectangle(left, TOP, PANEL, HEIGHT, "panel")
    wide, high = PANEL / data["steps"], HEIGHT / top_bytes
    for index, (lower, upper, size, offset) in enumerate(zip(data["lower"], data["upper"], data["size"], offsets)):
        if offset is not None:
            picture.rectangle(left + lower * wide, TOP + HEIGHT - (offset + size) * high,
                              (min(upper, data["steps"]) - lower) * wide, size * high,
                              f"block b{index % svg.BLOCK_COLOURS}")
    picture.line(left, TOP + HEIGHT, left + PANEL, TOP + HEIGHT)


def draw(data, path):
    theirs, ours = data["glibc_height"], data["height"]
    title = f"One iteration of {data['network']}: {theirs / MIB:.0f} MiB of addresses as glibc places it, {ours / MIB:.0f} planned"
    picture = svg.Picture(TOP + HEIGHT + 70, title, "Time to the right, addresses upwards; a rectangle is a block.")
    picture.text(12, 24, f"One iteration of {data['network']}", "head")
    second = LEFT + PANEL + GAP
    picture.text(LEFT, 50, "glibc", "strong")
    picture.text(LEFT, 68, f"spread over {theirs / MIB:.0f} MiB", "small")
    picture.text(second, 50, "the plan", "strong")
    least = "the least possible" if ours == data["bound"] else f"the least is {data['bound'] / MIB:.1f}"
    picture.text(second, 68, f"{ours / MIB:.0f} MiB, {least}", "small")
    top_bytes = max(theirs, ours)
    panel(picture, LEFT, data, data["glibc"], top_bytes)
    panel(picture, second, data, data["offset"], top_bytes)
    for mib in range(0, int(top_bytes / MIB) + 1, 50):
        y = TOP + HEIGHT - mib * MIB * HEIGHT / top_bytes
        picture.text(LEFT - 6, y + 4, str(mib), "small", "end")
    y = TOP + HEIGHT - ours * HEIGHT / top_bytes
    picture.line(LEFT, y, second + PANEL, y, "mark")
    picture.text(12, TOP - 28, "MiB", "small")
    for left in (LEFT, second):
        picture.text(left + PANEL, TOP + HEIGHT + 18, "time →", "small", "end")
    picture.text(12, TOP + HEIGHT + 42, f"{len(data['size'])} blocks of 64 KiB and more. Each rectangle is one block, "
                                        "in one colour", "small")
    picture.text(12, TOP + HEIGHT + 58, "on both sides: as wide as it lives long, as high as it is large.", "small")
    picture.save(path)
