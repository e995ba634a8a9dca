"""check.py counts cases as the test programs report them, and calls neither a failure nor a skip a success."""

import contextlib
import fnmatch
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/gates"))
import ahead
import check


SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
PRELOAD = """preload checks: 3, seed 5
skipped: small_stacks [on jemalloc]: jemalloc alone fails it
failed: sizes [default] (0.1 s) exit 1
1 passed, 1 failed, 1 skipped
"""
UNITTEST = """..s.
skipped: test_report.Page.test_zoom: chromium is not installed
.
----------------------------------------------------------------------
Ran 5 tests in 0.1s

OK (skipped=1)
"""
CATCH2 = """
skipped: schedule: the joint program: built without CBC
===============================================================================
All tests passed (30 assertions in 7 test cases)
"""


class Count(unittest.TestCase):
    def test_catch2(self):
        self.assertEqual((7, 0, []), check.count("All tests passed (30 assertions in 7 test cases)", True))
        self.assertEqual((4, 1, []), check.count(
            "test cases:  5 |  4 passed | 1 failed\nassertions: 9 | 8 passed | 1 failed\n", False))
        self.assertEqual((0, 1, []), check.count("test cases: 1 | 1 failed\n", False))
        self.assertEqual((7, 1, []), check.count(
            "No tests ran\n\nAll tests passed (30 assertions in 7 test cases)", True))

    def test_a_case_that_catch2_calls_passed_but_that_skips_is_skipped(self):
        reason = "schedule: the joint program: built without CBC"
        self.assertEqual((6, 0, [reason]), check.count(CATCH2, True))
        self.assertEqual((6, 0, ["no memory can be locked"]), check.count(
            "a_test.cc:34: warning:\n  skipped: no memory can be locked\n\n" + CATCH2.splitlines()[-1], True))
        # Once for each value of a generator, and beside another program's own count.
        self.assertEqual((6, 0, [reason]), check.count(f"skipped: {reason}\n" + CATCH2, True))
        self.assertEqual((8, 0, [reason, "a: b"]), check.count(
            CATCH2 + "skipped: a: b\n2 passed, 0 failed, 1 skipped\n", True))

    def test_unittest(self):
        self.assertEqual((3, 0, []), check.count("Ran 3 tests in 0.1s\n\nOK\n", True))
        self.assertEqual((1, 2, []), check.count(
            "Ran 3 tests in 0.1s\n\nFAILED (failures=1, errors=1)\n", False))
        self.assertEqual((2, 1, []), check.count(
            "Ran 3 tests in 0.1s\n\nFAILED (unexpected successes=1, expected failures=1)\n", False))

    def test_unittest_skips(self):
        self.assertEqual((4, 0, ["test_report.Page.test_zoom: chromium is not installed"]),
                         check.count(UNITTEST, True))
        self.assertEqual((3, 1, ["a: b"]), check.count(
            "skipped: a: b\nRan 5 tests in 0.1s\n\nFAILED (failures=1, skipped=1)\n", False))

    def test_a_skip_without_its_reason_is_a_failure(self):
        self.assertEqual((4, 1, []), check.count("Ran 5 tests in 0.1s\n\nOK (skipped=1)\n", True))
        self.assertEqual((4, 2, []), check.count("4 passed, 0 failed, 2 skipped\n", True))

    def test_own_programs(self):
        self.assertEqual((4, 2, []), check.count("noise\n4 passed, 2 failed\n", False))
        self.assertEqual((1, 1, ["small_stacks [on jemalloc]: jemalloc alone fails it"]),
                         check.count(PRELOAD, False))

    def test_step_without_cases_counts_as_one(self):
        self.assertEqual((1, 0, []), check.count("built", True))
        for nothing in ("0 passed, 0 failed, 0 skipped\n", "Ran 0 tests in 0.000s\n\nOK\n",
                        "Ran 0 tests in 0.000s\n\nNO TESTS RAN\n"):
            self.assertEqual((0, 1, []), check.count(nothing, True), nothing)
        self.assertEqual((0, 1, []), check.count("broken", False))

    def test_a_step_that_only_skips_has_passed_nothing(self):
        self.assertEqual((0, 0, ["valgrind is not installed"]), check.count("skipped: valgrind is not installed\n", True))
        self.assertEqual((0, 0, ["a: b"]), check.count("skipped: a: b\n0 passed, 0 failed, 1 skipped\n", True))

    def test_crash_after_good_cases_is_a_failure(self):
        self.assertEqual((7, 1, []), check.count("All tests passed (30 assertions in 7 test cases)", False))


