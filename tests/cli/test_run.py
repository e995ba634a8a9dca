"""`memomalloc run` and `memomalloc options`."""

import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from support import ROOT, COMMAND, memomalloc


LIBM = next(str(path) for path in pathlib.Path("/").glob("*lib*/*-linux-gnu*/libm.so.6"))


class Run(unittest.TestCase):
    def test_library_comes_first_and_the_users_preload_stays(self):
        process = memomalloc("run", "--", "sh", "-c", "echo $LD_PRELOAD",
                             environment={"LD_PRELOAD": "libm.so.6 /old/libmemomalloc.so.1"})
        first, *rest = process.stdout.strip().split(":")
        self.assertIn("libmemomalloc.so", first)
        self.assertEqual(["libm.so.6"], rest)

    def test_options_become_variables(self):
        process = memomalloc("run", "--threshold", "1M", "--plans", "a b", "--stats", "--", "env")
        self.assertIn("MEMOMALLOC_THRESHOLD=1M\n", process.stdout)
        self.assertRegex(process.stdout, r"MEMOMALLOC_PLANS=/.*/a b\n")  # whole, since the command may change its folder
        self.assertIn("MEMOMALLOC_STATS=1\n", process.stdout)
        self.assertNotIn("MEMOMALLOC_VERBOSE", process.stdout)

    def test_an_empty_option_takes_the_place_of_a_variable(self):
        process = memomalloc("run", "--plans", "", "--exe", "", "--status=false", "--stats-file", "", "--", "env",
                             environment={"MEMOMALLOC_PLANS": "/a", "MEMOMALLOC_EXE": "b", "MEMOMALLOC_STATUS": "1"})
        for line in ("PLANS=", "EXE=", "STATUS=0", "STATS_FILE="):
            self.assertIn(f"\nMEMOMALLOC_{line}\n", "\n" + process.stdout, process.stderr)

    def test_the_next_allocator_comes_right_behind_ours(self):
        other = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "libtcmalloc.so.4"
        shutil.copy(COMMAND.parent / "libmemomalloc.so", other)  # any library that defines malloc
        for word, found in (("tcmalloc", "libtcmalloc"), ("jemalloc", "libjemalloc"), ("mimalloc", "libmimalloc"),
                            ("auto", "lib"), ("glibc", None), (LIBM, LIBM)):
            process = memomalloc("run", "--next", word, "--", "sh", "-c", "echo $LD_PRELOAD",
                                 environment={"LD_PRELOAD": f"libdl.so.2:{other}"})
            if process.returncode == 2:  # not installed
                self.assertIn(f"--next {word}: there is no such allocator here", process.stderr)
                self.assertNotIn(word, ("auto", "glibc", LIBM))
                continue
            ours, *rest = process.stdout.strip().split(":")
            self.assertIn("libmemomalloc.so", ours)
            self.assertEqual("libdl.so.2", rest.pop())
            if word == "glibc":
                self.assertEqual([], rest)
            elif word != "auto":
                self.assertIn(found, rest[0])
                self.assertEqual(1, len(rest))

    def test_children_of_the_shell_that_became_the_command_are_left_to_it(self):
        program = "import os; print(os.waitstatus_to_exitcode(os.wait()[1]))"
        script = '(exit 7) & exec "$0" run --next auto -- "$1" -I -c "$2"'
        process = subprocess.run(["sh", "-c", script, COMMAND, sys.executable, program], capture_output=True, text=True)
        self.assertIn(process.returncode, (0, 2), process.stderr)
        self.assertEqual("7\n" if process.returncode == 0 else "", process.stdout)  # 2: there is no other allocator

    @unittest.skipUnless((ROOT / "build/programs/c10_functions").exists(), "the small programs are not built")
    def test_a_torch_of_another_release_is_one_line(self):
        program = ROOT / "build/programs/c10_functions"
        for verbose, lines in (("1", 2), ("0", 0)):  # a process for each of the program's two such libraries
            done = memomalloc("run", "--verbose", verbose, "--", program)
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertEqual(lines, done.stderr.count("tensors are left to it"), done.stderr)

    def test_what_hides_allocations_is_opened(self):
        script = "echo ${ARROW_DEFAULT_MEMORY_POOL-none}"
        self.assertEqual("system\n", memomalloc("run", "--", "sh", "-c", script).stdout)
        for closed in (["--no-open"], ["--open=-pyarrow"], ["--open", "mlx"]):
            self.assertEqual("none\n", memomalloc("run", *closed, "--", "sh", "-c", script).stdout)
        own = {"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}
        self.assertEqual("mimalloc\n", memomalloc("run", "--", "sh", "-c", script, environment=own).stdout)
        self.assertEqual("none\n", memomalloc("run", "--disable", "--", "sh", "-c", script).stdout)
        script = "echo ${TF_ENABLE_ONEDNN_OPTS-none}"  # changes kernels
        self.assertEqual("none\n", memomalloc("run", "--", "sh", "-c", script).stdout)

    def test_exit_code_is_the_commands(self):
        for options in ([], ["--summary"]):
            command = [COMMAND, "run", *options, "--", "sh", "-c", "exit 7"]
            for word in (signal.SIG_DFL, signal.SIG_IGN):  # where it is ignored, children leave no exit code
                done = subprocess.run(command, capture_output=True, preexec_fn=lambda: signal.signal(signal.SIGCHLD, word))
                self.assertEqual(7, done.returncode)

    def test_signals_reach_the_command(self):
        program = ("import signal, sys\n"
                   "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n"
                   "print('ready', flush=True)\n"
                   "signal.pause()\n")
        with subprocess.Popen([COMMAND, "run", "--", sys.executable, "-c", program],
                              stdout=subprocess.PIPE, text=True) as process:
            self.assertEqual("ready\n", process.stdout.readline())
            process.send_signal(signal.SIGTERM)
            self.assertEqual(9, process.wait(30))

    def test_the_commands_own_options_are_left_alone(self):
        self.assertEqual("--help -- --stats\n",
                         memomalloc("run", "--", "echo", "--help", "--", "--stats").stdout)
        self.assertEqual("-n\n", memomalloc("run", "printf", "%s\n", "-n").stdout)
        self.assertEqual("--summary -- -n\n", memomalloc("run", "echo", "--summary", "--", "-n").stdout)

    def test_wrong_uses_say_what_to_do(self):
        for words, advice in ((["run"], "Put it after `--`"),
                              (["run", "--threshold", "3X", "--", "true"], "units: K, M, G"),
                              (["run", "--next", "no-such", "--", "true"], "--next takes auto, glibc, jemalloc, tcmalloc"),
                              (["run", "--next", "/no/such.so", "--", "true"], "there is no such allocator here"),
                              (["run", "--next", "memomalloc", "--", "true"], "there is no such allocator here"),
                              (["run", "--hugepages", "maybe", "--", "true"], "auto"),
                              (["run", "--no-such", "--", "true"], "--help"),
                              (["run", "--warmup", "1"], "there is no option '--warmup'"),
                              (["no-such"], "--help"),
                              ([], "usage:")):
            with self.subTest(words=words):
                process = memomalloc(*words)
                self.assertEqual(2, process.returncode)
                self.assertIn(advice, process.stderr)
                self.assertEqual("", process.stdout)

    def test_help_is_of_one_form(self):
        """Usage first, then what it does, arguments in capitals, options with their defaults, and the rare ones last."""
        whole = memomalloc("--help").stdout
        self.assertTrue(whole.startswith("usage: memomalloc COMMAND [OPTIONS]\n"))
        titles = re.findall(r"^([a-z ]+):$", whole, re.MULTILINE)
        self.assertEqual(["start with", "every day", "running processes", "saved plans", "offline tools", "options"], titles)
        commands = re.findall(r"^  ([a-z]+) ", whole, re.MULTILINE)
        self.assertEqual(["run", "doctor", "compare", "report"], commands[:4])
        for command in commands:
            with self.subTest(command):
                text = memomalloc(command, "--help").stdout
                usage, _, rest = text.partition("\n\n")
                self.assertRegex(usage, rf"^usage: memomalloc {command} \[OPTIONS\]( \[?[A-Z]+(\.\.\.)?\]?)*( -- COMMAND\.\.\.)?$")
                self.assertNotRegex(rest, r"(?i)usage:| in \[|=auto|^  -h,--help")
                sections = re.findall(r"^(Arguments|Options|Advanced):$", text, re.MULTILINE)
                self.assertEqual(sorted(sections, key=["Arguments", "Options", "Advanced"].index), sections)
                self.assertTrue(all(len(line) <= 100 for line in rest.partition("Allocators and")[0].splitlines()))
        self.assertRegex(memomalloc("compare", "--help").stdout, r"-r, --runs NUMBER .*\[default: 5\]")
        options, rare = memomalloc("run", "--help").stdout.split("\nAdvanced:\n")
        for name, part in (("--plans", options), ("--status", options), ("--threshold", rare), ("--strict", rare)):
            self.assertIn(f"      {name}", part)
        self.assertEqual(memomalloc("--version").stdout, memomalloc("-V").stdout)


    def test_a_path_that_ld_preload_cannot_name_is_refused(self):
        for name in ("a blank", "a:colon"):
            with tempfile.TemporaryDirectory() as folder, self.subTest(name=name):
                there = pathlib.Path(folder) / name
                there.mkdir()
                for file in (COMMAND, COMMAND.parent / "libmemomalloc.so"):
                    shutil.copy(file, there)
                process = subprocess.run([there / COMMAND.name, "run", "--", "echo", "ran"], capture_output=True, text=True)
                self.assertEqual((2, ""), (process.returncode, process.stdout))
                self.assertIn("a blank or a colon", process.stderr)
                told = subprocess.run([there / COMMAND.name, "doctor", "--", "echo", "ran"], capture_output=True, text=True)
                self.assertEqual(1, told.returncode)
                self.assertIn("a blank or a colon", told.stdout)
                process = memomalloc("run", "--next", there / "libmemomalloc.so", "--", "echo", "ran")
                self.assertEqual((2, ""), (process.returncode, process.stdout))
                self.assertIn("a blank or a colon", process.stderr)


class Reports(unittest.TestCase):
    def test_a_trace_holds_the_few_calls_of_a_short_program(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "trace.csv"
            process = memomalloc("run", "--trace-file", trace, "--", sys.executable, "-c",
                                 "blocks = [bytearray(300000 + i) for i in range(3)]")
            self.assertEqual((0, "", ""), (process.returncode, process.stdout, process.stderr))
            sizes = [line.split(",")[3] for line in trace.read_text().splitlines()]
            for size in range(300001, 300004):  # a bytearray ends with a zero
                self.assertIn(str(size), sizes)

    def test_each_process_says_who_it_is_and_those_left_out_say_nothing(self):
        script = "sh -c 'exit 0'; exit 0"
        said = memomalloc("run", "--stats", "--", "sh", "-c", script).stderr
        self.assertEqual(2, len(re.findall(r"^memomalloc: pid \d+\nmemomalloc: program sh$", said, re.MULTILINE)), said)
        self.assertEqual("", memomalloc("run", "--stats", "--exe", "nobody", "--", "sh", "-c", script).stderr)


class Options(unittest.TestCase):
    def test_defaults_and_what_is_set_now(self):
        lines = memomalloc("options", environment={"MEMOMALLOC_VERBOSE": "2"}).stdout.splitlines()
        self.assertTrue(any(line.split()[:2] == ["MEMOMALLOC_THRESHOLD", "64K"] for line in lines))
        self.assertTrue(any(line.startswith("MEMOMALLOC_VERBOSE") and line.endswith("set now: 2")
                            for line in lines))


if __name__ == "__main__":
    unittest.main()
