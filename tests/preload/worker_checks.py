"""Processes that fork workers, as servers do: each worker reports for itself, while it runs; the process that only
forks has no thread of ours, and children that do nothing large leave nothing behind."""

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

import common
import loops
from common import expect
from file_checks import with_settings

PATIENCE = 120  # seconds, for what comes within two: the machine may be busy

WORK = loops.WORK + """
import os, subprocess, sys, time
def forked(body):
    child = os.fork()
    if child == 0:
        body()
        os._exit(0)
    return child
"""

LOOP = "range(100000, 1000000, 70000)"


def reports_in(folder, suffix):
    return {int(path.name.partition(".")[0]): path for path in pathlib.Path(folder).glob(f"*.{suffix}")
            if path.name.partition(".")[0].isdigit()}


def forked_children_report_for_themselves(context):
    """Every report is asked for. The process that was started writes them, and so do the children that it forks and
    that make large allocations, whether they end by exit or by _exit; each line of a child names it. A child that does
    nothing large but a free is silent, and so are children of vfork, which run in another process' memory."""
    script = WORK + """
def refused():
    try:
        subprocess.run(["/no/such/program"])
    except FileNotFoundError:
        pass
held = bytearray(300_000)
def let_go():
    refused()
    held.clear()
work(%s, 50)
for leave in (sys.exit, os._exit):
    child = os.fork()
    if child == 0:
        refused()
        work(%s, 50)
        refused()
        leave(0)
    os.waitpid(child, 0)
    print(child, flush=True)
os.waitpid(forked(let_go), 0)
refused()
""" % (LOOP, LOOP)
    with tempfile.TemporaryDirectory() as folder:
        mode = with_settings(("MEMOMALLOC_STATS", "1"), ("MEMOMALLOC_VERBOSE", "1"),
                             ("MEMOMALLOC_STATS_FILE", f"{folder}/%p.json"),
                             ("MEMOMALLOC_TRACE_FILE", f"{folder}/%p.csv"),
                             ("MEMOMALLOC_PLANS", f"{folder}/%p.plan"))
        result = context.run(["/usr/bin/python3", "-c", script], mode)
        expect(result.code == 0, f"{result}")
        workers = {int(line) for line in result.out.split()}
        text = result.err.decode()
        said = {int(pid) for pid in re.findall(r"^memomalloc\[(\d+)\]: phase ", text, re.MULTILINE)}
        expect(said == workers and len(workers) == 2, f"children {workers}, blocks of statistics of {said}")
        expect(len(re.findall(r"^memomalloc: phase ", text, re.MULTILINE)) == 1, f"no block of the parent: {text}")
        exits = {int(pid) for pid in re.findall(r"^memomalloc\[(\d+)\]: exit: ", text, re.MULTILINE)}
        expect(exits == workers, f"exit lines of {exits}")
        for suffix, more in (("json", 1), ("plan", 1)):
            writers = set(reports_in(folder, suffix))
            expect(workers < writers and len(writers) == len(workers) + more,
                   f"{suffix} files of {writers}, children {workers}")
        expect(not workers & set(reports_in(folder, "csv")), "a child has written a trace of its parent's threads")
        for pid in workers:
            statistics = json.loads(reports_in(folder, "json")[pid].read_text())
            expect(statistics["pid"] == pid and statistics["planned_allocations"] > 0, f"{statistics}")


def a_child_keeps_its_parents_file(context):
    """Without %p there is one file, and it tells of the process that was started."""
    script = WORK + f"""
work({LOOP}, 50)
os.waitpid(forked(lambda: work({LOOP}, 80)), 0)
path = os.environ["MEMOMALLOC_STATS_FILE"]
if os.path.exists(path) and f'"pid":{{os.getpid()}},' not in open(path).read().replace(" ", ""):
    print("the child has written", open(path).read())
print(os.getpid())
"""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "stats.json"
        result = context.run(["/usr/bin/python3", "-c", script], with_settings(("MEMOMALLOC_STATS_FILE", str(path))))
        expect(result.out.strip().isdigit(), f"{result}")
        expect(json.loads(path.read_text())["pid"] == int(result.out), f"{path.read_text()}")


def what_serves_nothing_tells_all_of_it(context):
    """A process that is learning for all its life has written its file before, and writes it at its end again."""
    script = """import time
for number in range(30):
    list(map(bytearray, range(200_000, 200_000 + 7_000 * (number % 9 + 1), 7_000)))
    time.sleep(0.1)
"""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "stats.json"
        context.run(["/usr/bin/python3", "-c", script], with_settings(("MEMOMALLOC_STATS_FILE", str(path))))
        expect(json.loads(path.read_text())["large_allocations"] >= 135, f"{path.read_text()}")


SERVER = WORK + """
weights = [bytearray(8 << 20) for _ in range(20)]
def serve():
    while time.monotonic() < end:
        work(%s, 20)
        time.sleep(0.01)
end = time.monotonic() + float(sys.argv[1])
children = [forked(serve) for _ in range(2)]
print(*children, flush=True)
for child in children:
    os.waitpid(child, 0)
""" % LOOP


