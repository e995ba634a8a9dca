"""containers.py: the least limit that is lived in is found, wherever it lies, and with few runs."""

import contextlib
import pathlib
import random
import sys
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "scripts")]
import containers


class Least(unittest.TestCase):
    def search(self, least, peak, step):
        tried = []

        def lives_in(limit):
            tried.append(limit)
            return limit >= least

        return containers.least(lives_in, peak, step), tried

    def test_any_limit_is_found(self):
        seed = random.randrange(1 << 30)
        chance = random.Random(seed)
        for _ in range(300):
            least, peak, step = chance.randint(1, 2000), chance.randint(1, 2000), chance.choice((1, 4, 10))
            found, tried = self.search(least, peak, step)
            with self.subTest(seed=seed, least=least, peak=peak, step=step):
                self.assertGreaterEqual(found, least)
                self.assertLessEqual(found - least, step)
                self.assertIn(found, tried)

    def test_a_limit_near_the_peak_takes_few_runs(self):
        for least in range(340, 404):
            self.assertLessEqual(len(self.search(least, 400, 4)[1]), 8)


class Lives(unittest.TestCase):
    def lives(self, *command, limit=1 << 20):
        """With a group that limits nothing."""
        group = mock.Mock(command=list, peak=lambda: 5)
        with mock.patch.object(containers.control_group, "limited", lambda _: contextlib.nullcontext(group)):
            return containers.lives(command, None, limit, patience=1)

    def test_a_program_lives_that_ends_well(self):
        self.assertEqual((True, 5), self.lives("true"))
        self.assertEqual((False, 5), self.lives("false"))
        self.assertEqual((False, 5), self.lives("sh", "-c", "kill -9 $$"))

    def test_a_program_that_comes_to_no_end_does_not_live(self):
        self.assertEqual((False, 5), self.lives("sleep", "60"))

    def test_a_failure_without_a_limit_is_an_error(self):
        with self.assertRaises(SystemExit):
            self.lives("false", limit=containers.ROOMY)
        with self.assertRaises(SystemExit):
            self.lives("sleep", "60", limit=containers.ROOMY)


if __name__ == "__main__":
    unittest.main()
