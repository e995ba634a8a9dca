"""The rows of mutations: each breaks one place of the tree, and a row that fits nothing says what there is."""

import importlib.util
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/mutations"), str(ROOT / "tests/preload")]
import binary_checks
import breaking
import common
import file_checks
import neighbour_checks
import real_programs
import rows
import worker_checks

found = importlib.util.spec_from_file_location("mutations_run", ROOT / "tests/mutations/run.py")  # there are several called run
run = importlib.util.module_from_spec(found)
found.loader.exec_module(run)

CODE = """namespace memo::shim {
// take(1) { is no definition
int take(int size) noexcept {
  if (size == 0) {
    return 1;  // }
  }
  note("}"); note(take(2));
  return size > 4 && !big(size) ? 3 : size;
}
}  // namespace memo::shim
struct Pool {
  explicit Pool(int a) : a_(a), b_{a} { take(a); }
  [[nodiscard]] int take(int size) const { return size + a_; }
  int other(int size);
  int a_, b_;
};
int Pool::other(int size) { return size; }
constexpr int kMost = 8;
"""


class Places(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        (pathlib.Path(folder.name) / "src").mkdir()
        (pathlib.Path(folder.name) / "src/a.cc").write_text(CODE)
        (pathlib.Path(folder.name) / "src/b.py").write_text(
            "class A:\n    def take(self):\n        x = 1\n        return x\n\n\ndef give():\n    x = 1\n    return x\n")
        self.tree = breaking.Tree(folder.name)

    def broken(self, *row):
        return breaking.broken(self.tree, *row)[1]

    def test_each_kind(self):
        for row, was, then in ((("shim::take", "drop", 'note("}")'), 'note("}"); ', ""),
                               (("shim::take", "drop", "size == 0"), "if (size == 0) {\n    return 1;  // }\n  }", ""),
                               (("shim::take", "never", "size > 4"), "size > 4", "(false && (size > 4))"),
                               (("shim::take", "always", "!big(size)"), "!big(size)", "(true || (!big(size)))"),
                               (("Pool::take", "swap", "+ a_ => - a_"), "+ a_", "- a_"),
                               (("Pool::other", "first", "++size;"), "{ return size; }", "{\n  ++size; return size; }"),
                               (("Pool::Pool", "drop", "take(a)"), "take(a); ", ""),
                               (("kMost", "swap", "8 => 9"), "8", "9")):
            with self.subTest(row=row):
                found = self.broken(*row)
                self.assertEqual(CODE.replace(was, then).split(), found.split())
        self.assertIn("def give():\n    return x", self.broken("give", "drop", "x = 1"))
        self.assertIn("        return (False and (x))", self.broken("A.take", "swap", "return x => return (False and (x))"))

    def test_what_fits_nothing_or_more_than_one_place_is_told(self):
        for row, said in ((("shim::gone", "drop", "x"), "no function is called shim::gone"),
                          (("take", "swap", "size => 1"), "take has 'size' "),
                          (("give", "drop", "y"), "give has 'y' 0 times, in src/b.py")):
            with self.assertRaisesRegex(breaking.Lost, said):
                self.broken(*row)


class Rows(unittest.TestCase):
    def test_each_unit_test_is_there(self):
        texts = "".join(path.read_text() for path in (ROOT / "tests").rglob("*_test.cc"))
        found = re.findall(r'TEST_CASE(?:_METHOD\([^,]*,|\()\s*"((?:[^"\\]|\\.|"\s*")*)"', texts)
        there = {re.sub(r'"\s*"', "", name) for name in found}
        for name, *_, kind, test in rows.ROWS:
            if kind == rows.UNIT:
                self.assertIn(test, there, name)

    def test_each_preload_check_is_there(self):
        modes = {mode.name for mode in common.modes(common.PEERS)}
        there = [f"{program.stem} [{mode}]" for program in (ROOT / "tests/preload/programs").glob("*.c*") for mode in modes]
        for module in (binary_checks, file_checks, neighbour_checks, real_programs, worker_checks):
            there += [name for name, _ in module.checks(common.Context(ROOT / "build"))]
        for name, *_, kind, test in rows.ROWS:
            if kind == rows.PRELOAD:
                self.assertTrue(any(test in check for check in there), f"{name}: there is no check {test!r}")

    def test_each_breaks_one_place(self):
        tree = breaking.Tree(ROOT)
        names = [row[0] for row in rows.ROWS]
        self.assertEqual(len(names), len(set(names)))
        for name, function, kind, text, _, _ in rows.ROWS:
            with self.subTest(row=name):
                self.assertIn(kind, breaking.KINDS)
                file, mutated = breaking.broken(tree, function, kind, text)
                self.assertNotEqual(tree.texts[file], mutated)


class Turn(unittest.TestCase):
    def test_each_row_has_its_turn(self):
        for number in (1, 3, 7, 8):
            rounds = [run.in_turn(range(number), 3, commits) for commits in range(100, 100 + number)]
            self.assertEqual(set(range(number)), set().union(*rounds))
            self.assertEqual({min(3, number)}, {len(set(one)) for one in rounds})


if __name__ == "__main__":
    unittest.main()
