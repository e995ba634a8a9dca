"""`memomalloc plan` and `planners`: results, files, exit codes and complaints."""

import csv
import pathlib
import tempfile
import unittest
import xml.etree.ElementTree

from support import GOLDEN, json_of, memomalloc

PROBLEM = "id,lower,upper,size\na,0,3,4\nb,1,4,2\nc,3,6,4\n"
NETWORK = GOLDEN / "instances/pisarchyk_lee/deeplab_v3.csv"


class Plan(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, text, name="p.csv"):
        path = self.folder / name
        path.write_bytes(text.encode())
        return path

    def test_json(self):
        result = json_of(memomalloc("plan", self.write(PROBLEM), "--json"))
        self.assertEqual("portfolio", result["planner"])
        self.assertEqual(3, result["buffers"])
        self.assertEqual(6, result["lower_bound"])
        self.assertEqual(6, result["height"])
        self.assertIs(True, result["optimal"])
        self.assertGreaterEqual(result["seconds"], 0)

    def test_output_is_a_valid_plan_and_check_says_so(self):
        problem, output = self.write(PROBLEM), self.folder / "plan.csv"
        self.assertEqual(0, memomalloc("plan", problem, "--output", output).returncode)
        with open(output, encoding="utf-8") as file:
            rows = {row["id"]: row for row in csv.DictReader(file)}
        self.assertEqual({"a", "b", "c"}, set(rows))
        self.assertEqual(6, max(int(row["offset"]) + int(row["size"]) for row in rows.values()))
        self.assertEqual(0, memomalloc("plan", problem, "--check", output).returncode)
        wrong = self.write("id,lower,upper,size,offset\na,0,3,4,0\nb,1,4,2,3\nc,3,6,4,0\n", "w.csv")
        checked = memomalloc("plan", problem, "--check", wrong)
        self.assertEqual(1, checked.returncode)
        self.assertIn("overlap", checked.stdout)
        named = self.write("id,lower,upper,size,offset\n\x1b[2J,0,3,4,0\nb,1,4,2,3\n", "n.csv")
        self.assertIn("(?[2J and b)", memomalloc("plan", named, "--check", named).stdout)

    def test_a_capacity_beyond_all_memory_is_refused(self):
        problem = self.write(PROBLEM)
        for capacity in ("9223372036854775808", "18446744073709551615", "8589934592G", "-1"):
            process = memomalloc("plan", problem, "--capacity", capacity)
            self.assertEqual(2, process.returncode)
            self.assertIn("below 2^63", process.stderr, capacity)

    def test_capacity(self):
        problem, output = self.write(PROBLEM), self.folder / "plan.csv"
        self.assertEqual(0, memomalloc("plan", problem, "--capacity", "6").returncode)
        refused = memomalloc("plan", problem, "--capacity", "5", "--output", output)
        self.assertEqual(1, refused.returncode)
        self.assertIn("no plan", refused.stderr)
        self.assertFalse(output.exists())

    def test_bad_input(self):
        for text, line in (("id,lower,upper,size\na,0,3\n", 2), ("", 1), (PROBLEM + "a,0,1,1\n", 5)):
            path, output = self.write(text), self.folder / "plan.csv"
            result = memomalloc("plan", path, "--output", output)
            self.assertEqual(2, result.returncode)
            self.assertTrue(result.stderr.startswith(f"{path}:{line}: "), result.stderr)
            self.assertEqual("", result.stdout)
            self.assertFalse(output.exists())

    def test_a_message_holds_nothing_that_controls_a_terminal(self):
        path = self.folder / "hostile.csv"
        path.write_bytes(b"id,\x1b]0;title\x07\x95\xc2\x9b\xc3\xa4,upper\n")
        self.assertTrue(memomalloc("plan", path).stderr.startswith(f"{path}:1: "))
        path.write_bytes(b"id,lower,upper,size\na,0,\x1b[2J\x95\xc2\x9b\xc3\xa4,3\n")
        said = memomalloc("plan", path).stderr
        self.assertTrue(all(letter.isprintable() or letter == "\n" for letter in said), repr(said))

    def test_bad_usage(self):
        problem = self.write(PROBLEM)
        for words in (
            ("plan",),
            ("plan", self.folder / "missing.csv"),
            ("plan", self.folder),
            ("plan", problem, "--planner", "none"),
            ("plan", problem, "--seconds", "x"),
            ("plan", problem, "--output", self.folder / "no" / "plan.csv"),
        ):
            result = memomalloc(*words)
            self.assertEqual(2, result.returncode, words)
            self.assertIn("memomalloc ", result.stderr)

    def test_svg_has_a_rectangle_for_each_buffer(self):
        picture = self.folder / "map.svg"
        self.assertEqual(0, memomalloc("plan", NETWORK, "--svg", picture).returncode)
        root = xml.etree.ElementTree.parse(picture).getroot()
        titles = [node for node in root.iter() if node.tag.endswith("title")]
        self.assertEqual(68, len(titles))
        self.assertIn("lower bound", "".join(root.itertext()))

    def test_every_planner_of_the_list_plans_and_compare_shows_them_all(self):
        names = [row["name"] for row in json_of(memomalloc("planners", "--json"))]
        self.assertIn("portfolio", names)
        rows = json_of(memomalloc("plan", NETWORK, "--compare", "--json", "--seconds", "5"))
        self.assertEqual(names, [row["planner"] for row in rows])
        for row in rows:
            if row["height"] is None:
                self.assertIn("built without", row["reason"])
            else:
                self.assertGreaterEqual(row["height"], row["lower_bound"])

    def test_models_for_other_solvers(self):
        for name, start in (("m.lp", "\\ sizes"), ("m.mps", "NAME")):
            path = self.folder / name
            self.assertEqual(0, memomalloc("plan", NETWORK, "--write-model", path).returncode)
            self.assertTrue(path.read_text(encoding="utf-8").startswith(start))
        bad = memomalloc("plan", NETWORK, "--write-model", self.folder / "m.txt")
        self.assertEqual(2, bad.returncode)


if __name__ == "__main__":
    unittest.main()
