#!/usr/bin/env python3
"""What torch.compile(backend="memomalloc") saves: predicted, and measured as the process' peak under the library.

Each network runs in processes of its own: eagerly, by backend aot_eager, and by ours, inference and training. Weights
and inputs are random. The columns of memory, in MiB:

    predicted   largest peak of a graph's results in torch's order and in ours (memomalloc.torch.reports)
    steps       peak of the steps after the first ones, above the level between steps (VmHWM, reset by clear_refs)
    process     VmHWM of the whole process, with building, compiling and learning

`equal` compares results, and after training the parameters, of ours with aot_eager's to the bit. Prints a Markdown
table; --output also writes CSV. A network that fails is named and has no row; exit code 1.
"""

import argparse
import csv
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from runner import ROOT

sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "python")]

NETWORKS = ("resnet18", "resnet50", "mobilenet_v2", "densenet121", "googlenet", "inception_v3", "squeezenet1_0",
            "shufflenet_v2_x1_0", "efficientnet_b0", "swin_t", "unet", "nas", "bert", "gpt2")
TRANSFORMERS = ("bert", "gpt2")
BACKENDS = ("eager", "aot_eager", "memomalloc")
MIB = 1 << 20
WARM_STEPS = 6  # the library learns a period from its third iteration on
LEARNING_RATE = 1e-3


def status(field):
    """A field of /proc/self/status in bytes."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def give_back():
    """Free memory goes to the system: ours by the library's own call, the rest by glibc's."""
    import memomalloc

    memomalloc.release()
    ctypes.CDLL(None).malloc_trim(0)


def step_of(torch, network, x, y, train, backend, networks, target):
    """One step as a function without arguments; its results are a tuple."""
    module = networks.with_loss(torch, network, target).train() if train else network.eval()
    function = module if backend == "eager" else torch.compile(module, backend=backend)
    if not train:
        return lambda: (function(x),)
    optimizer = torch.optim.SGD(module.parameters(), LEARNING_RATE)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = function(x, y)[0]
        loss.backward()
        optimizer.step()
        return (loss.detach(),)
    return step


def child(arguments):
    """One network, mode and backend; prints a line of JSON."""
    import networks
    import torch
    from reorder import digest

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    network, x, target = networks.build(arguments.network, arguments.batch, arguments.size)
    x = torch.randn_like(x) if x.is_floating_point() else torch.randint_like(x, 1000)
    y = networks.target_for(torch, x, target)
    if arguments.child == "memomalloc":
        import memomalloc.torch
    step = step_of(torch, network, x, y, arguments.train, arguments.child, networks, target)
    with torch.set_grad_enabled(arguments.train):
        for _ in range(WARM_STEPS):
            result = step()
        whole = status("VmHWM")
        del result
        give_back()
        level = status("VmRSS")
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins again
        times = []
        for _ in range(arguments.iterations):
            began = time.perf_counter()
            result = step()
            times.append(time.perf_counter() - began)
    peak = status("VmHWM")
    found = {"steps": peak - level, "process": max(whole, peak), "ms": 1000 * statistics.median(times),
             "digest": digest([result, list(network.parameters()), list(network.buffers())])}
    if arguments.child == "memomalloc":
        reports = memomalloc.torch.reports()
        found |= {"given": max((r.given_peak or 0 for r in reports), default=0),
                  "peak": max((r.peak or 0 for r in reports), default=0), "graphs": len(reports),
                  "kept": sum(r.reason is not None for r in reports),
                  "optimal": sum(r.optimal for r in reports)}
    print(json.dumps(found))


def measure(network, train, backend, arguments):
    """What one process found; RuntimeError with its last line where it failed."""
    command = [arguments.python_torch, os.path.abspath(__file__), "--child", backend, "--networks", network,
               "--batch", str(arguments.batch), "--iterations", str(arguments.iterations),
               "--threads", str(arguments.threads), *(["--train"] if train else []),
               *(["--size", str(arguments.size)] if arguments.size else [])]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MEMOMALLOC_")}
    if arguments.library:
        environment["LD_PRELOAD"] = os.path.abspath(arguments.library)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise RuntimeError(f"{network} {'training' if train else 'inference'} {backend}: code {done.returncode}, {last}")
    return json.loads(done.stdout.splitlines()[-1])


def row_of(network, train, arguments):
    found = {backend: measure(network, train, backend, arguments) for backend in BACKENDS}
    ours = found["memomalloc"]
    row = {"network": network, "mode": "training" if train else "inference", "graphs": ours["graphs"],
           "predicted_given": round(ours["given"] / MIB, 1), "predicted": round(ours["peak"] / MIB, 1),
           "optimal": f"{ours['optimal']}/{ours['graphs']}", "kept": ours["kept"]}
    for column in ("steps", "process"):
        row |= {f"{column}_{backend}": round(found[backend][column] / MIB, 1) for backend in BACKENDS}
    row |= {f"ms_{backend}": round(found[backend]["ms"], 1) for backend in BACKENDS}
    row["equal"] = found["aot_eager"]["digest"] == ours["digest"]
    return row


def print_row(row):
    def three(column):
        return " / ".join(f"{row[f'{column}_{backend}']:g}" for backend in BACKENDS)
    print(f"| {row['network']} | {row['mode']} | {row['predicted_given']:g} → {row['predicted']:g} | {row['optimal']} | "
          f"{three('steps')} | {three('process')} | {three('ms')} | {'yes' if row['equal'] else 'NO'} |", flush=True)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", help="names of scripts/networks.py (fourteen, without those that need "
                                                      "transformers where it is not installed)")
    parser.add_argument("--modes", nargs="+", choices=("inference", "training"), default=["inference", "training"])
    parser.add_argument("--batch", type=int, default=4, help="samples (%(default)s)")
    parser.add_argument("--size", type=int, help="pixels a side, or tokens (the network's own)")
    parser.add_argument("--iterations", type=int, default=6, help="steps to measure (%(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="torch's threads (%(default)s)")
    parser.add_argument("--library", default=str(ROOT / "build/libmemomalloc.so"),
                        help="to preload; empty: none (%(default)s)")
    parser.add_argument("--python-torch", default=sys.executable, help="the Python with torch (this one)")
    parser.add_argument("--output", type=pathlib.Path, help="CSV file")
    parser.add_argument("--child", choices=BACKENDS, help=argparse.SUPPRESS)
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.child:
        arguments.network = arguments.networks[0]
        child(arguments)
        return 0
    probe = subprocess.run([arguments.python_torch, "-c", "import transformers"], capture_output=True, check=False)
    names = arguments.networks or [n for n in NETWORKS if n not in TRANSFORMERS or probe.returncode == 0]
    print(f"Batch {arguments.batch}, MiB; eager / aot_eager / memomalloc.\n")
    print("| network | mode | predicted peak | proved | steps' peak | process' peak | ms a step | equal |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    rows, failed = [], []
    for network in names:
        for mode in arguments.modes:
            try:
                rows.append(row_of(network, mode == "training", arguments))
            except RuntimeError as error:
                failed.append(str(error))
                continue
            print_row(rows[-1])
    if arguments.output and rows:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        with arguments.output.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
    for text in failed:
        print(f"compile_backend.py: {text}", file=sys.stderr)
    return 1 if failed or not all(row["equal"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
