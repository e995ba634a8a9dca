"""Training and inference steps whose GPU memory is measured: real shapes, random weights, seeded data.

make(name, batch, tiny) returns a Step: a call of it is one iteration, and gives the loss (or a sum) as a tensor on
the device. Everything is deterministic, so that two allocators must give equal losses, to the bit.
"""

import dataclasses
import random
from typing import Any, Callable

import torch
from torch import nn
from torch.nn import functional

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Block(nn.Module):
    """A transformer's layer; its feed-forward part is given."""

    def __init__(self, width: int, heads: int, feed_forward: nn.Module) -> None:
        super().__init__()
        self.heads, self.feed_forward = heads, feed_forward
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.mix = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.mix(self.norms[0](x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed_forward(self.norms[1](x))


class Experts(nn.Module):
    """Each token goes to the two experts that the router prefers: how many go where is known only at run time."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, count)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
                                      for _ in range(count)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.reshape(-1, x.shape[-1])
        weights, chosen = self.router(tokens).softmax(-1).topk(2, -1)
        result = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            rows, ranks = (chosen == number).nonzero(as_tuple=True)
            part = expert(tokens[rows]) * weights[rows, ranks].unsqueeze(-1).to(x.dtype)
            result = result.index_add(0, rows, part.to(result.dtype))
        return result.view_as(x)


class Language(nn.Module):
    """A causal language model; `experts` of 0 gives dense layers."""

    def __init__(self, words: int, width: int, layers: int, experts: int = 0) -> None:
        super().__init__()

        def feed_forward() -> nn.Module:
            if experts:
                return Experts(width, experts)
            return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        self.words = nn.Embedding(words, width)
        self.blocks = nn.Sequential(*[Block(width, max(1, width // 64), feed_forward()) for _ in range(layers)])
        self.head = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.words(tokens)))


@dataclasses.dataclass
class Step:
    """One workload, ready to run."""

    run: Callable[[], torch.Tensor]
    parts: Any = None  #: what must stay alive: model, optimizer

    def __call__(self) -> torch.Tensor:
        return self.run()


def _autocast() -> Any:
    return torch.autocast(DEVICE, dtype=torch.bfloat16)


def _language(batch: int, tiny: bool, mixed: bool, experts: int = 0, compiled: bool = False) -> Step:
    words, width, layers, longest = (500, 64, 2, 64) if tiny else (32000, 1024, 8 if experts else 4 if compiled else 12, 1024)
    model: Any = Language(words, width, layers, experts).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    forward = torch.compile(model) if compiled else model
    lengths = random.Random(7)
    generator = torch.Generator().manual_seed(7)
    loader = torch.cuda.Stream() if DEVICE == "cuda" else None

    def fetch() -> torch.Tensor:
        """The next batch, copied on a stream of its own as a data loader does."""
        length = lengths.randrange(longest // 8, longest + 1, longest // 32) if mixed else longest
        tokens = torch.randint(0, words, (batch, length + 1), generator=generator)
        if loader is None:
            return tokens.to(DEVICE)
        with torch.cuda.stream(loader):
            return tokens.pin_memory().to(DEVICE, non_blocking=True)

    following = [fetch()]

    def run() -> torch.Tensor:
        tokens, following[0] = following[0], fetch()
        if loader is not None:
            torch.cuda.current_stream().wait_stream(loader)
            tokens.record_stream(torch.cuda.current_stream())
        with _autocast():
            logits = forward(tokens[:, :-1])
            loss = functional.cross_entropy(logits.reshape(-1, words).float(), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Step(run, (model, optimizer))


def _resnet(batch: int, tiny: bool) -> Step:
    import torchvision

    model = (torchvision.models.resnet18 if tiny else torchvision.models.resnet50)(weights=None).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    side = 32 if tiny else 224
    images = torch.randn(batch, 3, side, side, device=DEVICE)
    classes = torch.arange(batch, device=DEVICE) % 1000

    def run() -> torch.Tensor:
        with _autocast():
            loss = functional.cross_entropy(model(images).float(), classes)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Step(run, (model, optimizer))


def _generate(batch: int, tiny: bool) -> Step:
    import transformers

    sizes = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
                 num_key_value_heads=2, vocab_size=500) if tiny else dict(
        hidden_size=1024, intermediate_size=4096, num_hidden_layers=12, num_attention_heads=16,
        num_key_value_heads=16, vocab_size=32000)
    config = transformers.LlamaConfig(**sizes, max_position_embeddings=4096)
    model: Any = transformers.LlamaForCausalLM(config).to(DEVICE, torch.bfloat16).eval()
    generator = torch.Generator().manual_seed(7)
    prompts = torch.randint(5, sizes["vocab_size"], (batch, 16 if tiny else 512), generator=generator).to(DEVICE)

    def run() -> torch.Tensor:
        with torch.no_grad():
            result = model.generate(prompts, attention_mask=torch.ones_like(prompts), do_sample=False,
                                    min_new_tokens=8 if tiny else 48, max_new_tokens=8 if tiny else 48,
                                    pad_token_id=0)
        return result.double().sum()

    return Step(run, model)


#: name -> (how it is made, its batch, its tiny batch)
STEPS: dict[str, tuple[Callable[[int, bool], Step], int, int]] = {
    "transformer": (lambda batch, tiny: _language(batch, tiny, mixed=False), 16, 2),
    "transformer-mixed": (lambda batch, tiny: _language(batch, tiny, mixed=True), 16, 2),
    "experts": (lambda batch, tiny: _language(batch, tiny, mixed=False, experts=8), 8, 2),
    "resnet50": (_resnet, 128, 2),
    "generate": (_generate, 32, 2),
    "compiled": (lambda batch, tiny: _language(batch, tiny, mixed=False, compiled=True), 16, 2),
}


def make(name: str, batch: int = 0, tiny: bool = False) -> Step:
    """The workload `name`; batch 0 is the workload's own."""
    how, usual, small = STEPS[name]
    random.seed(7)
    torch.manual_seed(7)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    return how(batch or (small if tiny else usual), tiny)
