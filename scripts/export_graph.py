#!/usr/bin/env python3
"""Writes the computation graph of a network as JSON (docs/file-formats.md).

    export_graph.py resnet18 -o resnet18.json                 inference, from torch.export
    export_graph.py resnet18 --train --batch 32 -o step.json  a training step, from AOTAutograd
    export_graph.py --onnx model.onnx -o model.json           an ONNX file

Nothing is computed and no weight is stored: sizes come from fake tensors, so a network larger than the
memory can be exported. `memomalloc.graph.describe` does the same for any exported torch.fx graph.
"""
import argparse
import pathlib
import sys

import networks
import onnx_graph
import refusal


def describe_input(arguments):
    """The GraphWriter of the ONNX file or of the network that the arguments name."""
    if arguments.onnx:
        return onnx_graph.describe_onnx(arguments.onnx, arguments.batch)
    return networks.describe_step(arguments.network, arguments.train, arguments.batch, arguments.size,
                                  arguments.measure)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     epilog="Networks: those of scripts/networks.py, and every "
                                            "torchvision classification and segmentation network.")
    parser.add_argument("network", nargs="?", help="name of the network")
    parser.add_argument("--onnx", help="read an ONNX file instead")
    parser.add_argument("--train", action="store_true", help="a training step instead of inference")
    parser.add_argument("--batch", type=int, default=1, help="samples (%(default)s)")
    parser.add_argument("--size", type=int, help="pixels a side, or tokens (the network's own)")
    parser.add_argument("--measure", action="store_true",
                        help="run the network once for the operators' own scratch memory")
    parser.add_argument("-o", "--output", default="-", help="file (standard output)")
    arguments = parser.parse_args(argv)
    if (arguments.network is None) == (arguments.onnx is None):
        parser.error("give a network or --onnx, one of the two")
    with refusal.plainly():
        text = describe_input(arguments).to_json()
        if arguments.output == "-":
            sys.stdout.write(text)
        else:
            pathlib.Path(arguments.output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
