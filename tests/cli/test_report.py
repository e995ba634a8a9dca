"""`memomalloc report`: the page in a real browser, and the exports."""

import gzip
import html
import importlib.util
import json
import pathlib
import pickle
import random
import re
import subprocess
import sys
import tempfile
import time
import unittest

import trace_event
from support import COMMAND, GOLDEN, memomalloc
from browser import PROGRAM, Browser  # support.py says where it is

MOBILENET = GOLDEN / "traces/mobilenet_v2_b8.csv.gz"
STATISTICS = {"version": "0.1.0", "pid": 7, "phase": "serving", "large_allocations": 1000, "large_bytes": 5 << 20,
              "served_bytes": 4 << 20, "fallback": {"size": 12, "order": 3, "limit": 0},
              "since_serving": {"large_bytes": 4 << 20, "served_bytes": 4 << 20}}


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


class Files(ReportCase):
    def test_the_plan_of_one_iteration(self):
        self.report(MOBILENET)
        thread, = self.data()["threads"]
        blocks = thread["blocks"]
        self.assertEqual(thread["period"]["length"], len(blocks["size"]))
        self.assertGreaterEqual(thread["height"], thread["lowerBound"])
        self.assertGreater(thread["glibcBytes"], thread["lowerBound"])
        for places in (blocks["offset"], blocks["glibc"]):
            rows = list(zip(blocks["lower"], blocks["upper"], places, blocks["size"]))
            for i, (lower, upper, place, size) in enumerate(rows):
                for other in rows[:i]:
                    if lower < other[1] and other[0] < upper:
                        self.assertTrue(place + size <= other[2] or other[2] + other[3] <= place)

    def test_of_iterations_of_changing_shape_the_largest_is_shown(self):
        self.report(GOLDEN / "traces/bert_random_length.csv.gz")
        thread, = self.data()["threads"]
        self.assertTrue(thread["period"]["changing"])
        self.assertEqual(thread["period"]["length"], thread["steps"])
        self.assertEqual(thread["steps"], len(thread["blocks"]["size"]) + thread["unplanned"])
        self.assertGreaterEqual(thread["height"], thread["lowerBound"])
        self.assertTrue(all(upper <= thread["steps"] for upper in thread["blocks"]["upper"]))

    def answer(self):
        """What the page says first: what came out, and what to do next."""
        page = (self.folder / "report.html").read_text()
        part = re.search(r'<section id="answer">(.*?)</section>', page, re.DOTALL)[1]
        return [html.unescape(re.sub(r"<.*?>", "", text)) for text in re.findall(r"<p.*?>(.*?)</p>", part, re.DOTALL)]

    def test_answers_before_it_details(self):
        cases = {
            "well": (STATISTICS | {"planned_bytes": 5 << 20, "at_hand_bytes": 0}, "100 % of 5.0 MiB", "--plan-file"),
            "badly": (STATISTICS | {"planned_bytes": 1 << 20, "at_hand_bytes": 1 << 20}, "40 % of 5.0 MiB",
                      "Most of the rest: size"),
            "by the pool alone": (STATISTICS | {"planned_bytes": 0, "at_hand_bytes": 5 << 20}, "100 % of 5.0 MiB",
                                  "No plan was needed"),
            "old": (STATISTICS, "80 % of 5.0 MiB", "doctor"),
            "nothing": (STATISTICS | {"large_bytes": 0}, "no large allocations", "doctor"),
            "observed": (STATISTICS | {"observed": {"page_faults": 1234567, "peak_bytes": 9}}, "1,234,567 page faults",
                         "without --observe"),
        }
        for name, (statistics, what, then) in cases.items():
            with self.subTest(name):
                file = self.folder / "stats.json"
                file.write_text(json.dumps(statistics))
                self.report(file)
                first, second = self.answer()
                self.assertIn(what, first)
                self.assertIn(then, second)
        self.report(MOBILENET)
        first, second = self.answer()
        self.assertRegex(first, r"of an iteration fit into [0-9.]+ MiB, .*; glibc took [0-9.]+ MiB")
        self.assertIn("memomalloc run", second)
        trace = self.folder / "trace.csv"
        trace.write_text(random_trace(300, 1))
        self.report(trace, "--no-glibc")
        self.assertIn("Nothing repeats", self.answer()[0])

    def test_the_buffers_of_a_problem_or_plan(self):
        """Offsets that are given are kept; others are planned; gaps are no part of a life; a wrong plan is refused."""
        file = self.folder / "<i>problem.csv"
        file.write_text("id,lower,upper,size,gaps\na,0,4,2000000,\nb,1,3,3000000,\nc,3,6,3000000,\n"
                        "d,4,12,1000000,6-8 9-11\n")
        self.report(file)
        data = self.data()
        self.assertTrue(data["buffers"])
        thread, = data["threads"]
        self.assertEqual(5_000_000, thread["height"])
        self.assertEqual(5_000_000, thread["lowerBound"])
        self.assertEqual([2, 5, 5, 5, 4, 4, 0, 0, 1, 0, 0, 1], [value / 1_000_000 for value in thread["live"]])
        self.assertEqual([(4, 6), (8, 9), (11, 12)],
                         list(zip(thread["blocks"]["lower"], thread["blocks"]["upper"]))[3:])
        self.assertEqual("buffer d", data["sites"][thread["blocks"]["site"][-1]])
        self.assertIn("4 buffers fit into 4.8 MiB, which is the least possible", self.answer()[0])
        self.assertIn("memomalloc plan", self.answer()[1])
        self.assertIn("<title>&lt;i&gt;problem.csv", (self.folder / "report.html").read_text())
        plan = self.folder / "plan.csv"
        plan.write_text("id,lower,upper,size,offset\na,0,4,2,1\nb,1,3,3,3\n")
        self.report(plan)
        self.assertEqual([1, 3], self.data()["threads"][0]["blocks"]["offset"])
        self.assertIn("20.00 % above", self.answer()[0])
        plan.write_text("id,lower,upper,size,offset\na,0,4,2,1\nb,1,3,3,2\n")
        self.assertIn("buffers a and b", self.report(plan, code=2).stderr)

    def test_standard_input_and_output(self):
        shell = f"zcat {GOLDEN / 'traces/mobilenet_v2_b8.csv.gz'} | {COMMAND} report - -o -"
        process = subprocess.run(["sh", "-c", shell], capture_output=True, text=True)
        self.assertIn("without glibc's layout", process.stderr)
        self.assertTrue(process.stdout.startswith("<!DOCTYPE html>"))
        self.assertTrue(process.stdout.rstrip().endswith("</html>"))

    def test_nothing_is_fetched(self):
        self.report(MOBILENET)
        page = (self.folder / "report.html").read_text()
        self.assertEqual([], re.findall(r'(?:src|href)\s*=\s*"|@import|url\(', page))

    def test_sites_get_names(self):
        sites = self.folder / "sites.csv"
        sites.write_text('site,symbol\n8110563c51fa355f,at::empty</script>"x"\n')
        self.report(MOBILENET, "--sites", sites)
        self.assertIn('at::empty</script>"x"', self.data()["sites"])

    def test_a_recorded_trace_brings_its_names(self):
        trace = self.folder / "trace.csv"
        program = "blocks = [bytearray(size * 100000) for _ in range(20) for size in range(1, 9)]"
        process = memomalloc("run", "--trace-file", trace, "--", sys.executable, "-c", program)
        self.assertEqual(0, process.returncode, process.stderr)
        self.report(trace)
        self.assertTrue(any("Py" in name for name in self.data()["sites"]), self.data()["sites"])

    def test_chrome_trace_begins_and_ends_each_block_once(self):
        path = self.folder / "trace.json"
        self.report(MOBILENET, "--chrome-trace", path)
        events = json.loads(path.read_text())["traceEvents"]
        begun, live = set(), 0
        for event in events:
            if event["ph"] == "b":
                self.assertNotIn(event["id"], begun)
                begun.add(event["id"])
                live = max(live, len(begun))
            elif event["ph"] == "e":
                begun.remove(event["id"])
        self.assertEqual(set(), begun)
        highest = max(event["args"]["bytes"] for event in events if event["ph"] == "C")
        self.report(MOBILENET)
        self.assertEqual(self.data()["threads"][0]["lowerBound"], highest)

    def test_chrome_traces_keep_the_rules_of_the_format(self):
        path = self.folder / "trace.json"
        for trace in (MOBILENET, GOLDEN / "traces/resnet18_two_threads.csv.gz"):
            self.report(trace, "--chrome-trace", path)
            document = json.loads(path.read_text())
            self.assertEqual([], trace_event.faults(document))
            self.assertEqual({"b", "e", "C", "M"}, {event["ph"] for event in document["traceEvents"]})

    def test_the_rules_of_the_format_refuse_what_breaks_them(self):
        def event(**changes):
            return {"ph": "b", "cat": "block", "pid": 0, "tid": 0, "id": 1, "ts": 5, "name": "x"} | changes

        end = event(ph="e", ts=6)
        self.assertEqual([], trace_event.faults({"traceEvents": [event(), end]}))
        for events in ([event()], [end], [event(), event(ts=6), end], [event(), event(ph="e", ts=4)], [event(ts="5"), end],
                       [event(tid="a"), end], [event(ph="Z")], [event(ph="C", args={"bytes": "many"})],
                       [event(ph="X")], [event(ph="M", name="no such", args={})]):
            self.assertNotEqual([], trace_event.faults({"traceEvents": events}), events)
        self.assertNotEqual([], trace_event.faults([]))

    def test_memory_viz_never_overlaps(self):
        path = self.folder / "memory.pickle"
        self.report(MOBILENET, "--memory-viz", path)
        snapshot = pickle.loads(path.read_bytes())
        segment, = snapshot["segments"]
        trace, = snapshot["device_traces"]
        alive = {}
        for event in trace:
            if event["action"] == "alloc":
                begin, end = event["addr"], event["addr"] + event["size"]
                self.assertTrue(segment["address"] <= begin and end <= segment["address"] + segment["total_size"])
                self.assertTrue(all(end <= other or other + size <= begin for other, size in alive.items()))
                alive[begin] = event["size"]
            elif event["action"] == "free_completed":
                del alive[event["addr"]]
        self.assertEqual({}, alive)

    def test_memory_viz_has_a_frame_for_each_function(self):
        sites, path = self.folder / "sites.csv", self.folder / "memory.pickle"
        sites.write_text("site,symbol\n8110563c51fa355f,at::empty < at::conv2d < main\n")
        self.report(MOBILENET, "--sites", sites, "--memory-viz", path)
        trace, = pickle.loads(path.read_bytes())["device_traces"]
        stacks = {tuple(frame["name"] for frame in event["frames"]) for event in trace}
        self.assertIn(("at::empty", "at::conv2d", "main"), stacks)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
    def test_torch_reads_the_snapshot(self):
        path = self.folder / "memory.pickle"
        self.report(MOBILENET, "--memory-viz", path)
        program = ("import pickle, sys\nfrom torch.cuda import _memory_viz as viewer\n"
                   "snapshot = pickle.load(open(sys.argv[1], 'rb'))\n"
                   "print(viewer.segsum(snapshot), viewer.trace(snapshot), len(viewer.trace_plot(snapshot)),\n"
                   "      len(viewer.segment_plot(snapshot)))\n")
        process = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True)
        self.assertEqual(0, process.returncode, process.stderr)
        self.assertIn("MEM[", process.stdout)


