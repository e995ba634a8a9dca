"""pytorch/pytorch#27971: ResNet-34 on pictures of a fixed width and any height. There: up to 7680 rows, 500 times."""

import random

import measure
from models import torch, torchvision_models

random.seed(1)
torch.set_num_threads(1)
model = torchvision_models.resnet34(weights=None).eval()


def loop():
    with torch.no_grad():
        for _ in range(10):
            model(torch.zeros((1, 3, random.choice((200, 250, 300, 500, 900, 1300)) + random.randint(0, 99), 320)))


measure.run(loop)
