"""`memomalloc compare`: rows, figures, failures."""

import csv
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from support import COMMAND, ROOT, json_of, memomalloc
from browser import PROGRAM, Browser  # support.py says where it is

REPORTING = "import os; print('noise'); print('{\"p50_ms\": 1.5, \"preload\": %d}' % bool(os.environ['LD_PRELOAD']))"
# One iteration again and again, then the library's own counters as a line of JSON.
SERVED = """
import json, memomalloc
for _ in range(40):
    blocks = [bytearray(size * 100000) for size in range(1, 9)]
    del blocks
print(json.dumps(memomalloc.stats()))
"""


def table_of(output):
    """The table's lines, from its heading on."""
    lines = output.splitlines()
    return lines[next(number for number, line in enumerate(lines) if line.startswith("allocator ")):]


class Compare(unittest.TestCase):
    def test_the_answer_is_first_and_what_to_do_is_last(self):
        process = memomalloc("compare", "--runs", "4", "--allocators", "glibc,memomalloc", "--", "true")
        first, blank, heading, *_, last = process.stdout.splitlines()
        self.assertRegex(first, r"^With memomalloc: .* time.*, .* peak memory\.$")
        self.assertEqual("", blank)
        self.assertRegex(heading, "^allocator ")
        self.assertRegex(last, r"^(To|If) .*: memomalloc (run|doctor) -- true$")
        few = memomalloc("compare", "--runs", "3", "--allocators", "glibc,memomalloc", "--", "true").stdout.splitlines()
        self.assertEqual("With memomalloc: too few runs to tell; it takes 4 of each.", few[0])
        alone = memomalloc("compare", "--runs", "1", "--allocators", "glibc", "--", "true").stdout
        self.assertRegex(alone, "^allocator ")
        self.assertNotIn("With memomalloc", alone)

    def test_rows_runs_and_reported_figures(self):
        process = memomalloc("compare", "--json", "--runs", "3", "--allocators", "glibc,memomalloc",
                             "--", sys.executable, "-c", REPORTING)
        self.assertEqual(0, process.returncode, process.stderr)
        glibc, ours = json_of(process)["allocators"]
        self.assertEqual(["glibc", "memomalloc"], [glibc["allocator"], ours["allocator"]])
        self.assertEqual(3, len(glibc["wall_seconds"]["runs"]))
        self.assertGreater(glibc["peak_rss_bytes"]["min"], 1 << 20)
        self.assertEqual(1.5, ours["reported"]["p50_ms"]["median"])
        self.assertEqual(0, glibc["reported"]["preload"]["max"])
        self.assertEqual(1, ours["reported"]["preload"]["min"])

    def test_names_that_are_no_text(self):
        process = memomalloc("compare", "--json", "--runs", "1", "--allocators", "glibc", "echo", b"\xff".decode(errors="surrogateescape"))
        self.assertEqual(["echo", "\ufffd"], json_of(process)["command"])

    def test_our_own_rows_run_as_by_the_command(self):
        process = memomalloc("compare", "--runs", "1", "-w", "0", "--allocators", "glibc,memomalloc", "--csv", "-", "--",
                             "sh", "-c", 'test "$ARROW_DEFAULT_MEMORY_POOL" = system')
        self.assertEqual(["allocator", "memomalloc"], [line.split(",")[0] for line in process.stdout.splitlines()])

    def test_no_row_has_settings_of_another_place(self):
        names = ("MEMOMALLOC_DISABLE", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES")
        script = " || ".join(f'test -n "${name}"' for name in names)
        process = memomalloc("compare", "--runs", "1", "-w", "0", "--allocators", "glibc,memomalloc", "--", "sh", "-c",
                             f"! {{ {script}; }}", environment=dict.fromkeys(names, "1"))
        self.assertEqual(0, process.returncode, process.stderr)
        for name in names:
            self.assertIn(f"the runs are without {name}; ", process.stderr)

    def test_plans_of_an_earlier_run_serve_from_the_start(self):
        process = memomalloc("compare", "--json", "--runs", "2", "-w", "0", "--allocators", "memomalloc,memomalloc-plans",
                             "--", sys.executable, "-c", SERVED, environment={"PYTHONPATH": str(ROOT / "python")})
        self.assertEqual(0, process.returncode, process.stderr)
        without, with_file = (row["reported"] for row in json_of(process)["allocators"])
        self.assertEqual((1, 0), (without["plans"]["median"], with_file["plans"]["median"]))
        self.assertLess(with_file["learned_allocations"]["max"], without["learned_allocations"]["min"])
        self.assertGreater(with_file["planned_bytes"]["min"], without["planned_bytes"]["max"])

    def test_the_time_to_the_first_answer_is_a_column(self):
        process = memomalloc("compare", "--runs", "1", "--allocators", "glibc,memomalloc", "--", "echo",
                             '{"first_ms": 12.5, "seed": 7}')
        heading, *rows = table_of(process.stdout)[:3]
        self.assertTrue(heading.endswith("first_ms"), heading)
        self.assertNotIn("seed", heading)
        for row in rows:
            self.assertTrue(row.endswith("12.500 (12.500-12.500)"), row)

    def test_table_and_csv(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "runs.csv"
            process = memomalloc("compare", "--runs", "2", "--allocators", "glibc,glibc-tuned", "--csv",
                                 path, "--", "echo", '{"p50, \\"ms\\"": 2}')
            rows = list(csv.DictReader(path.read_text().splitlines()))
        self.assertIn("GLIBC_TUNABLES=", process.stdout)
        self.assertEqual([("glibc", "0"), ("glibc", "1"), ("glibc-tuned", "0"), ("glibc-tuned", "1")],
                         [(row["allocator"], row["run"]) for row in rows])
        self.assertGreater(int(rows[0]["minor_faults"]), 0)
        self.assertEqual("2", rows[0]['p50, "ms"'])

    def test_the_page(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "page.html"
            process = memomalloc("compare", "--runs", "1", "--allocators", "glibc,memomalloc", "--html", path, "--",
                                 "true")
            page = path.read_text()
            twice = memomalloc("compare", "--html", path, "--csv", path, "--", "true")
        self.assertEqual(0, process.returncode, process.stderr)
        self.assertIn("With memomalloc: ", page)
        self.assertEqual(3, page.count("<tr"))
        self.assertNotIn("http", page)
        self.assertEqual(2, twice.returncode)
        self.assertIn("named twice", twice.stderr)

    @unittest.skipUnless(PROGRAM, "chromium is not installed")
    def test_the_page_cuts_no_figure(self):
        """On a phone and on a desktop each cell is in view, and names what it holds."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "page.html"
            memomalloc("compare", "--runs", "1", "--warmup", "0", "--allocators", "glibc,glibc-tuned,memomalloc-plans",
                       "--html", path, "--", "true")
            for width in (390, 1280):
                with Browser(width, 844) as browser:
                    browser.open(path)
                    right = "Math.max(...[...document.querySelectorAll('td, td *')].map(e => e.getBoundingClientRect().right))"
                    self.assertLessEqual(browser.evaluate(right), width)
                    heading = ("getComputedStyle(document.querySelector('td:last-child'), '::before').content"
                               if width == 390 else "document.querySelector('th:last-child').innerText")
                    self.assertIn("peak RSS MiB", browser.evaluate(heading))

    def test_a_failing_command_is_shown_with_its_messages(self):
        process = memomalloc("compare", "--allocators", "glibc", "--", "sh", "-c", "echo why >&2; exit 3")
        self.assertEqual(1, process.returncode)
        self.assertIn("exit code 3 under glibc", process.stderr)
        self.assertIn("why", process.stderr)
        self.assertEqual("", process.stdout)
        process = memomalloc("compare", "--allocators", "glibc", "--runs", "2", "-w", "0", "--", "sh", "-c",
                             "seq 1000 >&2; exit 3")
        self.assertEqual(1, process.stderr.count("exit code 3 under glibc"))
        self.assertIn("[...]\n961\n962\n", process.stderr)
        self.assertNotIn("\n960\n", process.stderr)
        process = memomalloc("compare", "--allocators", "memomalloc", "--runs", "1", "-w", "0", "--", "false",
                             environment={"PYTHONPATH": "/a b/it's"})
        self.assertRegex(process.stderr, r"PYTHONPATH='[^ ]*/a b/it'\\''s' ")

    def test_a_failure_of_the_run_that_lists_processes_is_told(self):
        process = memomalloc("compare", "--allocators", "memomalloc", "--runs", "1", "-w", "0", "--processes", "--", "sh", "-c",
                             'test -z "$MEMOMALLOC_STATS_FILE"')
        self.assertEqual(1, process.returncode)
        self.assertIn("exit code 1 under memomalloc", process.stderr)

    def test_what_a_run_leaves_behind_is_ended_with_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "left"
            before = subprocess.Popen(["sh", "-c", f'sleep 50 & exec "$0" compare --runs 1 -w 0 --allocators glibc -- '
                                       f'sh -c "setsid sleep 100 & echo \\$! > {path}"; ', COMMAND], stdout=subprocess.PIPE, text=True)
            children = pathlib.Path(f"/proc/{before.pid}/task/{before.pid}/children")
            while not path.exists() or not path.read_text():
                time.sleep(0.01)
            own = next(child for child in children.read_text().split()
                       if pathlib.Path(f"/proc/{child}/cmdline").read_bytes() == b"sleep\x0050\x00")
            before.stdout.readline()
            self.assertFalse(pathlib.Path("/proc", path.read_text().strip()).exists())
            os.kill(int(own), signal.SIGTERM)  # another's: it was left alone
            before.communicate(timeout=60)
            self.assertEqual(0, before.returncode)

    def test_a_row_that_fails_leaves_the_others(self):
        process = memomalloc("compare", "--allocators", "glibc,memomalloc", "--runs", "2", "--warmup", "0", "--", "sh",
                             "-c", 'test -n "$LD_PRELOAD"')
        self.assertEqual(1, process.returncode)
        heading, glibc, ours = table_of(process.stdout)[:3]
        self.assertRegex(glibc, r"^glibc \(2 failed, last with exit code 1\) +-( +-)*$")
        self.assertRegex(ours, r"^memomalloc +\d")

    def test_an_interrupt_keeps_what_was_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            path, table = pathlib.Path(folder), pathlib.Path(folder, "runs.csv")
            # Not a shell: dash may lose an interrupt that comes while it reads another command's output.
            program = ("import signal, sys, time\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\n"
                       "with open(sys.argv[1], 'a') as count:\n    print(file=count)\n"
                       "len(open(sys.argv[1]).read()) < 4 or time.sleep(60)")
            words = [COMMAND, "compare", "--allocators", "glibc", "--runs", "1000", "--warmup", "0", "--csv", table, "--",
                     sys.executable, "-I", "-S", "-c", program, path / "count"]
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       start_new_session=True, env=os.environ | {"TMPDIR": folder},
                                       preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
            while not (path / "count").exists() or len((path / "count").read_text()) < 4:
                time.sleep(0.01)
            os.killpg(process.pid, signal.SIGINT)
            output, errors = process.communicate(timeout=60)
            self.assertEqual(1, process.returncode)
            self.assertEqual("memomalloc compare: stopped in run 4 of 1000\n", errors)
            self.assertRegex(output, r"\nglibc +\d")
            self.assertEqual(1 + 3, len(table.read_text().splitlines()))
            self.assertEqual({"count", "runs.csv"}, {file.name for file in path.iterdir()})

    def test_a_signal_ends_the_run_too(self):
        program = ("import os, signal, sys, time\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\n"
                   "open(sys.argv[1], 'w').write(f'{os.getpid()}\\n')\ntime.sleep(60)")
        for number, code in ((signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, -signal.SIGHUP), (signal.SIGINT, 1)):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "child"
                words = [COMMAND, "compare", "--allocators", "glibc", "--", sys.executable, "-I", "-S", "-c", program, path]
                process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                           env=os.environ | {"TMPDIR": folder},
                                           preexec_fn=lambda: [signal.signal(one, signal.SIG_DFL) for one in (signal.SIGINT, signal.SIGHUP)])
                while not path.exists() or "\n" not in path.read_text():
                    time.sleep(0.01)
                process.send_signal(number)
                _, errors = process.communicate(timeout=60)
                self.assertEqual((code, "memomalloc compare: stopped in the warm-up\n"), (process.returncode, errors))
                self.assertEqual([path], list(pathlib.Path(folder).iterdir()))
                self.assertFalse(pathlib.Path("/proc", path.read_text().strip()).exists())

    def test_what_is_ignored_stays_so(self):
        program = "import signal, sys; sys.exit(any(signal.getsignal(one) != signal.SIG_IGN for one in (signal.SIGINT, signal.SIGHUP)))"
        words = [COMMAND, "compare", "--allocators", "glibc", "--runs", "1", "--", sys.executable, "-I", "-S", "-c", program]
        done = subprocess.run(words, capture_output=True, preexec_fn=lambda: [
            signal.signal(one, signal.SIG_IGN) for one in (signal.SIGINT, signal.SIGHUP)])
        self.assertEqual(0, done.returncode, done.stderr)


if __name__ == "__main__":
    unittest.main()
