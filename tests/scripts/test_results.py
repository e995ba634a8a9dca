"""What was measured is kept and read, targets are judged, and what is there is of the form that is promised."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("scripts", "scripts/tables", "scripts/site", "bench")]
import fault_time
import gen_api
import growing
import printed
import result_pages
import results
import targets


class Printed(unittest.TestCase):
    def test_cells_become_columns(self):
        lines = ["text", "| workload | a | b |", "| --- | --- | --- |", "| **x** | 1,234, 5 ms | 0.97 (0.90 to 1.10) other |"]
        printed.TABLES["test"] = printed.Table(("text workload", "numbers faults ms", "estimate time name"))
        self.addCleanup(printed.TABLES.pop, "test")
        self.assertEqual([{"workload": "x", "faults": "1234", "ms": "5", "time": "0.97", "time_low": "0.90", "time_high": "1.10",
                           "name": "other"}], printed.rows("test", lines))

    def test_an_allocator_a_column_becomes_rows(self):
        lines = ["| program | glibc | memomalloc | all | half |", "| --- | --- | --- | --- | --- |",
                 "| p | 20, 8 ms, 0.1 s, 36 MiB | 1, **9 ms**, 0.2 s, **37 MiB** | 0 + 95 + 5 | - |"]
        plain, ours = printed.rows("programs", lines)
        self.assertEqual(("glibc", "20", ""), (plain["allocator"], plain["faults"], plain["planned_percent"]))
        self.assertEqual(("memomalloc", "9", "95", "system peak"),
                         (ours["allocator"], ours["system_ms"], ours["reused_percent"], ours["worse_than_glibc"]))

    def test_what_programs_print_is_read(self):
        figures = {"again": 9, "late": 2, "peak": 30, "each": [1], "all": [0.5, 0.4, 0.1], "half": None}
        with (unittest.mock.patch.object(growing.children, "run", return_value=figures),
              contextlib.redirect_stdout(io.StringIO()) as said):
            growing.main(["--programs", "llama", "--allocators", "glibc,memomalloc", "--library", __file__])
        plain, ours = printed.rows("growing", said.getvalue().splitlines())
        self.assertEqual(("glibc", "30", ""), (plain["allocator"], plain["peak_mib"], plain["planned_percent"]))
        self.assertEqual(("memomalloc", "2", "40.0"), (ours["allocator"], ours["faults_late"], ours["reused_percent"]))
        with (unittest.mock.patch.multiple(fault_time, first_iterations=unittest.mock.DEFAULT,
                                           first_iteration=lambda *_: {"all": 5, "faults": 2}),
              unittest.mock.patch.object(sys, "argv", ["fault_time.py", "p"]), unittest.mock.patch.dict(os.environ),
              contextlib.redirect_stdout(io.StringIO()) as said):
            fault_time.main()
        self.assertEqual([("glibc", ""), ("a store", "1.00")],
                         [(row["with"], row["share"]) for row in printed.rows("fault_time", said.getvalue().splitlines())])

    def test_another_table_is_refused(self):
        for lines in ([], ["| a | b |", "| --- | --- |", "| 1 | 2 |"]):
            with self.assertRaises(printed.Unreadable):
                printed.rows("tail", lines)
        with self.assertRaises(printed.Unreadable):
            printed.cell_values("numbers a", "1 and 2")


class Kept(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_what_is_stored_is_read(self):
        rows = [{"name": "a, b", "value": "1"}, {"name": "c", "value": "2"}]
        path = results.store("some", "bench/some.py", rows, repetitions=3, folder=self.folder, title="Some", about="what it is")
        self.assertEqual(path.read_text().splitlines()[1], '"a, b",1')
        results.store("some", "bench/some.py --again", rows[:1], folder=self.folder)
        found, how = results.newest("some", self.folder)
        self.assertEqual((rows[:1], "Some", "what it is", "bench/some.py --again"), (found, how["title"], how["about"], how["command"]))
        self.assertEqual(set(), set(results.NEEDED) - set(how))
        self.assertEqual(["some"], results.names(self.folder))
        with self.assertRaises(LookupError):
            results.newest("none", self.folder)

    def test_the_newest_day_counts(self):
        for day in ("2026-01-31", "2026-02-01"):
            (self.folder / "n").mkdir(exist_ok=True)
            (self.folder / "n" / f"{day}.csv").write_text(f"day\n{day}\n")
            (self.folder / "n" / f"{day}.json").write_text("{}")
        rows, how = results.newest("n", self.folder)
        self.assertEqual(([{"day": "2026-02-01"}], "n", "unknown"), (rows, how["title"], how["commit"]))

    def test_all_that_is_there_is_complete(self):
        elsewhere = {"cores", "gpu"}  # written on machines of their own
        for path in sorted((ROOT / "results").glob("*/*.csv")):
            if path.parent.name in elsewhere:
                continue
            how = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
            self.assertEqual(set(), set(results.NEEDED) - set(how), path)
            self.assertEqual(path.stem, how["date"], path)
            rows, _ = results.newest(path.parent.name)
            self.assertGreater(len(rows), 0, path)
            self.assertNotIn(None, {key for row in rows for key in row}, path)


class Targets(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        rows = [{"row": "a", "who": "ours", "value": 1.2, "bound": 1.0, "met": "no yes"},
                {"row": "b", "who": "ours", "value": 0.8, "bound": 1.0, "met": "yes"},
                {"row": "a", "who": "other", "value": 1.0, "bound": "", "met": ""}]
        results.store("some", "x", rows, folder=self.folder)

    def judge(self, formula, limit="<= 1", **more):
        target = {"asked": "x", "result": "some", "formula": formula, "limit": limit, "where": {"who": "ours"}} | more
        return targets.judge(target, self.folder)

    def test_formulas(self):
        for formula, measured in (("max(value)", "1.2"), ("min(value)", "0.8"), ("mean(value)", "1"), ("sum(value)", "2"),
                                  ("geomean(value)", "0.9798"), ("max(value / bound)", "1.2"), ("count(met = no)", "1")):
            self.assertEqual(measured, self.judge(formula)["measured"], formula)

    def test_what_is_missed_is_named(self):
        found = self.judge("max(value)")
        self.assertEqual(("no", "1 of 2 rows", "a 1.2"), (found["met"], found["rows_that_meet_it"], found["worst"]))
        # By the first column that tells the rows apart; a single row needs no name.
        found = self.judge("max(value)", "<= 0.5", where={"row": "a"})
        self.assertEqual("ours 1.2, other 1", found["worst"])
        self.assertEqual("", self.judge("max(value)", where={"row": "a", "who": "ours"})["worst"])
        self.assertEqual("yes", self.judge("max(value)", "<= 1.2")["met"])
        self.assertEqual("no", self.judge("min(value)", ">= 0.9")["met"])

    def test_over_another_row(self):
        self.assertEqual("1.2", self.judge("max(value)", over={"who": "other"})["measured"])
        for column, measured in (("value", "1.2"), ("bound", "1")):  # the least of several; what has no value is left out
            self.assertEqual(measured, self.judge(f"max({column})", over={"who": ["ours", "other"]})["measured"])

    def test_what_is_not_there_is_refused(self):
        for change in ({"result": "none"}, {"formula": "max(nothing)"}, {"formula": "most(value)"}, {"where": {"who": "nobody"}},
                       {"where": {"nothing": "x"}}):
            with self.assertRaises(targets.Unknown, msg=change):
                self.judge(**({"formula": "max(value)"} | change))

    def test_the_targets_of_the_tree_can_be_judged(self):
        judged = [targets.judge(target) for target in targets.read()]
        self.assertGreater(len(judged), 20)
        self.assertEqual({"yes", "no"}, {row["met"] for row in judged})


class Pages(unittest.TestCase):
    def test_each_result_has_a_page_that_the_list_links(self):
        found = result_pages.pages()
        for name in results.names():
            self.assertIn(f"({name}.md)", found["results/index.md"], name)
            rows, how = results.newest(name)
            text = found[f"results/{name}.md"]
            self.assertIn(f"\n# {how['title']}\n", text, name)
            self.assertEqual(len(rows) + 2, sum(line.startswith("|") for line in text.splitlines()), name)
        self.assertEqual(set(), {name for group in result_pages.GROUPS.values() for name in group} - set(results.names()))


    def test_ends_are_folded_into_their_values(self):
        row = {"time": "0.97", "time_low": "0.89", "time_high": "1.06", "wait_ms": "5", "wait_low": "4", "wait_high": "6", "x_low": "1"}
        self.assertEqual({"time": "0.97\u00a0(0.89–1.06)", "wait_ms": "5\u00a0(4–6)", "x_low": "1"}, result_pages.folded(row))


class Commit(unittest.TestCase):
    """In the tree where the measured files come from, in a copy of it, and where it is told."""

    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        self.enterContext(unittest.mock.patch.dict(os.environ, {"GIT_CEILING_DIRECTORIES": str(self.root.parent)}))
        os.environ.pop("MEMO_COMMIT", None)

    def git(self, *words):
        done = subprocess.run(["git", "-C", self.root, "-c", "user.name=a", "-c", "user.email=a", *words], capture_output=True,
                              text=True, check=True)
        return done.stdout.strip()

    def commit(self, text):
        (self.root / "file").write_text(text)
        self.git("init", "--quiet")
        self.git("add", "file")
        self.git("commit", "--quiet", "-m", "m")
        return self.git("rev-parse", "HEAD")

    def carry(self, text):
        (self.root / "build/hardware").mkdir(parents=True)
        (self.root / "build/hardware/commit").write_text(text + "\n")

    def test_git_tells_in_the_tree_itself(self):
        first = self.commit("a")
        self.carry(first)  # laid there for another machine, and old by now
        later = self.commit("b")
        self.assertTrue(later.startswith(results.commit(self.root)))
        (self.root / "file").write_text("c")
        self.assertTrue(results.commit(self.root).endswith("-dirty"))

    def test_what_was_carried_tells_in_a_copy(self):
        self.assertEqual("unknown", results.commit(self.root))
        self.carry("0123456789012345678901234567890123456789-dirty")
        self.assertEqual("0123456789012345678901234567890123456789-dirty", results.commit(self.root))
        self.commit("a copy's own")
        self.assertEqual("0123456789012345678901234567890123456789-dirty", results.commit(self.root))

    def test_another_repository_around_a_copy_does_not_tell(self):
        self.commit("a")
        (self.root / "copy").mkdir()
        self.assertEqual("unknown", results.commit(self.root / "copy"))

    def test_the_environment_tells_before_all(self):
        self.commit("a")
        with unittest.mock.patch.dict(os.environ, {"MEMO_COMMIT": "told"}):
            self.assertEqual("told", results.commit(self.root))


class Interfaces(unittest.TestCase):
    def test_python(self):
        text = "\n".join(gen_api.python_api())
        for name in ("memomalloc.enable", "memomalloc.stats", "memomalloc.dsa.plan", "memomalloc.torch.backend"):
            self.assertIn(f"### {name}\n", text)
        self.assertIn("`reorder(module, example_inputs, seconds=10.0)`", text)
        self.assertNotIn("_SECONDS", text)

    def test_docstrings_become_lists_and_code(self):
        lines = gen_api.prose("What.\n\na, b: first\n    and more\nc: second\n\n    code(a)\n    code(b)\n\nEnd.")
        self.assertEqual(["What.", "", "- `a, b`: first", "  and more", "- `c`: second", "", "    code(a)", "    code(b)", "", "End."],
                         lines)

    def test_c(self):
        text = "\n".join(gen_api.c_api())
        for line in ("size_t memomalloc_stats_json(char* buffer, size_t size);", "const char* memomalloc_version(void);"):
            self.assertIn(line, text)
        for word in ("__attribute__", "#include", "extern", "NOLINT"):
            self.assertNotIn(word, text)


if __name__ == "__main__":
    unittest.main()
