"""Loops of networks: each function prepares one, and returns what makes an iteration of it."""


def convolutions():
    """torch, residual network, batch 4"""
    import torch
    torch.set_num_threads(1)

    class Block(torch.nn.Module):
        def __init__(self, before, after, stride):
            super().__init__()
            self.first = torch.nn.Conv2d(before, after, 3, stride, 1)
            self.second = torch.nn.Conv2d(after, after, 3, 1, 1)
            self.short = torch.nn.Conv2d(before, after, 1, stride)

        def forward(self, image):
            return torch.relu(self.second(torch.relu(self.first(image))) + self.short(image))

    model = torch.nn.Sequential(Block(3, 32, 2), Block(32, 32, 1), Block(32, 64, 2), Block(64, 64, 1)).eval()
    image = torch.rand(4, 3, 224, 224)

    def step():
        with torch.no_grad():
            return float(model(image)[0, 0, 0, 0])
    return step


def encoder():
    import torch
    torch.set_num_threads(1)
    layer = torch.nn.TransformerEncoderLayer(192, 4, 768, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)  # training mode: the layers' own calls


def transformer():
    """torch, transformer of twelve layers"""
    # The result is kept until the next iteration.
    import torch
    model = encoder()
    words = torch.rand(8, 128, 192)
    state = {}

    def step():
        with torch.no_grad():
            state["out"] = model(words)
    return step


def random_length():
    """the same over changing lengths"""
    # Each length is another shape; its layers repeat.
    import random
    import torch
    model = encoder()
    lengths = random.Random(7)

    def step():
        with torch.no_grad():
            return float(model(torch.rand(8, lengths.randint(40, 160), 192))[0, 0, 0])
    return step


def lstm():
    """torch, LSTM of two layers"""
    # Result and state are kept until the next iteration.
    import torch
    torch.set_num_threads(1)
    model = torch.nn.LSTM(256, 256, num_layers=2).eval()
    words = torch.rand(16, 96, 256)
    state = {}

    def step():
        with torch.no_grad():
            state["out"] = model(words, state.get("out", (None, None))[1])
    return step


def training():
    """torch, training"""
    import torch
    torch.set_num_threads(1)
    layers = [torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 32, 3), torch.nn.ReLU(),
              torch.nn.AdaptiveAvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(2048, 100)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images, labels = torch.rand(16, 3, 64, 64), torch.randint(0, 100, (16,))

    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return step


def unet():
    """torch, U-Net that takes noise away"""
    # Each level's result waits for the way up; a step's result is the next one's picture.
    import torch
    torch.set_num_threads(1)

    def pair(before, after):
        return torch.nn.Sequential(torch.nn.Conv2d(before, after, 3, padding=1), torch.nn.GroupNorm(8, after), torch.nn.SiLU(),
                                   torch.nn.Conv2d(after, after, 3, padding=1), torch.nn.GroupNorm(8, after), torch.nn.SiLU())

    widths = (16, 32, 64)
    down = torch.nn.ModuleList(pair(before, after) for before, after in zip((3, 16, 32), widths))
    middle = pair(64, 64)
    up = torch.nn.ModuleList(pair(2 * width, after) for width, after in zip(reversed(widths), (32, 16, 16)))
    last = torch.nn.Conv2d(16, 3, 1)
    state = {"picture": torch.rand(1, 3, 160, 160)}

    def step():
        with torch.no_grad():
            here, skips = state["picture"], []
            for level in down:
                here = level(here)
                skips.append(here)
                here = torch.nn.functional.avg_pool2d(here, 2)
            here = middle(here)
            for level, skip in zip(up, reversed(skips)):
                here = level(torch.cat([torch.nn.functional.interpolate(here, scale_factor=2.0), skip], dim=1))
            state["picture"] = state["picture"] - 0.1 * last(here)
    return step


LOOPS = (convolutions, transformer, random_length, lstm, training, unet)
