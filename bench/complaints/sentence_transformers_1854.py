"""huggingface/sentence-transformers#1854: encode() in a new thread each time. There: 30 equal texts, without end."""

import asyncio

import measure
import torch
from encoder import Encoder

torch.set_num_threads(1)
model = Encoder(6)


def encode():
    return model.encode(["a text that is long enough to be split into some seventy tokens or so"] * 30)


def loop():
    for _ in range(12):
        events = asyncio.new_event_loop()
        events.run_until_complete(events.run_in_executor(None, encode))
        events.close()


measure.run(loop)
