#!/usr/bin/env python3
"""JAX on the CPU: a compiled forward pass of a perceptron or of a convolutional network."""

import os

import workload


def perceptron(jax, key, batch):
    widths = (2048, 4096, 4096, 1000)
    keys = jax.random.split(key, len(widths))
    weights = [jax.random.normal(k, (a, b)) * (2 / a) ** 0.5
               for k, a, b in zip(keys, widths, widths[1:])]

    def forward(weights, x):
        for matrix in weights[:-1]:
            x = jax.nn.relu(x @ matrix)
        return x @ weights[-1]

    return forward, weights, jax.random.normal(keys[-1], (batch, widths[0]))


def convolutional(jax, key, batch):
    channels = (3, 32, 64, 128, 128)
    keys = jax.random.split(key, len(channels))
    weights = [jax.random.normal(k, (3, 3, a, b)) * (2 / (9 * a)) ** 0.5
               for k, a, b in zip(keys, channels, channels[1:])]

    def forward(weights, x):
        for number, kernel in enumerate(weights):
            stride = 2 if number else 1
            x = jax.nn.relu(jax.lax.conv_general_dilated(
                x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
        return x.mean((1, 2))

    return forward, weights, jax.random.normal(keys[-1], (batch, 128, 128, 3))


NETS = {"perceptron": perceptron, "convolutional": convolutional}


def main():
    options = workload.parser(__doc__, iterations=60)
    options.add_argument("--net", choices=NETS, default="perceptron", help="(%(default)s)")
    options.add_argument("--batch", type=int, default=64, help="samples at once (%(default)s)")
    arguments = options.parse_args()
    workload.limit_threads(arguments.threads)
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax
    import numpy

    forward, weights, x = NETS[arguments.net](jax, jax.random.PRNGKey(arguments.seed), arguments.batch)
    compiled = jax.jit(forward)
    workload.run(lambda index: numpy.asarray(compiled(weights, x)), arguments, arguments.net)


if __name__ == "__main__":
    main()
