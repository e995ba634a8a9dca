#!/usr/bin/env python3
"""The first, second and third iteration of a process: time, page faults and peak, with glibc, with tcmalloc, with the
library, and with the library and a plan cache that earlier processes have filled.

Runs take turns, --runs of each after one that is not counted and fills the store. Prints a row for each workload and way:
medians of the counts, of the first iteration also the time with its range; --json writes all runs. Times on a busy
machine say little; counts do.
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
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum={momentum})
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
import json, os, resource, sys, time
{body}
def usage():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return time.monotonic(), used.ru_minflt, used.ru_stime
told = []
def measured():
    before = usage()
    iterate()
    told.append([b - a for a, b in zip(before, usage())] + [before[0], os.getpid()])
def report():
    peak = [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")][0]
    return json.dumps(dict(iterations=told, peak_kilobytes=peak))
"""

LOOP = MEASURED + """
for _ in range({iterations}):
    measured()
print(report())
"""

# The worker tells what it has measured so far in each answer.
SERVED = MEASURED + """
def application(environ, start_response):
    measured()
    start_response("200 OK", [("Content-Type", "application/json")])
    return [report().encode()]
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


def parts(workload):
    """(kind, model, batch) of KIND:MODEL:BATCH, of which the last two may be left out."""
    kind, model, batch, *_ = (*workload.split(":"), "", "")
    return kind, model, batch or "1"


def program(name, iterations):
    kind, model, batch = parts(name)
    served = kind == "gunicorn"
    body = WORKLOADS[{"gunicorn": "network", "momentum": "train"}.get(kind, kind)].format(
        scripts=str(ROOT / "scripts"), workloads=str(ROOT / "bench/workloads"), model=model, batch=batch,
        momentum=0.9 if kind == "momentum" else 0)
    if served:
        return CLIENT.format(served=SERVED.format(body=body), iterations=iterations)
    return LOOP.format(body=body, iterations=iterations)


def run(python, source, words):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("MEMOMALLOC_") and name != "LD_PRELOAD"}
    process = subprocess.run([*words, python, "-c", source], env=environment, check=True, capture_output=True, text=True)
    return json.loads(process.stdout)


def title(workload):
    """A workload as the documents call it."""
    kind, model, batch = parts(workload)
    network = f"{model}, batch {batch}"
    return {"numpy": "twelve pictures in numpy", "bert": "BERT of six layers, batch 4", "network": network,
            "train": f"a training step of {network}", "momentum": f"a training step with momentum, {network}",
            "gunicorn": f"a gunicorn worker's requests, {network}"}[kind]


HEAD = "| program | with | faults | system time | time | peak |\n| --- | --- | --- | --- | --- | --- |"


def row(workload, way, runs):
    """Faults are those of the first three iterations, times the first one's."""
    def median_of(number, what):
        return statistics.median(each["iterations"][number][what] for each in runs)

    seconds = [each["iterations"][0][0] for each in runs]
    peak = statistics.median(each["peak_kilobytes"] for each in runs)
    return (f"| {title(workload)} | {way} | {', '.join(f'{median_of(number, 1):,.0f}' for number in range(3))} | "
            f"{median_of(0, 2) * 1e3:.0f} ms | {statistics.median(seconds) * 1e3:.0f} ms ({min(seconds) * 1e3:.0f} to "
            f"{max(seconds) * 1e3:.0f}) | {peak / 1024:.0f} MiB |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("workloads", nargs="*", default=["numpy", "network:resnet50:4"],
                        help="numpy, bert, or network:NAME:BATCH, train:NAME:BATCH, momentum:NAME:BATCH (training "
                             "with momentum) and gunicorn:NAME:BATCH of torchvision (%(default)s)")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--learning", type=int, default=30, help="iterations of the run that fills the store")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    print(HEAD)
    results = {}
    with tempfile.TemporaryDirectory() as store:
        tcmalloc = allocators.BY_NAME["tcmalloc"].library()
        ways = {"glibc": [], **({"tcmalloc": ["env", f"LD_PRELOAD={tcmalloc}"]} if tcmalloc else {}),
                "the library": [COMMAND, "run", "--"],
                "the library and a store": [COMMAND, "run", "--plans", store, "--"]}
        for workload in args.workloads:
            run(args.python, program(workload, args.learning), ways["the library and a store"])
            source, done = program(workload, 3), {way: [] for way in ways}
            for _ in range(args.runs):
                for way, words in ways.items():
                    done[way].append(run(args.python, source, words))
            for way, runs in done.items():
                print(row(workload, way, runs), flush=True)
            results[workload] = done
    if args.json:
        args.json.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
