"""The budget and the form of pages: each fault is found with its line, and what is no fault is not."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/gates"))
import readable

ANSWER = "# Page\n\n**This is the answer.**\n\n"
LONG = " ".join(["word"] * 36) + "."


class Page(unittest.TestCase):
    def setUp(self):
        self.figures = readable.Figures()

    def faults(self, body, name="docs/page.md", begin=ANSWER):
        return list(readable.faults(name, begin + body, self.figures))

    def test_a_good_page_has_none(self):
        table = "| a | b |\n| --- | --- |\n" + "| x | y |\n" * 12
        self.assertEqual([], self.faults("A short sentence. `at hand` is code.\n\n" + table + "\n```\nanew 2026-01-01 abcdef1\n```\n"))
        self.assertEqual((1, 0, 0, 0), (self.figures.pages, self.figures.long, self.figures.hashes, self.figures.private))

    def test_the_answer_comes_first_and_is_short(self):
        for begin in ("# Page\n\nNo answer.\n", "# Page\n\n**" + " ".join(["word"] * 31) + "**\n"):
            self.assertEqual(1, len(self.faults("", begin=begin)), begin)
        self.assertEqual([], self.faults("", "README.md", "# Page\n\nNo answer.\n"))

    def test_long_sentences_are_found_in_text_lists_and_tables(self):
        for body in (LONG + "\n", f"- {LONG}\n", f"| a |\n| --- |\n| {LONG} |\n", "word " * 20 + "\n" + "word " * 16 + "\n"):
            found = self.faults(body)
            self.assertEqual(1, len(found), body)
            self.assertIn("a sentence of 36 words", found[0])
        self.assertEqual([], self.faults("word " * 35 + "\n\n" + "word " * 35 + "\n"))
        self.assertEqual(4, self.figures.long)

    def test_a_long_table_has_to_be_generated(self):
        table = "| a |\n| --- |\n" + "| x |\n" * 13
        self.assertEqual(["5: a table of 13 rows by hand, at most 12; generate it"], self.faults(table))
        self.assertEqual([], self.faults(f"<!-- table:options -->\n{table}<!-- /table -->\n"))

    def test_evidence_and_private_words_have_their_line(self):
        found = self.faults("fine\ncommit 4089c8d of 2026-11-27\nmade anew\n")
        self.assertEqual(["6: the hash 4089c8d belongs to results/", "6: the date 2026-11-27 belongs to results/",
                          "7: 'anew' is a private word; the field says: again"], found)
        self.assertEqual([], self.faults("1000000 deadbee facade 256000000\n".replace("deadbee ", "")))

    def test_generated_pages_and_parts_have_the_fields_words_too(self):
        found = self.faults("", "docs/commands.md", ANSWER + "| `--numa` | on memory nodes |\n")
        self.assertEqual(["5: 'memory nodes' is a private word; the field says: NUMA node"], found)
        found = self.faults("<!-- table:options -->\nas it comes\n<!-- /table -->\n")
        self.assertEqual(["6: 'as it comes' is a private word; the field says: by default"], found)

    def test_words_of_generated_parts_are_not_counted(self):
        self.faults("one two\n<!-- table:options -->\nthree four\n<!-- /table -->\n")
        self.assertEqual(2 + 5, self.figures.words)  # and the heading and the answer

    def test_budgets(self):
        self.assertEqual([], readable.Figures(lines=2800, words=17000).over())
        self.assertEqual(2, len(readable.Figures(lines=2801, words=17001).over()))


class Notes(unittest.TestCase):
    GOOD = "# Title\n\n**Question.** a\n\n**Set-up.** b\n\n**Result.** c\n\n**Decision.** d\n"

    def test_the_form_of_notes(self):
        self.assertEqual([], list(readable.note_faults("0001-a-title.md", self.GOOD)))
        self.assertEqual(1, len(list(readable.note_faults("a-title.md", self.GOOD))))
        self.assertEqual(1, len(list(readable.note_faults("0001-a.md", self.GOOD + "\n" * 40))))
        self.assertEqual(["has no part Result"], list(readable.note_faults("0001-a.md", self.GOOD.replace("**Result.**", ""))))


if __name__ == "__main__":
    unittest.main()
