"""pytorch/pytorch#32596: ResNeXt-50 with another batch size in each iteration. There: 10 to 30 images, 100 times."""

import random

import measure
from models import torch, torchvision_models

random.seed(1)
torch.set_num_threads(1)
model = torchvision_models.resnext50_32x4d(weights=None).eval()


def loop():
    with torch.no_grad():
        for _ in range(6):
            model(torch.zeros((random.randint(2, 6), 3, 224, 224))).mean().item()


measure.run(loop)
