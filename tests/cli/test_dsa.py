"""memomalloc.dsa: plans against the judge and the command, bad input by row, Ctrl-C, with and without numpy."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
sys.path.insert(0, str(ROOT / "python"))
from memomalloc import dsa

try:
    import numpy
except ImportError:
    numpy = None

WITHOUT_NUMPY = "import sys; sys.modules['numpy'] = None\n"


def run(text):
    return subprocess.run([sys.executable, "-c", text], env=ENVIRONMENT, capture_output=True, text=True, timeout=300)


def problem(count, seed):
    dice = random.Random(seed)
    lower = [dice.randrange(count) for _ in range(count)]
    return {"lower": lower, "upper": [start + 1 + dice.randrange(30) for start in lower],
            "size": [dice.randrange(1, 1000) for _ in range(count)]}


class Plans(unittest.TestCase):
    def test_the_example_of_the_documents(self):
        plan = dsa.plan(lower=[0, 1, 3, 4], upper=[4, 3, 6, 6], size=[2, 3, 3, 2])
        self.assertEqual((5, 5, True, False), (plan.height, plan.lower_bound, plan.optimal, plan.interrupted))
        self.assertEqual(5, dsa.validate([0, 1, 3, 4], [4, 3, 6, 6], [2, 3, 3, 2], plan.offsets))

    def test_every_planner_makes_plans_that_the_judge_accepts(self):
        for seed in range(3):
            given = problem(40, seed)
            for name in dsa.planners():
                with self.subTest(planner=name, seed=seed):
                    try:
                        plan = dsa.plan(**given, planner=name, seconds=2)
                    except dsa.NoPlan:
                        self.assertEqual("mip", name, "without the solver there is none")
                        continue
                    self.assertEqual(plan.height, dsa.validate(**given, offsets=plan.offsets))
                    self.assertGreaterEqual(plan.height, dsa.lower_bound(**given))

    def test_as_the_command_plans(self):
        golden = ROOT / "tests/golden/instances/minimalloc/K.1048576.csv"
        rows = [line.split(",") for line in golden.read_text().split()]
        place = {name: index for index, name in enumerate(rows[0])}
        columns = {name: [int(row[place[name]]) for row in rows[1:]] for name in ("lower", "upper", "size")}
        done = subprocess.run([ROOT / "build/memomalloc", "plan", golden, "--capacity", "1048576", "--json"],
                              capture_output=True, text=True, check=True)
        found, plan = json.loads(done.stdout), dsa.plan(**columns, capacity=1048576)
        self.assertEqual(found["lower_bound"], plan.lower_bound)
        self.assertLessEqual(plan.height, 1048576)
        self.assertEqual(plan.height, dsa.validate(**columns, offsets=plan.offsets))

    def test_alignment_gaps_and_fixed_offsets_are_kept(self):
        plan = dsa.plan([0, 0, 2], [10, 10, 5], [8, 3, 8], alignment=[1, 4, 1], gaps=[(0, 2, 5)], fixed=[0, None, None])
        self.assertEqual(0, plan.offsets[0])
        self.assertEqual(0, plan.offsets[1] % 4)
        self.assertEqual(11, plan.height, "the third lives in the first one's gap")

    def test_no_buffers_and_buffers_without_size(self):
        self.assertEqual((0, 0), (dsa.plan([], [], []).height, len(dsa.plan([], [], []).offsets)))
        self.assertEqual(0, dsa.plan([0, 0], [1, 1], [0, 0]).height)

    def test_no_plan_within_the_capacity(self):
        with self.assertRaises(dsa.NoPlan) as caught:
            dsa.plan([0, 0], [1, 1], [5, 5], capacity=9)
        self.assertEqual((10, True), (caught.exception.lower_bound, caught.exception.infeasible))

    def test_a_plan_that_is_wrong_is_refused_with_its_buffers(self):
        with self.assertRaisesRegex(ValueError, "buffer [01] and [01]: .*overlap|share"):
            dsa.validate([0, 0], [1, 1], [5, 5], [0, 4])


class BadInput(unittest.TestCase):
    def refused(self, pattern, lower, upper, size, **more):
        with self.assertRaisesRegex(ValueError, pattern):
            dsa.plan(lower, upper, size, **more)

    def test_each_names_the_row(self):
        self.refused("upper has 2 elements", [0], [1, 2], [1])
        self.refused("buffer 1: the size -1 is negative", [0, 0], [1, 1], [1, -1])
        self.refused(r"upper\[1\] is .*nan", [0, 0], [1, float("nan")], [1, 1])
        self.refused(r"size\[0\] is 1.5", [0], [1], [1.5])
        self.refused(r"size\[1\] is 'a'", [0, 0], [1, 1], [1, "a"])
        self.refused(r"upper\[0\] is 9223372036854775808", [0], [2**63], [1])
        self.refused("buffer 0: the lifetime", [3], [1], [4])
        self.refused("more than 63 bits", [0, 0], [1, 1], [2**62, 2**62])
        self.refused("gap 0 is of buffer 7", [0], [9], [1], gaps=[(7, 1, 2)])
        self.refused("gaps must be rows", [0], [9], [1], gaps=[(0, 1)])
        self.refused(r"fixed\[0\] is -3", [0], [1], [5], fixed=[-3])
        self.refused("capacity is -1", [0], [1], [5], capacity=-1)
        self.refused("no planner 'x'", [0], [1], [5], planner="x")
        self.refused("seconds must be", [0], [1], [5], seconds=float("nan"))

    def test_nothing_is_kept_where_options_are_of_a_wrong_type(self):
        made, freed = dsa._library.dsa_stop_new, dsa._library.dsa_stop_free
        with unittest.mock.patch.object(dsa._library, "dsa_stop_new", side_effect=made) as new, \
                unittest.mock.patch.object(dsa._library, "dsa_stop_free", side_effect=freed) as free:
            for wrong in ({"planner": None}, {"seed": 1.5}, {"seconds": "1"}):
                with self.assertRaises((AttributeError, TypeError)):
                    dsa.plan([0], [1], [5], **wrong)
            self.assertEqual(new.call_count, free.call_count)

    def test_nothing_is_changed_where_input_is_refused(self):
        lower = [0, 1]
        self.refused("buffer 1", lower, [1, 1], [1, 1])
        self.assertEqual([0, 1], lower)


class Numpy(unittest.TestCase):
    @unittest.skipUnless(numpy, "numpy is not installed")
    def test_arrays_of_any_integer_type_and_stride(self):
        given = problem(200, 5)
        expected = list(dsa.plan(**given).offsets)
        for kind in ("int64", "int32", "uint32", "uint64", "float64"):
            arrays = {name: numpy.repeat(numpy.array(values, kind), 2)[::2] for name, values in given.items()}
            self.assertEqual(expected, list(dsa.plan(**arrays).offsets), kind)

    @unittest.skipUnless(numpy, "numpy is not installed")
    def test_arrays_of_objects_are_taken_where_each_is_an_integer(self):
        given = problem(50, 6)
        objects = {name: numpy.array(values, object) for name, values in given.items()}
        fixed = numpy.array([0] + [None] * 49, object)
        self.assertEqual(list(dsa.plan(**given, fixed=list(fixed)).offsets), list(dsa.plan(**objects, fixed=fixed).offsets))
        for wrong in (None, "a", 2**63, 1.5):
            with self.assertRaisesRegex(ValueError, r"size\[1\] is .*, which is no integer of 64 bits"):
                dsa.plan([0, 0], [1, 1], numpy.array([1, wrong], object))

    @unittest.skipUnless(numpy, "numpy is not installed")
    def test_arrays_of_other_shapes_are_refused(self):
        with self.assertRaisesRegex(ValueError, "lower has 2 dimensions"):
            dsa.plan(numpy.zeros((2, 2), int), [1, 1], [1, 1])

    def test_without_numpy_the_same_plan_and_the_same_refusals(self):
        given = problem(100, 9)
        done = run(WITHOUT_NUMPY + f"from memomalloc import dsa\nprint(dsa.plan(**{given!r}).height)\n"
                   "try:\n  dsa.plan([0], [1], ['a'])\nexcept ValueError as error:\n  print(error)\n")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual([str(dsa.plan(**given).height), "size[0] is 'a', which is no integer of 64 bits"],
                         done.stdout.splitlines())


class Interrupted(unittest.TestCase):
    def test_ctrl_c_ends_a_long_search_with_the_best_so_far(self):
        # D's least height is not known: the search would go on for its 300 seconds.
        golden = ROOT / "tests/golden/instances/minimalloc/D.1048576.csv"
        # Whoever started the tests may have had the signal ignored.
        text = ("import csv, signal\nfrom memomalloc import dsa\n"
                "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
                f"rows = list(csv.DictReader(open({str(golden)!r})))\n"
                "columns = {name: [int(row[name]) for row in rows] for name in ('lower', 'upper', 'size')}\n"
                "print('begins', flush=True)\n"
                "plan = dsa.plan(**columns, seconds=300)\n"
                "print(plan.interrupted, dsa.validate(**columns, offsets=plan.offsets) == plan.height)\n")
        with subprocess.Popen([sys.executable, "-c", text], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as child:
            self.assertEqual("begins", child.stdout.readline().strip())
            try:
                child.wait(timeout=2)
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGINT)
            out, _ = child.communicate(timeout=60)
        self.assertEqual(("True True", 0), (out.strip(), child.returncode))

    def test_another_exception_ends_the_search_too(self):
        """Whose flag is freed after it, not before."""
        golden = ROOT / "tests/golden/instances/minimalloc/D.1048576.csv"
        text = ("import csv, signal, threading, time\nfrom memomalloc import dsa\n"
                f"rows = list(csv.DictReader(open({str(golden)!r})))\n"
                "columns = {name: [int(row[name]) for row in rows] for name in ('lower', 'upper', 'size')}\n"
                "searching, at_free = [], []\n"
                "plan, free = dsa._library.dsa_plan, dsa._library.dsa_stop_free\n"
                "def counted(*words):\n  searching.append(1)\n  status = plan(*words)\n  searching.pop()\n  return status\n"
                "def noted(flag):\n  at_free.append(len(searching))\n  free(flag)\n"
                "dsa._library.dsa_plan, dsa._library.dsa_stop_free = counted, noted\n"
                "def late(*_):\n  raise TimeoutError('late')\n"
                "signal.signal(signal.SIGALRM, late)\nsignal.alarm(1)\n"
                "try:\n  dsa.plan(**columns, seconds=300)\n"
                "except TimeoutError as error:\n  print(error)\n"
                "for turn in range(600):\n"
                "  if threading.active_count() == 1:\n    break\n"
                "  time.sleep(0.1)\n"
                "print(threading.active_count(), at_free)\n")
        done = run(text)
        self.assertEqual((["late", "1 [0]"], 0), (done.stdout.splitlines(), done.returncode), done.stderr)


class TypeHints(unittest.TestCase):
    def test_mypy_accepts_the_module(self):
        try:
            import mypy.api
        except ImportError:
            self.skipTest("mypy is not installed")
        with tempfile.TemporaryDirectory() as cache:
            out, err, code = mypy.api.run(["--strict", "--ignore-missing-imports", "--follow-imports=silent",
                                           "--cache-dir", cache, str(ROOT / "python/memomalloc/dsa.py")])
        self.assertEqual(0, code, out + err)


if __name__ == "__main__":
    unittest.main()
