#!/usr/bin/env python3
"""Small networks of torch, each in a loop, for machines on which torch is slow: an emulated processor's above all.

Prints a JSON line for each case: a checksum of every output, and what the library, where it is loaded, counted in the
second half of the loop, in the process that does the work. Needs torch and numpy alone; random weights from a fixed seed.
scripts/experiments/torch_aarch64.py runs it.
"""

import argparse
import ctypes
import hashlib
import json
import os
import resource

import torch
from torch import nn

GROWING = ("large_allocations", "large_bytes", "planned_bytes", "at_hand_bytes")
STANDING = ("slab_bytes", "lower_bound_bytes")


def counters():
    """The library's own figures of this process; {} without it."""
    try:
        tell = ctypes.CDLL(None).memomalloc_stats_json
    except AttributeError:
        return {}
    buffer = ctypes.create_string_buffer(1 << 14)
    tell(buffer, ctypes.c_size_t(len(buffer)))
    found = json.loads(buffer.value)
    return {name: found[name] for name in GROWING + STANDING}


def second_half(step, iterations, take, told=counters):
    """What `told` counts in the second half of a loop of `step`, each of whose outputs `take` gets."""
    middle = {}
    for i in range(iterations):
        if i == iterations // 2:
            middle = told()
        take(step())
    end = told()
    return {name: end[name] - (middle.get(name, 0) if name in GROWING else 0) for name in end}


class Residual(nn.Module):
    """A basic block of ResNet (He et al. 2015)."""

    def __init__(self, inner, outer, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU(inplace=True),
                                  nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer))
        self.skip = nn.Sequential() if stride == 1 and inner == outer else nn.Sequential(
            nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


def resnet18():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inner = 64
    for outer in (64, 128, 256, 512):
        layers += [Residual(inner, outer, 1 if outer == 64 else 2), Residual(outer, outer, 1)]
        inner = outer
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


class Inverted(nn.Module):
    """A block of MobileNet v2 (Sandler et al. 2018)."""

    def __init__(self, inner, outer, stride, factor):
        super().__init__()
        wide = inner * factor
        layers = [] if factor == 1 else [nn.Conv2d(inner, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(inplace=True)]
        self.body = nn.Sequential(*layers, nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide),
                                  nn.ReLU6(inplace=True), nn.Conv2d(wide, outer, 1, bias=False), nn.BatchNorm2d(outer))
        self.adds = stride == 1 and inner == outer

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


def mobilenet_v2():
    layers, inner = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6(inplace=True)], 32
    for factor, outer, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                         (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(count):
            layers.append(Inverted(inner, outer, stride if i == 0 else 1, factor))
            inner = outer
    return nn.Sequential(*layers, nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6(inplace=True),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))


def small():
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 10))


def inference(network, shape):
    network.eval()
    x = torch.randn(shape)

    def step():
        with torch.no_grad():
            return network(x)
    return step


def transformer():
    layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True, activation="gelu")
    return inference(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (4, 64, 64))


def training():
    network = small()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.randn(8, 3, 32, 32), torch.arange(8) % 10

    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()
    return step


def forked():
    """Each step in a child, which has learned nothing; counted are the children's second halves."""
    step = inference(small(), (8, 3, 32, 32))
    counted = {}

    def work(write):
        sums = hashlib.sha256()
        figures = second_half(step, CHILD_ITERATIONS, lambda output: sums.update(output.numpy().tobytes()))
        os.write(write, sums.digest() + json.dumps(figures).encode())

    def in_child():
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            work(write)
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            said = pipe.read()
        if os.waitpid(child, 0)[1] != 0:
            raise RuntimeError("a forked child failed")
        size = hashlib.sha256().digest_size
        for name, value in json.loads(said[size:]).items():
            counted[name] = value + (counted.get(name, 0) if name in GROWING else 0)
        return torch.frombuffer(bytearray(said[:size]), dtype=torch.uint8)
    return in_child, lambda: dict(counted)


class Pictures(torch.utils.data.Dataset):
    """Pictures, each with what has been counted where it was made."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        picture = torch.full((3, 64, 128), float(index)).sin().mul(2).cos()
        return picture, torch.tensor(list(counters().values()), dtype=torch.int64)


def loader():
    """A pass over a DataLoader, whose worker stays; counted is the worker."""
    batches = torch.utils.data.DataLoader(Pictures(), batch_size=4, num_workers=1, persistent_workers=True)
    latest = []

    def step():
        means = []
        for pictures, figures in batches:
            means.append(pictures.mean((1, 2)))
            latest[:] = figures[-1].tolist()
        return torch.stack(means)
    return step, lambda: dict(zip(GROWING + STANDING, latest))


CHILD_ITERATIONS = 12
# Name, what makes its step, and by how much fewer iterations it has; those first that take least time.
CASES = {
    "training step": (training, 1),
    "transformer, 2 layers": (transformer, 1),
    "forked children": (forked, 6),
    "DataLoader with a worker": (loader, 1),
    "mobilenet_v2 b2 of 64 pixels": (lambda: inference(mobilenet_v2(), (2, 3, 64, 64)), 1),
    "resnet18 b2 of 64 pixels": (lambda: inference(resnet18(), (2, 3, 64, 64)), 1),
}


def run(make, iterations):
    torch.manual_seed(0)
    made = make()
    step, told = made if isinstance(made, tuple) else (made, counters)
    sums = hashlib.sha256()
    faults = []

    def take(output):
        sums.update(output.numpy().tobytes())
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
    figures = second_half(step, iterations, take, told)
    return {"checksum": sums.hexdigest(), "faults": faults[-1] - faults[iterations // 2 - 1], **figures}


def peak():
    """Of the process and of the largest of those that it has waited for, KiB."""
    return max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=12, help="of each case (%(default)s)")
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name, (make, fewer) in CASES.items():
        if arguments.only in name:
            figures = run(make, max(2, arguments.iterations // fewer))
            print(json.dumps({"case": name, "torch": torch.__version__, "peak_kib": peak(), **figures}), flush=True)


if __name__ == "__main__":
    main()
