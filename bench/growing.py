#!/usr/bin/env python3
"""Loops that grow and start again: decoding with a cache that is concatenated for each token, lists, frames, buffers.

A pass is one growth from nothing: a prompt with its tokens, a list that fills, a file that comes in chunks. Each program
runs under each allocator in a process of its own. Counted are the page faults of the passes whose length the process has
seen before, those of the last quarter of the passes, the peak of resident memory and, under this library, where the
large bytes came from: of all passes, and of the last half. Counts, not seconds: they hold on a busy machine, too.
"""

import argparse
import json
import random
import resource
import sys

import allocators
import children
import loaded_library


def llama(batch, tokens, prompts, width=256, layers=4):
    """transformers' generate() on a small LLaMA with random weights, and its DynamicCache."""
    from infer import import_torchvision  # transformers imports torchvision, which may lack its operators
    torch, _ = import_torchvision()
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(hidden_size=width, num_hidden_layers=layers, num_attention_heads=4,
                                         intermediate_size=3 * width, vocab_size=4000)).eval()

    def step(length):
        with torch.inference_mode():
            model.generate(torch.randint(0, 4000, (batch, length)), max_new_tokens=tokens, do_sample=False,
                           pad_token_id=0, eos_token_id=None)
    return step, prompts


def drawn(*values):
    """As many passes as are asked for, each of one of the lengths, the same in every process."""
    chosen = random.Random(7)
    return lambda: chosen.choice(values)


def decode_fixed():
    """One prompt of 128 tokens after another, 48 tokens each, batch 4."""
    return llama(4, 48, lambda: 128)


def decode_random():
    """Prompts of four lengths in random order, batch 4."""
    return llama(4, 48, drawn(64, 96, 128, 192))


def decode_any_length():
    """Prompts of any length from 64 to 256, batch 2: hardly any length comes twice."""
    chosen = random.Random(7)
    return llama(2, 32, lambda: chosen.randint(64, 256))


def decode_wide():
    """A cache that is larger than the weights: batch 16, prompts of 64, 64 tokens."""
    return llama(16, 64, lambda: 64, width=128, layers=3)


def torch_concatenate():
    """A tensor that grows by concatenation, as a cache does by itself; two of them take turns."""
    import torch
    torch.set_num_threads(1)
    piece = torch.ones(8, 1, 512)

    def step(length):
        keys = values = torch.ones(8, 32, 512)
        for _ in range(length):
            keys, values = torch.cat([keys, piece], 1), torch.cat([values, piece], 1)
    return step, drawn(64, 96, 128)


def appended(numbers, *lengths):
    """An array that grows by numpy.append, by so many numbers each time."""
    import numpy
    piece = numpy.ones(numbers)

    def step(length):
        total = numpy.ones(50_000)
        for _ in range(length):
            total = numpy.append(total, piece)
    return step, drawn(*lengths)


def numpy_append():
    """numpy.append in a loop: each result is a new, longer array."""
    return appended(5_000, 40, 60, 80)


def numpy_append_far():
    """The same up to 64 MB: blocks that an allocator takes from the system one by one, each longer than all before."""
    return appended(40_000, 100, 150, 200)


def pandas_concat():
    """A frame that grows by pandas.concat."""
    import numpy
    import pandas
    part = pandas.DataFrame({name: numpy.ones(2_000) for name in "abcd"})

    def step(length):
        frame = part
        for _ in range(length):
            frame = pandas.concat([frame, part], ignore_index=True)
    return step, drawn(30, 40, 50)


def list_of_numbers():
    """A list that is appended to until its array is tens of megabytes: realloc."""
    def step(length):
        numbers = []
        for _ in range(length):
            numbers.append(0)
    return step, drawn(1_000_000, 2_000_000, 3_000_000)


def bytes_in_chunks():
    """A bytearray that is read into in chunks of 100,000 bytes: realloc."""
    chunk = b"x" * 100_000

    def step(length):
        buffer = bytearray()
        for _ in range(length):
            buffer += chunk
    return step, drawn(100, 200, 300)


def buffers_in_turns():
    """Two bytearrays of 1 MiB that grow in turns, each in the other's way: realloc of blocks that are large from the first."""
    chunk = b"x" * (1 << 20)

    def step(length):
        one, other = bytearray(1 << 20), bytearray(1 << 20)
        for _ in range(length):
            one += chunk
            other += chunk
    return step, drawn(100, 150, 200)


def list_of_arrays():
    """Arrays of one size in a list, which is stacked at the end."""
    import numpy

    def step(length):
        numpy.stack([numpy.full(40_000, 1.0) for _ in range(length)]).sum()
    return step, drawn(40, 60, 80)


PROGRAMS = (decode_fixed, decode_random, decode_any_length, decode_wide, torch_concatenate, numpy_append,
            numpy_append_far, pandas_concat, list_of_numbers, bytes_in_chunks, buffers_in_turns,
            list_of_arrays)
BY_NAME = {program.__name__: program for program in PROGRAMS}
SHARES = ("planned_bytes", "at_hand_bytes", "other_bytes")


def shares(before, now):
    """Of the large bytes between two looks, the shares from a plan, reused, and other."""
    if now is None:
        return None
    large = sum(now[name] - before[name] for name in SHARES)
    return [(now[name] - before[name]) / large if large else 0.0 for name in SHARES]


def run(name, passes):
    """In the child: the program's passes; prints what they cost."""
    step, next_length = BY_NAME[name]()
    seen, again, each, first, middle = set(), 0, [], loaded_library.library_stats(), None
    for number in range(passes):
        if number == passes // 2:
            middle = loaded_library.library_stats()
        length = next_length()
        start = resource.getrusage(resource.RUSAGE_SELF)
        step(length)
        end = resource.getrusage(resource.RUSAGE_SELF)
        each.append(end.ru_minflt - start.ru_minflt)
        again += each[-1] if length in seen else 0
        seen.add(length)
    last = loaded_library.library_stats()
    quarter = each[3 * passes // 4:]
    print(json.dumps({"again": again, "late": sum(quarter) / len(quarter), "each": each,
                      "all": shares(first, last), "half": shares(middle, last),
                      "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def percent(parts):
    return " + ".join(f"{100 * part:.1f}" for part in parts) if parts else "-"


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default=",".join(BY_NAME), help="comma between them (all)")
    children.add_options(parser, "glibc,jemalloc,tcmalloc,mimalloc,memomalloc")
    parser.add_argument("--passes", type=int, default=24, help="of each program (%(default)s)")
    parser.add_argument("--each", action="store_true", help="print the faults of each pass, too")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv):
    arguments = parse(argv)
    if arguments.child:
        run(arguments.child, arguments.passes)
        return 0
    chosen = children.chosen(arguments)
    print("| program | " + " | ".join(a.name for a in chosen) + " | planned + reused + other, % | last half |")
    print("| --- " * (len(chosen) + 3) + "|")
    for name in arguments.programs.split(","):
        results = {allocator.name: children.run(__file__, ["--child", name, "--passes", arguments.passes], allocator, arguments)
                   for allocator in chosen}
        cells = [f"{r['again']} again, {r['late']:.0f} late, {r['peak']:.0f} MiB" for r in results.values()]
        ours = results.get(allocators.OURS, {"all": None, "half": None})
        print(f"| {name} | " + " | ".join(cells) + f" | {percent(ours['all'])} | {percent(ours['half'])} |", flush=True)
        if arguments.each:
            for allocator, result in results.items():
                print(f"    {allocator}: {result['each']}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
