"""The adapters for other compilers' memory planning. The hosts themselves are large; bench/hosts runs them.

Here stand-ins with the names and fields that the adapters use take their place.
"""

import os
import pathlib
import random
import subprocess
import sys
import types
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))


class Spec:
    """What ExecuTorch knows of a tensor."""

    def __init__(self, first, last, size, buffer=None, base=None, inside=0):
        self.lifetime, self.size, self.mem_id, self.alignment = [first, last], size, buffer, 1
        self.storage_base, self.storage_base_offset = base, inside

    def realign(self, alignment):
        self.alignment = alignment
        return self.allocated_memory

    @property
    def allocated_memory(self):
        return -(-self.size // self.alignment) * self.alignment


class Place:
    def __init__(self, mem_id, mem_obj_id, mem_offset):
        self.mem_id, self.mem_obj_id, self.mem_offset = mem_id, mem_obj_id, mem_offset


class Result:
    def __init__(self, spec_dict, bufsizes):
        self.spec_dict, self.bufsizes = spec_dict, bufsizes


class Suite:
    def __init__(self, algorithms):
        self.algorithms = algorithms


class PlanningPass:
    def __init__(self, memory_planning_algo, **options):
        self.algorithm, self.options = memory_planning_algo.algorithms[0], options


def stand_ins():
    """Modules of both hosts, by name."""
    names = ("executorch", "executorch.exir", "executorch.exir.memory_planning", "executorch.exir.passes", "ethosu",
             "ethosu.vela", "ethosu.vela.hillclimb_allocation")
    modules = {name: types.ModuleType(name) for name in names}
    planning = modules["executorch.exir.memory_planning"]
    planning.MemoryAlgoResult, planning.MemoryPlanningAlgorithmSuite, planning.SpecAllocResult = Result, Suite, Place
    modules["executorch.exir.passes"].MemoryPlanningPass = PlanningPass
    modules["ethosu.vela"].hillclimb_allocation = modules["ethosu.vela.hillclimb_allocation"]
    return modules


class WithHosts(unittest.TestCase):
    def setUp(self):
        modules = stand_ins()
        self.hill_climbing = modules["ethosu.vela.hillclimb_allocation"]
        patches = mock.patch.dict(sys.modules, modules)
        patches.start()
        self.addCleanup(patches.stop)
        for name in ("memomalloc.executorch", "memomalloc.vela"):
            sys.modules.pop(name, None)
        import memomalloc.executorch
        import memomalloc.vela
        self.executorch, self.vela = memomalloc.executorch, memomalloc.vela

    def assert_apart(self, blocks):
        """No two of (first, last, start, size), inclusive times, share a byte at one time."""
        for i, (first, last, start, size) in enumerate(blocks):
            for other_first, other_last, other_start, other_size in blocks[:i]:
                self.assertTrue(last < other_first or other_last < first or start + size <= other_start or
                                other_start + other_size <= start)


class ExecuTorch(WithHosts):
    def plan(self, specs, alignment=16, reserved=None, padding=0):
        module = types.SimpleNamespace(input_mem_buffer_sizes=reserved)
        return self.executorch.planning_pass(seconds=2).algorithm(alignment, specs, module, None, padding)

    def test_random_graphs(self):
        seed = int(os.environ.get("MEMO_TEST_SEED", random.randrange(2**32)))
        print(f"seed {seed}", file=sys.stderr)
        dice = random.Random(seed)
        for round_ in range(40):
            with self.subTest(seed=seed, round=round_):
                specs = []
                for _ in range(dice.randrange(1, 40)):
                    first = dice.randrange(30)
                    specs.append(Spec(first, first + dice.randrange(6), dice.randrange(0, 3000), dice.choice((None, 1, 3))))
                reserved = dice.choice((None, [], [0, 70], [0, 0, 5]))
                padding = dice.choice((0, 64))
                result = self.plan(specs, reserved=reserved, padding=padding)
                self.assertEqual(set(result.spec_dict), set(specs))
                self.assertEqual(result.bufsizes[0], 0)
                for buffer in range(1, len(result.bufsizes)):
                    mine = [s for s in specs if (s.mem_id or 1) == buffer]
                    below = reserved[buffer] if reserved and buffer < len(reserved) else 0
                    blocks = [(*s.lifetime, result.spec_dict[s].mem_offset, s.allocated_memory) for s in mine]
                    self.assert_apart(blocks)
                    for spec, (_, _, start, size) in zip(mine, blocks):
                        self.assertEqual((result.spec_dict[spec].mem_id, start % 16), (buffer, 0))
                        self.assertGreaterEqual(start, below)
                        self.assertLessEqual(start + size + padding, result.bufsizes[buffer])

    def test_tensors_inside_others(self):
        whole, other = Spec(0, 9, 4096), Spec(3, 5, 640)
        part = Spec(2, 4, 1024, base=whole, inside=2048)
        parts_part = Spec(3, 3, 64, base=part, inside=128)
        places = self.plan([parts_part, part, other, whole]).spec_dict
        self.assertEqual(places[part].mem_offset, places[whole].mem_offset + 2048)
        self.assertEqual(places[parts_part].mem_offset, places[whole].mem_offset + 2176)

    def test_what_does_not_fit_is_refused(self):
        whole = Spec(0, 9, 1024)
        for bad in (Spec(1, 2, 512, base=whole, inside=768), Spec(1, 2, 512, base=whole, inside=-16)):
            with self.assertRaisesRegex(ValueError, "does not fit its storage"):
                self.plan([whole, bad])
        with self.assertRaisesRegex(ValueError, "is not planned"):
            self.plan([Spec(1, 2, 16, base=whole)])
        circle = Spec(1, 2, 16)
        circle.storage_base = circle
        with self.assertRaisesRegex(ValueError, "is not planned"):
            self.plan([circle])
        with self.assertRaisesRegex(ValueError, "has no lifetime"):
            self.plan([Spec(None, 2, 16)])

    def test_nothing_to_place(self):
        self.assertEqual(self.plan([]).bufsizes, [0, 0])
        self.assertEqual(self.plan([], reserved=[0, 48, 16]).bufsizes, [0, 48, 16])


class Range:
    """What Vela knows of a tensor."""

    def __init__(self, first, last, size, alignment=16):
        self.start_time, self.end_time, self.size, self.alignment = first, last, size, alignment

    def get_alignment(self):
        return self.alignment


class Vela(WithHosts):
    def test_random_ranges(self):
        seed = int(os.environ.get("MEMO_TEST_SEED", random.randrange(2**32)))
        print(f"seed {seed}", file=sys.stderr)
        dice = random.Random(seed)
        self.vela.install()
        limit = mock.patch.object(self.vela, "_SECONDS", 0.2)
        limit.start()
        self.addCleanup(limit.stop)
        for round_ in range(40):
            with self.subTest(seed=seed, round=round_):
                ranges = []
                for _ in range(dice.randrange(1, 40)):
                    first = dice.randrange(30)
                    ranges.append(Range(first, first + dice.randrange(6), dice.randrange(1, 3000), dice.choice((16, 64))))
                addresses = self.hill_climbing.allocate_live_ranges(ranges, 99999, 1 << 20)
                self.assertTrue(all(a % r.alignment == 0 for a, r in zip(addresses, ranges)))
                self.assert_apart([(r.start_time, r.end_time, a, r.size) for a, r in zip(addresses, ranges)])

    def test_nothing_to_place(self):
        self.assertEqual(self.vela.allocate_live_ranges([], None, 0), [])


class Types(unittest.TestCase):
    def test_mypy_accepts_the_modules(self):
        try:
            import mypy.api
        except ImportError:
            self.skipTest("mypy is not installed")
        out, err, code = mypy.api.run(["--strict", "--ignore-missing-imports", "--follow-imports=silent",
                                       *(str(ROOT / f"python/memomalloc/{name}.py") for name in ("executorch", "vela"))])
        self.assertEqual(code, 0, out + err)

    def test_a_missing_host_is_named(self):
        for module, host in (("executorch", "executorch"), ("vela", "ethosu")):
            done = subprocess.run([sys.executable, "-c", f"import memomalloc.{module}"], capture_output=True, text=True,
                                  env=os.environ | {"PYTHONPATH": str(ROOT / "python")}, check=False)
            if done.returncode == 0:
                self.skipTest(f"{host} is installed")
            self.assertRegex(done.stderr.splitlines()[-1], f"No module named '{host}'")


if __name__ == "__main__":
    unittest.main()
