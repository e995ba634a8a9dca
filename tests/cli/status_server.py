"""A server with workers that tells of itself, for the tests of `status` and `release`."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from support import COMMAND
from loops import WORK  # where support has pointed

PATIENCE = 60  # seconds, for what comes within two: the machine may be busy

# A process with weights that forks two workers, which work while the file `busy` is there and this process lives.
SERVER = WORK + """
import ctypes, os, sys, time
folder, secret = sys.argv[1:]
end = time.monotonic() + 120
weights = [bytearray(4 << 20) for _ in range(40)]
children = []
for _ in range(2):
    child = os.fork()
    if child == 0:
        if secret == "secret":
            ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: nobody may trace it
        parent = os.getppid()
        while time.monotonic() < end and os.getppid() == parent and not os.path.exists(folder + "/end"):
            if os.path.exists(folder + "/busy"):
                work(range(400000, 4000000, 280000), 4)
            time.sleep(0.01)
        sys.exit(0)
    children.append(child)
print(*children, flush=True)
for child in children:
    os.waitpid(child, 0)
"""


class Server:
    """A server with two workers, whose runtime folder is `folder`/runtime, until the block ends."""

    def __init__(self, folder, words=("--status",), user=None, secret="", python=sys.executable):
        self.folder = pathlib.Path(folder)
        self.runtime = self.folder / "runtime"
        self.runtime.mkdir(mode=0o700, exist_ok=True)
        self.user = {} if user is None else {"user": user}
        if user is not None:
            os.chown(self.runtime, user, -1)
            self.folder.chmod(0o755)
        (self.folder / "busy").touch()
        self.process = subprocess.Popen(
            [COMMAND, "run", *words, "--", python, "-c", SERVER, folder, secret],
            env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **self.user)
        self.workers = [int(pid) for pid in self.process.stdout.readline().split()]
        assert len(self.workers) == 2, "the server does not start"

    def environment(self):
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith("MEMOMALLOC_") and name != "LD_PRELOAD"}
        return clean | {"XDG_RUNTIME_DIR": str(self.runtime)}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in [*self.workers, self.process.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.communicate()

    def ask(self, *words):
        return subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL, env=self.environment(), **self.user)

    def status(self):
        """What is told, by pid; waits until both workers are served."""
        end = time.monotonic() + PATIENCE
        while True:
            answer = self.ask("status", "--json")
            rows = {row["pid"]: row for row in json.loads(answer.stdout)}
            if all(rows.get(pid, {}).get("planned_bytes") for pid in self.workers):
                return rows
            if time.monotonic() > end:
                raise AssertionError(f"workers {self.workers}: {answer}")
            time.sleep(0.2)

    def pages(self):
        """By pid; more than one program of a process are a fault."""
        found = list((self.runtime / "memomalloc").glob("*.page"))
        pages = {int(path.name.partition("-")[0]): path for path in found}
        assert len(pages) == len(found), found
        return pages


def later(condition, what):
    end = time.monotonic() + PATIENCE
    while not (answer := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"has not come within {PATIENCE} s: {what}")
        time.sleep(0.1)
    return answer
