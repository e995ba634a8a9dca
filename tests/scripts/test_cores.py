"""scripts/hardware: what is kept of a run over cores, and what it does where a process fails or the time is over."""

import json
import pathlib
import subprocess
import sys
import tempfile
import time
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts/hardware"), str(ROOT / "bench")]
import cores
import cores_results
import cores_teams


def turn(step_ms, **more):
    return {"step_ms": step_ms, "first_ms": step_ms, "steps": 3, "faults": 0.0, "user_ms": 1.0, "system_ms": 0.0, "rss_mib": 10.0,
            "anon_mib": 5.0, "peak_mib": 12.0, "planned_share": "", "at_hand_share": ""} | more


class FakeTeam:
    """Answers with a step time; fails at a turn, or goes on for a while."""

    def __init__(self, step_ms, fails_at=None, seconds=0.0):
        self.step_ms, self.fails_at, self.seconds, self.turns, self.stopped = step_ms, fails_at, seconds, 0, False

    def turn(self, command, seconds):
        self.turns += 1
        time.sleep(self.seconds)
        if self.turns == self.fails_at:
            raise cores_teams.Failed("ended with code -11: ")
        return turn(self.step_ms)

    def stop(self):
        self.stopped = True


class Cores(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.clock = cores.Clock(60)
        self.results = cores_results.Results(pathlib.Path(folder.name), {"date": "day"}, self.clock.began)
        self.measuring = cores.Measuring(types.SimpleNamespace(seed=1, turns=4), {}, self.results, self.clock)
        self.about = {"kind": "threads", "network": "net", "batch": 1, "size": 1, "threads": 2, "processes": 1}

    def written(self):
        return json.loads(self.results.json.read_text())

    def test_a_ratio_is_that_of_turns_of_one_round(self):
        turns = {"glibc": [turn(10), turn(100)], "ours": [turn(5), turn(90)]}
        figures = cores_results.summary(turns)
        self.assertEqual(figures["ours"]["ratio"]["median"], 0.7)  # of 0.5 and 0.9
        self.assertEqual(figures["ours"]["step_ms"]["median"], 47.5)
        self.assertEqual(figures["ours"]["step_ms"]["turns"], 2)

    def test_a_process_that_fails_leaves_the_others_figures(self):
        teams = {"glibc": FakeTeam(10), "ours": FakeTeam(5), "broken": FakeTeam(1, fails_at=4)}
        broken = teams["broken"]
        self.measuring.row(teams, self.about, 2, 5)
        row, = self.written()["rows"]
        self.assertEqual(row["figures"]["ours"]["ratio"]["median"], 0.5)
        self.assertEqual(row["figures"]["ours"]["step_ms"]["turns"], 4)
        self.assertEqual([one["allocator"] for one in self.written()["failures"]], ["broken"])
        self.assertTrue(broken.stopped)
        self.assertNotIn("broken", teams)

    def test_where_the_time_is_over_the_row_is_named(self):
        self.clock.end = time.monotonic() + 0.05
        self.measuring.row({"glibc": FakeTeam(10, seconds=0.03)}, self.about, 2, 0.05)
        self.assertEqual(self.written()["rows"], [])
        self.assertEqual(len(self.written()["left_out"]), 1)

    def test_each_allocator_has_each_place(self):
        orders = cores.rounds(["a", "b", "c"], 1)
        seen = [next(orders) for _ in range(3)]
        for place in range(3):
            self.assertEqual({order[place] for order in seen}, {"a", "b", "c"})

    def test_an_object_that_is_not_loaded_is_a_failure(self):
        done = subprocess.run([sys.executable, ROOT / "scripts/hardware/cores_worker.py", "--network", "resnet18",
                               "--library", "/nowhere/libother.so"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("libother.so was not loaded", json.loads(done.stdout)["error"])


if __name__ == "__main__":
    unittest.main()
