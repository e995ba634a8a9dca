#!/usr/bin/env python3
"""What the first iterations cost while the library still learns: page faults, peak, when served.

Each program runs under each allocator in a process of its own. Counted are the page faults of the first --iterations
iterations together, the peak of resident memory, and, under this library, the first iteration from which on at least
95 % of the large bytes come from a plan. Counts, not seconds: they hold on a busy machine, too.
"""

import argparse
import json
import resource
import sys

import allocators
import children
import loaded_library

ROUNDS = 20


def three_calls():
    """A numpy loop of three large arrays."""
    import numpy
    kept = numpy.ones(300_000)
    return lambda: float((numpy.sqrt(kept + 1.0) * kept).sum())


def keeps_result():
    """Layers of changing size whose last result lives until the next iteration has made its own (U-Net)."""
    import numpy
    sizes = [400_000, 200_000, 100_000, 50_000, 100_000, 200_000, 400_000]
    state = {}

    def step():
        skips = []
        last = numpy.ones(sizes[0])
        for size in sizes:
            last = numpy.resize(last, size) * 1.5
            skips.append(last)
        state["mask"] = skips[0] + skips[-1]
    return step


def carries_state():
    """Two layers of a recurrence, each of which hands its state to the next iteration (LSTM)."""
    import numpy
    states = [numpy.zeros(64_000), numpy.zeros(48_000)]

    def step():
        for _ in range(3):
            for layer, state in enumerate(states):
                gates = numpy.tanh(numpy.tile(state, 4) + 0.5)
                size = state.size
                states[layer] = gates[:size] * state + gates[size:2 * size] * gates[2 * size:3 * size]
    return step


def replaces_lists():
    """A list of new arrays replaces the old one, which lives until the new one is there."""
    state = {}

    def step():
        state["gradients"] = [b"x" * size for size in range(500_000, 6_500_000, 600_000)]
        other = [b"x" * size for size in range(200_000, 3_200_000, 300_000)]
        del other
    return step


def few_matrices():
    """A product of matrices, as octave makes it: two or three large calls an iteration."""
    import numpy
    left = numpy.ones((1200, 1200))

    def step():
        product = left @ left
        return float((product + left)[0, 0])
    return step


def large_vectors():
    """Vectors of 20 MB: what glibc maps one by one until it has seen one freed."""
    import numpy
    base = numpy.ones(2_500_000)
    return lambda: float((base * 2.0 + 1.0)[0])


def torch_convolutions():
    """Inference of a residual network of twelve convolutions, batch 4."""
    import torch
    torch.set_num_threads(1)

    class Block(torch.nn.Module):
        def __init__(self, before, after, stride):
            super().__init__()
            self.first = torch.nn.Conv2d(before, after, 3, stride, 1)
            self.second = torch.nn.Conv2d(after, after, 3, 1, 1)
            self.short = torch.nn.Conv2d(before, after, 1, stride)

        def forward(self, image):
            return torch.relu(self.second(torch.relu(self.first(image))) + self.short(image))

    model = torch.nn.Sequential(Block(3, 32, 2), Block(32, 32, 1), Block(32, 64, 2), Block(64, 64, 1)).eval()
    image = torch.rand(4, 3, 224, 224)

    def step():
        with torch.no_grad():
            return float(model(image)[0, 0, 0, 0])
    return step


def torch_transformer():
    """Twelve equal layers of an encoder, whose result is kept until the next iteration."""
    import torch
    torch.set_num_threads(1)
    layer = torch.nn.TransformerEncoderLayer(192, 4, 768, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)  # training mode: the layers' own calls
    words = torch.rand(8, 128, 192)
    state = {}

    def step():
        with torch.no_grad():
            state["out"] = model(words)
    return step


def torch_random_length():
    """The same layers over sentences of changing length: each is another shape, its layers repeat."""
    import random
    import torch
    torch.set_num_threads(1)
    layer = torch.nn.TransformerEncoderLayer(192, 4, 768, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
    lengths = random.Random(7)

    def step():
        with torch.no_grad():
            return float(model(torch.rand(8, lengths.randint(40, 160), 192))[0, 0, 0])
    return step


def torch_lstm():
    """A two-layer LSTM whose result and state are kept until the next iteration."""
    import torch
    torch.set_num_threads(1)
    model = torch.nn.LSTM(256, 256, num_layers=2).eval()
    words = torch.rand(16, 96, 256)
    state = {}

    def step():
        with torch.no_grad():
            state["out"] = model(words, state.get("out", (None, None))[1])
    return step


def torch_training():
    """A training step of a small convolutional network."""
    import torch
    torch.set_num_threads(1)
    layers = [torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 32, 3), torch.nn.ReLU(),
              torch.nn.AdaptiveAvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(2048, 100)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images, labels = torch.rand(16, 3, 64, 64), torch.randint(0, 100, (16,))

    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return step


PROGRAMS = (three_calls, keeps_result, carries_state, replaces_lists, few_matrices, large_vectors, torch_convolutions,
            torch_transformer, torch_random_length, torch_lstm, torch_training)
BY_NAME = {program.__name__: program for program in PROGRAMS}


def planned_share(before, now):
    """Of the large bytes between two looks, the share that came from a plan."""
    large = now["large_bytes"] - before["large_bytes"]
    return (now["planned_bytes"] - before["planned_bytes"]) / large if large > 0 else 1.0


def run(name, iterations):
    """In the child: the program's iterations; prints what they cost."""
    step = BY_NAME[name]()
    faults, shares, before = [], [], loaded_library.library_stats()
    for _ in range(iterations):
        start = resource.getrusage(resource.RUSAGE_SELF)
        step()
        end = resource.getrusage(resource.RUSAGE_SELF)
        faults.append(end.ru_minflt - start.ru_minflt)
        now = loaded_library.library_stats()
        if now is not None:
            shares.append(planned_share(before, now))
            before = now
    planned = next((i + 1 for i in range(len(shares)) if all(share >= 0.95 for share in shares[i:])), None)
    print(json.dumps({"faults": sum(faults), "last": sum(faults[-3:]) / 3, "planned": planned, "each": faults,
                      "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default=",".join(BY_NAME), help="comma between them (all)")
    children.add_options(parser, "glibc,tcmalloc,jemalloc,memomalloc")
    parser.add_argument("--iterations", type=int, default=ROUNDS)
    parser.add_argument("--each", action="store_true", help="print the faults of each iteration, too")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv):
    arguments = parse(argv)
    if arguments.child:
        run(arguments.child, arguments.iterations)
        return 0
    chosen = children.chosen(arguments)
    print("| program | " + " | ".join(f"{a.name}: faults, peak MiB" for a in chosen) + " | from a plan since |")
    print("| --- " * (len(chosen) + 2) + "|")
    for name in arguments.programs.split(","):
        results = [children.run(__file__, ["--child", name, "--iterations", arguments.iterations], allocator, arguments)
                   for allocator in chosen]
        cells = [f"{r['faults']} (last three {r['last']:.0f}), {r['peak']}" for r in results]
        planned = next((r["planned"] for a, r in zip(chosen, results) if a.name == allocators.OURS), None)
        print(f"| {name} | " + " | ".join(cells) + f" | {planned or '-'} |", flush=True)
        if arguments.each:
            for allocator, result in zip(chosen, results):
                print(f"    {allocator.name}: {result['each']}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
