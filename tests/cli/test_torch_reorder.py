"""memomalloc.reorder, and the modules of the package that torch uses: by hand, without torch, their types."""

import copy
import os
import random
import subprocess
import sys
import tempfile
import unittest

from compile_support import ROOT, WithTorch, module_of, random_program, torch, wide

from exported import module as without_guards

if torch:
    import memomalloc.torch
    from memomalloc import graph


class ByHand(WithTorch):
    def test_wide_branches_and_the_module_s_own_tensors(self):
        module, x = module_of(wide, torch.nn.Linear(64, 64)).eval(), torch.randn(32, 64)
        weight = module.parts[0].weight.detach().clone()
        lean = memomalloc.reorder(module, (x,))
        self.assertTrue(torch.equal(module(x), lean(x)))
        report = lean.meta["memomalloc"]
        self.assertGreater(report.saving, 4 * 32 * 64 * 100 * 4)
        self.assertIn(module.parts[0].weight.data_ptr(), [p.data_ptr() for p in lean.parameters()])
        self.assertTrue(torch.equal(weight, module.parts[0].weight))

    def test_random_programs(self):
        seed = int(os.environ.get("MEMO_TEST_SEED", random.randrange(2**32)))
        print(f"seed {seed}", file=sys.stderr)
        dice, x, saved = random.Random(seed), torch.randn(16, 8), 0
        for round_ in range(30):
            with self.subTest(seed=seed, round=round_):
                exported = torch.export.export(module_of(random_program(dice)), (x,), strict=False)
                module = exported.module()
                lean = memomalloc.reorder(module, (x,), seconds=2)
                results = []
                for each in (module, lean):
                    torch.manual_seed(7)
                    given = x.clone()
                    results.append((each(given), given, torch.get_rng_state()))
                self.same(*results)
                saved += lean.meta["memomalloc"].saving > 0
        self.assertGreater(saved, 0, "not one of them was reordered")

    def test_what_is_read_through_another_view_is_not_overwritten(self):
        def network(parts, x):
            a, b, c, d, e = (torch.sin(x + step) for step in range(5))
            return (torch.add(a, a.t()), torch.sub(b, b[0]), torch.mul(c, c), torch.div(d, c.t()),
                    torch.pow(e, e.view(torch.int32)))

        exported = torch.export.export(module_of(network), (torch.randn(8, 8),), strict=False).module()
        nodes = graph.describe(exported, (torch.randn(8, 8),), "views").nodes
        sines = [node["name"] for node in nodes if node["op"] == "aten.sin.default"]
        found = {node["op"].split(".")[1]: [old for _, old in node.get("overwrites", [])]
                 for node in nodes if node["op"].startswith("aten.")}
        self.assertEqual({"add": [], "sub": [], "mul": [sines[2]], "div": [sines[3]], "pow": [sines[4]]},
                         {name: found[name] for name in ("add", "sub", "mul", "div", "pow")})

    def test_running_statistics_are_written_in_turn(self):
        """No schema says that batch_norm writes them."""
        def network(parts, x):
            large = parts[0](x.repeat(100, 1) + 1).sum()
            return parts[0](x * 3).sum() + large + parts[0].running_mean.sum()

        module = module_of(network, torch.nn.BatchNorm1d(16)).train()
        exported = torch.export.export(module, (torch.randn(8, 16),), strict=False).module()
        writer = graph.describe(exported, (torch.randn(8, 16),), "statistics")
        after = {node["name"]: node.get("after", []) for node in writer.nodes}
        self.assertIn("batch_norm", after["batch_norm_1"])
        last = [name for name in after if name.startswith("sum")][-1]
        self.assertTrue({"batch_norm_1"} & set(after[last]), after)

    def test_nothing_moves_across_what_is_not_known(self):
        inputs = (torch.ones(3), torch.ones(3))
        program = torch.export.export(module_of(lambda _, x, y: (x.sin(), y.cos(), x.tan(), x.exp())), inputs, strict=False)
        module = without_guards(program)

        def unknown(x):
            return x.cos()

        next(node for node in module.graph.nodes if node.name == "cos").target = unknown
        after = {node["name"]: node.get("after", []) for node in graph.describe(module, inputs, "").nodes}
        self.assertEqual({"sin": [], "cos": ["sin"], "tan": ["cos"], "exp": ["cos"]}, after)

    def test_numbers_come_before_their_use(self):
        exported = torch.export.export(module_of(lambda _, x: x.new_ones(x.shape[0] * 2) + 1), (torch.ones(4, 2),),
                                       dynamic_shapes={"inputs": ({0: torch.export.Dim.DYNAMIC},)}, strict=False)
        writer = graph.describe(exported.module(), (torch.ones(4, 2),), "numbers")
        after = {node["name"]: set(node.get("after", [])) for node in writer.nodes}
        self.assertIn("mul", after["new_ones"])

    def test_what_torch_cannot_export_raises_and_changes_nothing(self):
        module = module_of(lambda parts, x: parts[0](x) if x.sum() > 0 else x, torch.nn.Linear(4, 4))
        state = copy.deepcopy(module.state_dict())
        with self.assertRaises(Exception) as caught:
            memomalloc.reorder(module, (torch.ones(2, 4),))
        self.assertRegex(str(caught.exception), "data-dependent|control flow|guard")
        self.same(state, module.state_dict())

    def test_a_graph_in_no_order_is_refused(self):
        traced = without_guards(torch.export.export(module_of(lambda _, x: (x + 1) * 2), (torch.ones(2),), strict=False))
        nodes = {node.name: node for node in traced.graph.nodes}
        nodes["mul"].append(nodes["add"])  # now it comes after its reader
        with self.assertRaisesRegex(RuntimeError, "add"):
            memomalloc.reorder(traced, (torch.ones(2),))

    def test_wrong_seconds(self):
        for seconds in (-1, float("nan"), float("inf"), "ten", True):
            with self.assertRaisesRegex(ValueError, "seconds"):
                memomalloc.reorder(module_of(lambda _, x: x), (torch.ones(2),), seconds)


class Package(unittest.TestCase):
    def test_the_package_does_without_torch(self):
        text = ("import sys\nsys.modules['torch'] = None\nimport memomalloc\nfrom memomalloc import graph, order, dsa\n"
                "try:\n    memomalloc.reorder(None, ())\nexcept ImportError as error:\n    print(error)\n")
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("torch", done.stdout)

    def test_mypy_accepts_the_modules(self):
        try:
            import mypy.api
        except ImportError:
            self.skipTest("mypy is not installed")
        with tempfile.TemporaryDirectory() as cache:
            out, err, code = mypy.api.run(["--strict", "--ignore-missing-imports", "--follow-imports=skip",
                                           "--cache-dir", cache, str(ROOT / "python/memomalloc/graph.py"), str(ROOT / "python/memomalloc/order.py"),
                                           str(ROOT / "python/memomalloc/torch.py")])
        self.assertEqual(0, code, out + err)


if __name__ == "__main__":
    unittest.main()
