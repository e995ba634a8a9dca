"""Pictures that come as base64 in requests, decoded by a pool of threads, resized and made into float arrays: what stands
before a multimodal model."""

import base64
import concurrent.futures
import io
import random

import measure
import numpy
from PIL import Image

random.seed(1)
PICTURES = []
for _ in range(6):
    noise = numpy.random.default_rng(len(PICTURES)).integers(0, 255, (random.randint(700, 2200), random.randint(700, 2200), 3))
    held = io.BytesIO()
    Image.fromarray((noise // 32 * 32).astype(numpy.uint8)).save(held, "JPEG", quality=60)
    PICTURES.append(base64.b64encode(held.getvalue()))


def request(number):
    picture = Image.open(io.BytesIO(base64.b64decode(PICTURES[number % len(PICTURES)]))).convert("RGB")
    tile = picture.resize((random.randint(4, 16) * 56, random.randint(4, 16) * 56))
    pixels = numpy.asarray(tile).astype(numpy.float32).transpose(2, 0, 1) / 255
    measure.between()
    return float(pixels.mean())


def loop():
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(request, range(64)))


measure.run(loop)
