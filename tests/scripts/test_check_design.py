"""check_design.py: circles, repeats, globals and rows that name nothing are seen, and nothing else is."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/gates"))
import check_design


class Graphs(unittest.TestCase):
    def test_circles(self):
        self.assertEqual([], check_design.circles({"a": {"b"}, "b": {"c"}, "c": set()}))
        self.assertEqual([["a", "b", "c"]], check_design.circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}))

    def test_imports_are_followed_to_the_projects_files(self):
        files = {"scripts/a.py": ["import b, json", "def late():", "    from vm_tool import x"],
                 "scripts/b.py": ["HERE = 'x' + \"tests/preload\"", "import common"],
                 "tests/preload/common.py": [], "other/vm_tool.py": []}
        self.assertEqual({"scripts/a.py": {"scripts/b.py"}, "scripts/b.py": {"tests/preload/common.py"},
                          "tests/preload/common.py": set(), "other/vm_tool.py": set()},
                         check_design.import_graph(files))

    def test_a_file_loaded_by_its_path_is_an_import(self):
        files = {"scripts/a.py": ['m = util.spec_from_file_location("x", ROOT / "tests/run.py")'], "tests/run.py": []}
        self.assertEqual({"tests/run.py"}, check_design.import_graph(files)["scripts/a.py"])


class Repeats(unittest.TestCase):
    BODY = [f"  step{i}(value);" for i in range(6)]

    def found(self, first, second):
        return dict(check_design.repeat_faults({"src/a.cc": first, "src/b.cc": second}))

    def test_six_lines_are_one_fault(self):
        self.assertEqual({"repeat src/a.cc src/b.cc": 6}, self.found(["int x;", *self.BODY], [*self.BODY, "int y;"]))
        self.assertEqual({}, self.found(self.BODY[:5], self.BODY))

    def test_comments_blanks_and_includes_do_not_count(self):
        spread = [line for one in self.BODY for line in (one, "", "  // why", "}")]
        self.assertEqual({"repeat src/a.cc src/b.cc": 6}, self.found(spread, self.BODY))
        includes = [f'#include "src/{i}.h"' for i in range(9)]
        self.assertEqual({}, self.found(includes, includes))


class State(unittest.TestCase):
    STATE = ["struct Kept {", "  void forked() {}", "};"]

    def found(self, lines, rows=("FEATURE(kept, Kept)",)):
        return [fault for fault, _ in check_design.state_faults(
            {"preload/a.cc": lines, "preload/state.h": self.STATE, "preload/features.def": list(rows)})]

    def test_a_fourth_variable_is_one_too_many(self):
        allowed = ["constinit Process g_process;", "constinit Operators g_operators{", "constinit Places places;"]
        self.assertEqual([], self.found(allowed + ["static constexpr int kA = 1;", "static void f();"]))
        for more in ("constinit bool said = false;", "  static int count = 0;", "thread_local int t = 0;"):
            self.assertEqual(1, len(self.found(allowed + [more])), more)

    def test_what_a_child_resets_has_a_row(self):
        self.assertEqual(["state::Kept has no row in preload/features.def"], self.found([], ()))


class Comments(unittest.TestCase):
    def test_width(self):
        for line, faults in (("// " + "x" * 97, 0), ("  // " + "x" * 96, 1), ("// NOLINTBEGIN(" + "x" * 99, 0), ('  f("' + "x" * 99, 0)):
            self.assertEqual(faults, len(list(check_design.comment_faults({"preload/a.cc": [line]}))), line)


class Rows(unittest.TestCase):
    def test_a_threshold_names_a_test(self):
        row = 'TUNING(int, kFit, 8, "calls", "why", "{}")'
        test = ['TEST_CASE_METHOD(Fixture, "plan: fits", "[a]") {', 'TEST_CASE("plan: other")']
        for name, faults in (("plan: fits", 0), ("plan: other", 0), ("nothing: a rare machine", 0), ("nothing yet", 1),
                             ("plan: gone", 1), ("preload: early [default]", 0), ("preload: earl [default]", 1)):
            files = {"src/base/tuning.def": [row.format(name)], "tests/a_test.cc": test,
                     "tests/preload/programs/early.c": []}
            self.assertEqual(faults, sum(figure for _, figure in check_design.threshold_faults(files)), name)


if __name__ == "__main__":
    unittest.main()
