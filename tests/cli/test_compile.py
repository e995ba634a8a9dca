"""torch.compile(backend="memomalloc"): results to the bit, less memory, nothing moved that must not."""

import copy
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest
import warnings

from compile_support import ROOT, WithTorch, module_of, random_program, torch, wide

if torch:
    import memomalloc.torch


def run(module, inputs, backend, train=False, seed=3, **settings):
    """(results and everything that the run has changed, the reports of its graphs)."""
    torch._dynamo.reset()
    own, given = copy.deepcopy(module).train(train), [x.clone() if torch.is_tensor(x) else x for x in inputs]
    before = len(memomalloc.torch.reports())
    function = torch.compile(own, backend=backend, **settings)
    torch.manual_seed(seed)
    with torch.set_grad_enabled(train):
        results = function(*given)
    results = results if isinstance(results, tuple) else (results,)
    if train:
        sum(r.sum() for r in results).backward()
    state = [*own.parameters(), *own.buffers(), *(x for x in given if torch.is_tensor(x))]
    gradients = [p.grad for p in own.parameters()]
    return ([r.detach() for r in results], [s.detach() for s in state], gradients,
            torch.get_rng_state()), memomalloc.torch.reports()[before:]


class Compiled(WithTorch):
    def compare(self, module, *inputs, train=False, **settings):
        """Both backends agree to the bit; the reports of ours."""
        expected, _ = run(module, inputs, "aot_eager", train, **settings)
        found, reports = run(module, inputs, "memomalloc", train, **settings)
        self.same(expected, found)
        self.assertTrue(reports)
        for report in reports:
            self.assertIsNone(report.reason)
            self.assertLessEqual(report.lower_bound, report.peak)
            self.assertLessEqual(report.peak, report.given_peak)
        return reports

    def test_wide_branches_need_one_branch_at_a_time(self):
        x = torch.randn(32, 64)
        branch = 32 * 64 * 100 * 4
        for train in (False, True):
            with self.subTest(train=train):
                report = self.compare(module_of(wide, torch.nn.Linear(64, 64)), x, train=train)[0]
                self.assertGreater(report.given_peak, 6 * branch)
                self.assertLess(report.peak, 2 * branch + 10 * x.numel() * 4)
                self.assertTrue(report.optimal)

    def test_what_is_predicted_is_allocated(self):
        from torch.profiler import ProfilerActivity, profile

        x, peaks = torch.randn(32, 64), {}
        for backend in ("aot_eager", "memomalloc"):
            torch._dynamo.reset()
            function = torch.compile(module_of(wide, torch.nn.Linear(64, 64)).eval(), backend=backend)
            with torch.no_grad():
                function(x)
                with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
                    function(x)
            level = peaks[backend] = 0
            for event in recorded.profiler.kineto_results.events():
                if event.name() == "[memory]":
                    level += event.nbytes()
                    peaks[backend] = max(peaks[backend], level)
        report = memomalloc.torch.reports()[-1]
        for backend, predicted in (("aot_eager", report.given_peak), ("memomalloc", report.peak)):
            self.assertAlmostEqual(predicted, peaks[backend], delta=0.02 * predicted)

    def test_a_backward_pass_counts_what_it_frees(self):
        """Of a chain, the backward pass holds all that was saved at its start, and less and less of it then."""
        layers = [torch.nn.Linear(64, 64) for _ in range(8)]

        def chain(parts, x):
            for part in parts:
                x = part(x).tanh()
            return x

        reports = self.compare(module_of(chain, *layers), torch.randn(256, 64, requires_grad=True), train=True)
        backward = next(r for r in reports if r.graph.startswith("backward"))
        saved = 8 * 256 * 64 * 4
        self.assertGreaterEqual(backward.peak, saved)
        self.assertLess(backward.peak, 1.7 * saved, "with all gradients on top of what is kept it is twice that")

    def test_what_was_saved_is_freed_by_the_way(self):
        from torch.profiler import ProfilerActivity, profile

        def chain(parts, x):
            for part in parts:
                x = part(x).tanh()
            return x

        torch._dynamo.reset()
        function = torch.compile(module_of(chain, *(torch.nn.Linear(64, 64) for _ in range(8))), backend="memomalloc")
        x = torch.randn(256, 64)
        function(x).sum().backward()
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
            function(x).sum().backward()
        level = peak = at_last = 0
        for event in recorded.profiler.kineto_results.events():
            if event.name() == "[memory]":
                level += event.nbytes()
                peak = max(peak, level)
                at_last = level if event.nbytes() > 0 else at_last
        self.assertLess(at_last, 0.6 * peak, "the last operator finds most of it gone")

    def test_a_training_step_with_dropout_and_batch_norm(self):
        def network(parts, x):
            x = torch.nn.functional.dropout(parts[1](parts[0](x)).relu().flatten(1), 0.5)
            return parts[3](torch.nn.functional.dropout(parts[2](x).relu(), 0.5))

        module = module_of(network, torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Linear(288, 64),
                           torch.nn.Linear(64, 5))
        reports = self.compare(module, torch.randn(4, 3, 8, 8), train=True)
        self.assertEqual(["forward", "backward"], [r.graph.split()[0] for r in reports])

    def test_branches_draw_their_random_numbers_in_turn(self):
        def network(parts, x):
            branches = [torch.nn.functional.dropout(parts[0](x) * i, 0.5).repeat(1, 50) for i in range(5)]
            return sum(b.sum(1) for b in reversed(branches)) + torch.rand(1)

        report = self.compare(module_of(network, torch.nn.Linear(16, 16)), torch.randn(8, 16), train=True)[0]
        self.assertGreater(report.saving, 0)

    def test_checkpoints_compute_again_what_they_drew(self):
        from torch.utils.checkpoint import checkpoint

        def part(parts, x):
            return torch.nn.functional.dropout(parts(x).relu(), 0.5)

        def network(parts, x):
            return sum(checkpoint(part, parts[0], x * i, use_reentrant=False) for i in range(3))

        self.compare(module_of(network, torch.nn.Linear(16, 16)), torch.randn(8, 16), train=True)

    def test_inputs_that_are_written_are_read_before(self):
        def network(_, x, y):
            view = x.view(-1)
            before = [large.sum() for large in [(view * i).repeat(50) for i in range(4)]]
            x.add_(y)
            view.mul_(2)
            after = (x * 3).sum()
            y.copy_(x)
            return (*before, after)

        report = self.compare(module_of(network), torch.randn(8, 16), torch.randn(8, 16))[0]
        self.assertGreater(report.saving, 0)

    def test_one_normalisation_used_twice(self):
        def network(parts, x):
            return parts[0](x * 3).sum() + parts[0](x.repeat(50, 1) + 1).sum()

        self.compare(module_of(network, torch.nn.BatchNorm1d(16)), torch.randn(8, 16), train=True)

    def test_sizes_that_are_symbols(self):
        module = module_of(lambda parts, x: wide(parts, x) * x.shape[0] + x.new_ones(x.shape[0] * 2).sum(),
                           torch.nn.Linear(64, 64))
        report = self.compare(module, torch.randn(32, 64), dynamic=True)[0]
        self.assertGreater(report.saving, 3 * 32 * 64 * 100 * 4, "sizes are those of the example")
        torch._dynamo.reset()
        function = torch.compile(module, backend="memomalloc", dynamic=True)
        with torch.no_grad():
            for rows in (5, 32, 9):
                x = torch.randn(rows, 64)
                self.assertTrue(torch.equal(module(x), function(x)))

    def test_branches_that_depend_on_data(self):
        def network(parts, x):
            chosen = torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))
            return wide(parts, x), chosen

        self.compare(module_of(network, torch.nn.Linear(64, 64)), torch.randn(32, 64))

    def test_random_programs(self):
        seed = int(os.environ.get("MEMO_TEST_SEED", random.randrange(2**32)))
        print(f"seed {seed}", file=sys.stderr)
        dice = random.Random(seed)
        for round_ in range(8):
            with self.subTest(seed=seed, round=round_):
                self.compare(module_of(random_program(dice)), torch.randn(16, 8))

    def test_an_option_that_there_is_not(self):
        for settings, word in (({"options": {"second": 1}}, "second"), ({"options": {"seconds": float("nan")}}, "nan"),
                               ({"mode": "max-autotune"}, "max-autotune")):
            with self.assertRaisesRegex(Exception, word):
                run(module_of(lambda _, x: x + 1), [torch.ones(2)], "memomalloc", **settings)

    def test_without_the_command_one_warning_and_torch_s_order(self):
        text = ("import sys, torch, memomalloc.torch\n"
                "from memomalloc import order\n"
                "def none(): raise FileNotFoundError('there is no memomalloc command')\n"
                "order.find_tool = none\n"
                "f = torch.compile(lambda x: (x * 2 + 1).cos(), backend='memomalloc')\n"
                "g = torch.compile(lambda x: (x * 3 + 1).cos(), backend='memomalloc')\n"
                "print(f(torch.zeros(2))[0].item(), g(torch.zeros(2))[0].item())\n"
                "print([r.reason for r in memomalloc.torch.reports()])\n")
        done = self.python(text)
        self.assertEqual(0, done.returncode, done.stderr)
        value = torch.ones(1).cos().item()
        self.assertEqual([f"{value} {value}", str(["there is no memomalloc command"] * 2)], done.stdout.splitlines())
        self.assertEqual(1, done.stderr.count("keeps torch's order"), done.stderr)

    def test_a_network_that_torch_cannot_trace_runs(self):
        def network(parts, x):
            text = "".join(str(int(value)) for value in x.flatten()[:3].tolist())  # no operator of torch
            print(end="")
            return wide(parts, x) + len(text)

        module = module_of(network, torch.nn.Linear(64, 64)).eval()
        x = torch.randn(4, 64)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch._dynamo.reset()
            self.assertTrue(torch.equal(module(x), torch.compile(module, backend="memomalloc")(x)))

    def test_the_saving_is_printed_where_asked(self):
        text = ("import torch, memomalloc.torch\n"
                "torch.compile(lambda x: (x * 2).sum() + (x * 3).sum(), backend='memomalloc')(torch.ones(1000))\n")
        self.assertEqual("", self.python(text).stderr)
        self.assertRegex(self.python(text, MEMOMALLOC_VERBOSE="1").stderr,
                         r"memomalloc: inference 0: 5 operators, peak \d+ -> \d+ bytes, saves \d+ \(least possible\)\n")

    def test_the_name_is_known_once(self):
        """By the import alone, and by an installed package's entry point with the import and without."""
        use = "torch.compile(lambda x: (x + 1) * 2, backend='memomalloc')(torch.ones(3))\n"
        self.assertEqual(0, self.python("import torch, memomalloc.torch\n" + use).returncode)
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder, "memomalloc-1.dist-info")
            place.mkdir()
            (place / "METADATA").write_text("Metadata-Version: 2.1\nName: memomalloc\nVersion: 1\n")
            project = (ROOT / "pyproject.toml").read_text().split("torch_dynamo_backends]\n")[1]
            entry = project.splitlines()[0].replace('"', "")
            (place / "entry_points.txt").write_text(f"[torch_dynamo_backends]\n{entry}\n")
            for imports in ("import torch\n", "import torch, memomalloc.torch\n"):
                done = self.python(imports + use, PYTHONPATH=f"{ROOT / 'python'}:{folder}")
                self.assertEqual(0, done.returncode, done.stderr)

    def python(self, text, **environment):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("MEMOMALLOC_")}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "program.py")  # a file: dynamo reads the source
            path.write_text(text)
            return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=300,
                                  env={**clean, "PYTHONPATH": str(ROOT / "python"), **environment})


if __name__ == "__main__":
    unittest.main()
