"""`doctor`, `run --summary` and `compare --processes` of commands that fork: a line for each process that made large
allocations, a sum, and a verdict by those that do the work."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from support import COMMAND, json_of, memomalloc
from loops import WORK  # where support has pointed

# A process that makes large allocations of its own, and forks those that do the work, `workers` of them.
FORKING = WORK + """
import os, signal, sys, time
for size in range(100000, 4000000, 50000):
    block = bytearray(size)
children = []
for _ in range({workers}):
    child = os.fork()
    if child == 0:
        end = time.monotonic() + {seconds}
        work(range(100000, 1000000, 70000), 300)
        parent = os.getppid()
        while time.monotonic() < end and os.getppid() == parent:
            work(range(100000, 1000000, 70000), 10)
            time.sleep(0.01)
        os._exit(0)
    children.append(child)
print(*children, flush=True)
{then}
for child in children:
    os.waitpid(child, 0)
"""


def forking(workers=2, seconds=0, then=""):
    return [sys.executable, "-c", FORKING.format(workers=workers, seconds=seconds, then=then)]


class Processes(unittest.TestCase):
    def check(self, report, code):
        """The doctor names both workers, and says ok by them."""
        self.assertEqual(0, code, report)
        self.assertTrue(report["healthy"])
        rows = report["processes"]
        workers = [row for row in rows if row["works"]]
        self.assertEqual(2, len(workers), rows)
        told = [finding["what"] for finding in report["findings"] if finding["question"] == "process"]
        for row in workers:
            self.assertGreater(row["planned_bytes"], row["large_bytes"] // 2)
            self.assertGreater(row["page_faults_avoided"], 0)
            self.assertGreater(row["peak_bytes"], row["slab_bytes"])
            self.assertTrue(any(f"process {row['pid']}:" in what for what in told), told)
        return rows

    def test_the_doctor_judges_those_that_do_the_work(self):
        process = memomalloc("doctor", "--json", "--", *forking())
        rows = self.check(json_of(process), process.returncode)
        self.assertEqual([False], [row["works"] for row in rows if not row["planned_bytes"]])

    def test_a_command_that_is_killed_leaves_workers_that_are_waited_for(self):
        for number in ("SIGTERM", "SIGKILL"):
            then = f"time.sleep(3); os.kill(os.getpid(), signal.{number})"
            process = memomalloc("doctor", "--json", "--", *forking(seconds=100, then=then))
            report = json_of(process)
            rows = self.check(report, process.returncode)
            self.assertIn(str(getattr(signal, number).value),
                          [f["what"] for f in report["findings"] if f["question"] == "program"][-1])
            for row in rows:
                self.assertFalse(pathlib.Path(f"/proc/{row['pid']}").exists(), f"{row['pid']} still runs")

    def test_workers_that_are_not_served_are_a_no(self):
        process = memomalloc("doctor", "--json", "--", sys.executable, "-c", """
import os
for _ in range(2):
    child = os.fork()
    if child == 0:
        for size in range(100000, 9000000, 30000):
            block = bytearray(size)
        os._exit(0)
    os.waitpid(child, 0)
""")
        self.assertEqual(1, process.returncode, process.stdout)
        self.assertIn("learning", [finding["question"] for finding in json_of(process)["findings"] if finding["level"] == "note"])

    def test_run_tells_of_all_processes_when_they_have_ended(self):
        process = memomalloc("run", "--summary", "--", *forking(then="sys.exit(3)"))
        self.assertEqual(3, process.returncode, process.stderr)
        workers = process.stdout.split()
        lines = [line.split() for line in process.stderr.splitlines()]
        self.assertEqual(["process", "name", "phase"], lines[0][:3])
        named = {line[0] for line in lines}
        self.assertLessEqual({*workers, "sum"}, named, process.stderr)
        self.assertEqual(len(workers) + 3, len(lines), process.stderr)

    def test_run_passes_signals_on_and_ends_as_the_command_does(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            child = subprocess.Popen([COMMAND, "run", "--summary", "--", sys.executable, "-c",
                                      "import signal, time; signal.signal(signal.SIGINT, signal.SIG_DFL); "
                                      "print('begins', flush=True); time.sleep(100)"],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                     preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
            self.assertEqual("begins\n", child.stdout.readline())
            child.send_signal(number)
            _, said = child.communicate(timeout=60)
            self.assertEqual(-number, child.returncode)
            self.assertEqual("no process told of large allocations\n", said)

    def test_a_summary_leaves_the_statistics_where_they_are_wanted(self):
        with tempfile.TemporaryDirectory() as folder:
            process = memomalloc("run", "--summary", "--stats-file", f"{folder}/a-%p.json", "--", *forking())
            self.assertEqual(0, process.returncode, process.stderr)
            listed = {int(line.split()[0]) for line in process.stderr.splitlines()[1:-1]}
            written = {json.loads(path.read_text())["pid"]: path.name for path in pathlib.Path(folder).iterdir()}
            self.assertLessEqual(listed, set(written), process.stderr)
            self.assertEqual({f"a-{pid}.json" for pid in written}, set(written.values()))
            one = pathlib.Path(folder, "one.json")
            memomalloc("run", "--summary", "--", "true", environment={"MEMOMALLOC_STATS_FILE": str(one)})
            self.assertEqual("true", json.loads(one.read_text())["process"])
            refused = memomalloc("run", "--summary", "--", "true", environment={"MEMOMALLOC_STATS_FILE": f"{folder}/none/a"})
            self.assertIn(f"the statistics are lost: {folder}/none/a: cannot be made", refused.stderr)
            self.assertIn(f"mkdir -p {folder}/none", refused.stderr)
            with open(one, "w+", encoding="ascii") as log:
                log.write("kept")
                log.flush()
                subprocess.run([COMMAND, "run", "--summary", "--stats-file", "/dev/stderr", "--", "true"], stderr=log, check=True)
                log.seek(0)
                self.assertRegex(log.read(), r'^keptno process.*\n\{.*"process": ?"true"')

    def test_compare_lists_the_processes(self):
        process = memomalloc("compare", "--allocators", "glibc,memomalloc", "--runs", "1", "--warmup", "0", "--json",
                             "--processes", "--", *forking())
        self.assertEqual(0, process.returncode, process.stderr)
        rows = json_of(process)["processes"]
        self.assertEqual([True, True, False], [row["works"] for row in rows], rows)


if __name__ == "__main__":
    unittest.main()
