"""Frames of four cameras, each decoded to two arrays by a thread of its own, some of them kept for a while: a home's
cameras in a server that runs for days."""

import random
import threading

import measure
import numpy

SIZES = ((1080, 1920, 3), (720, 1280, 3), (1296, 2304, 3), (480, 848, 3))


def camera(shape, seed):
    rng, kept = random.Random(seed), []
    for turn in range(60):
        planes = numpy.full(shape, turn, numpy.uint8)  # as the decoder gives it
        frame = planes[:, :, ::-1].astype(numpy.uint8, copy=True)
        small = frame[::3, ::3].astype(numpy.float32) / 255
        kept.append((rng.random(), frame if turn % 5 == 0 else small))
        kept = sorted(kept, key=lambda one: one[0])[:6]
        measure.between()


def loop():
    threads = [threading.Thread(target=camera, args=(shape, seed)) for seed, shape in enumerate(SIZES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


measure.run(loop)
