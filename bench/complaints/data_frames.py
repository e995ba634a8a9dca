"""Data frames and arrays of rollouts, made and dropped in each step of a training's orchestrator."""

import random

import measure
import numpy
import pandas

random.seed(1)


def step(number):
    rollouts = [{"tokens": list(range(random.randint(50, 400))), "reward": random.random(), "task": f"task {number % 7}"}
                for _ in range(512)]
    frame = pandas.DataFrame(rollouts)
    wide = numpy.zeros((len(frame), random.randint(2000, 4000)), numpy.float32)
    wide[:, :50] = frame["reward"].to_numpy()[:, None]
    merged = frame.merge(frame.groupby("task")["reward"].mean().rename("mean"), on="task")
    return float(merged["mean"].sum() + wide.sum())


def loop():
    for number in range(25):
        step(number)
        measure.between()


measure.run(loop)
