"""huggingface/sentence-transformers#1795: encode() of random strings, again and again. There: 200 strings of 12,345
letters; and a tokenizer whose cache grew, which is left out here, so that lengths differ instead."""

import random
import string

import measure
import torch
from encoder import Encoder

random.seed(1)
torch.set_num_threads(1)
model = Encoder(12)


def loop():
    for _ in range(3):
        model.encode(["".join(random.choices(string.ascii_uppercase, k=random.randint(8, 160))) for _ in range(64)])


measure.run(loop)
