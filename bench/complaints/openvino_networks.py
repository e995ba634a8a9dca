"""OpenVINO on the processor. Words: `shapes`, one network and pictures of all sizes; `compile`, the network compiled again
each time, as a server does that changes models."""

import random
import sys

import measure
import numpy
import openvino
from openvino import opset13 as o

random.seed(1)
weights = numpy.random.default_rng(1)


def network():
    picture = o.parameter([1, 3, -1, -1], numpy.float32)
    at, before = picture, 3
    for after in (32, 64, 96, 128):
        kernel = o.constant(weights.standard_normal((after, before, 3, 3)).astype(numpy.float32) * 0.1)
        at, before = o.relu(o.convolution(at, kernel, [2, 2], [1, 1], [1, 1], [1, 1])), after
    return openvino.Model([o.reduce_mean(at, o.constant(numpy.array([2, 3])), keep_dims=False)], [picture])


def loop():
    core = openvino.Core()
    core.set_property("CPU", {"INFERENCE_NUM_THREADS": 1})
    compiled = core.compile_model(network(), "CPU")
    for turn in range(24):
        if sys.argv[1] == "compile" and turn % 3 == 0:
            compiled = core.compile_model(network(), "CPU")
        compiled(numpy.zeros((1, 3, random.randint(320, 960), random.randint(320, 960)), numpy.float32))
        measure.between()


measure.run(loop)
