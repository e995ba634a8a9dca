"""`status` and `release`: what running processes tell of themselves, to whom, and what nobody can make of it."""

import json
import os
import pathlib
import pty
import random
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

from status_server import PATIENCE, Server, later
from support import COMMAND, ROOT, memomalloc, readable_by_all

NOBODY = 65534
SYSTEM_PYTHON = pathlib.Path("/usr/bin/python3")

VENV = pathlib.Path(os.environ.get("MEMO_VENV", ROOT / ".venv"))
PYTHON = str(VENV / "bin/python" if (VENV / "bin/python").exists() else sys.executable)
CLIENT = "import prometheus_client.openmetrics.parser"


def has_client():
    return subprocess.run([PYTHON, "-c", CLIENT], capture_output=True).returncode == 0


class Status(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def test_tells_of_each_worker(self):
        with Server(self.folder) as server:
            rows = server.status()
            first = server.process.pid
            self.assertEqual({first, *server.workers}, set(rows))
            self.assertEqual([first] * 2, [rows[pid]["parent_pid"] for pid in server.workers])
            self.assertEqual(0, rows[first]["slab_bytes"])
            for pid in server.workers:
                row = rows[pid]
                self.assertEqual("serving", row["phase"])
                self.assertLess(row["age_seconds"], PATIENCE)
                self.assertEqual(row["large_bytes"], row["planned_bytes"] + row["at_hand_bytes"] + row["other_bytes"])
                self.assertEqual(row["other_allocations"], sum(row["fallback"].values()), row)
                self.assertGreater(row["pool"]["used_bytes"], 90 << 20)  # the weights, but for those of the first 16 calls
                self.assertGreater(row["resident_bytes"], row["slab_bytes"])
                self.assertLessEqual(row["huge_page_bytes"], row["resident_bytes"])
                self.assertLessEqual(row["slab_resident_bytes"], row["resident_bytes"])
                self.assertLessEqual(row["slab_huge_page_bytes"],
                                     min(row["slab_resident_bytes"], row["huge_page_bytes"]))
                serving = [lane for lane in row["lanes"] if lane["phase"] == "serving"]
                self.assertEqual([pid], [lane["thread"] for lane in serving])
                self.assertEqual([13], [plan["steps"] for plan in row["stored_plans"]])
                self.assertEqual([1], [plan["lanes"] for plan in row["stored_plans"]])
                self.assertEqual(serving[0]["slab_bytes"], row["stored_plans"][0]["height_bytes"])
                self.assertEqual([1], [lane["plan"] for lane in serving])
                self.assertEqual([1], [plan["plan"] for plan in row["stored_plans"]])
            now = later(lambda: server.status()[server.workers[0]]["now"], "any")
            self.assertGreaterEqual(now["planned_bytes"], now["large_bytes"] // 2)
            table = server.ask("status", "--all").stdout.splitlines()
            self.assertEqual(["process", *map(str, sorted(rows)), "sum"], [line.split()[0] for line in table])
            told = server.ask("status", server.workers[0])
            self.assertEqual(0, told.returncode, told)
            for part in (f"process {server.workers[0]}: serving", "now ", "misses", "pool ", "threads", "plans"):
                self.assertIn(part, told.stdout)
            slab, plan = told.stdout.splitlines()[-4:-2], told.stdout.splitlines()[-1].split()
            self.assertEqual([str(server.workers[0]), "serving"], slab[0].split()[:2])
            self.assertEqual(["1", "13"], plan[:2])
            self.assertEqual(str(server.workers[0]), plan[-1])
            self.assertLessEqual(max(map(len, told.stdout.splitlines())), 90)

    def test_leaves_nothing_where_it_was_not_asked(self):
        with Server(self.folder, words=("--stats-file", f"{self.folder}/%p.json")) as server:
            files = [pathlib.Path(self.folder) / f"{pid}.json" for pid in server.workers]
            later(lambda: all(path.exists() for path in files), "statistics")
            self.assertEqual([], list(server.runtime.iterdir()))
            answer = server.ask("status", server.workers[0])
            self.assertEqual((1, ""), (answer.returncode, answer.stdout))
            self.assertIn("--status", answer.stderr)

    def test_goes_with_the_process_and_outlives_its_murder(self):
        with Server(self.folder) as server:
            server.status()
            victim = server.workers[0]
            os.kill(victim, signal.SIGKILL)
            later(lambda: pathlib.Path(f"/proc/{victim}/stat").read_text().split()[2] == "Z"
                  if pathlib.Path(f"/proc/{victim}/stat").exists() else True, "the end")
            self.assertIn(victim, server.pages())
            row = {row["pid"]: row for row in json.loads(server.ask("status", "--json").stdout)}[victim]
            self.assertTrue(row["ended"])
            self.assertGreater(row["planned_bytes"], 0)
            self.assertNotIn(victim, server.pages())
            self.assertEqual(1, server.ask("status", victim).returncode)
            (server.folder / "end").touch()  # the other ends by itself, and so does their parent
            self.assertEqual(0, server.process.wait(PATIENCE))
            self.assertEqual({}, server.pages())

    def test_is_for_the_user_alone(self):
        with Server(self.folder) as server:
            server.status()
            folder = server.runtime / "memomalloc"
            self.assertEqual(0o700, stat.S_IMODE(folder.stat().st_mode))
            for path in server.pages().values():
                self.assertEqual(0o600, stat.S_IMODE(path.stat().st_mode))
            for pid in (server.process.pid, *server.workers):
                links = [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]
                self.assertFalse([link for link in links if ".page" in link], "a descriptor stays open")
                mapped = set(re.findall(r"/(\d+)-\d+-\d+\.page", pathlib.Path(f"/proc/{pid}/maps").read_text()))
                self.assertEqual({str(pid)}, mapped, "a page that is mapped in others, too")
            folder.chmod(0o750)
            answer = server.ask("status", "--json")
            self.assertEqual((1, []), (answer.returncode, json.loads(answer.stdout)))
            self.assertIn("not its user's alone", answer.stderr)

    def test_writes_into_no_folder_of_others(self):
        """A folder that others may look into is not used; the one below /tmp is then."""
        runtime = pathlib.Path(self.folder) / "runtime/memomalloc"
        runtime.mkdir(parents=True)
        runtime.chmod(0o777)
        with Server(self.folder) as server:
            rows = later(lambda: {row["pid"] for row in json.loads(server.ask("status", "--json").stdout)} &
                         set(server.workers), "a worker")
            self.assertTrue(rows)
            self.assertEqual([], list(runtime.iterdir()))

    @unittest.skipUnless(os.geteuid() == 0, "another user needs root")
    @unittest.skipUnless(SYSTEM_PYTHON.exists(), "there is no Python that other users may run")
    @unittest.skipUnless(readable_by_all(COMMAND), "the folder is closed to other users")
    def test_works_where_nobody_may_trace(self):
        """The same user, no rights: the workers may not be traced, as under Yama's scope 1."""
        with Server(self.folder, user=NOBODY, secret="secret", python=SYSTEM_PYTHON) as server:
            rows = server.status()
            for pid in server.workers:
                self.assertGreater(rows[pid]["planned_bytes"], 0)
                self.assertNotIn("resident_bytes", rows[pid])
            answer = server.ask("release", server.workers[0])
            self.assertEqual(0, answer.returncode, answer)

    def test_bears_what_others_make_of_its_page(self):
        """A page that is cut short, or lost with its folder, is made anew."""
        with Server(self.folder) as server:
            server.status()
            cut, lost = server.workers
            os.truncate(server.pages()[cut], 0)
            server.pages()[lost].unlink()
            self.assertEqual({cut, lost}, server.status().keys() & {cut, lost})
            self.assertEqual(0, server.ask("release", cut).returncode)
            shutil.rmtree(server.runtime)  # the user logs out, and later in again
            self.assertEqual(1, server.ask("status", cut).returncode)
            server.runtime.mkdir(mode=0o700)
            self.assertEqual({cut, lost}, server.status().keys() & {cut, lost})
            for pid in server.workers:
                self.assertEqual(0, server.ask("release", pid).returncode)
                self.assertEqual(1, pathlib.Path(f"/proc/{pid}/maps").read_text().count(".page"))

    def test_believes_no_page(self):
        seed = random.randrange(1 << 32)
        print(f"seed {seed}", end=" ", file=sys.stderr)
        chance = random.Random(seed)
        with Server(self.folder) as server:
            server.status()
            good = server.pages()[server.workers[0]]
            data = good.read_bytes()
            folder = good.parent
            path = folder / good.name.replace(str(server.workers[0]), str(server.process.pid), 1)
            own = server.pages()[server.process.pid]

            def refused(contents):
                own.write_bytes(contents)
                answer = server.ask("status", server.process.pid, "--json")
                self.assertEqual((1, []), (answer.returncode, json.loads(answer.stdout)), seed)
                self.assertIn(own.name, answer.stderr)

            refused(b"")
            refused(data[:-1])
            refused(data)  # whole, but another process'
            refused(bytes(len(data)))
            refused(chance.randbytes(len(data)))
            for _ in range(20):
                broken = bytearray(data)
                broken[chance.randrange(len(data) - 64)] ^= 1 << chance.randrange(8)
                refused(bytes(broken))
            own.unlink()
            for make in (lambda: os.mkfifo(own, 0o600), lambda: own.symlink_to(good), lambda: own.mkdir()):
                make()
                answer = server.ask("status", server.process.pid)
                self.assertEqual(1, answer.returncode, answer)
                own.rmdir() if own.is_dir() else own.unlink()
            for name in ("x.page", "1-2.page", "99999999999999999999-1-1.page", "-1-1-1.page", path.name + "x"):
                (folder / name).write_bytes(data)
            self.assertEqual(set(server.workers), set(server.status()) - {server.process.pid})

    def test_release(self):
        with Server(self.folder) as server:
            before = server.status()[server.workers[0]]
            self.assertEqual(0, before["released"])
            answer = server.ask("release", server.workers[0])
            self.assertEqual(0, answer.returncode, answer)
            self.assertRegex(answer.stdout, r"resident [\d.]+ MiB before, [\d.]+ MiB now")
            asking = [subprocess.Popen([COMMAND, "release", str(server.workers[0])], env=server.environment(),
                                       stdout=subprocess.DEVNULL) for _ in range(4)]
            self.assertEqual([0] * 4, [process.wait(PATIENCE) for process in asking])
            after = server.status()
            self.assertGreater(after[server.workers[0]]["released"], 0)
            self.assertEqual(0, after[server.workers[1]]["released"])
            again = later(lambda: (row := server.status()[server.workers[0]])["phase"] == "serving" and row, "serving")
            self.assertGreater(again["planned_bytes"], before["planned_bytes"])
            self.assertEqual(1, server.ask("release", os.getpid()).returncode)
            self.assertEqual(2, server.ask("release").returncode)
            self.assertEqual(2, server.ask("release", "-5").returncode)

    @unittest.skipUnless(has_client(), "prometheus_client is not installed")
    def test_openmetrics(self):
        parse = """
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as plain
text = sys.stdin.read()
assert list(plain(text))
kinds = {line.split()[3] for line in text.splitlines() if line.startswith("# TYPE ")}
assert kinds <= {"counter", "gauge", "histogram", "summary", "untyped"}, kinds  # what node_exporter takes
print(json.dumps({sample.name + "/" + sample.labels.get("pid", ""): sample.value
                  for family in text_string_to_metric_families(text) for sample in family.samples}))
"""
        with Server(self.folder) as server:
            before = server.status()
            answer = server.ask("status", "--openmetrics")
            after = server.status()
            read = subprocess.run([PYTHON, "-c", parse], input=answer.stdout, capture_output=True, text=True)
            self.assertEqual(0, read.returncode, read.stderr)
            samples = json.loads(read.stdout)
            self.assertEqual(3, samples["memomalloc_processes/"])
            for pid in server.workers:
                for name in ("large_bytes", "planned_bytes", "fallback_order", "iterations"):
                    value = samples[f"memomalloc_{name}_total/{pid}"]
                    self.assertTrue(before[pid][name] <= value <= after[pid][name], name)
                self.assertEqual(before[pid]["slab_bytes"], samples[f"memomalloc_slab_bytes/{pid}"])
        nobody = memomalloc("status", "--openmetrics", environment={"XDG_RUNTIME_DIR": self.folder})
        self.assertEqual(0, nobody.returncode)
        self.assertTrue(nobody.stdout.endswith("# EOF\n"))

    def test_watch_refreshes_a_terminal(self):
        with Server(self.folder) as server:
            server.status()
            try:
                ours, theirs = pty.openpty()
            except OSError as error:
                self.skipTest(f"no terminal: {error}")
            watch = subprocess.Popen([COMMAND, "status", "--all", "--watch"], stdin=theirs, stdout=theirs,
                                     env=server.environment())
            os.close(theirs)
            text = b""
            end = time.monotonic() + PATIENCE
            while text.count(b"\033[H") < 3 and time.monotonic() < end:
                if select.select([ours], [], [], 1)[0]:
                    text += os.read(ours, 65536)
            watch.send_signal(signal.SIGINT)
            self.assertEqual(0, watch.wait(PATIENCE))
            os.close(ours)
            screens = text.split(b"\033[H")[1:3]
            for screen in screens:
                self.assertIn(str(server.workers[0]).encode(), screen)
            self.assertNotEqual(screens[0], screens[1])

    def test_bad_usage(self):
        for words in (["status", "12", "--all"], ["status", "x"], ["status", "--openmetrics", "--watch"]):
            answer = memomalloc(*words)
            self.assertEqual((2, ""), (answer.returncode, answer.stdout), words)


if __name__ == "__main__":
    unittest.main()
