"""The plan cache: one process learns, all are served; what many processes at once, full disks, damaged files, other
users and killed writers leave of it."""

import fcntl
import json
import os
import random
import signal
import subprocess
import time
import unittest

from stored_plans import LOOP, loop, needs_mounts, needs_root, NOBODY, PYTHON, Store
from support import COMMAND, json_of, memomalloc, readable_by_all
from test_next_process import CHANGING, needs_call_stacks


class Sharing(Store):
    def test_the_next_process_is_served(self):
        self.learn()
        self.assert_whole(1)
        before = self.plan().stat()
        self.assert_served()
        self.assertEqual(before.st_mtime_ns, self.plan().stat().st_mtime_ns)  # used a moment ago

    def test_a_hundred_at_once_and_a_hundred_more(self):
        def run_all(rounds):
            folder = self.folder / f"stats-{rounds}"
            folder.mkdir()
            running = [self.start(loop(i % 10, rounds), stats=folder / f"{i}.json") for i in range(100)]
            for process in running:
                self.assertEqual(("", ""), process.communicate(timeout=400))
                self.assertEqual(0, process.returncode)
            return [json.loads((folder / f"{i}.json").read_text()) for i in range(100)]

        run_all(150)
        self.assert_whole(10)
        for statistics in run_all(6):
            self.assertEqual((0, 1), (statistics["plans"], statistics["plans_loaded"]))
            self.assertGreaterEqual(statistics["iterations"], 4)
        self.assert_whole(10)

    def test_a_plan_that_others_have_pushed_out_is_fetched_again(self):
        kinds, slots = 40, 32  # a process holds fewer plans than the store
        for first in range(0, kinds, 8):
            running = [self.start(loop(kind, 150)) for kind in range(first, first + 8)]
            for process in running:
                self.assertEqual(("", ""), process.communicate(timeout=100))
        self.assert_whole(kinds)
        each = f"for kind in range({kinds}):\n    iterate(kind, 6, 100_000)\n"
        self.assertGreater(kinds, slots)
        once = self.run_program(LOOP + each)
        self.assertEqual((0, kinds), (once["plans"], once["plans_loaded"]))
        twice = self.run_program(LOOP + each + each)
        self.assertEqual((0, 2 * kinds), (twice["plans"], twice["plans_loaded"]))
        between = each.replace("    iterate", "    iterate(0, 6, 100_000)\n    iterate")  # so that the first stays for long
        kept = self.run_program(LOOP + between + each.replace("range(", "range(1, ") + "iterate(0, 6, 100_000)\n")
        self.assertEqual((0, 2 * kinds), (kept["plans"], kept["plans_loaded"]))

    def test_a_plan_is_fetched_later_where_no_file_can_be_opened(self):
        self.learn()
        statistics = self.run_program(LOOP + "import resource\n"
                                      "few, most = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
                                      "iterate(5, 3, 100_000)\n"
                                      "resource.setrlimit(resource.RLIMIT_NOFILE, (0, most))\n"
                                      "iterate(0, 2, 100_000)\n"
                                      "resource.setrlimit(resource.RLIMIT_NOFILE, (few, most))\n"
                                      "iterate(0, 20, 100_000)\n")
        self.assertEqual(1, statistics["plans_loaded"])

    @needs_call_stacks
    def test_shapes_that_no_process_has_seen_are_served(self):
        self.assertGreater(self.run_program(CHANGING.format(seed=1, rounds=300))["symbolic_calls"], 0)
        second = self.run_program(CHANGING.format(seed=2, rounds=20))
        self.assertEqual(0, second["plans"])
        self.assertGreaterEqual(second["plans_loaded"], 1)
        self.assertGreater(second["shapes"], 8)

    def test_who_makes_no_large_allocation_does_not_look(self):
        self.store.write_text("no directory")
        setting = {"MEMOMALLOC_PLANS": str(self.store)}
        process = memomalloc("run", "--", "true", environment=setting)
        self.assertEqual((0, "", ""), (process.returncode, process.stdout, process.stderr))
        process = memomalloc("run", "--", *PYTHON, loop(0, 9), environment=setting)
        self.assertIn("it is no directory", process.stderr)

    def test_one_means_the_users_cache(self):
        cache = self.folder / "cache"
        cache.mkdir()
        self.environment |= {"XDG_CACHE_HOME": str(cache), "HOME": str(self.folder / "home")}
        self.run_program(loop(0, 200), store="1")
        self.assertEqual(1, len(list((cache / "memomalloc/plans").iterdir())))
        del self.environment["XDG_CACHE_HOME"]
        self.run_program(loop(0, 200), store="1")
        self.assertEqual(1, len(list((self.folder / "home/.cache/memomalloc/plans").iterdir())))
        del self.environment["HOME"]
        self.run_program(loop(0, 9), store="1", said="neither XDG_CACHE_HOME nor HOME")

    def test_plans_are_saved_while_the_process_lives_and_taken_up_by_one_that_lives(self):
        waiting = self.start(loop(5, 3) + "import os, time\n"
                             f"while not [name for name in os.listdir({str(self.folder)!r}) if name == 'go']:\n"
                             "    time.sleep(0.1)\n" + "iterate(0, 20, 100_000)\n",
                             stats=self.folder / "waiting.json")
        learning = self.start(LOOP + "import time\nwhile True:\n    iterate(0, 5, 100_000)\n    time.sleep(0.01)\n")
        try:
            self.wait_for_a_plan()
        finally:
            learning.kill()
            learning.communicate()
        self.assert_whole(1)
        time.sleep(2.5)  # it looks every two seconds
        (self.folder / "go").touch()
        self.assertEqual(("", ""), waiting.communicate(timeout=100))
        statistics = json.loads((self.folder / "waiting.json").read_text())
        self.assertEqual((0, 1), (statistics["plans"], statistics["plans_loaded"]))

    def test_a_plan_that_fits_no_more_is_replaced(self):
        long = LOOP.replace("1_000_000", "3_000_000")
        self.run_program(long + "iterate(0, 200, 100_000)")
        before = self.plan()
        changed = long.replace("size)", "size + (5_000 if size > 1_000_000 else 0))")
        statistics = self.run_program(changed + "iterate(0, 200, 100_000)")
        self.assertEqual((1, 1, 1), (statistics["plans"], statistics["plans_loaded"], statistics["diverged"]))
        self.assertLess(statistics["fallback"]["size"] + statistics["fallback"]["order"], 64)
        self.assertNotEqual(before, self.plan())

    def test_a_plan_for_other_arguments_stays(self):
        """A program with another model begins as with the first, and is another one."""
        long = LOOP.replace("1_000_000", "3_000_000") + "iterate(0, 200, 100_000)"
        changed = long.replace("size)", "size + (5_000 if size > 1_000_000 else 0))")
        self.run_program(long, behind=["one"])
        self.run_program(changed, behind=["other"])
        self.assert_whole(2)
        for program, word in ((long, "one"), (changed, "other")) * 2:
            statistics = self.run_program(program, behind=[word])
            self.assertEqual((0, 0), (statistics["plans"], statistics["diverged"]))
        self.assert_whole(2)

    def test_a_plan_whose_blocks_live_for_another_time_is_left_at_once_and_stays(self):
        """One loop keeps what the other frees at once, and both begin with the same calls."""
        sizes = "for size in range(200_000, 3_000_000, 50_000):\n        "
        asked = f"for _ in range(60):\n    {sizes}block = bytearray(size)\n    del block\n"
        trained = (f"for _ in range(60):\n    blocks = []\n    {sizes}blocks.append(bytearray(size))\n"
                   "    del blocks\n    block = bytearray(77_777)\n    del block\n")
        for first, second in ((asked, trained), (trained, asked)):
            with self.subTest(first=first):
                self.store = self.folder / f"plans-{len(first)}"
                self.run_program(first, behind=["1"])
                statistics = self.run_program(second, behind=["2"])
                self.assertEqual((1, 1, 1), (statistics["plans"], statistics["plans_loaded"], statistics["diverged"]))
                self.assert_whole(2)
                for program, word in ((first, "1"), (second, "2")):
                    statistics = self.run_program(program.replace("range(60)", "range(6)"), behind=[word])
                    self.assertEqual(0, statistics["plans"])
                    self.assertLessEqual(statistics["diverged"], 1)  # keys lie anywhere in a loop: the other's may come first
                    self.assertGreaterEqual(statistics["iterations"], 4)


