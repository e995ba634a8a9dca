"""Detection and reading of lines in torch, page after page of other sizes. There: EasyOCR, alone or in docling; here its
kinds of layers with random weights."""

import random

import measure
from models import torch

random.seed(1)
torch.manual_seed(1)
torch.set_num_threads(1)
nn = torch.nn
detect = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 128, 3, 1, 1),
                       nn.ReLU(), nn.Conv2d(128, 2, 1)).eval()
see = nn.Sequential(nn.Conv2d(1, 32, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, 1, 1), nn.ReLU(),
                    nn.AdaptiveAvgPool2d((1, None))).eval()
read = nn.LSTM(64, 128, bidirectional=True, batch_first=True).eval()


def loop():
    with torch.no_grad():
        for _ in range(14):
            detect(torch.zeros(1, 3, random.randint(15, 40) * 32, random.randint(15, 40) * 32))
            for _ in range(4):
                lines = see(torch.zeros(random.randint(1, 12), 1, 64, random.randint(100, 900)))
                read(lines.squeeze(2).transpose(1, 2))
            measure.between()


measure.run(loop)
