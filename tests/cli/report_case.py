"""What the tests of `memomalloc report` share: inputs, and the page that a run writes."""

import json
import pathlib
import random
import re
import tempfile
import unittest

from support import GOLDEN, memomalloc

MOBILENET = GOLDEN / "traces/mobilenet_v2_b8.csv.gz"
STATISTICS = {"version": "0.1.0", "pid": 7, "phase": "serving", "large_allocations": 1000, "large_bytes": 5 << 20,
              "planned_bytes": 4 << 20, "fallback": {"size": 12, "order": 3, "limit": 0},
              "since_serving": {"large_bytes": 4 << 20, "planned_bytes": 4 << 20, "at_hand_bytes": 0}}


def random_trace(blocks, seed):
    """Blocks of random sizes and lifetimes; nothing repeats."""
    choose = random.Random(seed)
    lines, alive = ["op,thread,block,size,alignment,site"], []
    for block in range(blocks):
        lines.append(f"malloc,0,{block},{choose.randint(70000, 4000000)},1,{choose.randrange(1, 9):x}")
        alive.append(block)
        while len(alive) > choose.randint(20, 60):
            lines.append(f"free,0,{alive.pop(choose.randrange(len(alive)))},0,1,0")
    return "\n".join(lines) + "\n"


def looped_trace(iterations, sizes, late=None):
    """The same blocks again and again, each freed at the next one's begin; number `late` lives for two more iterations."""
    lines, waiting = ["op,thread,block,size,alignment,site"], []
    for block in range(iterations * len(sizes)):
        at = block % len(sizes)
        lines.append(f"malloc,0,{block},{sizes[at]},1,{at + 1:x}")
        waiting.append((block + (2 * len(sizes) if at == late else 1), block))
        lines += [f"free,0,{one},0,1,0" for end, one in waiting if end <= block]
        waiting = [(end, one) for end, one in waiting if end > block]
    return "\n".join(lines) + "\n"


class ReportCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def report(self, *words, code=0):
        process = memomalloc("report", *words, "-o", self.folder / "report.html")
        self.assertEqual(code, process.returncode, process.stderr)
        return process

    def data(self):
        page = (self.folder / "report.html").read_text()
        return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
