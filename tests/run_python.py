#!/usr/bin/env python3
"""Runs the Python tests of a folder as `python3 -m unittest discover -s FOLDER` does, with its options, and
prints a line `skipped: TEST: REASON` for each test that cannot run here, which unittest does not tell.
Exit code 1 if a test failed, 2 for bad usage."""

import sys
import unittest


class Result(unittest.TextTestResult):
    """Counts a test that skips as one, however many of its parts do."""

    def addSkip(self, test, reason):
        whole = getattr(test, "test_case", test)
        if all(whole is not other for other, _ in self.skipped):
            super().addSkip(whole, reason)
            self.stream.writeln(f"\nskipped: {whole.id()}: {reason}")


def main(folder, *options):
    arguments = [sys.argv[0], "discover", "-s", folder, *options]
    unittest.main(module=None, argv=arguments, testRunner=unittest.TextTestRunner(resultclass=Result))


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(f"usage: {sys.argv[0]} FOLDER [options of unittest]")
    main(*sys.argv[1:])
