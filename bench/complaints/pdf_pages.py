"""Pages of PDF files drawn by MuPDF, and read in strips by a network of onnxruntime: an OCR server's requests."""

import random
import tempfile

import measure
import numpy
import onnx_models
import onnxruntime
import pymupdf

random.seed(1)
with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
    onnx_models.convolutions(file.name)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(file.name, options, providers=["CPUExecutionProvider"])


def document():
    made = pymupdf.open()
    for _ in range(random.randint(1, 6)):
        page = made.new_page(width=random.randint(400, 800), height=random.randint(500, 1100))
        for line in range(40, int(page.rect.height) - 20, 20):
            page.insert_text((30, line), f"line {line} of {random.randint(0, 10 ** 6)}")
    return made.tobytes()


def loop():
    for _ in range(4):
        with pymupdf.open(stream=document(), filetype="pdf") as pdf:
            for page in pdf:
                drawn = page.get_pixmap(dpi=144)
                pixels = numpy.frombuffer(drawn.samples, numpy.uint8).reshape(drawn.height, drawn.width, 3)
                for top in range(0, drawn.height - 200, 400):
                    strip = pixels[top:top + 200].astype(numpy.float32).transpose(2, 0, 1)[None] / 255
                    session.run(None, {"x": strip})
        measure.between()


measure.run(loop)
