"""The preload checks' runner calls each verdict by its name, and tells the reason of each skip."""

import contextlib
import importlib.util
import io
import pathlib
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


if __name__ == "__main__":
    unittest.main()
