#!/usr/bin/env python3
"""One process of scripts/hardware/cores.py: makes a network, then does the steps that each line of JSON on stdin asks for.

A line holds "threads" (torch's, or null for what they are), "steps", and "begin" where a row begins: the peak of resident
memory is counted from there. The answer is one line of JSON: each step's milliseconds, page faults, processor time and
memory. With --servers a step is one call of the network in each of so many threads, which go on at the same time.
"""

import argparse
import contextlib
import json
import os
import pathlib
import queue
import resource
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "bench/workloads")]

import loaded_library

CLASSES = 1000


def inference(network, inputs):
    return lambda: network(inputs)


def make(torch, models, arguments):
    """The step of a network, a function without arguments."""
    import infer

    name, batch, size = arguments.network, arguments.batch, arguments.size
    torch.manual_seed(0)
    if name == "bert":
        import transformers

        network = transformers.BertModel(transformers.BertConfig()).eval()
        tokens = torch.arange(batch * size).reshape(batch, size) % 30000
        return lambda: network(input_ids=tokens).pooler_output
    images = torch.randn(batch, 3, size, size)
    if name.startswith("train_"):
        import train

        labels = torch.arange(batch) % CLASSES
        step = train.classifier(torch, infer.build(models, name.removeprefix("train_")).train(), images, labels, arguments)
        return lambda: step(0)
    return inference(infer.build(models, name), images)


def in_threads(torch, step, count):
    """A step that is one call in each of `count` threads, with one thread of torch each."""
    inbox = [queue.SimpleQueue() for _ in range(count)]
    outbox = queue.SimpleQueue()

    def serve(box):
        torch.set_num_threads(1)
        with torch.inference_mode():
            while box.get():
                step()
                outbox.put(True)

    for box in inbox:
        threading.Thread(target=serve, args=(box,), daemon=True).start()

    def together():
        for box in inbox:
            box.put(True)
        for _ in inbox:
            outbox.get()

    return together


def status():
    """KiB of this process: resident, of these anonymous, and the highest resident since the row began."""
    names = {"VmRSS:": "rss_kib", "RssAnon:": "anon_kib", "VmHWM:": "peak_kib"}
    found = dict.fromkeys(names.values(), 0)
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            word = line.split()
            if word[0] in names:
                found[names[word[0]]] = int(word[1])
    return found


def begin_row():
    """The highest resident memory is that of now; a kernel that forbids it goes on counting from the start."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def large_bytes():
    """Of the library: (all, planned, reused); zeros without it."""
    stats = loaded_library.library_stats() or {}
    return [stats.get(name, 0) for name in ("large_bytes", "planned_bytes", "at_hand_bytes")]


def turn(step, steps):
    before, bytes_before, times = resource.getrusage(resource.RUSAGE_SELF), large_bytes(), []
    for _ in range(steps):
        began = time.perf_counter_ns()
        step()
        times.append(round((time.perf_counter_ns() - began) / 1e6, 4))
    after = resource.getrusage(resource.RUSAGE_SELF)
    large, planned, at_hand = (now - then for now, then in zip(large_bytes(), bytes_before))
    return {"ms": times, "faults": (after.ru_minflt - before.ru_minflt) / steps,
            "user_ms": (after.ru_utime - before.ru_utime) * 1e3 / steps,
            "system_ms": (after.ru_stime - before.ru_stime) * 1e3 / steps,
            "large_bytes": large, "planned_bytes": planned, "at_hand_bytes": at_hand} | status()


def is_loaded(library):
    if not library:
        return True
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        return any(pathlib.Path(library).name in line for line in file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", required=True)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--size", type=int, default=224, help="pixels a side, or words of a sequence")
    parser.add_argument("--servers", type=int, default=0)
    parser.add_argument("--library", default="", help="that must be loaded")
    parser.add_argument("--processor", type=int, help="to stay on")
    arguments = parser.parse_args()
    if arguments.processor is not None:
        os.sched_setaffinity(0, {arguments.processor})
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer

    def answer(figures):
        answers.write(json.dumps(figures) + "\n")
        answers.flush()

    if not is_loaded(arguments.library):
        answer({"error": f"{pathlib.Path(arguments.library).name} was not loaded"})
        return 1
    import infer

    torch, models = infer.import_torchvision()
    training = arguments.network.startswith("train_")
    with contextlib.nullcontext() if training else torch.inference_mode():
        step = make(torch, models, arguments)
        if arguments.servers:
            step = in_threads(torch, step, arguments.servers)
        answer({"ready": True} | status())
        for line in sys.stdin:
            asked = json.loads(line)
            if asked.get("begin"):
                begin_row()
            if asked.get("threads"):
                torch.set_num_threads(asked["threads"])
            answer(turn(step, asked["steps"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
