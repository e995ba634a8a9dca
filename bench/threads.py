#!/usr/bin/env python3
"""What threads that take turns hold: page faults, peak and end of resident memory, shares served.

    width   --threads threads, at most --width at work at once, each --steps steps of a job; each ends with its job
    alive   the same, and no thread ends before all have worked
    waves   --width at once, then 64, then --width again
    turns   one at a time, all alive: twelve steps of 100 MiB each

Each program runs under each allocator in a process of its own. Faults are those of all steps, divided by their number;
the end is what is resident when all threads have worked, and 12 s later.
"""

import argparse
import json
import resource
import sys
import threading
import time

import children
import loaded_library

WIDE = 64


def numpy_job():
    """A step of an image pipeline: five large arrays, 0.5 to 2 MB."""
    import numpy
    image = numpy.ones((240, 320, 3), dtype=numpy.float32)

    def step():
        wide = image * 0.5
        edges = numpy.abs(wide[1:] - wide[:-1])
        grey = edges.mean(axis=2)
        table = numpy.repeat(grey, 3)
        return float((table * 2.0).sum())
    return step


def torch_job():
    """Inference of six convolutions, batch 2."""
    import torch
    torch.set_num_threads(1)
    layers = []
    for before, after in ((3, 32), (32, 32), (32, 64), (64, 64), (64, 64), (64, 32)):
        layers += [torch.nn.Conv2d(before, after, 3, padding=1), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers).eval()
    image = torch.rand(2, 3, 96, 96)

    def step():
        with torch.no_grad():
            return float(model(image)[0, 0, 0, 0])
    return step


def turn_job():
    """Twenty arrays of 5 MiB, all alive at once: 100 MiB."""
    import numpy
    return lambda: len([numpy.full(5 << 17, 1.0) for _ in range(20)])


def resident():
    """MiB of this process now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 2**20


def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def work(step, arguments, threads, width, alive):
    """Runs the threads; no more than `width` work at once. Steps done."""
    free = threading.Semaphore(width)
    over = threading.Event()
    done = []

    def body(number):
        with free:
            count = arguments.steps + (number * 7 + 3) % 5 - 2 if arguments.steps > 4 else arguments.steps
            for _ in range(count):
                step()
            done.append(count)
        if alive:
            over.wait()

    started = []
    for number in range(threads):
        if not alive:
            free.acquire()
            free.release()
        started.append(threading.Thread(target=body, args=(number,)))
        started[-1].start()
    while len(done) < threads:
        time.sleep(0.005)
    over.set()
    for thread in started:
        thread.join()
    return sum(done)


def run(arguments):
    """In the child."""
    step = {"numpy": numpy_job, "torch": torch_job, "turns": turn_job}[arguments.job]()
    threading.stack_size(1 << 20)
    if arguments.job != "turns":
        step()
    start, before = faults(), resident()
    if arguments.shape == "waves":
        steps = work(step, arguments, arguments.threads, arguments.width, False)
        steps += work(step, arguments, WIDE, WIDE, False)
        steps += work(step, arguments, arguments.threads, arguments.width, False)
    else:
        steps = work(step, arguments, arguments.threads, arguments.width, arguments.shape == "alive")
    counted, end = faults() - start, resident()
    figures = loaded_library.library_stats()
    if arguments.rest:
        time.sleep(arguments.rest)
    result = {"faults": counted / steps, "before": before, "end": end, "later": resident(),
              "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}
    if figures is not None:
        large = max(figures["large_bytes"], 1)
        result |= {"served": (figures["planned_bytes"] + figures["at_hand_bytes"]) / large, "lanes": figures.get("threads"),
                   "slab": figures.get("slab_bytes", 0) // 2**20, "figures": figures}
    print(json.dumps(result))


ROWS = (  # job, shape, threads, width
    ("numpy", "width", 100, 4), ("numpy", "width", 200, 4), ("numpy", "width", 1000, 4), ("numpy", "alive", 200, 4),
    ("numpy", "waves", 50, 4), ("turns", "alive", 1, 1), ("turns", "alive", 12, 1),
    ("torch", "width", 100, 4), ("torch", "width", 200, 4), ("torch", "width", 1000, 4), ("torch", "alive", 100, 4),
    ("torch", "waves", 20, 4))


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="", help="only rows that begin so, such as numpy or torch-width-100")
    children.add_options(parser, "glibc,tcmalloc,jemalloc,memomalloc")
    parser.add_argument("--steps", type=int, default=10, help="of each thread, two more or less")
    parser.add_argument("--rest", type=float, default=0, help="seconds after which memory is looked at again")
    for name in ("--job", "--shape"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    for name in ("--threads", "--width"):
        parser.add_argument(name, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv):
    arguments = parse(argv)
    if arguments.child:
        run(arguments)
        return 0
    print("| job, shape, threads, at once | allocator | faults a step | peak, MiB | end | later | planned or reused | slabs, MiB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for job, shape, threads, width in ROWS:
        if not f"{job}-{shape}-{threads}".startswith(arguments.rows):
            continue
        words = ["--child", "--job", job, "--shape", shape, "--threads", threads, "--width", width,
                 "--steps", 12 if job == "turns" else arguments.steps, "--rest", arguments.rest]
        for allocator in children.chosen(arguments):
            r = children.run(__file__, words, allocator, arguments)
            ours = f"{r['served']:.0%} | {r['slab']}" if "served" in r else "|"
            print(f"| {job} {shape} {threads} {width} | {allocator.name} | {r['faults']:.0f} | {r['peak']} | {r['end']} | "
                  f"{r['later']} | {ours} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
