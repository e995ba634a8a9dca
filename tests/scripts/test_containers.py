"""containers.py: the least limit that is lived in is found, wherever it lies, and with few runs."""

import pathlib
import random
import sys
import unittest

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


if __name__ == "__main__":
    unittest.main()