class Harm(Store):
    def test_killed_writers_break_nothing(self):
        numbers = random.Random(3)
        running = [self.start(loop(i % 10, 100_000)) for i in range(30)]
        time.sleep(0.3)
        for process in numbers.sample(running, len(running)):
            time.sleep(numbers.random() / 5)
            process.send_signal(signal.SIGKILL)
        for process in running:
            self.assertEqual(("", ""), process.communicate())
        self.run_program(loop(10, 200))
        verdict = self.verify()
        self.assertEqual([], verdict["broken"])
        self.assertGreater(verdict["plans"], 0)

    def test_a_folder_that_a_stopped_writer_has_is_waited_for_once(self):
        """Not once for each plan, which would be a minute at exit."""
        self.store.mkdir(0o755)
        turn = os.open(self.store, os.O_RDONLY)
        self.addCleanup(os.close, turn)
        fcntl.flock(turn, fcntl.LOCK_EX)
        kinds = 30
        process = self.start(LOOP + f"for kind in range({kinds}):\n    iterate(kind, 300, 100_000)\n")
        try:
            self.assertEqual(("", ""), process.communicate(timeout=40))
        finally:
            process.kill()
        self.assert_whole(kinds)

    def test_what_a_killed_writer_left_is_swept_away_in_time(self):
        self.learn()
        left = self.store / (self.plan().name + ".123-45ab.tmp")
        left.write_bytes(self.plan().read_bytes()[:100])
        self.assertEqual((1, 1), (self.verify()["plans"], self.verify()["half_written"]))
        self.assertEqual(0, json_of(memomalloc("plans", "prune", "--plans", self.store, "--json"))["half_written"])
        os.utime(left, (1, 1))
        self.learn(kind=1)
        self.assertFalse(left.exists())
        self.assert_whole(2)

    def test_a_damaged_plan_is_told_of_and_made_again(self):
        self.learn()
        plan = self.plan()
        good = plan.read_bytes()
        for damaged in (good[:300], good[:200] + b"?" + good[201:], b"", good + b"x", b"MEMOPLAN"):
            plan.write_bytes(damaged)
            self.assertEqual([plan.name], [entry["name"] for entry in self.verify()["broken"]])
            self.run_program(loop(0, 200), said="is not used")
            self.assert_whole(1)
        plan.rename(self.store / plan.name.replace("-", "0-", 1)[1:])
        self.assertEqual("its name is another plan's", self.verify()["broken"][0]["reason"])

    def test_another_version_is_passed_over(self):
        self.learn()
        plan = self.plan()
        plan.write_bytes(plan.read_bytes()[:8] + b"\x63\0\0\0" + plan.read_bytes()[12:])
        self.assertEqual((0, 1, []), tuple(self.verify()[name] for name in ("plans", "other_versions", "broken")))
        self.assertEqual(1, self.run_program(loop(0, 200))["plans"])

    @needs_root
    @unittest.skipUnless(readable_by_all(COMMAND), "the folder is closed to other users")
    def test_a_folder_to_be_read_only_is_read(self):
        self.learn()
        before = self.plan().read_bytes()
        self.folder.chmod(0o777)
        self.store.chmod(0o555)
        self.assert_served(user=NOBODY)
        self.assertEqual(1, self.run_program(loop(1, 200), user=NOBODY)["plans"])
        self.assertEqual(before, self.plan().read_bytes())

    @needs_root
    def test_another_users_folder_is_refused(self):
        self.learn()
        plan = self.plan()
        os.chown(plan, NOBODY, NOBODY)
        self.run_program(loop(0, 9), said="another user owns it")
        os.chown(plan, 0, 0)
        os.chown(self.store, NOBODY, NOBODY)
        before = self.names()
        self.run_program(loop(1, 200), said="another user owns it")
        self.assertEqual(before, self.names())
        self.store.chmod(0o777)
        self.run_program(loop(1, 200), said="anybody may write it")

    @needs_mounts
    def test_a_full_disk_is_told_of_once(self):
        script = ('mount -t tmpfs -o size=16k none "$0" && head -c 16k /dev/zero > "$0/fill"; '
                  'chmod 755 "$0" && "$@" && test -z "$(find "$0" -type f -name "*.plan*")"')
        self.store.mkdir()
        self.run_program(loop(0, 200), before=("unshare", "-m", "sh", "-c", script, self.store),
                         said="No space left on device")

    def test_what_could_not_be_saved_is_saved_later(self):
        in_the_way = self.store
        in_the_way.touch()
        self.store = in_the_way / "below"
        running = self.start(LOOP + "import time\nwhile True:\n    iterate(0, 5, 100_000)\n    time.sleep(0.01)\n")
        try:
            self.assertIn("Not a directory", running.stderr.readline())
            in_the_way.unlink()
            self.wait_for_a_plan()
        finally:
            running.kill()
        self.assertEqual(("", ""), running.communicate())  # it was said once

    @needs_mounts
    def test_containers_share_a_folder(self):
        (self.folder / "other").mkdir()
        (self.folder / "third").mkdir()
        self.store.mkdir()

        def seen_at(name, options=""):
            return ("unshare", "-m", "sh", "-c", f'mount --bind{options} "$0" "$1" && shift && exec "$@"', self.store,
                    self.folder / name)

        self.run_program(loop(0, 200), before=seen_at("other"), store=self.folder / "other")
        self.assert_whole(1)
        self.store.chmod(0o777)  # as a ConfigMap is mounted
        self.assert_served(before=seen_at("third", " -o ro"), store=self.folder / "third")

    def test_a_config_map_is_read(self):
        """Its keys are links to files in a folder that one more link names; both change when the map does."""
        self.learn()
        plan = self.plan()
        written = self.store / "..2026_01_02_03_04_05.1234567890"
        written.mkdir()
        plan.rename(written / plan.name)
        (self.store / "..data").symlink_to(written.name)
        plan.symlink_to(f"..data/{plan.name}")
        (written / plan.name).chmod(0o644)
        self.store.chmod(0o555)
        self.assert_served()
        self.assertEqual([0, 1], [self.verify()[name] for name in ("half_written", "plans")])

    @needs_mounts
    def test_an_image_with_a_layer_on_top(self):
        """An overlay: the image's plan serves, what is new comes to the upper layer, and the image stays as it is."""
        self.learn()
        image = self.plan().read_bytes()
        for name in ("upper", "work", "seen"):
            (self.folder / name).mkdir()
        options = f"lowerdir={self.store},upperdir={self.folder}/upper,workdir={self.folder}/work"
        layered = {"store": self.folder / "seen", "before": (
            "unshare", "-m", "sh", "-c", 'mount -t overlay -o "$0" none "$1" && shift && exec "$@"', options,
            self.folder / "seen")}
        if subprocess.run([*layered["before"], "true"], capture_output=True).returncode != 0:
            self.skipTest("needs the right to mount an overlay")
        self.assert_served(**layered)
        self.assertEqual(1, self.run_program(loop(1, 200), **layered)["plans"])
        self.assert_served(1, **layered)
        self.assertEqual(image, self.plan().read_bytes())


if __name__ == "__main__":
    unittest.main()
