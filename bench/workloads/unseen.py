#!/usr/bin/env python3
"""Programs on which no constant of the library was ever set; they judge those that others set.

unet: four levels on a picture of 192 pixels. lstm: two layers over 100 steps, the state carried on to
the next call. decoder: a LLaMA-like network of six layers decodes 16 tokens after a prompt of random
length, its cache concatenated for each token. speech: convolutions over 10 s of sound, then six
layers of attention. denoise: a residual network asked eight times for the noise of one picture.
kmeans, heat, factors: numpy's broadcasting, its FFT and its solvers. pictures: Pillow's decoder,
filters and encoder.
"""

import io
import random

import workload


def unet(torch, arguments):
    import networks

    network, picture, _ = networks.unet(torch, arguments.batch, 192)
    network.eval()
    picture.normal_()
    return lambda index: network(picture)


def lstm(torch, arguments):
    network = torch.nn.LSTM(256, 512, num_layers=2, batch_first=True).eval()
    sequence = torch.randn(arguments.batch, 100, 256)
    state = None

    def step(index):
        nonlocal state
        result, state = network(sequence, state)
        return result

    return step


def decoder(torch, arguments):
    nn, width, heads, layers, words = torch.nn, 512, 8, 6, 8000

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.between = nn.RMSNorm(width), nn.RMSNorm(width)
            self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
            self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
            self.down = nn.Linear(3 * width, width, bias=False)

        def forward(self, x, past):
            def split(y):
                return y.unflatten(-1, (heads, -1)).transpose(1, 2)

            y = self.before(x)
            query, key, value = split(self.query(y)), split(self.key(y)), split(self.value(y))
            if past is not None:
                key, value = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
            mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=past is None)
            x = x + self.out(mixed.transpose(1, 2).flatten(2))
            y = self.between(x)
            return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y)), (key, value)

    embedding, head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
    stack, lengths = [Layer() for _ in range(layers)], random.Random(arguments.seed)

    def step(index):
        tokens = torch.arange(arguments.batch * lengths.randint(64, 256)).reshape(arguments.batch, -1) % words
        caches, chosen = [None] * layers, []
        for _ in range(16):
            x = embedding(tokens)
            for number, layer in enumerate(stack):
                x, caches[number] = layer(x, caches[number])
            tokens = head(x[:, -1]).argmax(-1, keepdim=True)
            chosen.append(tokens)
        return torch.cat(chosen, 1)

    return step


def speech(torch, arguments):
    nn, width = torch.nn, 384
    front = nn.Sequential(nn.Conv1d(80, width, 3, padding=1), nn.GELU(),
                          nn.Conv1d(width, width, 3, stride=2, padding=1), nn.GELU()).eval()
    layer = nn.TransformerEncoderLayer(width, 6, 4 * width, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).eval()
    sound = torch.randn(arguments.batch, 80, 1000)
    return lambda index: encoder(front(sound).transpose(1, 2))


def denoise(torch, arguments):
    nn, width = torch.nn, 64

    def block(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(8, b), nn.SiLU())

    network = nn.Sequential(block(3, width), *(block(width, width) for _ in range(6)),
                            nn.Conv2d(width, 3, 3, padding=1)).eval()
    noise = torch.randn(arguments.batch, 3, 96, 96)

    def step(index):
        picture = noise
        for share in range(8):
            picture = picture - network(picture) * (0.1 / (share + 1))
        return picture

    return step


def kmeans(numpy, arguments):
    points = numpy.random.default_rng(arguments.seed).normal(size=(20_000, 16)).astype(numpy.float32)

    def step(index):
        centres = points[:32].copy()
        for _ in range(3):
            distances = ((points[:, None, :] - centres[None]) ** 2).sum(2)
            nearest = distances.argmin(1)
            for number in range(len(centres)):
                chosen = points[nearest == number]
                if len(chosen):
                    centres[number] = chosen.mean(0)
        return centres

    return step


def heat(numpy, arguments):
    field = numpy.random.default_rng(arguments.seed).random((768, 768))
    waves = numpy.fft.fftfreq(768)[:, None] ** 2 + numpy.fft.rfftfreq(768)[None] ** 2

    def step(index):
        now = field
        for _ in range(4):
            now = numpy.fft.irfft2(numpy.fft.rfft2(now) * numpy.exp(-20 * waves))
        return now

    return step


def factors(numpy, arguments):
    dice = numpy.random.default_rng(arguments.seed)
    ratings, width = dice.random((1500, 1000)), 32

    def step(index):
        left = numpy.ones((1500, width)) + 0.01 * numpy.arange(width)
        for _ in range(3):
            right = numpy.linalg.solve(left.T @ left + numpy.eye(width), left.T @ ratings)
            left = numpy.linalg.solve(right @ right.T + numpy.eye(width), right @ ratings.T).T
        return left @ right - ratings

    return step


def pictures(numpy, arguments):
    from PIL import Image, ImageFilter

    pixels = numpy.random.default_rng(arguments.seed).integers(0, 256, (960, 1280, 3), dtype=numpy.uint8)
    coded = io.BytesIO()
    Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(3)).save(coded, "JPEG", quality=90)

    def step(index):
        results = []
        for side in (640, 512, 384):
            picture = Image.open(io.BytesIO(coded.getvalue())).convert("RGB")
            small = picture.filter(ImageFilter.GaussianBlur(2)).resize((side, side), Image.Resampling.LANCZOS)
            written = io.BytesIO()
            small.rotate(7, expand=True).save(written, "PNG", compress_level=1)
            results.append(written.getvalue())
        return results

    return step


WITH_TORCH = {"unet": unet, "lstm": lstm, "decoder": decoder, "speech": speech, "denoise": denoise}
WITH_NUMPY = {"kmeans": kmeans, "heat": heat, "factors": factors, "pictures": pictures}


def main():
    options = workload.parser(__doc__, iterations=30)
    options.add_argument("--task", choices=[*WITH_TORCH, *WITH_NUMPY], default="unet", help="(%(default)s)")
    options.add_argument("--batch", type=int, default=1, help="samples at once, of networks (%(default)s)")
    arguments = options.parse_args()
    if arguments.task in WITH_NUMPY:
        workload.limit_threads(arguments.threads)
        import numpy

        workload.run(WITH_NUMPY[arguments.task](numpy, arguments), arguments, arguments.task)
        return
    torch = workload.torch_for(arguments)
    with torch.inference_mode():
        workload.run(WITH_TORCH[arguments.task](torch, arguments), arguments, arguments.task)


if __name__ == "__main__":
    main()
