"""Reordered graphs compute the same: random numbers, views and in-place operators keep their order."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import exported  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

TOOL = ROOT / "build" / "memomalloc"


@unittest.skipUnless(torch, "torch is not installed")
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
        module = exported.module(torch.export.export(Effects(), (x,), strict=False))
        lean = reorder.reorder(module, [x], tool=str(TOOL))
        digests = []
        for graph in (module, lean):
            torch.manual_seed(3)
            digests.append(reorder.digest(graph(x)))
        self.assertEqual(digests[0], digests[1])
        names = [node.name for node in lean.graph.nodes]
        self.assertLess(names.index("dropout"), names.index("dropout_1"))
        self.assertLess(names.index("mul_"), names.index("add"))

    def test_a_training_step_updates_the_same(self):
        import networks
        import reorder

        class Small(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.norm = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)
                self.wide, self.last = torch.nn.Linear(288, 64), torch.nn.Linear(64, 5)

            def forward(self, x):
                x = torch.nn.functional.dropout(self.norm(self.conv(x)).relu().flatten(1), 0.5)
                return self.last(torch.nn.functional.dropout(self.wide(x).relu(), 0.5))

        torch.manual_seed(1)
        inputs = (torch.randn(4, 3, 8, 8), torch.tensor([0, 1, 2, 3]))
        step = networks.joint_step(torch, networks.with_loss(torch, Small().train(), "classes"), inputs, "small")
        lean = reorder.reorder(step.module, step.arguments, tool=str(TOOL), kinds=step.kinds)
        operators = [[n.name for n in m.graph.nodes if n.op == "call_function"] for m in (step.module, lean)]
        self.assertNotEqual(operators[0], operators[1])
        digests = []
        for module in (step.module, lean):
            state = [a.clone() for a in step.arguments]
            torch.manual_seed(3)
            with torch.no_grad():
                digests.append(reorder.digest([module(*state), state]))
        self.assertEqual(digests[0], digests[1])
        self.assertNotEqual(reorder.digest(state), reorder.digest(step.arguments))  # it did train

    def test_random_numbers_and_side_effects_are_one_chain(self):
        import graph_writer

        class Checked(torch.nn.Module):
            def forward(self, x):
                first = torch.rand_like(x)
                torch.ops.aten._assert_async.msg((first >= 0).all(), "negative")
                return first + torch.rand_like(x)

        program = torch.export.export(Checked(), (torch.ones(4),), strict=False)
        writer = graph_writer.describe(exported.module(program), [torch.ones(4)], "effects")
        after = {node["name"]: node.get("after", []) for node in writer.nodes}
        effects = [name for name in after if name.startswith(("rand_like", "_assert_async"))]
        self.assertEqual(len(effects), 3)
        for before, later in zip(effects, effects[1:]):
            self.assertIn(before, after[later])

    def test_an_order_must_name_every_operator(self):
        import reorder

        module = torch.fx.symbolic_trace(lambda x: (x + 1).relu())
        with self.assertRaises(ValueError):
            reorder.apply_order(module, ["add"])


if __name__ == "__main__":
    unittest.main()
