#!/usr/bin/env python3
"""Runs the Python tests of a folder: run_python.py FOLDER [--part K/N] [options of unittest's discover]

Prints a line `skipped: TEST: REASON` for each test that cannot run here, which unittest does not tell, and at
the end which classes took longest. --part 1/2 runs every other class, 2/2 the rest. Exit code 1 if a test
failed, 2 for bad usage."""

import re
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


class Loader(unittest.TestLoader):
    """Finds a part of the classes: each `parts`-th from `part` on."""

    def __init__(self, part, parts):
        super().__init__()
        self.part, self.parts = part, parts

    def discover(self, *arguments, **options):
        modules = super().discover(*arguments, **options)
        classes = [one for module in modules for one in (module if isinstance(module, unittest.TestSuite) else [module])]
        return self.suiteClass(classes[self.part - 1::self.parts])


def main(folder, *options):
    part, parts = 1, 1
    if options and options[0] == "--part":
        found = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", options[1]) if len(options) > 1 else None
        if found is None or int(found[1]) > int(found[2]):
            sys.stderr.write("run_python.py: --part K/N, K from 1 to N\n")
            sys.exit(2)
        part, parts, options = int(found[1]), int(found[2]), options[2:]
    ran = unittest.main(module=None, argv=[sys.argv[0], "discover", "-s", folder, *options], exit=False,
                        testLoader=Loader(part, parts), testRunner=unittest.TextTestRunner(resultclass=Result))
    slowest = sorted(Result.seconds.items(), key=lambda row: -row[1])[:SLOWEST]
    print("longest:", ", ".join(f"{name} {seconds:.0f} s" for name, seconds in slowest))
    sys.exit(0 if ran.result.wasSuccessful() else 1)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.stderr.write(f"{__doc__}\n")
        sys.exit(2)
    main(*sys.argv[1:])
