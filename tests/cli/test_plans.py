"""The store of plans: one process learns, all are served; what many processes at once, full disks, damaged files, other
users and killed writers leave of it, and the command that looks into it."""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from support import COMMAND, json_of, memomalloc, readable_by_all
from test_plan_file import CHANGING, needs_call_stacks

# A loop of its own for each kind: blocks that repeat, at most two at a time. The names of plans follow from the sizes.
LOOP = """
def iterate(kind, rounds, last):
    for _ in range(rounds):
        for size in [*range(100_000 + 1_000 * kind, 1_000_000, 70_000), last]:
            block = bytearray(size)
        del block
"""
SYSTEM = "/usr/bin/python3"  # which any user may run
PYTHON = (SYSTEM if os.path.exists(SYSTEM) else sys.executable, "-I", "-S", "-c")
NOBODY = 65534
needs_root = unittest.skipUnless(os.geteuid() == 0, "another user needs root")


def may_mount():
    return subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode == 0


needs_mounts = unittest.skipUnless(shutil.which("unshare") and may_mount(), "needs the right to mount")


def loop(kind, rounds):
    return LOOP + f"iterate({kind}, {rounds}, 100_000)\n"


class Store(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.folder.chmod(0o755)
        self.store = self.folder / "plans"
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("MEMOMALLOC_") and name != "LD_PRELOAD"}

    def start(self, program, *options, stats=None, store=None, before=(), **more):
        words = [*before, COMMAND, "run", "--plans", store or self.store, *options]
        words += ["--stats-file", stats] if stats else []
        return subprocess.Popen([*map(str, words), "--", *PYTHON, program], env=self.environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def run_program(self, program, *options, said="", **more):
        """Its statistics."""
        stats = self.folder / "stats.json"
        stats.unlink(missing_ok=True)
        process = self.start(program, *options, stats=stats, **more)
        out, err = process.communicate(timeout=120)
        self.assertEqual((0, ""), (process.returncode, out), err)
        if said:
            self.assertIn(said, err)
            self.assertEqual(1, err.count("\n"), err)
        else:
            self.assertEqual("", err)
        return json.loads(stats.read_text())

    def names(self, store=None):
        return sorted(path.name for path in (store or self.store).iterdir())

    def plan(self):
        """The only file of the store."""
        self.assertEqual(1, len(self.names()))
        return self.store / self.names()[0]

    def learn(self, kind=0):
        statistics = self.run_program(loop(kind, 200))
        self.assertEqual((1, 0), (statistics["plans"], statistics["plans_loaded"]))

    def assert_served(self, kind=0, **more):
        """From its first iteration on, but for the calls that open the engine and name the plan."""
        statistics = self.run_program(loop(kind, 6), **more)
        self.assertEqual((0, 1), (statistics["plans"], statistics["plans_loaded"]))
        self.assertGreaterEqual(statistics["iterations"], 4)
        self.assertLess(statistics["learned_allocations"], 28)

    def verify(self):
        return json_of(memomalloc("plans", "verify", "--plans", self.store, "--json"))

    def assert_whole(self, plans):
        self.assertEqual({"plans": plans, "other_versions": 0, "half_written": 0, "broken": []}, self.verify())


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
            until = time.monotonic() + 100
            while not (self.store.exists() and any(name.endswith(".plan") for name in self.names())):
                self.assertLess(time.monotonic(), until)
                time.sleep(0.1)
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


class Command(Store):
    def plans(self, *words, code=0, store=None):
        process = memomalloc("plans", *words, "--plans", store or self.store)
        self.assertEqual(code, process.returncode, process.stderr)
        return process

    def test_tells_of_each_plan(self):
        self.learn(0)
        self.learn(1)
        plans = json_of(self.plans("list", "--json"))
        self.assertEqual(self.names(), [plan["name"] for plan in plans])
        self.assertEqual({14}, {plan["calls"] for plan in plans})
        self.assertEqual({pathlib.Path(PYTHON[0]).name}, {plan["program"] for plan in plans})
        self.assertGreaterEqual(plans[0]["height"], plans[0]["lower_bound"])
        self.assertEqual(3, len(self.plans("list").stdout.splitlines()))
        shown = json_of(self.plans("show", plans[0]["name"][:12], "--json"))
        self.assertEqual(14, len(shown["placement"]))
        self.assertIn(f"{shown['height']} bytes", self.plans("show", plans[0]["name"]).stdout)
        self.plans("show", "nothing", code=1)

    def test_carries_plans_elsewhere(self):
        for kind in range(3):
            self.learn(kind)
        archive, other = self.folder / "plans.tar", self.folder / "other"
        self.plans("export", archive)
        listed = subprocess.run(["tar", "-tf", archive], capture_output=True, text=True, check=True).stdout
        self.assertEqual(self.names(), sorted(listed.split()))
        self.plans("import", archive, store=other)
        self.assertEqual(self.names(), self.names(other))
        subprocess.run(["tar", "-cf", archive, "-C", self.store, "."], check=True)  # tar's own
        third = self.folder / "third"
        self.plans("import", archive, store=third)
        self.plans("export", archive, self.names()[0], store=third)
        self.plans("import", archive, store=self.folder / "one")
        self.assertEqual(self.names()[:1], self.names(self.folder / "one"))
        self.plans("merge", self.store, other, store=self.folder / "one")
        self.assertEqual(self.names(), self.names(self.folder / "one"))
        plan_file = self.folder / "plan-file"
        process = memomalloc("run", "--plan-file", plan_file, "--", *PYTHON, loop(0, 200))
        self.assertEqual(0, process.returncode, process.stderr)
        self.plans("import", plan_file, store=self.folder / "imported")
        self.assertIn(self.names(self.folder / "imported")[0], self.names())

    def test_keeps_what_was_used_last(self):
        for kind in range(3):
            self.learn(kind)
        for age, name in enumerate(self.names()):
            os.utime(self.store / name, (1e9 - 86400 * age, 1e9 - 86400 * age))
        kept = self.names()[:2]
        self.assertEqual(1, json_of(self.plans("prune", "--most", "2", "--json"))["plans"])
        self.assertEqual(kept, self.names())
        self.plans("prune", "--size", str((self.store / kept[0]).stat().st_size))
        self.assertEqual(kept[:1], self.names())
        self.plans("prune", "--days", "1")
        self.assertEqual([], self.names())

    def test_refuses_what_it_cannot_read(self):
        self.learn()
        archive = self.folder / "plans.tar"
        self.plans("export", archive)
        whole = archive.read_bytes()
        for text in (whole[:700], whole[:20] + b"!" + whole[21:], b"", b"MEMOPLAN and more"):
            archive.write_bytes(text)
            self.assertIn("plans.tar:0: ", self.plans("import", archive, code=2, store=self.folder / "new").stderr)
            self.assertFalse((self.folder / "new").exists())
        archive.write_bytes(whole[:600] + b"!" + whole[601:])  # a plan is damaged, the archive is not
        self.assertIn("is left out", self.plans("import", archive, code=1, store=self.folder / "new").stderr)
        self.plans("list", code=2, store=self.folder / "nowhere")
        for words in (("show",), ("list", "more"), ("list", "--most", "3"), ("burn",)):
            self.plans(*words, code=2)


if __name__ == "__main__":
    unittest.main()
