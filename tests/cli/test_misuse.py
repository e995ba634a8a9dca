"""Wrong uses of every command: the exit code, and a message that says what to do next."""

import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

from support import COMMAND, GOLDEN, json_of, memomalloc

TRACE = GOLDEN / "traces/mobilenet_v2_b8.csv.gz"
KILLED = ("sh", "-c", "kill -9 $$")


class Misuse(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name, text in (("empty.csv", ""), ("data", "text"), ("bad.csv", "op,thread,block,size,alignment,site\nmalloc,0,0,x,1,0\n"), ("cut.json", '{"pid": 1,'),
                           ("graph.json", '{"format": "memomalloc-graph"}'), ("pid.json", '{"fallback": {}}'),
                           ("trace.csv", "op,thread,block,size,alignment,site\nmalloc,0,0,100000,1,0\n"),
                           ("row.csv", "id,lower,upper,size\na,0,x,8\n"), ("good.csv", "id,lower,upper,size\na,0,3,8\n"),
                           ("lost", "#!/no/such/interpreter\n")):
            (self.folder / name).write_text(text)
        (self.folder / "lost").chmod(0o755)
        (self.folder / "cut.csv.gz").write_bytes(TRACE.read_bytes()[:5000])
        (self.folder / "inner").mkdir()

    def files(self):
        return {path.name: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}

    def refused(self, code, advice, *words):
        """The command exits with `code`, says `advice`, prints nothing and leaves every file as it was."""
        with self.subTest(words=words):
            before = self.files()
            process = memomalloc(*words, cwd=self.folder)
            self.assertEqual((code, ""), (process.returncode, process.stdout), process.stderr)
            self.assertIn(advice, process.stderr)
            self.assertEqual(before, self.files())

    def test_commands_that_cannot_be_run(self):
        for name, code, advice in (("no-such-program", 127, "in PATH; check its name"),
                                   ("./no-such", 127, "check the path"), ("./data", 126, "chmod +x"),
                                   ("./inner", 126, "name a program in it"), ("./lost", 127, "interpreter")):
            self.refused(code, advice, "run", "--", name)
            for command in (("doctor",), ("compare", "--allocators", "glibc")):
                self.refused(2, advice, *command, "--", name)

    def test_a_killed_command(self):
        shell = subprocess.run(["sh", "-c", f"{COMMAND} run -- sh -c 'kill -9 $$'; echo $?"], capture_output=True, text=True)
        self.assertEqual("137\n", shell.stdout)
        self.refused(1, "signal 9 (Killed) under glibc", "compare", "--allocators", "glibc", "--", *KILLED)
        process = memomalloc("doctor", "--json", "--", *KILLED)
        self.assertEqual(1, process.returncode)
        self.assertIn("it ended with signal 9 (Killed)", [found["what"] for found in json_of(process)["findings"]])

    def test_run(self):
        self.refused(2, "memomalloc planners", "run", "--planner", "nobody", "--", "true")
        self.refused(2, "memomalloc run --help", "run", "--threshold", "--", "true")
        self.refused(2, "there is no option '--bogus'; ", "run", "--bogus", "--", "true")
        for option, value in (("--threshold", "99999999999999999999"), ("--threshold", "18446744073709551615K"),
                              ("--plan-time", "99999999999999999999")):
            self.refused(2, "is too great a number", "run", option, value, "--", "true")
        self.refused(2, "is not a number (units: K, M, G)", "run", "--threshold", "12X", "--", "true")
        self.refused(2, "it may have 511", "run", "--exe", "x" * 600, "--", "true")

    def test_outputs_are_checked_before_the_program_runs(self):
        for option in ("--trace-file", "--stats-file"):
            self.refused(2, "mkdir -p no", "run", option, "no/such", "--", "touch", "ran")
            self.refused(2, "name a file in it", "run", option, "inner", "--", "touch", "ran")
        self.assertEqual(0, memomalloc("run", "--trace-file", "no/%p", "--", "true", cwd=self.folder).returncode)

    def test_replay(self):
        for words, advice in ((("missing.csv",), "memomalloc run --trace-file"), (("empty.csv",), "memomalloc run --trace-file"),
                              (("data",), "memomalloc run --trace-file"), (("inner",), "name the trace in it"),
                              (("cut.csv.gz",), "cut short"), ((), "--help"), (("trace.csv", "--iterations", "0"), "--help"),
                              (("trace.csv", "--addresses", "inner"), "name a file in it"),
                              (("trace.csv", "--addresses", "no/such"), "mkdir -p no")):
            self.refused(2, advice, "replay", *words)

    def test_report(self):
        for words, advice in ((("missing.csv",), "memomalloc run --trace-file"), (("empty.csv",), "memomalloc run --trace-file"),
                              (("inner",), "name the trace in it"), (("cut.csv.gz",), "cut short"),
                              (("cut.json",), "memomalloc run --stats-file"), (("trace.csv", "trace.csv"), "a page for each"),
                              (("graph.json",), "memomalloc run --stats-file"), (("pid.json", "pid.json"), "a page for each"),
                              (("trace.csv", "-o", "inner"), "name a file in it"), (("trace.csv", "-o", "no/x"), "mkdir -p no"),
                              (("trace.csv", "-o", "trace.csv"), "would be overwritten"),
                              (("trace.csv", "-o", "inner/../trace.csv"), "would be overwritten"),
                              (("trace.csv", "--chrome-trace", "report.html"), "would be overwritten"),
                              (("trace.csv", "--planner", "nobody"), "memomalloc planners"),
                              (("trace.csv", "--sites", "missing"), "next to each trace"),
                              (("trace.csv", "--sites", "data"), "data:1: expected a stack hash"), ((), "--help"),
                              (("bad.csv",), "bad.csv:2: ")):
            self.refused(2, advice, "report", *words)
        self.refused(1, "no block of at least the --threshold", "report", "trace.csv", "--threshold", "1M")

    def test_a_page_is_replaced_whole_and_a_full_disk_is_told(self):
        page = self.folder / "page.html"
        page.write_text("old")
        self.assertEqual(0, memomalloc("report", TRACE, "-o", page, "--no-glibc").returncode)
        self.assertTrue(page.read_text().startswith("<!DOCTYPE html>"))
        if pathlib.Path("/dev/full").is_char_device():
            process = memomalloc("report", TRACE, "-o", "/dev/full", "--no-glibc")
            self.assertEqual((2, ""), (process.returncode, process.stdout))
            self.assertIn("No space left", process.stderr)
            for words, reason in ((["options"], "could not be written"),
                                  (["plan", self.folder / "good.csv", "-o", "-"], "stdout cannot be written: No space left")):
                with open("/dev/full", "w", encoding="ascii") as full:
                    process = subprocess.run([COMMAND, *words], stdout=full, stderr=subprocess.PIPE, text=True)
                self.assertEqual(2, process.returncode)
                self.assertIn(reason, process.stderr)

    def test_outputs_that_are_no_files_are_not_replaced(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True)
        self.addCleanup(reader.wait)
        self.addCleanup(reader.kill)  # it would wait for ever if nothing was written
        self.assertEqual(0, memomalloc("report", self.folder / "trace.csv", "-o", pipe, "--no-glibc").returncode)
        self.assertTrue(reader.communicate(timeout=30)[0].startswith("<!DOCTYPE html>"))
        self.assertTrue(stat.S_ISFIFO(pipe.stat().st_mode))

    def test_reports_of_the_library_do_not_replace_devices_and_pipes(self):
        for option in ("--stats-file", "--trace-file"):
            pipe = self.folder / option
            os.mkfifo(pipe)
            reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # what is written waits in the pipe
            self.addCleanup(os.close, reader)
            # The program writes there itself while it runs, as programs do to a terminal.
            process = memomalloc("run", option, pipe, "--", sys.executable, "-c", "import sys, time; time.sleep(0.05); "
                                 "blocks = [bytearray(100000) for _ in range(100)]; open(sys.argv[1], 'w').write('own ')",
                                 pipe)
            self.assertEqual((0, ""), (process.returncode, process.stderr))
            self.assertRegex(os.read(reader, 1 << 16).decode(), r"^own (\{|op,thread)")
            self.assertTrue(stat.S_ISFIFO(pipe.stat().st_mode))
            self.assertFalse(pipe.with_name(pipe.name + ".sites").exists())
        # A pipe that nobody reads keeps no program from ending.
        os.mkfifo(self.folder / "unread")
        process = memomalloc("run", "--stats-file", self.folder / "unread", "--", sys.executable, "-c", "bytearray(100000)", timeout=30)
        self.assertIn("cannot write", process.stderr)

    def test_compare(self):
        for words, advice in ((("--csv", "inner", "--", "true"), "name a file in it"),
                              (("--csv", "no/such.csv", "--", "true"), "mkdir -p no"),
                              (("--allocators", "nobody", "--", "true"), "--help lists them"), ((), "Put it after `--`"),
                              (("--runs", "0", "--", "true"), "--help")):
            self.refused(2, advice, "compare", *words)
        self.refused(1, "LD_PRELOAD=", "compare", "--allocators", "memomalloc", "--csv", "runs.csv", "--", "false")

    def test_plan(self):
        for words, advice in ((("missing.csv",), "analyze TRACE --problem"), (("data",), "id,lower,upper,size"),
                              (("empty.csv",), "id,lower,upper,size"), (("inner",), "id,lower,upper,size"),
                              (("bad.csv",), "bad.csv:1: there is no column 'op'; "), (("row.csv",), "row.csv:2: upper"),
                              (("good.csv", "--check", "good.csv"), "--output PLAN"),
                              (("good.csv", "--check", "data"), "id,lower,upper,size"),
                              (("good.csv", "--write-model", "model"), "end it in .lp or .mps"),
                              (("good.csv", "--planner", "nobody"), "memomalloc planners"),
                              (("good.csv", "--seconds", "-1"), "0 or more; `memomalloc plan --help`"),
                              (("good.csv", "--seed", "-1"), "0 or more; `memomalloc plan --help`"),
                              (("good.csv", "--capacity", "much"), "units: K, M, G"),
                              (("good.csv", "--device", "1"), "good.csv:1: --device is one of a snapshot's"),
                              (("good.csv", "--compare", "--svg", "map.svg"), "--help"),
                              (("good.csv", "--check", "good.csv", "--capacity", "1"), "--help"),
                              (("good.csv", "--check", "good.csv", "--json"), "--help"),
                              (("good.csv", "--check", "good.csv", "--write-model", "model.lp"), "--help"),
                              (("good.csv", "--write-model", "model.lp", "--json"), "--help"),
                              (("good.csv", "--json", "--output", "-"), "name a file"),
                              (("good.csv", "--output", "good.csv"), "would be overwritten"),
                              (("data", "--svg", "no/map.svg"), "mkdir -p no"), ((), "--help")):
            self.refused(2, advice, "plan", *words)
        self.refused(1, "--capacity, or another --planner", "plan", "good.csv", "--capacity", "1")

    def test_analyze(self):
        for words, advice in ((("missing.csv",), "memomalloc run --trace-file"), (("bad.csv",), "memomalloc run --trace-file"),
                              (("inner",), "name the trace in it"), (("trace.csv", "--threshold", "x"), "units: K, M, G"),
                              (("trace.csv", "--planner", "nobody"), "memomalloc planners"), ((), "--help"),
                              (("trace.csv", "--problem", "trace.csv"), "would be overwritten"),
                              (("trace.csv", "--problem", "no/x.csv"), "mkdir -p no")):
            self.refused(2, advice, "analyze", *words)
        self.refused(1, "record more iterations", "analyze", "trace.csv", "--problem", "problem.csv")

    def test_schedule(self):
        for words, advice in ((("missing.json",), "docs/file-formats.md"), (("data",), "scripts/export_graph.py"),
                              (("cut.json",), "cut.json:1: this is not JSON: "), (("inner",), "docs/file-formats.md"),
                              ((), "--help"), (("cut.json", "--strategy", "nobody"), "--strategies lists them"),
                              (("cut.json", "--planner", "nobody"), "memomalloc planners"),
                              (("cut.json", "--seconds", "nan"), "--help"),
                              (("cut.json", "--output", "cut.json"), "would be overwritten"),
                              (("cut.json", "--output", "no/x.json"), "mkdir -p no")):
            self.refused(2, advice, "schedule", *words)

    def test_planners(self):
        self.refused(2, "memomalloc planners --help", "planners", "surplus")

    def test_a_trace_that_cannot_be_written_is_told(self):
        calls = "blocks = [bytearray(100000) for _ in range(100)]"
        self.refused_by_the_library("set MEMOMALLOC_TRACE_FILE to another path",
                                    "--trace-file", "no/%p.csv", "--", sys.executable, "-c", calls)

    def refused_by_the_library(self, advice, *words):
        before = self.files()
        process = memomalloc("run", *words, cwd=self.folder)
        self.assertEqual((0, ""), (process.returncode, process.stdout))
        self.assertIn(advice, process.stderr)
        self.assertEqual(before, self.files())

    def test_no_folder_for_temporary_files(self):
        for words in (("report", TRACE, "-o", self.folder / "page.html"), ("doctor", "--", "true"),
                      ("compare", "--allocators", "glibc", "--", "true")):
            process = memomalloc(*words, environment={"TMPDIR": "/no/such"})
            self.assertEqual((2, ""), (process.returncode, process.stdout), words)
            self.assertIn("set TMPDIR to a folder that can be written", process.stderr)

    def test_a_closed_stream_is_not_taken_for_a_file(self):
        table = self.folder / "runs.csv"
        line = f"{COMMAND} compare --allocators glibc --runs 1 --csv {table} -- sh -c 'echo out; echo err >&2' "
        for closed, code in ((">&-", 2), ("2>&-", 0), ("<&- >&- 2>&-", 2)):
            process = subprocess.run(["sh", "-c", line + closed], capture_output=True, text=True)
            self.assertEqual(code, process.returncode, closed)
            self.assertRegex(table.read_text(), r"^allocator,run,[a-z_,]*\nglibc,0,[0-9.,e-]*\n$")
            table.unlink()
        shell = f"{COMMAND} run -- sh -c 'echo text || echo closed >&2' >&-"
        self.assertIn("closed", subprocess.run(["sh", "-c", shell], capture_output=True, text=True).stderr)

    def test_the_last_of_an_option_counts(self):
        words = ("run", "--threshold", "1G", "--threshold", "100K", "--", "sh", "-c", "echo $MEMOMALLOC_THRESHOLD")
        self.assertEqual("100K\n", memomalloc(*words).stdout)
        process = memomalloc("compare", "--json", "--runs", "1", "--allocators", "glibc", "--allocators", "memomalloc",
                             "--", "true")
        self.assertEqual(2, len(json_of(process)["allocators"]))  # of lists, each

    def test_names(self):
        self.refused(2, "memomalloc --help", "no-such")
        self.refused(2, "memomalloc run -- true", "true")
        self.refused(2, "memomalloc --help", "help", "no-such")
        self.refused(2, "unexpected 'surplus'; `memomalloc options --help`", "options", "surplus")
        self.refused(2, "unexpected '/store'; `memomalloc plans --help`", "plans", "list", "/store")

    def test_misspelt_names(self):
        self.refused(2, "there is no command 'analize'; did you mean 'analyze'? `memomalloc --help`", "analize", "x")
        self.refused(2, "there is no option '--plannr'; did you mean '--planner'? `memomalloc plan --help`", "plan", "--plannr", "x")
        self.refused(2, "there is no option '--treshold'; did you mean '--threshold'? `memomalloc run --help`",
                     "run", "--treshold=4K", "--", "true")

    def test_messages_are_plain(self):
        """No words of the library that reads command lines, nor its numbers of 300 digits."""
        self.refused(2, "options: there is no option '--foo'; `memomalloc options --help`", "options", "--foo")
        self.refused(2, "there is no option '--foo'; `memomalloc options --help`", "options", "word", "--foo=bar")
        for command, what in (("analyze", "TRACE"), ("replay", "TRACE"), ("report", "FILE"), ("plan", "PROBLEM"),
                              ("release", "PID"), ("plans", "ACTION")):
            self.refused(2, f"{command}: which {what}? `memomalloc {command} --help` lists the options", command)
        self.refused(2, "--exe: a value is missing; ", "run", "--exe")
        for command in ("status", "release"):
            for pid in ("abc", "-1", "0", "99999999999"):
                self.refused(2, f"'{pid}' is not the number of a process; `memomalloc {command} --help`", command, "--", pid)
        self.assertEqual(memomalloc("run", "--help").stdout, memomalloc("help", "run").stdout)

    def test_the_command_without_its_library(self):
        copy = self.folder / "memomalloc"
        shutil.copy(COMMAND, copy)

        def alone(*words):
            return subprocess.run([copy, *words], capture_output=True, text=True)

        loader = [sys.executable, "-c", "import ctypes; ctypes.CDLL('libmemomalloc.so.1')"]
        if subprocess.run(loader, capture_output=True).returncode == 0:
            self.skipTest("the loader knows a libmemomalloc.so.1 that is installed")
        for words, code in ((("run",), 2), (("compare",), 2), (("doctor",), 1)):
            process = alone(*words, "--", "true")
            self.assertEqual(code, process.returncode, words)
            self.assertIn("make install", process.stderr + process.stdout)


if __name__ == "__main__":
    unittest.main()
