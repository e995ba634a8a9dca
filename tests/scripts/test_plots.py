"""The figures: drawn from what the commands write, and refused with a word on what to do."""

import contextlib
import importlib.util
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path[:0] = [str(SCRIPTS), str(SCRIPTS / "experiments")]
import thesis_experiment

RUNS = """allocator,run,wall_seconds,system_seconds,minor_faults,peak_rss_bytes,p50_ms
glibc,0,2.0,0.5,7000,1000000,9
glibc,1,2.5,0.5,7100,1000000,8
memomalloc,0,1.0,0.1,10,900000,4
memomalloc,1,1.1,0.1,10,900000,5
"""


class PlotCompare(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def plot(self, text, *words):
        (self.folder / "runs.csv").write_text(text)
        return subprocess.run([sys.executable, SCRIPTS / "plot_compare.py", "runs.csv", *words], cwd=self.folder,
                              capture_output=True, text=True)

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "matplotlib is not installed")
    def test_a_figure(self):
        self.assertEqual("compare.svg\n", self.plot(RUNS).stdout)
        figure = (self.folder / "compare.svg").read_text()
        self.assertIn("<svg", figure)
        process = self.plot(RUNS, "-o", "no/such.svg")
        self.assertEqual((2, ""), (process.returncode, process.stdout))
        self.assertIn("name another file", process.stderr)

    def test_other_files_are_refused(self):
        header = RUNS.splitlines()[0] + "\n"
        for text, line, advice in (("a,b\n1,2\n", 2, "memomalloc compare --csv runs.csv"), (header, 1, "without --csv"),
                                   (header + "glibc,0,?\n", 2, "memomalloc compare"), (RUNS + "glibc,0", 6, "memomalloc")):
            process = self.plot(text)
            self.assertEqual((2, ""), (process.returncode, process.stdout))
            self.assertTrue(process.stderr.startswith(f"plot_compare.py: runs.csv:{line}: "), process.stderr)
            self.assertIn(advice, process.stderr)
            self.assertEqual(1, process.stderr.count("\n"), process.stderr)
        process = subprocess.run([sys.executable, SCRIPTS / "plot_compare.py", "no.csv"], capture_output=True, text=True)
        self.assertEqual((2, ""), (process.returncode, process.stdout))
        self.assertIn("no.csv: No such file or directory; `memomalloc compare --csv no.csv", process.stderr)


class Thesis(unittest.TestCase):
    def test_ratios_and_the_claim(self):
        rows = [("a", 1, 128, 1, 0, 20.0, 10.0), ("a", 1, 128, 1, 1, 22.0, 11.0), ("b", 1, 128, 1, 0, 10.0, 10.0)]
        table = thesis_experiment.ratios(rows)
        self.assertEqual((2.0, 0.0), table["a", 1, 128, 1])
        for figures, verdict in ((table, "25 % on average, 50 % at best"),
                                 ({("b", 1, 128, 1): (1.1, 0.0)}, "9 % on average, 9 % at best")):
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                holds = thesis_experiment.report(figures)
            self.assertIn(verdict, printed.getvalue())
            self.assertEqual(figures is table, holds)

    def experiment(self, folder, *words, stop_after=None):
        """Runs the experiment with times that are made up; returns its exit code and the pairs it measured."""
        measured = []

        def measure(changes, *case):
            if len(measured) == stop_after:
                raise KeyboardInterrupt
            measured.append(case)
            return 10.0 if changes is thesis_experiment.OURS else 20.0

        arguments = ["thesis_experiment.py", "--networks", "a", "b", "--batches", "1", "--threads", "1", "--repeats", "2",
                     "--output", folder, *words]
        with (unittest.mock.patch.object(thesis_experiment, "measure", measure),
              unittest.mock.patch.object(thesis_experiment, "draw"),
              unittest.mock.patch.dict(thesis_experiment.OURS, {"LD_PRELOAD": __file__}),
              unittest.mock.patch.object(sys, "argv", arguments),
              contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())):
            code = thesis_experiment.main()
        return code, measured

    def test_an_interrupted_experiment_goes_on(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        code, first = self.experiment(folder, stop_after=5)
        self.assertEqual((0, 5), (code, len(first)))  # two whole pairs, which the claim holds for
        code, second = self.experiment(folder, "--resume")
        self.assertEqual(0, code)
        self.assertEqual(2 * 8 - 2 * 2, len(second))
        table = pathlib.Path(folder, "times.csv").read_text().splitlines()
        self.assertEqual(1 + 8, len(table))
        self.assertEqual(len(table), len(set(table)))
        self.assertEqual((0, []), self.experiment(folder, "--resume"))
        pathlib.Path(folder, "times.csv").write_text("x\na,1,128,1,0,?,1\n")
        self.assertEqual((2, []), self.experiment(folder, "--resume"))

    def test_the_time_is_kept_to(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.assertEqual((2, []), self.experiment(folder, "--minutes", "-1"))


if __name__ == "__main__":
    unittest.main()
