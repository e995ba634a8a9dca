"""`memomalloc report`: the page in a real browser."""

import gzip
import json
import random
import time
import unittest

from report_case import MOBILENET, STATISTICS, ReportCase, random_trace
from browser import PROGRAM, Browser  # support.py says where it is


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

    def test_a_buffer_of_many_parts_counts_once(self):
        file = self.folder / "problem.csv"
        file.write_text("id,lower,upper,size,gaps\na,0,10,10,2-3 5-6\n")
        self.open(file)
        tiles = self.browser.evaluate("byId('tiles').innerText")
        self.assertRegex(tiles, r"\b10 B\s+without reuse")
        self.assertEqual(["buffer a", "1", "10 B", "100.0 %", "10 B", "8.0"], self.browser.evaluate(
            "[...document.querySelectorAll('#sites tbody td')].map(cell => cell.textContent)"))

    def test_times_in_nanoseconds_and_a_hostile_name_are_drawn(self):
        file = self.folder / "@data@.csv"
        file.write_text("id,lower,upper,size\n<!--<script,0,10000000000,10\n")
        self.open(file)
        self.assertIn("its times lie far apart", self.browser.evaluate("byId('map-caption').textContent"))
        self.assertEqual("buffer <!--<script", self.browser.evaluate(
            "document.querySelector('#sites tbody td').textContent"))

    def test_each_statistic_has_its_meaning(self):
        statistics = self.folder / "statistics.json"
        statistics.write_text(json.dumps(STATISTICS | {"diverged": 3}))
        self.open(statistics)
        rows = self.browser.evaluate("[...document.querySelectorAll('#counters tbody tr')].map(r => r.textContent)")
        self.assertEqual(["large_allocations1,000allocations of at least the threshold",
                          "large_bytes5.00 MiB (5,242,880)bytes that they asked for",
                          "planned_bytes4.00 MiB (4,194,304)bytes that they asked for",
                          "diverged3a lane went back to learning"], rows[-4:])

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
