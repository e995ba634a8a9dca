#!/usr/bin/env python3
"""Runs inference of a torchvision network again and again and prints what it cost.

An ordinary inference program: random weights from a fixed seed, one input made once and fed in
every iteration, as a server does that holds a request while it answers it. Latency is that of the
second half of the run; page faults are given for the whole run and for its second half.
"""

import argparse
import sys

import measure
import refusal


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet18", help="a network of torchvision (%(default)s)")
    parser.add_argument("--batch", type=positive, default=1, help="images at once (%(default)s)")
    parser.add_argument("--size", type=positive, default=224,
                        help="pixels per side (%(default)s)")
    parser.add_argument("--threads", type=positive, default=1, help="torch's threads (%(default)s)")
    parser.add_argument("--iterations", type=positive, default=50,
                        help="forward passes, at least 2 (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and input (%(default)s)")
    parser.add_argument("--json", action="store_true", help="one JSON line instead of text")
    arguments = parser.parse_args(argv)
    if arguments.iterations < 2:
        parser.error("--iterations must be at least 2")
    return arguments


def define_missing_operators(torch):
    """Declares the two operators that torchvision registers shapes for when it is imported.

    A torchvision wheel built against another torch cannot load its compiled operators, and its
    import then fails. Detection networks use them; classification and segmentation do not.
    Returns the library object, which must stay alive.
    """
    library = torch.library.Library("torchvision", "FRAGMENT")
    for signature in ("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
                      "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"):
        name = signature.split("(", 1)[0]
        try:
            getattr(torch.ops.torchvision, name)
        except (AttributeError, RuntimeError):
            library.define(signature)
    return library


def import_torchvision():
    """Returns (torch, torchvision.models), with or without the compiled operators."""
    import torch

    try:
        import torchvision.models
    except RuntimeError:
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        define_missing_operators.kept = define_missing_operators(torch)
        import torchvision.models
    return torch, torchvision.models


def build(models, name):
    """The network with random weights; nothing is downloaded."""
    for module in (models, getattr(models, "segmentation", None)):
        maker = getattr(module, name, None)
        if name.islower() and callable(maker):
            break
    else:
        refusal.refuse(f"torchvision has no network {name!r}", "torchvision.models.list_models() names them")
    options = {"weights": None}
    if name in ("googlenet", "inception_v3"):
        options |= {"init_weights": True, "aux_logits": False}
    if "deeplab" in name or "fcn" in name or "lraspp" in name:
        options["weights_backbone"] = None
    return maker(**options).eval()


def main(argv=None):
    arguments = parse(argv)
    with refusal.plainly():
        torch, models = import_torchvision()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    network = build(models, arguments.model)
    images = torch.randn(arguments.batch, 3, arguments.size, arguments.size)
    with torch.inference_mode():
        figures = measure.loop(lambda index: network(images), arguments.iterations, arguments.model)
    figures = {"model": arguments.model, "batch": arguments.batch, "size": arguments.size,
               "threads": arguments.threads, "torch": torch.__version__} | figures
    if arguments.json:
        measure.print_json(figures)
    else:
        print(f"{arguments.model}, batch {arguments.batch}, {arguments.size} pixels, "
              f"{arguments.threads} thread(s), torch {torch.__version__}")
        measure.print_text(figures)


if __name__ == "__main__":
    main()
