#!/usr/bin/env python3
"""TensorFlow on the CPU: inference of Keras' MobileNetV2 with random weights.

TF_ENABLE_ONEDNN_OPTS=0 in the environment leaves out oneDNN's own memory pool; --no-pool sets it.
"""

import os

import workload


def main():
    options = workload.parser(__doc__, iterations=30)
    options.add_argument("--batch", type=int, default=8, help="images at once (%(default)s)")
    options.add_argument("--no-pool", action="store_true", help="without oneDNN and its pool")
    arguments = options.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    if arguments.no_pool:
        os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
    import numpy
    import tensorflow

    tensorflow.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tensorflow.config.threading.set_inter_op_parallelism_threads(1)
    tensorflow.keras.utils.set_random_seed(arguments.seed)
    network = tensorflow.keras.applications.MobileNetV2(weights=None)
    images = tensorflow.constant(numpy.random.default_rng(arguments.seed).normal(
        size=(arguments.batch, 224, 224, 3)).astype(numpy.float32))
    forward = tensorflow.function(lambda x: network(x, training=False))
    workload.run(lambda index: forward(images).numpy(), arguments, "mobilenet_v2")


if __name__ == "__main__":
    main()