class Failures(unittest.TestCase):
    def test_each_runner_s_own_word_is_shown_once(self):
        self.assertEqual(["failed: sizes [default] (0.1 s) exit 1"], check.first_failures(PRELOAD))
        self.assertEqual(["FAIL: test_a (test_b.C.test_a)", "a_test.cc:34: FAILED:", "x.cc:6:2: error: no such name",
                          "SUMMARY: AddressSanitizer: leak"], check.first_failures(
            "FAIL: test_a (test_b.C.test_a)\n1 failed: no line of ours\na_test.cc:34: FAILED:\n  CHECK( a )\n"
            "x.cc:6:2: error: no such name\nx.cc:6:2: error: no such name\nSUMMARY: AddressSanitizer: leak\n"))

    def test_a_flood_is_cut(self):
        shown = check.first_failures("".join(f"failed: {number}{'x' * 500}\n" for number in range(30)))
        self.assertEqual(check.FAILURES_SHOWN + 1, len(shown))
        self.assertEqual("and 20 more", shown[-1])
        self.assertEqual(check.WIDTH_SHOWN, len(shown[0]))

    def test_a_race_is_shown_with_both_stacks(self):
        log = ("WARNING: ThreadSanitizer: data race (pid=7)\n"
               "  Atomic read of size 8 at 0x7f by thread T2:\n"
               "    #0 std::__atomic_base<unsigned long>::load() const /usr/include/c++/12/bits/atomic_base.h:488 (u+0x1)\n"
               "    #1 memo::borrow_slab(memo::Shared&) src/engine/lane.cc:38 (unit_tests+0x2)\n"
               "\n  Previous write of size 8 at 0x7f by thread T1 (mutexes: write M1):\n"
               + "".join(f"    #{i} memo::Lane::Lane() src/engine/lane.h:{i} (unit_tests+0x3)\n" for i in range(9)) +
               "\n  Thread T2 (tid=9, running) created by main thread at:\n"
               "    #0 main tests/main.cc:1 (unit_tests+0x4)\n\n"
               "SUMMARY: ThreadSanitizer: data race /usr/include/c++/12/bits/atomic_base.h:488 in load\n")
        self.assertEqual(["SUMMARY: ThreadSanitizer: data race /usr/include/c++/12/bits/atomic_base.h:488 in load",
                          "Atomic read of size 8 at 0x7f by thread T2",
                          "  src/engine/lane.cc:38 memo::borrow_slab(memo::Shared&)",
                          "Previous write of size 8 at 0x7f by thread T1 (mutexes: write M1)",
                          *(f"  src/engine/lane.h:{i} memo::Lane::Lane()" for i in range(3))],
                         check.first_failures(log))

    def test_failures_come_before_logs_and_logs_before_skips(self):
        with tempfile.TemporaryDirectory(dir=check.ROOT / "build") as folder, mock.patch.object(
                check, "LOGS", pathlib.Path(folder)), mock.patch.object(check, "steps", lambda: [
                    ("one", [["printf", "skipped: a: b\\nfailed: c\\nthe log\\n1 passed, 1 failed, 1 skipped\\n"]], 9),
                    ("two", [["true"]], 9)]), contextlib.redirect_stdout(io.StringIO()) as printed:
            self.assertEqual(1, check.main(["--no-install"]))
        lines = [line.strip() for line in printed.getvalue().splitlines()]
        self.assertEqual(["failed: c", "1 passed", "---", "skipped: one: a: b", "2 passed, 1 failed, 1 skipped"],
                         [lines[1], lines[2][10:].strip()[:8], lines[-3], lines[-2], lines[-1]])
        self.assertIn("the log", lines[3:-3])


