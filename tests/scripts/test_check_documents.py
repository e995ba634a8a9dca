"""The documents' checker: counts are the tree's, and names that are no more are told with their line."""

import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/gates"))
import check_documents

ROOT = check_documents.ROOT


class Values(unittest.TestCase):
    def test_each_is_what_another_way_of_counting_finds(self):
        counted = {name: check_documents.VALUES[name]() for name in
                   ("programs", "unit tests", "mutations", "preload checks", "CPython's modules")}
        sources = list((ROOT / "tests/preload/programs").glob("*.c*"))
        self.assertEqual(len(sources), counted["programs"])
        lines = subprocess.run(["grep", "-rhE", "^TEST_CASE(_METHOD)?\\(", ROOT / "tests", "--include=*_test.cc"],
                               capture_output=True, text=True).stdout.splitlines()
        self.assertEqual(len(lines), counted["unit tests"])
        mutations = subprocess.run(
            [sys.executable, "-c", "import rows; print(len(rows.ROWS))"], cwd=ROOT / "tests/mutations",
            capture_output=True, text=True).stdout
        self.assertEqual(int(mutations), counted["mutations"])
        self.assertGreater(counted["preload checks"], 9 * counted["programs"])
        self.assertGreater(counted["CPython's modules"], 20)

    def test_a_stale_count_is_told_and_renewed(self):
        new, told = check_documents.fill("there are <!-- tree:programs -->1<!-- /tree --> of them")
        programs = len(check_documents.programs())
        self.assertEqual(f"there are <!-- tree:programs -->{programs}<!-- /tree --> of them", new)
        self.assertEqual([f"programs: 1 stands there, the tree has {programs}"], told)
        self.assertEqual((new, []), check_documents.fill(new))
        self.assertIn("nothing is called 'cows'", check_documents.fill("<!-- tree:cows -->1<!-- /tree -->")[1][0])


class Names(unittest.TestCase):
    def told(self, text):
        return list(check_documents.names_in(ROOT / "docs/some.md", text, {"docs", "tests"}, {"THRESHOLD"},
                                             ["page map: a walk ends", "os: a limit"]))

    def test_what_is_there_is_not_told(self):
        self.assertEqual([], self.told("`MEMOMALLOC_THRESHOLD` [how](servers.md#x) `tests/preload/run.py --only x` "
                                       "`tests/fuzz/*.cc` `page map: ... walk ...` `/usr/bin/python3` `other: word` "
                                       "[there](https://example.org/x)"))

    def test_what_is_not_there_is_told_with_its_line(self):
        for name in ("MEMOMALLOC_TRESHOLD", "`tests/none.py`", "[how](none.md)", "`page map: a run ends`"):
            found = self.told(f"fine\n{name}\n")
            self.assertEqual(1, len(found), name)
            self.assertTrue(found[0].startswith("2: "), found)

    def test_the_exit_code_says_it(self):
        with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
            path = pathlib.Path(folder, "some.md")
            for text, code in (("# P\n\n**Well.**\n", 0), ("# P\n\n**MEMOMALLOC_NO_SUCH.**\n", 1)):
                path.write_text(text)
                with (mock.patch.object(check_documents, "documents", lambda: [path]),
                      contextlib.redirect_stdout(io.StringIO())):
                    self.assertEqual(code, check_documents.main([]))


if __name__ == "__main__":
    unittest.main()
