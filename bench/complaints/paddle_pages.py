"""Detection and recognition in Paddle, pages of all sizes. There: PaddleOCR's models, behind FastAPI; here convolutions of
their shapes with random weights."""

import random

import measure
import paddle

random.seed(1)
paddle.set_num_threads(1) if hasattr(paddle, "set_num_threads") else None
detect = paddle.nn.Sequential(paddle.nn.Conv2D(3, 32, 3, stride=2, padding=1), paddle.nn.ReLU(),
                              paddle.nn.Conv2D(32, 64, 3, stride=2, padding=1), paddle.nn.ReLU(),
                              paddle.nn.Conv2D(64, 96, 3, padding=1), paddle.nn.ReLU(), paddle.nn.Conv2D(96, 1, 1))
read = paddle.nn.Sequential(paddle.nn.Conv2D(3, 64, 3, padding=1), paddle.nn.ReLU(),
                            paddle.nn.Conv2D(64, 128, 3, stride=2, padding=1), paddle.nn.ReLU())
detect.eval()
read.eval()


def loop():
    with paddle.no_grad():
        for _ in range(14):
            detect(paddle.zeros([1, 3, random.randint(10, 30) * 32, random.randint(10, 30) * 32]))
            for _ in range(3):
                read(paddle.zeros([6, 3, 48, random.randint(80, 640)]))
            measure.between()


measure.run(loop)
