"""Networks and random programs for the tests of python/memomalloc/torch.py, and how two results are compared."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "scripts")]

try:
    import torch
except ImportError:
    torch = None
else:
    import memomalloc.torch  # noqa: F401 (makes the backend known)


def module_of(function, *children):
    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = torch.nn.ModuleList(children)

        def forward(self, *inputs):
            return function(self.parts, *inputs)
    return Network()


def wide(parts, x):
    """Six branches, each of which is large until it is summed: torch's order makes all, then sums them."""
    return sum(b.sum(1) for b in [(parts[0](x) * i).repeat(1, 100) for i in range(6)])


def leaves(value):
    return torch.utils._pytree.tree_flatten(value)[0]


def random_program(dice):
    """A function of one tensor that makes views, writes into them and into what they view, and draws numbers."""
    steps = [(dice.choice(("scale", "view", "write", "dropout", "noise", "wide", "narrow", "update")),
              dice.randrange(2**20), dice.randrange(2**20)) for _ in range(dice.randrange(8, 20))]

    def program(_, x):
        values = [x.clone(), x * 2]
        for kind, first, second in steps:
            a, b = values[first % len(values)], values[second % len(values)]
            if kind == "scale":
                values.append(a * 1.5 + 1)
            elif kind == "view":
                values.append(a.view(-1)[: max(a.numel() // 8, 1) * 4].view(-1, 4))
            elif kind == "write":
                a.mul_(0.5)
            elif kind == "dropout":
                values.append(torch.nn.functional.dropout(a, 0.5, True))
            elif kind == "noise":
                a.add_(torch.rand_like(a))
            elif kind == "wide":
                values.append(a.repeat(4, 1))
            elif kind == "narrow":
                values.append(a.sum().reshape(1, 1).repeat(4, 4))
            else:
                a.add_(b.sum())
        return tuple(v.sum() for v in values) + (values[-1],)
    return program


class WithTorch(unittest.TestCase):
    def setUp(self):
        if torch is None:
            self.skipTest("torch is not installed")

    def same(self, first, second):
        first, second = leaves(first), leaves(second)
        self.assertEqual(len(first), len(second))
        for place, (a, b) in enumerate(zip(first, second)):
            equal = torch.equal(a, b) if torch.is_tensor(a) else a == b
            self.assertTrue(equal, f"leaf {place} differs")