class Runners(unittest.TestCase):
    """What the project's own runners print is what is counted."""

    def run_python(self, text, *options):
        """What running a file of tests with this text ends with and prints."""
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "test_some.py").write_text(text)
            return subprocess.run([sys.executable, SCRIPTS.parent / "tests/run_python.py", folder, *options],
                                  capture_output=True, text=True)

    def test_python(self):
        done = self.run_python(
            "import unittest\nclass Some(unittest.TestCase):\n"
            "    def test_a(self):\n        pass\n"
            "    def test_b(self):\n        \"\"\"Has words of its own.\"\"\"\n        self.skipTest('no tool')\n"
            "    def test_c(self):\n        for part in range(2):\n            with self.subTest(part=part):\n"
            "                self.skipTest('no part')\n"
            "@unittest.skip('no class')\nclass Other(unittest.TestCase):\n    def test_d(self):\n        pass\n")
        self.assertEqual(0, done.returncode, done.stderr)
        passed, failed, reasons = check.count(done.stderr, True)
        self.assertEqual((1, 0), (passed, failed), done.stderr)
        self.assertEqual(["test_some.Other.test_d: no class", "test_some.Some.test_b: no tool",
                          "test_some.Some.test_c: no part"], sorted(reasons))

    def test_a_test_that_passes_when_it_runs_again_is_unsteady(self):
        """One fails once, one in a part of it, one always, one once and then at the fourth time: with --again the last two
        fail, each with its reason."""
        tests = ("import unittest\nclass Some(unittest.TestCase):\n    runs = {}\n"
                 "    def first(self):\n        self.runs[self.id()] = self.runs.get(self.id(), 0) + 1\n"
                 "        return self.runs[self.id()] == 1\n"
                 "    def test_a(self):\n        self.assertFalse(self.first(), 'too early')\n"
                 "    def test_b(self):\n        for part in range(2):\n            with self.subTest(part=part):\n"
                 "                self.assertFalse(self.first(), 'in part')\n"
                 "    def test_c(self):\n        \"\"\"Says so.\"\"\"\n        self.assertEqual(1, 2, 'always')\n"
                 "    def test_d(self):\n        self.assertFalse(self.first() or self.runs[self.id()] == 4, 'by chance')\n")
        once, again = self.run_python(tests), self.run_python(tests, "--again")
        self.assertEqual([1, 1], [once.returncode, again.returncode])
        self.assertEqual((0, 4), check.count(once.stderr, False)[:2], once.stderr)
        self.assertEqual((2, 2), check.count(again.stderr, False)[:2], again.stderr)
        self.assertEqual([], check.UNSTEADY.findall(once.stderr))
        self.assertEqual(["unsteady: test_some.Some.test_a: True is not false : too early",
                          "unsteady: test_some.Some.test_b: True is not false : in part"],
                         check.UNSTEADY.findall(again.stderr))
        self.assertEqual(["FAIL: test_c (test_some.Some.test_c)", "  AssertionError: 1 != 2 : always",
                          "FAIL: test_d (test_some.Some.test_d)", "  AssertionError: True is not false : by chance"],
                         check.first_failures(again.stderr))

    def test_no_test_is_no_success(self):
        for text, options, code in (("", (), 1), ("import unittest\nclass A(unittest.TestCase):\n    def test_a(self):\n"
                                                  "        pass\n", ("-k", "no_such"), 1),
                                    ("import unittest\n@unittest.skip('no class')\nclass A(unittest.TestCase):\n"
                                     "    def test_a(self):\n        pass\n", (), 0)):
            done = self.run_python(text, *options)
            self.assertEqual(code, done.returncode, done.stderr)
            self.assertEqual(bool(code), check.count(done.stderr, True)[1] > 0, done.stderr)

    def test_processes_that_share_a_directory_run_each_class_once(self):
        classes = "".join(f"class Case{number}(unittest.TestCase):\n    def test_a(self):\n        time.sleep(0.05)\n"
                          f"        print('ran {number}')\n" for number in range(8))
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "test_some.py").write_text(f"import time, unittest\n{classes}")
            for broken in ("test_broken.py", "test_other.py"):
                pathlib.Path(folder, broken).write_text("import no_such_module\n")
            command = [sys.executable, SCRIPTS.parent / "tests/run_python.py", folder, "--share", f"{folder}/begun"]
            running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
            told = [process.communicate() for process in running]
        self.assertEqual([f"ran {number}" for number in range(8)],
                         sorted(line for out, _ in told for line in out.splitlines() if line.startswith("ran")), told)
        counts = [check.count(errors, True)[:2] for _, errors in told]
        self.assertEqual((8, 2), tuple(map(sum, zip(*counts))), told)
        self.assertEqual(sum(1 for _, failed in counts if failed), sum(process.returncode == 1 for process in running))

    def test_shell_scripts_skip_what_is_not_installed(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("dirname", "mkdir", "sh", "bash", "env", "git", "sort", "xargs"):
                os.symlink(shutil.which(name), pathlib.Path(folder, name))
            os.symlink(os.path.realpath(sys.executable), pathlib.Path(folder, "python3"))
            for script, tools in (("tests/stress/valgrind.sh", 1), ("tests/fuzz/run.sh", 1), ("scripts/gates/lint.sh", 2)):
                done = subprocess.run([SCRIPTS.parent / script], capture_output=True, text=True,
                                      env={"PATH": folder, "HOME": folder})
                passed, failed, reasons = check.count(done.stdout, done.returncode == 0)
                self.assertEqual((tools - 1, 0, tools), (passed, failed, len(reasons)), f"{script}: {done}")


class Allowed(unittest.TestCase):
    ROWS = [("preload", "small_stacks [on jemalloc]: *", "it needs more stack"), ("*san", "os: *", "addresses")]

    def test_a_row_names_the_step_and_the_reason(self):
        self.assertEqual("it needs more stack", check.why_allowed(
            "preload", "small_stacks [on jemalloc]: jemalloc alone fails it", self.ROWS))
        self.assertEqual("addresses", check.why_allowed("tsan", "os: the limit", self.ROWS))
        for step, reason in (("unit", "small_stacks [on jemalloc]: x"), ("preload", "small_stacks [on mimalloc]: x"),
                             ("preload", "small_stacks j: x"), ("unit", "os: the limit")):
            self.assertIsNone(check.why_allowed(step, reason, self.ROWS), (step, reason))

    def test_the_list_of_the_tree_is_well_formed(self):
        rows = check.read_allowed()
        steps = [name for name, _, _ in check.steps()]
        for step, pattern, _ in rows:
            self.assertTrue(fnmatch.filter(steps, step), step)
            self.assertNotEqual("", pattern.strip("*: "), pattern)

    def run_main(self, *words, table=None, left_out=""):
        """(exit code, printed) of a check of one step that passes two, and skips an allowed and another test."""
        script = "echo 'skipped: a: allowed'; echo 'skipped: b: not'; echo '2 passed, 0 failed, 2 skipped'"
        rows = [("some", "a: *", "it is known")]
        with (tempfile.TemporaryDirectory(dir=check.ROOT / "build") as folder,
              mock.patch.object(check, "steps", lambda: table or [("some", [["sh", "-c", script]], 20)]),
              mock.patch.object(check, "LOGS", pathlib.Path(folder)),
              mock.patch.object(check, "read_allowed", lambda: rows),
              mock.patch.object(check, "LEFT_OUT", pathlib.Path(folder, "left_out")),  # this system's archives have all
              contextlib.redirect_stdout(io.StringIO()) as out):
            if left_out:
                check.LEFT_OUT.write_text(left_out)
            return check.main(list(words)), out.getvalue()

    def test_what_is_not_on_the_list_fails(self):
        code, printed = self.run_main()
        self.assertEqual((1, "2 passed, 1 failed, 1 skipped"), (code, printed.splitlines()[-1]))
        self.assertIn(" skipped: some: a: allowed\n", printed)
        self.assertIn(" not allowed, skipped: b: not\n", printed)

    def test_a_package_that_the_archives_lack_allows_what_needs_it_alone(self):
        script = ("echo 'skipped: planner: by CBC: built without CBC'; echo 'skipped: b: chromium is not installed'; "
                  "echo '0 passed, 0 failed, 2 skipped'")
        table = [("some", [["sh", "-c", script]], 20)]
        for packages, failed in (("", 2), ("coinor-libcbc-dev\n", 1), ("coinor-libcbc-dev\nchromium\n", 0)):
            code, printed = self.run_main(table=table, left_out=packages)
            self.assertEqual((bool(failed), f"0 passed, {failed} failed, {2 - failed} skipped"),
                             (bool(code), printed.splitlines()[-1]))

    def test_without_installing_all_is_allowed_and_shown(self):
        code, printed = self.run_main("--no-install")
        self.assertEqual((0, "2 passed, 0 failed, 2 skipped"), (code, printed.splitlines()[-1]))
        for line in ("skipped: some: a: allowed", "skipped: some: b: not"):
            self.assertIn(f"       {line}\n", printed)

    def test_what_is_done_ahead_is_for_steps_that_come_later(self):
        names = [name for name, _, _ in check.steps()]
        begun = names.index(check.AHEAD_FROM)
        for step, command in check.AHEAD.items():
            self.assertLess(begun, names.index(step))
            self.assertIsNotNone(shutil.which(command[0], path=f"{os.environ['PATH']}:{SCRIPTS.parent}"))

    def test_every_step_makes_what_it_needs(self):
        for name, commands, _ in check.steps():
            words = [word for stage in commands for command in (stage if isinstance(stage, tuple) else [stage])
                     for word in command]
            if name in ("scripts", "docs", "cli", "torch", "preload"):
                self.assertEqual("make", words[0], name)
                self.assertIn("all", words[:4], name)


class DoneAhead(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def wait_for(self, name):
        end = time.monotonic() + 20
        while not (self.folder / name).exists():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_one_after_the_other_at_the_lowest_priority(self):
        work = {"first": ["sh", "-c", "nice > priority; sleep 0.2; touch one"], "second": ["sh", "-c", "test -e one && touch two"]}
        with ahead.Ahead(work, self.folder) as done:
            self.assertFalse((self.folder / "one").exists())
            done.start()
            done.before("neither")
            self.wait_for("two")
        self.assertEqual(min(19, os.nice(0) + 19), int((self.folder / "priority").read_text()))

    def test_what_has_begun_is_waited_for_and_the_rest_is_left_to_its_step(self):
        work = {"first": ["sh", "-c", "touch begun; sleep 0.3; touch one"], "second": ["touch", "two"], "third": ["touch", "three"]}
        with ahead.Ahead(work, self.folder) as done:
            done.start()
            self.wait_for("begun")
            done.before("second")
            done.before("first")
            self.assertTrue((self.folder / "one").exists())
            self.wait_for("three")
        self.assertFalse((self.folder / "two").exists())

    def test_what_still_runs_at_the_end_is_ended(self):
        began = time.monotonic()
        with ahead.Ahead({"first": ["sh", "-c", "touch begun; sleep 100"], "second": ["touch", "two"]}, self.folder) as done:
            done.start()
            self.wait_for("begun")
        self.assertLess(time.monotonic() - began, 50)
        self.assertFalse((self.folder / "two").exists())

    def test_what_is_not_started_does_nothing(self):
        with ahead.Ahead({"first": ["touch", "one"]}, self.folder) as done:
            done.before("first")
            done.start()
        self.assertFalse((self.folder / "one").exists())


class Perform(unittest.TestCase):
    def log_of(self, commands, limit=20):
        with tempfile.TemporaryFile("w+") as log:
            succeeded = check.perform(commands, log, limit)
            log.seek(0)
            return succeeded, log.read()

    def test_commands_at_once_are_logged_one_after_another(self):
        succeeded, log = self.log_of([["sh", "-c", "echo a; sleep 0.2; echo b"], ["echo", "c"]])
        self.assertTrue(succeeded)
        self.assertTrue(log.endswith("a\nb\nc\n"), log)

    def test_any_failure_fails_all(self):
        for commands in ([["false"], ["true"]], [["true"], ["false"]]):
            succeeded, log = self.log_of(commands)
            self.assertFalse(succeeded)
            self.assertTrue(log.endswith("exit code 1\n"), log)

    def test_what_cannot_run_or_end_fails(self):
        self.assertFalse(self.log_of([["/no/such/program"]])[0])
        self.assertFalse(self.log_of([["true"], ["sleep", "20"]], limit=0.1)[0])


if __name__ == "__main__":
    unittest.main()
