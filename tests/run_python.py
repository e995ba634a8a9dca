#!/usr/bin/env python3
"""Runs the Python tests of a folder: run_python.py FOLDER [--again] [--share DIRECTORY] [options of unittest's discover]

Prints a line `skipped: TEST: REASON` for each test that cannot run here, which unittest does not tell, and at
the end which classes took longest. Several that share a directory run each class once among them, each the next that
none has begun; the directory is made. With --again a test that fails is run five times more, after all others: where it
passes each time, a line `unsteady: TEST: REASON` says so. Such a test depends on time, and needs a mend. Exit code 1 if a
test failed, or if there was none and nobody shares them; 2 for bad usage."""

import os
import sys
import time
import unittest

SLOWEST = 5  # classes that are named at the end
AGAIN = 5  # runs of a test that failed once: a fault that comes by chance would seldom show itself in one


class Result(unittest.TextTestResult):
    """Counts a test that skips as one, however many of its parts do; and the seconds of each class."""

    seconds = {}
    again = None  # with --again: the tests that failed once, each with the reason

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

    def addFailure(self, test, err):
        if not self.postpones(test, err):
            super().addFailure(test, err)

    def addError(self, test, err):
        if not self.postpones(test, err):
            super().addError(test, err)

    def addSubTest(self, test, subtest, err):
        if err is None or not self.postpones(test, err):
            super().addSubTest(test, subtest, err)

    def postpones(self, test, err):
        """Whether the test is to run again, and does not count as failed yet."""
        if Result.again is None or not isinstance(test, unittest.TestCase):  # what fails in setUpClass is none
            return False
        self.again.setdefault(test, str(err[1]).strip().partition("\n")[0])
        return True

    def stopTestRun(self):
        """unittest calls this before it prints what failed."""
        failed_once, Result.again = Result.again or {}, None
        for test, reason in failed_once.items():
            bad = len(self.failures) + len(self.errors)
            for _ in range(AGAIN):
                self.testsRun -= 1  # it counts once
                unittest.TestSuite([test]).run(self)
                if len(self.failures) + len(self.errors) > bad:
                    break
            else:
                self.stream.writeln(f"\nunsteady: {test.id()}: {reason}")
        super().stopTestRun()


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
    if options and options[0] == "--again":
        Result.again, options = {}, options[1:]
    if options and options[0] == "--share":
        if len(options) < 2:
            sys.stderr.write("run_python.py: --share DIRECTORY\n")
            sys.exit(2)
        loader, options = Loader(options[1]), options[2:]
    ran = unittest.main(module=None, argv=[sys.argv[0], "discover", "-s", folder, *options], exit=False,
                        testLoader=loader, testRunner=unittest.TextTestRunner(resultclass=Result))
    slowest = sorted(Result.seconds.items(), key=lambda row: -row[1])[:SLOWEST]
    print("longest:", ", ".join(f"{name} {seconds:.0f} s" for name, seconds in slowest))
    some = ran.result.testsRun or ran.result.skipped or loader is not unittest.defaultTestLoader
    sys.exit(0 if ran.result.wasSuccessful() and some else 1)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.stderr.write(f"{__doc__}\n")
        sys.exit(2)
    main(*sys.argv[1:])
