"""The preload checks' runner calls each verdict by its name, and tells the reason of each skip."""

import contextlib
import importlib.util
import io
import pathlib
import re
import signal
import sys
import types
import unittest
from unittest import mock

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "preload"
sys.path.append(str(FOLDER))
import common
import perform

found = importlib.util.spec_from_file_location("preload_run", FOLDER / "run.py")  # there are several called run
run = importlib.util.module_from_spec(found)
found.loader.exec_module(run)


def passing():
    return "a remark"


def skipping():
    raise common.Skip("no tool")


def failing():
    raise AssertionError("other bytes")


def broken():
    raise KeyError("a broken check")


class Verdicts(unittest.TestCase):
    def perform(self, *checks):
        """(exit code, printed lines)"""
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = perform.perform_all([(check.__name__, check) for check in checks], 1, verbose=False)
        return code, out.getvalue().splitlines()

    def test_each_counts_as_what_it_is(self):
        code, lines = self.perform(passing, skipping, failing, broken)
        self.assertEqual((1, "1 passed, 2 failed, 1 skipped"), (code, lines[-1]))
        self.assertIn("skipped: skipping: no tool", lines)
        self.assertEqual((0, "1 passed, 0 failed, 1 skipped"), (self.perform(passing, skipping)[0],
                                                               self.perform(passing, skipping)[1][-1]))

    def test_nothing_to_do_is_no_success(self):
        self.assertEqual(1, self.perform()[0])


class OfPrograms(unittest.TestCase):
    def check(self, reference, result):
        """What program_check says of a program that gives `reference` alone and `result` under the library."""
        programs = types.SimpleNamespace(reference=lambda *_: reference, run=lambda *_: result)
        return perform.perform("p", run.program_check(programs, "p", common.Mode("default")))[1:3]

    def test_a_program_that_says_it_cannot_run_is_skipped_with_its_reason(self):
        said = common.Result(0, b"a ok\nskipped: needs root\n", b"")
        self.assertEqual(("skipped", "needs root"), self.check(said, said))
        left = common.Result(run.NOT_HERE, said.out, b"")
        self.assertEqual(("skipped", "needs root"), self.check(left, left))
        self.assertEqual("failed", self.check(left, common.Result(-11, said.out, b""))[0])
        silent = common.Result(run.NOT_HERE, b"", b"")
        self.assertEqual("failed", self.check(silent, silent)[0])

    def test_what_it_does_under_the_library_is_compared_all_the_same(self):
        said = common.Result(0, b"skipped: needs root\n", b"")
        self.assertEqual("failed", self.check(said, common.Result(1, said.out, b""))[0])
        # The library cannot make a program skip that runs without it.
        self.assertEqual("failed", self.check(common.Result(0, b"a ok\n", b""), said)[0])

    def test_an_absent_peer_is_one_skip(self):
        context = types.SimpleNamespace(emulator=[], programs=pathlib.Path("/nowhere"))
        arguments = types.SimpleNamespace(seed=1, fewer=1, only="programs [on jemalloc]")
        with (mock.patch.object(pathlib.Path, "iterdir", lambda _: iter(())),
              mock.patch.object(common, "find_peer", lambda _: None)):
            (name, check), = run.collect(context, arguments)
        self.assertEqual((name, "skipped", "libjemalloc.so.2 is not installed"), perform.perform(name, check)[:3])

    def test_where_less_is_to_be_done_each_mode_of_a_row_comes_for_some_program(self):
        def modes(fewer, program):
            arguments = types.SimpleNamespace(seed=1, fewer=fewer)
            return {mode.name for mode in common.modes(common.PEERS) if run.chosen(mode, program, arguments)}

        programs = [f"program {number}" for number in range(40)]
        every = {mode.name for mode in common.modes(common.PEERS)}
        self.assertTrue(all(modes(1, program) == every for program in programs))
        self.assertEqual(every, set().union(*(modes(3, program) for program in programs)))
        for row in run.ALIKE:
            self.assertTrue(all(len(modes(3, program) & set(row)) == 1 for program in programs))


class Hangs(unittest.TestCase):
    def test_what_does_not_end_is_ended_and_told_where_it_was(self):
        program = "import os, time; other = os.fork(); time.sleep(600)"
        result = common.Context(FOLDER).run([sys.executable, "-c", program], common.SYSTEM, timeout=2)
        self.assertEqual(-signal.SIGKILL, result.code)
        told = result.err.decode()
        self.assertIn("no end within 2 s", told)
        lines = [line for line in told.splitlines() if re.match(r"\d+/\d+ waits in ", line)]
        self.assertEqual(2, len(lines), told)
        self.assertTrue(all("libc.so" in line for line in lines), told)


if __name__ == "__main__":
    unittest.main()
