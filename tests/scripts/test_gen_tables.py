"""gen_tables.py: rows of .def files are read as the preprocessor would, and tables rendered."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/tables"))
import gen_tables


class Rows(unittest.TestCase):
    def test_strings_are_joined_and_commas_kept(self):
        text = 'OPTION(Bytes, threshold, 65536, "bytes", "smallest block, "\n       "managed")\n'
        self.assertEqual([["Bytes", "threshold", "65536", "bytes", "smallest block, managed"]],
                         gen_tables.rows(text, ("OPTION",)))

    def test_comments_directives_and_other_macros_are_left_out(self):
        text = '// ROW(a, b)\n#ifdef X\nROW(c, (d, e))\n#endif\nOTHER(f)\n'
        self.assertEqual([["c", "(d, e)"]], gen_tables.rows(text, ("ROW",)))

    def test_quotes_inside_strings(self):
        self.assertEqual([["n", 'say "no"']], gen_tables.rows('ROW(n, "say \\"no\\"")', ("ROW",)))

    def test_sizes_for_people(self):
        self.assertEqual(["64K", "2M", "0", "1000", "auto"],
                         [gen_tables.human_size(text)
                          for text in ("65536", "2097152", "0", "1000", "auto")])

    def test_defaults_for_people(self):
        self.assertEqual(["64K", "auto", "20 ms", "unset", "0"],
                         [gen_tables.option_default(row) for row in (
                             ["Size", "A", "65536", "bytes", ""],
                             ["Choice", "B", "memo::Choice::kAuto", "auto, never", ""],
                             ["Number", "C", "20", "ms", ""], ["Path", "D", "", "path", ""],
                             ["Flag", "E", "0", "0 or 1", ""])])

    def test_unknown_table_is_refused(self):
        with self.assertRaises(SystemExit):
            gen_tables.fill("<!-- table:nosuch -->\n<!-- /table -->", "README.md")


if __name__ == "__main__":
    unittest.main()
