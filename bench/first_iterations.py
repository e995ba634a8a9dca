#!/usr/bin/env python3
"""The first, second and third iteration of a process: time, page faults and peak, with glibc, with tcmalloc, with the
library, and with the library and a store of plans that earlier processes have filled.

Runs take turns, --runs of each after one that is not counted and fills the store. Prints a row for each workload, way and
iteration: median and range of the time, medians of the counts; --json writes all runs. Then, for each workload, the time
that the first iteration spends in faults. Times on a busy machine say little; counts do.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import allocators

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMMAND = ROOT / "build/memomalloc"

SECONDS, FAULTS, SYSTEM, PEAK = range(4)  # what is told of an iteration: seconds, faults, seconds, KiB
FEW = 20  # faults of an iteration that as good as has none

# Each body sets a function `iterate`.
WORKLOADS = {
    "numpy": """
sys.path.insert(0, {workloads!r})
import types
import arrays, numpy
step = arrays.images(numpy, types.SimpleNamespace(seed=1))
def iterate():
    return step(0)
""",
    "bert": """
sys.path.insert(0, {scripts!r})
from infer import import_torchvision
torch, _ = import_torchvision()
from transformers import BertConfig, BertModel
torch.set_num_threads(1)
torch.manual_seed(1)
model = BertModel(BertConfig(num_hidden_layers=6)).eval()
batch = torch.randint(0, 30000, (4, 128))
def iterate():
    with torch.inference_mode():
        return model(batch).last_hidden_state
""",
    "train": """
sys.path.insert(0, {scripts!r})
from infer import import_torchvision
torch, models = import_torchvision()
torch.set_num_threads(1)
torch.manual_seed(1)
model = getattr(models, {model!r})()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch, labels = torch.randn({batch}, 3, 224, 224), torch.arange({batch})
def iterate():
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(batch), labels).backward()
    optimizer.step()
""",
    "network": """
sys.path.insert(0, {scripts!r})
from infer import import_torchvision
torch, models = import_torchvision()
torch.set_num_threads(1)
torch.manual_seed(1)
model = getattr(models, {model!r})().eval()
batch = torch.randn({batch}, 3, 224, 224)
def iterate():
    with torch.inference_mode():
        return model(batch)
""",
}

MEASURED = """
import json, resource, sys, time
{body}
def usage():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return time.monotonic(), used.ru_minflt, used.ru_stime
told = []
def measured():
    before = usage()
    iterate()
    told.append([b - a for a, b in zip(before, usage())] +
                [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")])
"""

LOOP = MEASURED + """
for _ in range({iterations}):
    measured()
print(json.dumps(told))
"""

# The worker tells what it has measured so far in each answer.
SERVED = MEASURED + """
def application(environ, start_response):
    measured()
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(told).encode()]
"""

# A server with one worker, and its client. The worker ends as servers do: by SIGTERM to the first process.
CLIENT = """
import http.client, pathlib, socket, subprocess, sys, tempfile, time
class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(door))
with tempfile.TemporaryDirectory() as folder:
    door = pathlib.Path(folder) / "door"
    (pathlib.Path(folder) / "served.py").write_text({served!r})
    server = subprocess.Popen([sys.executable, "-m", "gunicorn", "--bind", "unix:" + str(door), "--chdir", folder,
                               "--timeout", "600", "--log-level", "error", "served:application"])
    try:
        for _ in range(600):
            if door.exists() or server.poll() is not None:
                break
            time.sleep(0.1)
        for _ in range({iterations}):
            connection = Connection("localhost")
            connection.request("GET", "/")
            told = connection.getresponse().read()
            connection.close()
    finally:
        server.terminate()
        server.wait(60)
print(told.decode())
"""


def program(name, iterations):
    kind, _, rest = name.partition(":")
    served = kind == "gunicorn"
    model, _, batch = rest.partition(":")
    body = WORKLOADS["network" if served else kind].format(
        scripts=str(ROOT / "scripts"), workloads=str(ROOT / "bench/workloads"), model=model, batch=batch or 1)
    if served:
        return CLIENT.format(served=SERVED.format(body=body), iterations=iterations)
    return LOOP.format(body=body, iterations=iterations)


def run(python, source, words):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("MEMOMALLOC_") and name != "LD_PRELOAD"}
    process = subprocess.run([*words, python, "-c", source], env=environment, check=True, capture_output=True, text=True)
    return json.loads(process.stdout)


def rows(workload, way, runs):
    for i, number in enumerate(("first", "second", "third")):
        seconds = [each[i][SECONDS] for each in runs]
        faults, system, peak = (statistics.median(each[i][column] for each in runs) for column in (FAULTS, SYSTEM, PEAK))
        yield (f"| {workload} | {way} | {number} | {statistics.median(seconds) * 1e3:.0f} ms "
               f"({min(seconds) * 1e3:.0f} to {max(seconds) * 1e3:.0f}) | {faults:.0f} | {system * 1e3:.0f} ms | "
               f"{peak / 1024:.0f} MiB |")


def time_in_faults(done):
    """Of the first iteration: its system time less that of iterations without faults, as shares of glibc's. Means, since
    the kernel may count in ticks of some milliseconds, and their standard errors.
    """
    still = [each[SYSTEM] for runs in done.values() for run in runs for each in run if each[FAULTS] <= FEW]
    if not still:
        return f"time in faults: not known, no iteration has at most {FEW}"
    base = statistics.mean(still)
    first = {way: [each[0][SYSTEM] - base for each in runs] for way, runs in done.items()}
    glibc = statistics.mean(first["glibc"])
    shares = ", ".join(
        f"{way} {statistics.mean(times) / glibc:.2f} (+- {statistics.stdev(times) / len(times) ** 0.5 / glibc:.2f})"
        for way, times in first.items() if way != "glibc" and len(times) > 1)
    return (f"time in faults, of glibc's {glibc * 1e3:.0f} ms: {shares}; {len(still)} iterations with at most {FEW} faults "
            f"take {base * 1e3:.1f} ms of the system")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("workloads", nargs="*", default=["numpy", "network:resnet50:4"],
                        help="numpy, bert, or network:NAME:BATCH, train:NAME:BATCH and gunicorn:NAME:BATCH of torchvision "
                             "(%(default)s)")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--learning", type=int, default=30, help="iterations of the run that fills the store")
    parser.add_argument("--iterations", type=int, default=9, help="of each run, at least three (%(default)s)")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    print("| workload | with | iteration | time (range) | faults | system time | peak |\n|---|---|---|---|---|---|---|")
    results, sums = {}, []
    with tempfile.TemporaryDirectory() as store:
        tcmalloc = allocators.BY_NAME["tcmalloc"].library()
        ways = {"glibc": [], **({"tcmalloc": ["env", f"LD_PRELOAD={tcmalloc}"]} if tcmalloc else {}),
                "the library": [COMMAND, "run", "--"],
                "the library and a store": [COMMAND, "run", "--plans", store, "--"]}
        for workload in args.workloads:
            run(args.python, program(workload, args.learning), ways["the library and a store"])
            source, done = program(workload, args.iterations), {way: [] for way in ways}
            for _ in range(args.runs):
                for way, words in ways.items():
                    done[way].append(run(args.python, source, words))
            for way, runs in done.items():
                for row in rows(workload, way, runs):
                    print(row, flush=True)
            sums.append(f"{workload}, {time_in_faults(done)}")
            results[workload] = done
    print("", *sums, sep="\n")
    if args.json:
        args.json.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
