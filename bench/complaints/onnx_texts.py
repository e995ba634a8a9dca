"""An encoder of texts in onnxruntime, whose batches have other lengths each time: rerankers and embedding servers.
Words: `arena` or `no-arena`, the texts of a batch. There: MiniLM, BGE; here six layers of attention with random weights."""

import random
import sys
import tempfile

import measure
import numpy
import onnx_models
import onnxruntime

random.seed(1)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
if sys.argv[1] == "no-arena":
    options.enable_cpu_mem_arena = False
with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
    onnx_models.attention(file.name)
    session = onnxruntime.InferenceSession(file.name, options, providers=["CPUExecutionProvider"])


def loop():
    for _ in range(30):
        texts = numpy.zeros((random.randint(1, int(sys.argv[2])), random.randint(16, 160), 256), numpy.float32)
        session.run(None, {"x": texts})
        measure.between()


measure.run(loop)
