"""`memomalloc report`: what the page says, and the exports."""

import html
import importlib.util
import json
import os
import pickle
import re
import subprocess
import sys
import unittest

import trace_event
from report_case import MOBILENET, STATISTICS, ReportCase, looped_trace, random_trace
from support import COMMAND, GOLDEN, memomalloc


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
            "well": (STATISTICS | {"planned_bytes": 5 << 20, "at_hand_bytes": 0}, "100 % of 5.0 MiB", "--plans"),
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
        trace.write_text(looped_trace(60, (8 << 20, 1 << 20, 4 << 20)))  # long enough to be served on trial
        self.report(trace, "--no-glibc")
        self.assertIn("The 3 blocks of an iteration fit into", self.answer()[0])
        trace.write_text(looped_trace(60, [100_000 * size for size in range(1, 32)], late=5))
        self.report(trace, "--no-glibc")
        self.assertIn("The 93 blocks of 3 iterations fit into", self.answer()[0])

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

    def test_times_that_lie_far_apart_become_ranks(self):
        far = 6 * 10**18
        for name, (text, live) in {
                "more than there are numbers for": (f"a,{-far},{far},10\nb,0,5,3\n", [10, 13, 10]),
                "nanoseconds": ("a,0,10000000000,10\n", [10]),
        }.items():
            with self.subTest(name):
                file = self.folder / "problem.csv"
                file.write_text("id,lower,upper,size\n" + text)
                self.report(file)
                thread, = self.data()["threads"]
                self.assertEqual((True, len(live), live), (thread["ranked"], thread["steps"], thread["live"]))
        file.write_text("id,lower,upper,size\na,0,1000000,10\nb,999998,1000000,3\n")
        self.report(file)
        thread, = self.data()["threads"]
        self.assertEqual((False, 1000000, [0, 999998]), (thread["ranked"], thread["steps"], thread["blocks"]["lower"]))

    def test_no_plan_is_said_to_be_none(self):
        trace = self.folder / "trace.csv"
        trace.write_text("op,thread,block,size,alignment,site\n" +
                         "".join(f"malloc,0,{block},{2**62},1,0\n" for block in range(3)))
        self.report(trace, "--no-glibc")
        self.assertEqual("No plan was found for the blocks shown.", self.answer()[0])

    def test_names_cannot_break_the_page(self):
        """A mark of the page's own as the file's name, and the begin of a comment as a buffer's."""
        for name in ("@script@.csv", "@data@.csv"):
            file = self.folder / name
            file.write_text("id,lower,upper,size\n<!--<script,0,4,2\n")
            self.report(file)
            page = (self.folder / "report.html").read_text()
            self.assertEqual(f"{name} - MemoMalloc report", re.search("<title>(.*?)</title>", page, re.DOTALL)[1][:99])
            self.assertTrue("function showThread" in page.rpartition("<script>")[2])
            self.assertEqual((name, ["buffer <!--<script"]), (self.data()["title"], self.data()["sites"]))
            self.assertFalse("<!--" in page)

    def test_a_problem_from_a_pipe_is_refused_with_what_to_do(self):
        problem, pipe = "id,lower,upper,size\na,0,4,2\n", self.folder / "pipe"
        os.mkfifo(pipe)
        for given in ("-", pipe):
            process = subprocess.run([COMMAND, "report", given, "-o", self.folder / "report.html"], input=problem,
                                     capture_output=True, text=True, timeout=60)
            self.assertEqual(2, process.returncode)
            self.assertIn("a problem and statistics are read from files", process.stderr)

    def test_statistics_alone_bring_no_names_of_the_folder(self):
        file = self.folder / "stats.json"
        file.write_text(json.dumps(STATISTICS))
        (self.folder / ".sites").write_text("of something else\n")
        process = subprocess.run([COMMAND, "report", "stats.json"], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(0, process.returncode, process.stderr)

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

if __name__ == "__main__":
    unittest.main()
