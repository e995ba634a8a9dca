"""A network for pictures of all sizes in onnxruntime, as it comes. Words: `keep` one session, or `reload` it for each
few pictures, as a server does that unloads what is idle. There: CLIP, detectors, classifiers; here four convolutions."""

import random
import sys
import tempfile

import measure
import numpy
import onnx_models
import onnxruntime

random.seed(1)
file = tempfile.NamedTemporaryFile(suffix=".onnx")
onnx_models.convolutions(file.name, (3, 64, 96, 128, 256))


def load():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(file.name, options, providers=["CPUExecutionProvider"])


def loop():
    session = load()
    for turn in range(24):
        if sys.argv[1] == "reload" and turn % 4 == 0:
            session = load()
        picture = numpy.zeros((1, 3, random.randint(200, 640), random.randint(200, 640)), numpy.float32)
        session.run(None, {"x": picture})
        measure.between()


measure.run(loop)
