"""pytorch/pytorch#29809: an embedding and a convolution over texts of another length each time. There: 300 texts of
100 to 3000 tokens, 500,000 words, 20 times."""

import random

import measure
import torch
from torch import nn

random.seed(1)
torch.set_num_threads(1)
embed, convolve = nn.Embedding(50_000, 100), nn.Conv1d(100, 200, 3)


def loop():
    for _ in range(10):
        tokens = torch.randint(0, 50_000, (30, random.randint(100, 3000)))
        torch.mean(convolve(torch.transpose(embed(tokens), 1, 2))).item()


measure.run(loop)
