"""Every file of tests/golden has its origin in the README beside it, and others' files their licence in
debian/copyright."""

import fnmatch
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden"


def files():
    """Data files, as paths below tests/golden."""
    return sorted(str(path.relative_to(GOLDEN)) for path in GOLDEN.rglob("*") if path.is_file()
                  and path.parent.name != "licenses" and path.name != "README.md")


def rows():
    """(patterns of the first column, the licence) of each row of the README's table."""
    for line in (GOLDEN / "README.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| `"):
            yield re.findall(r"`([^`]+)`", cells[0]), cells[2]


class Provenance(unittest.TestCase):
    def test_every_file_has_a_row_and_every_row_a_file(self):
        patterns = [pattern for found, _ in rows() for pattern in found]
        for name in files():
            self.assertTrue(any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns), name)
        for pattern in patterns:
            self.assertTrue(fnmatch.filter(files(), pattern), pattern)

    def test_what_is_not_ours_has_a_stanza_with_its_licence(self):
        text = (ROOT / "packaging/debian/copyright").read_text(encoding="utf-8")
        stanzas = dict(re.findall(r"^Files: (\S+)\n(?:.+\n)*?License: (.+)$", text, re.MULTILINE))
        texts = re.findall(r"^License: (\S+)\n (?=\S)", text, re.MULTILINE)
        foreign = [pattern for patterns, licence in rows() if not licence.startswith("ours") for pattern in patterns]
        self.assertEqual(3, len(foreign))
        for name in files():
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in foreign):
                found = [licence for pattern, licence in stanzas.items()
                         if pattern != "*" and fnmatch.fnmatchcase(f"tests/golden/{name}", pattern)]
                self.assertEqual(1, len(found), name)
                for licence in found[0].split(" and "):
                    self.assertIn(licence, texts, name)

    def test_the_texts_of_the_licences_are_beside_the_files(self):
        self.assertIn("Version 2.0, January 2004", (GOLDEN / "licenses/Apache-2.0.txt").read_text(encoding="utf-8"))
        self.assertIn("Christos Lamprakos", (GOLDEN / "licenses/idealloc-MIT.txt").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
