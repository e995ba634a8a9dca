"""RapidOCR reads pages of all sizes, with the models that its package carries. The pages are drawn here."""

import logging
import random

import measure
import numpy
from PIL import Image, ImageDraw
from rapidocr import RapidOCR

logging.disable(logging.CRITICAL)
random.seed(1)
engine = RapidOCR(params={"EngineConfig.onnxruntime.intra_op_num_threads": 1})


def page():
    width, height = random.randint(400, 1100), random.randint(300, 1100)
    picture = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(picture)
    for line in range(20, height - 40, 90):
        draw.text((20, line), f"Page {random.randint(0, 999)}, line {line}", fill="black", font_size=24)
    return numpy.asarray(picture)


def loop():
    for _ in range(16):
        engine(page())
        measure.between()


measure.run(loop)
