#!/usr/bin/env python3
"""Runs the Python tests of a folder: run_python.py FOLDER [--share DIRECTORY] [options of unittest's discover]

Prints a line `skipped: TEST: REASON` for each test that cannot run here, which unittest does not tell, and at
the end which classes took longest. Several that share a directory run each class once among them, each the next that
none has begun; the directory is made. Exit code 1 if a test failed, 2 for bad usage."""

import os
import sys
import time
import unittest

SLOWEST = 5  # classes that are named at the end


class Result(unittest.TextTestResult):
    """Counts a test that skips as one, however many of its parts do; and the seconds of each class."""

    seconds = {}

    def startTest(self, test):
        self.began = time.monotonic()
        super().startTest(test)

    def stopTest(self, test):
        super().stopTest(test)
        name = type(test).__qualname__
        self.seconds[name] = self.seconds.get(name, 0) + time.monotonic() - self.began

    def addSkip(self, test, reason):
        whole = getattr(test, "test_case", test)
        if all(whole is not other for other, _ in self.skipped):
            super().addSkip(whole, reason)
            self.stream.writeln(f"\nskipped: {whole.id()}: {reason}")


class Claimed(unittest.TestSuite):
    """A class of tests, which is left out where another process has begun it."""

    def __init__(self, tests, directory):
        super().__init__(tests)
        self.directory = directory

    def run(self, result, debug=False):
        first = next(iter(self), None)
        if first is None:
            return result
        try:
            os.close(os.open(os.path.join(self.directory, first.id()), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return result
        return super().run(result, debug)


class Loader(unittest.TestLoader):
    """Finds the classes, which others may share that have the directory."""

    def __init__(self, directory):
        super().__init__()
        os.makedirs(directory, exist_ok=True)
        self.directory = directory

    def discover(self, *arguments, **options):
        modules = super().discover(*arguments, **options)
        classes = [one for module in modules for one in (module if isinstance(module, unittest.TestSuite) else [module])]
        return self.suiteClass([Claimed(one if isinstance(one, unittest.TestSuite) else [one], self.directory) for one in classes])


def main(folder, *options):
    loader = unittest.defaultTestLoader
    if options and options[0] == "--share":
        if len(options) < 2:
            sys.stderr.write("run_python.py: --share DIRECTORY\n")
            sys.exit(2)
        loader, options = Loader(options[1]), options[2:]
    ran = unittest.main(module=None, argv=[sys.argv[0], "discover", "-s", folder, *options], exit=False,
                        testLoader=loader, testRunner=unittest.TextTestRunner(resultclass=Result))
    slowest = sorted(Result.seconds.items(), key=lambda row: -row[1])[:SLOWEST]
    print("longest:", ", ".join(f"{name} {seconds:.0f} s" for name, seconds in slowest))
    sys.exit(0 if ran.result.wasSuccessful() else 1)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.stderr.write(f"{__doc__}\n")
        sys.exit(2)
    main(*sys.argv[1:])