@unittest.skipUnless(PROGRAM, "chromium is not installed")
class Page(ReportCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = cls.enterClassContext(Browser())

    def open(self, *words):
        self.report(*words)
        self.browser.errors.clear()
        self.browser.open(self.folder / "report.html")
        self.browser.frames()
        self.assertEqual([], self.browser.errors)

    def place_of(self, block):
        """The middle of a block in the left map, in pixels."""
        return self.browser.evaluate(f"""(() => {{
            const box = byId("planned").getBoundingClientRect(), block = current.blocks[{block}], map = maps[0];
            const share = (value, from, to) => (value - from) / (to - from);
            return {{x: box.left + box.width * share((block.lower + block.upper) / 2, shared.time.x0, shared.time.x1),
                     y: box.bottom - box.height * share(block.offset + block.size / 2, map.y0, map.y1)}};
        }})()""")

    def test_tooltip_tells_the_block_under_the_pointer(self):
        self.open(MOBILENET)
        block = self.browser.evaluate(
            "current.blocks.reduce((a, b) => b.size * b.steps > a.size * a.steps ? b : a).index")
        size = self.browser.evaluate(f"current.blocks[{block}].size")
        self.browser.mouse("mouseMoved", **self.place_of(block))
        self.assertEqual("block", self.browser.evaluate("byId('tip').style.display"))
        tip = self.browser.evaluate("byId('tip').textContent")
        self.assertIn(f"{size:,} B", tip)
        self.assertIn(self.browser.evaluate(f"data.sites[current.blocks[{block}].site]"), tip)

    def test_wheel_zooms_about_the_pointer_and_double_click_shows_all(self):
        self.open(MOBILENET)
        whole = self.browser.evaluate("shared.time.x1 - shared.time.x0")
        place = self.place_of(0)
        block = self.browser.evaluate("current.blocks[0].lower")
        self.browser.mouse("mouseWheel", **place, deltaX=0, deltaY=-600)
        time_shown = self.browser.evaluate("shared.time")
        self.assertLess(time_shown["x1"] - time_shown["x0"], whole / 2)
        self.assertTrue(time_shown["x0"] <= block + 1 <= time_shown["x1"])
        for clicks in (1, 2):
            self.browser.mouse("mousePressed", **place, button="left", clickCount=clicks)
            self.browser.mouse("mouseReleased", **place, button="left", clickCount=clicks)
        self.assertEqual(whole, self.browser.evaluate("shared.time.x1 - shared.time.x0"))

    def test_a_site_row_marks_its_blocks(self):
        self.open(MOBILENET)
        self.browser.evaluate("document.querySelector('#sites tbody tr').click()")
        self.browser.frames()
        self.assertEqual(1, self.browser.evaluate("document.querySelectorAll('#sites tr.marked').length"))

    def test_statistics_show_the_reasons_of_fallbacks(self):
        statistics = self.folder / "statistics.json"
        statistics.write_text(json.dumps(STATISTICS))
        self.open(statistics)
        text = self.browser.evaluate("byId('fallbacks').innerText")
        self.assertLess(text.index("size\t12"), text.index("order\t3"))
        self.assertNotIn("limit\t", text)
        self.assertIn("expects another size", text)
        self.assertTrue(self.browser.evaluate("byId('maps').hidden"))

    def test_downloads_hold_what_the_options_write(self):
        self.open(MOBILENET, "--chrome-trace", self.folder / "t.json", "--memory-viz", self.folder / "m.pickle")
        for element, name in (("chrome-data", "t.json"), ("viz-data", "m.pickle")):
            numbers = self.browser.evaluate(f"""(async () => {{
                const packed = Uint8Array.from(atob(byId("{element}").textContent), c => c.charCodeAt(0));
                const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
                return Array.from(new Uint8Array(await new Response(stream).arrayBuffer()));
            }})()""")
            self.assertEqual((self.folder / name).read_bytes(), bytes(numbers))

    def test_a_phone_scrolls_downwards_only(self):
        size = {"deviceScaleFactor": 1, "mobile": False}
        self.browser.call("Emulation.setDeviceMetricsOverride", width=390, height=844, **size)
        self.addCleanup(self.browser.call, "Emulation.setDeviceMetricsOverride", width=1400, height=1000, **size)
        statistics = self.folder / "stats.json"
        statistics.write_text('{"large_allocations": 9, "fallback": {"size": 3, "order": 1}}')
        names = self.folder / "names"
        sites = {line.split(",")[5] for line in gzip.open(MOBILENET, "rt").read().splitlines()[1:]} - {""}
        names.write_text("".join(f"{site},{'at::native::convolution < ' * 9}\n" for site in sites))
        self.open(MOBILENET, statistics, "--sites", names)
        self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), 390)
        # Nothing is cut, or hidden at the side of something that scrolls.
        self.assertLessEqual(self.browser.evaluate(
            "Math.max(...[...document.querySelectorAll('td')].map(cell => cell.getBoundingClientRect().right))"), 390)
        self.assertEqual([], self.browser.evaluate(
            "[...document.querySelectorAll('table, section')].filter(e => e.scrollWidth > e.clientWidth).map(e => e.id)"))
        row = "document.querySelector('#sites tbody tr')"
        self.assertIn("largest", self.browser.evaluate(f"getComputedStyle({row}.cells[4], '::before').content"))
        short = self.browser.evaluate(f"{row}.offsetHeight")
        self.assertLess(short, 200)
        self.browser.evaluate(f"{row}.click()")
        self.assertGreater(self.browser.evaluate(f"{row}.offsetHeight"), short)  # the whole name

    def test_a_problem_s_page_speaks_of_buffers(self):
        file = self.folder / "problem.csv"
        file.write_text("id,lower,upper,size,gaps\na,0,9,2000000,2-4\nb,1,3,3000000,\n")
        self.open(file)
        text = self.browser.evaluate("document.querySelector('main').innerText")
        self.assertIn("2 buffers", text)
        self.assertIn("Largest buffers", text)
        for word in ("glibc", "whole run", "next iteration", "left out"):
            self.assertNotIn(word, text)

    def test_each_statistic_has_its_meaning(self):
        statistics = self.folder / "statistics.json"
        statistics.write_text(json.dumps(STATISTICS | {"diverged": 3}))
        self.open(statistics)
        rows = self.browser.evaluate("[...document.querySelectorAll('#counters tbody tr')].map(r => r.textContent)")
        self.assertEqual(["large_allocations1,000allocations of at least the threshold",
                          "large_bytes5.00 MiB (5,242,880)bytes that they asked for",
                          "diverged3a lane went back to learning"], rows[-3:])

    def test_fifty_thousand_blocks(self):
        seed = random.randrange(1 << 30)
        trace = self.folder / "trace.csv"
        trace.write_text(random_trace(50000, seed))
        began = time.monotonic()
        self.open(trace, "--seconds", "1")
        shown = self.browser.evaluate("maps[0].rects.length")
        self.assertEqual(50000, shown, f"seed {seed}")
        milliseconds = self.browser.evaluate(
            "(() => { const began = performance.now(); draw(); return performance.now() - began; })()")
        print(f"\n50,000 blocks: report and page {time.monotonic() - began:.1f} s, "
              f"one frame {milliseconds:.0f} ms, drawn {self.browser.evaluate('maps[0].drawn')}")
        # Zooming in leaves out what is not in view.
        self.browser.evaluate("shared.showTime(1000, 1100)")
        self.browser.frames()
        self.assertLess(self.browser.evaluate("maps[0].drawn"), 1000)


if __name__ == "__main__":
    unittest.main()
