"""microsoft/onnxruntime#11118: memory rises with each new shape of a detector's pictures. There: a cascade mask R-CNN;
here four convolutions."""

import random
import tempfile

import measure
import numpy
import onnx_models
import onnxruntime

random.seed(1)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
    onnx_models.convolutions(file.name)
    session = onnxruntime.InferenceSession(file.name, options, providers=["CPUExecutionProvider"])


def loop():
    for _ in range(20):
        shape = (1, 3, random.randint(200, 640), random.randint(200, 640))
        session.run(None, {"x": numpy.zeros(shape, numpy.float32)})


measure.run(loop)