class Server:
    """A process with weights that forks two workers, which serve until they are ended, or for PATIENCE seconds."""

    def __init__(self, context, settings):
        mode = with_settings(*settings)
        self.process = subprocess.Popen(["/usr/bin/python3", "-c", SERVER, str(PATIENCE)],
                                        env=context.environment(mode), stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.workers = [int(pid) for pid in self.process.stdout.readline().split()]

    def __enter__(self):
        return self

    def kill_workers(self):
        """By SIGKILL; what the server said on stderr."""
        for pid in self.workers:
            os.kill(pid, signal.SIGKILL)
        return self.process.communicate()[1]

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill_workers()


def wait_for(condition, what):
    end = time.monotonic() + PATIENCE - 20
    while not condition():
        expect(time.monotonic() < end, f"{what} has not come within {PATIENCE - 20} s")
        time.sleep(0.1)


def served(path):
    try:
        return json.loads(path.read_text()).get("planned_allocations", 0)
    except (OSError, ValueError):
        return 0


def threads_of(process):
    return len(os.listdir(f"/proc/{process.pid}/task"))


def nothing_waits_for_the_end(context):
    """Workers that are killed have left their statistics, which went on while they served, and their plans; nothing
    half-written lies there, and no descriptor of the library was seen in them. The process that only forks has one
    thread, and no slab."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        settings = (("MEMOMALLOC_STATS_FILE", f"{folder}/%p.json"), ("MEMOMALLOC_PLANS", f"{folder}/%p.plan"))
        with Server(context, settings) as server:
            threads = threads_of(server.process)  # later one would have ended
            files = [folder / f"{pid}.json" for pid in server.workers]
            for path in files:
                wait_for(lambda path=path: served(path) > 0, f"{path.name}")
            counts = [served(path) for path in files]
            seen = set()
            for path, count in zip(files, counts):
                wait_for(lambda path=path, count=count: served(path) > count, f"a newer {path.name}")
            for pid in server.workers:
                wait_for(lambda pid=pid: list((folder / f"{pid}.plan").glob("*.plan")), f"{pid}.plan")
            for _ in range(200):
                for pid in server.workers:
                    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                        try:
                            seen.add(os.readlink(entry))
                        except OSError:
                            pass
                time.sleep(0.01)
            threads = max(threads, threads_of(server.process))
            server.kill_workers()
        expect(threads == 1, f"the process that only forks has {threads} threads")
        expect(not [link for link in seen if str(folder) in link], f"descriptors in a worker: {seen}")
        expect(not list(folder.glob("*.tmp")), f"{list(folder.iterdir())}")
        parent = json.loads((folder / f"{server.process.pid}.json").read_text())
        expect(parent["slab_bytes"] == 0 and parent["planned_allocations"] == 0, f"{parent}")
        expect(not (folder / f"{server.process.pid}.plan").exists(), "a process without plans has saved some")


def reports_that_cannot_be_written_are_told_of_once(context):
    """While it serves and at its end a worker tries to write into a folder that is not there: a line each, however
    many loops it learns."""
    settings = (("MEMOMALLOC_STATS_FILE", "/no/such/folder/%p.json"), ("MEMOMALLOC_PLANS", "/proc/no/such/folder"))
    script = WORK + f"""
def serve():
    for shift in 0, 10000, 20000:
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            work(range(100000 + shift, 1000000, 70000), 20)
            time.sleep(0.01)
os.waitpid(forked(serve), 0)
"""
    result = context.run(["/usr/bin/python3", "-c", script], with_settings(*settings))
    said = [line for line in result.err.decode().splitlines() if line.startswith("memomalloc[")]
    expect(result.code == 0 and len(said) == 2 and all("cannot write" in line for line in said), f"{result}")


NAMED = """import ctypes, mmap, re
libc = ctypes.CDLL(None)
page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
address = ctypes.c_ulong(ctypes.addressof(ctypes.c_char.from_buffer(page)))
knows = libc.prctl(0x53564d41, ctypes.c_ulong(0), address, ctypes.c_ulong(4096), ctypes.c_char_p(b"page")) == 0
for _ in range(60):
    for size in range(100000, 1000000, 70000):
        block = bytearray(size)
    other = bytearray(3000000)
    del block, other
maps = open("/proc/self/maps").read()
print(knows, *sorted(set(re.findall(r"\\[anon:memomalloc (\\w+)\\]", maps))))
"""


def mappings_have_names(context):
    """pmap and smaps tell slabs, pool and tables apart."""
    result = context.run(["/usr/bin/python3", "-c", NAMED], common.Mode("default"))
    if result.out.startswith(b"False"):
        raise common.Skip("the kernel gives anonymous mappings no names")
    expect((result.code, result.out) == (0, b"True pool slab tables\n"), f"{result}")


def checks(context):
    functions = (mappings_have_names, forked_children_report_for_themselves, a_child_keeps_its_parents_file, what_serves_nothing_tells_all_of_it, nothing_waits_for_the_end,
                 
                 reports_that_cannot_be_written_are_told_of_once)
    return [(f"workers: {function.__name__.replace('_', ' ')}", lambda function=function: function(context))
            for function in functions]
