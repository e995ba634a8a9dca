"""Page faults of each iteration, without and with the library, and the moment from which a plan serves."""

import json
import os
import subprocess
import sys

import svg

ITERATIONS = 14
LEFT, RIGHT, TOP, HEIGHT = 62, 462, 60, 200


def measure(build, root):
    """Runs the loop of faults_loop.py with and without the library: the drawing's data."""
    def run(variables):
        done = subprocess.run([sys.executable, root / "scripts/pictures/faults_loop.py", str(ITERATIONS)], check=True,
                              stdout=subprocess.PIPE, text=True, env={**os.environ, **variables})
        return json.loads(done.stdout.splitlines()[-1])

    return {"network": "MobileNet v2, batch 8", "glibc": run({"LD_PRELOAD": ""}),
            "memomalloc": run({"LD_PRELOAD": str(build / "libmemomalloc.so")})}


def draw(data, path):
    theirs, ours = data["glibc"]["faults"], data["memomalloc"]["faults"]
    planned = data["memomalloc"]["planned_bytes"]
    begins = max(index for index, value in enumerate(planned) if value < 0.9 * max(planned)) + 1  # a plan serves all from here on
    steady = ours[begins:]
    picture = svg.Picture(TOP + HEIGHT + 76, f"Page faults of each iteration of {data['network']}",
                          f"glibc: {theirs[-1]} in the last iteration; with the library {ours[-1]}.")
    picture.text(12, 24, f"Page faults of each iteration, {data['network']}", "head")
    most = max(theirs + ours)
    step = 20000 if most > 45000 else 10000

    def place(index, value):
        return LEFT + index * (RIGHT - LEFT) / (len(theirs) - 1), TOP + HEIGHT - value * HEIGHT / most

    for value in range(0, most + 1, step):
        y = place(0, value)[1]
        picture.line(LEFT, y, RIGHT, y, "axis" if value == 0 else "grid")
        picture.text(LEFT - 6, y + 4, f"{value:,}", "small", "end")
    for index in range(0, len(theirs), 2):
        picture.text(place(index, 0)[0], TOP + HEIGHT + 18, str(index + 1), "small", "middle")
    x = place(begins, 0)[0]
    picture.line(x, TOP - 6, x, TOP + HEIGHT, "mark")
    picture.text(x + 6, TOP - 14, f"a plan serves from iteration {begins + 1} on", "marked strong")
    for values, kind in ((theirs, "theirs"), (ours, "ours")):
        points = [place(index, value) for index, value in enumerate(values)]
        picture.polyline(points, f"{kind}-line")
        for x, y in points:
            picture.circle(x, y, 3, kind)
    x, y = place(len(theirs) - 1, theirs[-1])
    picture.text(x, y + 26, f"glibc: {theirs[-1]:,}", "theirs strong", "end")
    x, y = place(len(ours) - 1, ours[-1])
    picture.text(x, y - 12, f"with the library: {min(steady)} to {max(steady)}" if min(steady) < max(steady)
                 else f"with the library: {max(steady)}", "ours strong", "end")
    picture.text((LEFT + RIGHT) / 2, TOP + HEIGHT + 36, "iteration", "small", "middle")
    picture.text(12, TOP + HEIGHT + 60, "A page fault: the kernel finds and clears 4 KiB.", "small")
    picture.save(path)
