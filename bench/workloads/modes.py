#!/usr/bin/env python3
"""A torchvision network in the ways that torch runs it: eager, traced, or compiled.

eager: Python calls each operator. script: torch.jit.trace, then frozen. compile: torch.compile, which starts a C++ compiler first; that
happens before the loop is measured.
"""

import warnings

import workload


def eager(torch, network, images):
    return network


def script(torch, network, images):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.freeze(torch.jit.trace(network, images))


def compiled(torch, network, images):
    return torch.compile(network)


MODES = {"eager": eager, "script": script, "compile": compiled}


def main():
    options = workload.parser(__doc__, iterations=40)
    options.add_argument("--mode", choices=MODES, default="eager", help="(%(default)s)")
    options.add_argument("--model", default="resnet18", help="of torchvision (%(default)s)")
    options.add_argument("--batch", type=int, default=4, help="images at once (%(default)s)")
    arguments = options.parse_args()
    torch = workload.torch_for(arguments)
    import infer

    _, models = infer.import_torchvision()
    network = infer.build(models, arguments.model)
    images = torch.randn(arguments.batch, 3, 224, 224)
    with torch.inference_mode():
        forward = MODES[arguments.mode](torch, network, images)
        for _ in range(2):  # the runtime specialises and compiles in its first calls
            forward(images)
        workload.run(lambda index: forward(images), arguments, arguments.mode)


if __name__ == "__main__":
    main()
