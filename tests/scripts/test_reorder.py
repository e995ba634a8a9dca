"""Reordered graphs compute the same: random numbers, views and in-place operators keep their order."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

try:
    import torch
except ImportError:
    torch = None

TOOL = ROOT / "build" / "memomalloc"


@unittest.skipUnless(torch and TOOL.exists(), "needs torch and build/memomalloc")
class ReorderTest(unittest.TestCase):
    def test_effects_keep_their_order(self):
        import reorder

        class Effects(torch.nn.Module):
            def forward(self, x):
                first = torch.nn.functional.dropout(x, 0.5, True)
                second = torch.nn.functional.dropout(x * 2, 0.5, True)
                view, copy = second.view(-1), x.clone()
                copy.add_(1)
                view.mul_(3)
                return (first + second).sum(), copy.relu()

        x = torch.arange(2048.0).reshape(32, 64)
        module = torch.export.export(Effects(), (x,), strict=False).module(check_guards=False)
        lean = reorder.reorder(module, [x], tool=str(TOOL))
        digests = []
        for graph in (module, lean):
            torch.manual_seed(3)
            digests.append(reorder.digest(graph(x)))
        self.assertEqual(digests[0], digests[1])
        names = [node.name for node in lean.graph.nodes]
        self.assertLess(names.index("dropout"), names.index("dropout_1"))
        self.assertLess(names.index("mul_"), names.index("add"))

    def test_an_order_must_name_every_operator(self):
        import reorder

        module = torch.fx.symbolic_trace(lambda x: (x + 1).relu())
        with self.assertRaises(ValueError):
            reorder.apply_order(module, ["add"])


if __name__ == "__main__":
    unittest.main()
