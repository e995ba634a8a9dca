#!/usr/bin/env python3
"""What MEMOMALLOC_SHARE=weights wins and costs: four workers that each load the same weights, forked ones and gunicorn's,
on glibc, with the library, and with the weights offered for merging. Tells their PSS before and after, how long it took,
and what a request costs. Needs root: switches the kernel's same-page merging on, and puts it back as it was.

    bench/shared_weights.py [--rounds 1] [--megabytes 128] [--json FILE]
"""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[1]
KSM = pathlib.Path("/sys/kernel/mm/ksm")
SETTINGS = {"run": "1", "pages_to_scan": "2000", "sleep_millisecs": "20", "smart_scan": "0"}
WORKERS = 4
MOST_SECONDS = 90  # that merging may take
REQUESTS = 40  # before and after, of each worker

# The weights are read by each worker for itself, as `torch.load` does; a request reads them all and writes blocks of its own.
MODEL = """
import os, time
import numpy
def load():
    with open(os.environ["WEIGHTS"], "rb") as file:
        count = os.fstat(file.fileno()).st_size // (4 << 20)
        return [numpy.fromfile(file, dtype=numpy.float32, count=1 << 20) for _ in range(count)]
def answer(weights):
    begin = time.thread_time()  # others are on the machine, too
    sums = []
    for row in weights:
        product = row * 2.0
        sums.append(float(product[::4096].sum()))
        previous = product
    return {"pid": os.getpid(), "seconds": time.thread_time() - begin, "sum": sum(sums)}
"""
APPLICATION = MODEL + """
import json
weights = load()
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer(weights)).encode()]
"""
# Forked workers, each with a port of its own.
FORKED = MODEL + """
import json, socket, sys
first, workers = int(sys.argv[1]), int(sys.argv[2])
for number in range(workers):
    if os.fork() == 0:
        weights = load()
        with socket.create_server(("127.0.0.1", first + number)) as server:
            while True:
                client, _ = server.accept()
                with client:
                    client.recv(4096)
                    body = json.dumps(answer(weights)).encode()
                    client.sendall(b"HTTP/1.0 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
while True:
    time.sleep(1)
"""


@contextlib.contextmanager
def merging():
    """The kernel merges inside of the block."""
    before = {name: (KSM / name).read_text().strip() for name in SETTINGS if (KSM / name).exists()}
    try:
        for name in before:
            (KSM / name).write_text(SETTINGS[name])
        yield
    finally:
        (KSM / "run").write_text("2")  # what was merged is separate again
        for name, value in before.items():
            (KSM / name).write_text(value)


def free_ports(count):
    """The first of `count` ports in a row."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = probe.getsockname()[1]
        if first + count >= 60000:
            continue
        with contextlib.suppress(OSError), contextlib.ExitStack() as open_ones:
            for port in range(first, first + count):
                probe = open_ones.enter_context(socket.socket())
                probe.bind(("127.0.0.1", port))
            return first


def ask(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/")
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def drive(ports):
    """So many requests that each worker has had REQUESTS; milliseconds of the processor that
    each takes, as the worker measures them."""
    answers = {}
    end = time.monotonic() + 120
    while len(answers) < WORKERS or min(map(len, answers.values())) < REQUESTS:
        for port in ports:
            try:
                answer = ask(port)
            except OSError:
                time.sleep(0.2)
                continue
            answers.setdefault(answer["pid"], []).append(answer["seconds"] * 1e3)
        if time.monotonic() > end:
            raise SystemExit(f"the workers do not all answer: { {pid: len(all) for pid, all in answers.items()} }")
    return answers


def pss(pids):
    """MiB of all; what several processes have is divided among them."""
    total = 0
    for pid in pids:
        text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
        total += next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return total / 1024


def wait_until_merged(pids):
    """Seconds until PSS falls no more, or MOST_SECONDS."""
    begin = time.monotonic()
    least, at = pss(pids), begin
    while time.monotonic() - begin < MOST_SECONDS and time.monotonic() - at < 15:
        time.sleep(0.5)
        now = pss(pids)
        if now < least - 1:
            least, at = now, time.monotonic()
    return at - begin


def run(kind, words, environment, folder):
    """A row: the workers of `kind` behind `words`."""
    ports = [free_ports(WORKERS)]
    if kind == "gunicorn":
        command = [sys.executable, "-m", "gunicorn", "--workers", str(WORKERS), "--bind", f"127.0.0.1:{ports[0]}",
                   "--chdir", str(folder), "--log-level", "warning", "shared_weights_app:app"]
    else:
        ports = [ports[0] + number for number in range(WORKERS)]
        command = [sys.executable, "-c", FORKED, str(ports[0]), str(WORKERS)]
    server = subprocess.Popen([*words, *command], env=environment, start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        drive(ports)
        before = drive(ports)
        time.sleep(5)  # the offer comes within some seconds
        drive(ports)
        unmerged = pss(before)
        with merging():
            seconds = wait_until_merged(before)
            after = drive(ports)
            merged = pss(before)
        join = lambda answers: statistics.median(value for all in answers.values() for value in all)
        return {"workers": kind, "pss_before_mib": unmerged, "pss_after_mib": merged, "seconds": seconds,
                "request_before_ms": join(before), "request_after_ms": join(after)}
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--megabytes", type=int, default=128, help="of weights, of each worker")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    if not KSM.is_dir() or not os.access(KSM / "run", os.W_OK) or os.geteuid() != 0:
        print("skipped: this kernel has no same-page merging, or this user may not switch it on")
        return
    library = [str(ROOT / "build/memomalloc"), "run"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MEMOMALLOC_")}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "shared_weights_app.py").write_text(APPLICATION)
        weights = numpy.random.default_rng(1).standard_normal(arguments.megabytes << 18, dtype=numpy.float32)
        weights.tofile(folder / "weights")
        clean |= {"WEIGHTS": str(folder / "weights"), "OPENBLAS_NUM_THREADS": "1"}
        for _ in range(arguments.rounds):
            for kind in ("forked", "gunicorn"):
                for name, words in (("glibc", []), ("library", [*library, "--"]),
                                    ("library, weights offered", [*library, "--share", "weights", "--"])):
                    row = {"allocator": name, **run(kind, words, clean, folder)}
                    rows.append(row)
                    print("{workers:9} {allocator:26} PSS {pss_before_mib:5.0f} -> {pss_after_mib:5.0f} MiB in "
                          "{seconds:3.0f} s, a request {request_before_ms:5.1f} -> {request_after_ms:5.1f} ms of the processor"
                          .format(**row), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
