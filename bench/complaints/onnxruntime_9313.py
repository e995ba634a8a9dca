"""microsoft/onnxruntime#9313: a language model on sentences of any length, one thread. There: a quantised BERT; here six
layers of attention with random weights."""

import random
import tempfile

import measure
import numpy
import onnx_models
import onnxruntime

random.seed(1)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
    onnx_models.attention(file.name)
    session = onnxruntime.InferenceSession(file.name, options, providers=["CPUExecutionProvider"])


def loop():
    for _ in range(40):
        session.run(None, {"x": numpy.zeros((4, random.randint(20, 384), 256), numpy.float32)})


measure.run(loop)
