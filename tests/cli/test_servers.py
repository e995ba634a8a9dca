"""gunicorn and uvicorn under the library, driven with 200 requests and ended by SIGTERM and by SIGKILL: the doctor
says ok and names the workers, every worker has left its statistics and its plans, and a server that starts from a
plan serves its second request without a page fault. Each server ends with its test."""

import concurrent.futures
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from support import COMMAND, ROOT

HERE = pathlib.Path(__file__).resolve().parent
VENV = pathlib.Path(os.environ.get("MEMO_VENV", ROOT / ".venv"))
PYTHON = str(VENV / "bin/python" if (VENV / "bin/python").exists() else sys.executable)
REQUESTS = 200
PATIENCE = 120  # seconds, for what takes a few: the machine may be busy

SERVERS = {
    "gunicorn": ["gunicorn", "--workers", "2", "--bind", "127.0.0.1:{port}", "server_app:app"],
    "gunicorn --preload": ["gunicorn", "--preload", "--workers", "2", "--bind", "127.0.0.1:{port}", "server_app:app"],
    "uvicorn": ["uvicorn", "--log-level", "warning", "--port", "{port}", "server_app:asgi"],
    "uvicorn --workers": ["uvicorn", "--log-level", "warning", "--workers", "2", "--port", "{port}",
                          "server_app:asgi"],
}


def has(*packages):
    probe = "import importlib.metadata, sys\nfor name in sys.argv[1:]: importlib.metadata.version(name)"
    return subprocess.run([PYTHON, "-c", probe, *packages], capture_output=True).returncode == 0


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def children(pid):
    try:
        return [int(child) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
                for child in (task / "children").read_text().split()]
    except OSError:
        return []


def descendants(pid):
    found = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


class Server:
    """A server behind `memomalloc WORDS --`, until its `end`, or that of the block."""

    def __init__(self, name, words, settings):
        self.port = free_port()
        self.asynchronous = name.startswith("uvicorn")
        command = [str(COMMAND), *words, "--", PYTHON, "-m",
                   *(word.format(port=self.port) for word in SERVERS[name])]
        clean = {key: value for key, value in os.environ.items()
                 if not key.startswith("MEMOMALLOC_") and key != "LD_PRELOAD"}
        self.errors = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(command, cwd=HERE, env=clean | {"OPENBLAS_NUM_THREADS": "1"} | settings,
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.under = words[0] != "run"  # the command stays, as the server's parent

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in [*descendants(self.process.pid), self.process.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.communicate()
        self.errors.close()

    def ask(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", "/")
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def wait_until_ready(self):
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return self.ask()
            except OSError:
                if time.monotonic() > end or self.process.poll() is not None:
                    self.errors.seek(0)
                    raise AssertionError(f"the server does not answer: {self.errors.read()}") from None
                time.sleep(0.2)

    def drive(self, requests):
        """The answers, the first one's first; from four clients, so that each worker has its part. asyncio takes 256
        KiB for what it receives, so that with several clients the order of large calls is another each time, and not
        what this test is about."""
        answers = [self.wait_until_ready()]
        with concurrent.futures.ThreadPoolExecutor(1 if self.asynchronous else 4) as clients:
            return answers + list(clients.map(lambda _: self.ask(), range(requests - 1)))

    def end(self, number):
        """Ends the server: its first process alone, or at once all of it if it is not to know. Its output."""
        first = children(self.process.pid)[0] if self.under else self.process.pid
        pids = [first] if number == signal.SIGTERM else [first, *descendants(first)]
        for pid in pids:
            os.kill(pid, number)
        return self.process.communicate(timeout=PATIENCE)[0]


def by_worker(answers):
    workers = {}
    for answer in answers:
        workers.setdefault(answer["pid"], []).append(answer)
    return workers


@unittest.skipUnless(has("gunicorn", "uvicorn", "numpy"), "gunicorn, uvicorn or numpy is not installed")
class Servers(unittest.TestCase):
    def check(self, name, number):
        with tempfile.TemporaryDirectory() as folder, \
             Server(name, ["doctor", "--json"], {"MEMOMALLOC_PLANS": f"{folder}/%p"}) as server:
            workers = by_worker(server.drive(REQUESTS))
            busy = {pid for pid, answers in workers.items() if len(answers) > REQUESTS // 10}
            self.assertTrue(busy, workers)
            if number == signal.SIGKILL or server.asynchronous:  # uvicorn ends itself by the signal that it has handled
                for pid in busy:
                    self.wait_until_written(pid, pathlib.Path(folder, str(pid)))
            output = server.end(number)
            report = json.loads(output)
            rows = {row["pid"]: row for row in report["processes"]}
            self.assertTrue(report["healthy"], output)
            self.assertEqual(0, server.process.returncode, output)
            for pid in busy:
                row = rows[pid]
                self.assertTrue(row["works"], row)
                self.assertGreater(row["planned_bytes"], row["large_bytes"] // 2, row)
                self.assertTrue(list(pathlib.Path(folder, str(pid)).glob("*.plan")), f"no plan of worker {pid}")
                if len(rows) > 1:
                    self.assertTrue([finding for finding in report["findings"] if finding["question"] == "process"
                                     and f"process {pid}:" in finding["what"]], output)
            for row in rows.values():  # of what never serves, no slab is made ready
                self.assertTrue(row["planned_bytes"] or not row["slab_bytes"], row)
            plans = pathlib.Path(folder, str(max(busy, key=lambda pid: len(workers[pid]))))
            self.check_second_start(name, number, plans)

    def wait_until_written(self, pid, plans):
        """Until a worker that rests has written what it has served: a signal that ends it lets it write nothing more."""
        variables = pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0")
        path = next(one.partition("=")[2] for one in variables if one.startswith("MEMOMALLOC_STATS_FILE="))
        file = pathlib.Path(path.replace("%p", str(pid)))
        end, told = time.monotonic() + PATIENCE, {}
        while time.monotonic() < end:
            told = json.loads(file.read_text()) if file.exists() else {}
            if told.get("planned_bytes", 0) > told.get("large_bytes", 0) // 2 and list(plans.glob("*.plan")):
                return
            time.sleep(0.2)
        self.fail(f"worker {pid} has not written what it served: {told}, {list(plans.glob('*'))}")

    def check_second_start(self, name, number, plans):
        with Server(name, ["run"], {"MEMOMALLOC_PLANS": str(plans)}) as server:
            for pid, answers in by_worker(server.drive(40)).items():
                later = [answer["faults"] for answer in answers if answer["request"] > 1]
                second = [answer["faults"] for answer in answers if answer["request"] == 2]
                # The slab has the memory of what the first request wrote; some of it comes in huge pages then.
                self.assertLessEqual(sum(second), 4, f"{name}, worker {pid}: {later}")
                self.assertLessEqual(sum(later[4:]), 2, f"{name}, worker {pid}: {later}")
            server.end(number)


def add_test(name, number):
    def test(self):
        self.check(name, number)
    words = name.replace("--", "").replace(" ", "_")
    setattr(Servers, f"test_{words}_{number.name.lower()}", test)


for server in SERVERS:
    for end in (signal.SIGTERM, signal.SIGKILL):
        add_test(server, end)


if __name__ == "__main__":
    unittest.main()
