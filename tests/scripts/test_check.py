"""check.py counts cases as the test programs report them, and never calls a failure a success."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import check


class Count(unittest.TestCase):
    def test_catch2(self):
        self.assertEqual((7, 0), check.count("All tests passed (30 assertions in 7 test cases)", True))
        self.assertEqual((4, 1), check.count(
            "test cases:  5 |  4 passed | 1 failed\nassertions: 9 | 8 passed | 1 failed\n", False))
        self.assertEqual((0, 1), check.count("test cases: 1 | 1 failed\n", False))

    def test_unittest(self):
        self.assertEqual((3, 0), check.count("Ran 3 tests in 0.1s\n\nOK\n", True))
        self.assertEqual((1, 2), check.count(
            "Ran 3 tests in 0.1s\n\nFAILED (failures=1, errors=1)\n", False))

    def test_own_programs(self):
        self.assertEqual((4, 2), check.count("noise\n4 passed, 2 failed\n", False))

    def test_step_without_cases_counts_as_one(self):
        self.assertEqual((1, 0), check.count("built", True))
        self.assertEqual((0, 1), check.count("broken", False))

    def test_crash_after_good_cases_is_a_failure(self):
        self.assertEqual((7, 1), check.count("All tests passed (30 assertions in 7 test cases)", False))


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
