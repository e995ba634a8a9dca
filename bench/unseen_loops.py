"""Loops on which nothing was ever set, for bench/until_served.py: each function builds one and returns its step."""


def unet_keeps_mask():
    """A U-Net with skip connections, whose mask is kept until the next one is there."""
    import torch
    torch.set_num_threads(1)
    conv = torch.nn.Conv2d
    down = [conv(3, 16, 3, padding=1), conv(16, 32, 3, 2, 1), conv(32, 64, 3, 2, 1)]
    up = [torch.nn.ConvTranspose2d(64, 32, 2, 2), torch.nn.ConvTranspose2d(64, 16, 2, 2)]
    last, image, state = conv(32, 2, 1), torch.rand(2, 3, 128, 128), {}

    def step():
        with torch.no_grad():
            kept, here = [], image
            for layer in down:
                here = torch.relu(layer(here))
                kept.append(here)
            kept.pop()
            for layer in up:
                here = torch.cat([torch.relu(layer(here)), kept.pop()], 1)
            state["mask"] = last(here)
    return step


def diffusion():
    """A picture that a small network changes again and again."""
    import torch
    torch.set_num_threads(1)
    conv = torch.nn.Conv2d
    net = torch.nn.Sequential(conv(3, 32, 3, padding=1), torch.nn.SiLU(), conv(32, 3, 3, padding=1))
    state = {"picture": torch.rand(1, 3, 256, 256)}

    def step():
        with torch.no_grad():
            state["picture"] = state["picture"] - 0.1 * net(state["picture"])
    return step


def gru():
    """A recurrence whose state goes on to the next iteration."""
    import torch
    torch.set_num_threads(1)
    model, words, state = torch.nn.GRU(192, 192, num_layers=3).eval(), torch.rand(24, 96, 192), {}

    def step():
        with torch.no_grad():
            state["out"] = model(words, state.get("out", (None, None))[1])
    return step


def adversaries():
    """Two networks that are trained against each other, in turns."""
    import torch
    torch.set_num_threads(1)
    maker = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 784))
    judge = torch.nn.Sequential(torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1))
    optimizers = [torch.optim.Adam(net.parameters()) for net in (maker, judge)]
    real = torch.rand(128, 784)

    def step():
        made = maker(torch.rand(128, 64))
        for optimizer, loss in ((optimizers[1], lambda: judge(made.detach()).mean() - judge(real).mean()),
                                (optimizers[0], lambda: -judge(made).mean())):
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()
    return step


def teacher_and_student():
    """Training beside an average of its own weights, which is made again in each iteration."""
    import torch
    torch.set_num_threads(1)
    student = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256))
    average = {name: weight.detach().clone() for name, weight in student.named_parameters()}
    optimizer, batch = torch.optim.SGD(student.parameters(), 0.01), torch.rand(256, 256)

    def step():
        optimizer.zero_grad()
        (student(batch) - torch.func.functional_call(student, average, batch)).square().mean().backward()
        optimizer.step()
        for name, weight in student.named_parameters():
            average[name] = 0.99 * average[name] + 0.01 * weight.detach()
    return step


def flow_of_frames():
    """Differences between a frame's features and those of the frame before, which are kept."""
    import torch
    torch.set_num_threads(1)
    features, frames, state = torch.nn.Conv2d(3, 24, 5, 2, 2), torch.rand(4, 1, 3, 240, 320), {"at": 0}

    def step():
        with torch.no_grad():
            state["at"] += 1
            now = torch.relu(features(frames[state["at"] % 4]))
            moved = (now - state["before"]).abs().mean(1) if "before" in state else None
            state["before"] = now
            return moved
    return step


def game_of_life():
    """A field of cells, each generation of which replaces the last."""
    import numpy
    state = {"cells": numpy.random.default_rng(1).random((600, 600)) < 0.3}

    def step():
        cells = state["cells"].astype(numpy.int32)
        around = sum(numpy.roll(cells, (down, right), (0, 1)) for down in (-1, 0, 1) for right in (-1, 0, 1)) - cells
        state["cells"] = (around == 3) | ((around == 2) & state["cells"])
    return step


def power_iteration():
    """The largest eigenvalue: a vector and a matrix, two or three large calls."""
    import numpy
    matrix = numpy.random.default_rng(2).random((700, 700))
    state = {"vectors": numpy.ones((700, 64))}

    def step():
        product = matrix @ state["vectors"]
        state["vectors"] = product / numpy.linalg.norm(product)
    return step


def spectra():
    """Windows of a signal, their spectra, and what is loud in them."""
    import numpy
    signal, window = numpy.random.default_rng(3).random(400_000), numpy.hanning(4000)

    def step():
        spectrum = numpy.fft.rfft(signal.reshape(-1, 4000) * window)
        loud = numpy.abs(spectrum) ** 2
        return float(numpy.sort(loud.ravel())[-100:].sum())
    return step


def one_array():
    """One large array an iteration, and nothing else."""
    import numpy
    base = numpy.ones(500_000)
    return lambda: float((base + 1.0)[0])


def two_resolutions():
    """Pictures that are made smaller and larger again; the last one is kept."""
    import numpy
    picture, state = numpy.random.default_rng(4).random((480, 640, 3)), {}

    def step():
        small = picture.reshape(240, 2, 320, 2, 3).mean((1, 3))
        large = small.repeat(2, 0).repeat(2, 1)
        state["difference"] = numpy.abs(picture - large)
    return step


LOOPS = (unet_keeps_mask, diffusion, gru, adversaries, teacher_and_student, flow_of_frames, game_of_life,
         power_iteration, spectra, one_array, two_resolutions)
BY_NAME = {loop.__name__: loop for loop in LOOPS}
