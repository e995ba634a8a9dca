"""mindee/doctr#1889: a server of text recognition holds its memory after 100 requests. Its models cannot be had here: a
page of 1024 pixels through ResNet-50's convolutions, then as many words of 32 by 128 as the page has, by two threads."""

import concurrent.futures
import random

import measure
from models import torch, torchvision_models

random.seed(1)
torch.set_num_threads(1)
resnet = torchvision_models.resnet50(weights=None).eval()
detect = torch.nn.Sequential(*list(resnet.children())[:-4])
recognize = torchvision_models.vgg11_bn(weights=None).eval().features


def request(words):
    with torch.no_grad():
        detect(torch.zeros((1, 3, 512, 512)))
        for first in range(0, words, 64):
            recognize(torch.zeros((min(64, words - first), 3, 32, 128)))


def loop():
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        list(threads.map(request, [random.randint(5, 150) for _ in range(2)]))


measure.run(loop)
