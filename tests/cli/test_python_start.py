"""memomalloc.enable(), memomalloc.report() and the kernel for Jupyter, as a program uses them."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import ROOT

LIBRARY = ROOT / "build/libmemomalloc.so"
sys.path.insert(0, str(ROOT / "python"))
from memomalloc import start, summary  # noqa: E402

LOOP = """
for _ in range(60):
    blocks = [bytearray(size * 100000) for size in range(1, 9)]
    del blocks
"""


class Start(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def python(self, *words, input=None, **variables):
        clean = {name: value for name, value in os.environ.items()
                 if name != "LD_PRELOAD" and not name.startswith("MEMOMALLOC_")}
        return subprocess.run([sys.executable, *words], cwd=self.folder, capture_output=True, text=True, timeout=120,
                              input=input, env=clean | {"PYTHONPATH": str(ROOT / "python")} | variables)

    def script(self, text):
        (self.folder / "script.py").write_text(f"import memomalloc, os, sys\n{text}")
        return "script.py"

    def test_a_program_starts_itself_anew_once_with_its_words(self):
        script = self.script(f"print('begins', flush=True)\nmemomalloc.enable(restart=True, library={str(LIBRARY)!r}, "
                             "threshold='32K', verbose=False)\n"
                             "print(memomalloc.loaded(), sys.argv, sys.flags.optimize, "
                             "os.environ['MEMOMALLOC_THRESHOLD'], os.environ['MEMOMALLOC_VERBOSE'])")
        done = self.python("-O", script, "a b", "")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertEqual("begins\nbegins\nTrue ['script.py', 'a b', ''] 1 32K 0\n", done.stdout)

    def test_without_restart_only_children_have_it(self):
        child = "import memomalloc; print(memomalloc.loaded())"
        script = self.script(f"print(memomalloc.enable(library={str(LIBRARY)!r}), flush=True)\n"
                             f"import subprocess\nsubprocess.run([sys.executable, '-c', {child!r}])")
        self.assertEqual("False\nTrue\n", self.python(script).stdout)

    def test_a_library_that_the_loader_refuses_starts_it_no_more_than_once(self):
        (self.folder / "libmemomalloc.so.1").write_text("no library")
        script = self.script("print(memomalloc.enable(restart=True, library='libmemomalloc.so.1'))")
        done = self.python(script)
        self.assertEqual((0, "False\n"), (done.returncode, done.stdout))
        self.assertIn("cannot be preloaded", done.stderr)

    def test_a_loader_that_drops_the_list_starts_it_no_more_than_once(self):
        (self.folder / "libmemomalloc.so.1").write_text("no library")
        script = self.script("print('begins', flush=True)\nos.environ.pop('LD_PRELOAD', None)\n"
                             "print(memomalloc.enable(restart=True, library='libmemomalloc.so.1'))")
        done = self.python(script)
        self.assertEqual((0, "begins\nbegins\nFalse\n"), (done.returncode, done.stdout))

    def test_a_program_without_streams_starts_anew(self):
        script = self.script(f"sys.stdout = sys.stderr = None\nmemomalloc.enable(restart=True, library={str(LIBRARY)!r})\n"
                             "os.write(1, str(memomalloc.loaded()).encode())")
        self.assertEqual("True", self.python(script).stdout)

    def test_a_program_under_the_library_needs_no_other(self):
        done = self.python(self.script("print(memomalloc.enable(restart=True))"), LD_PRELOAD=str(LIBRARY))
        self.assertEqual("True\n", done.stdout, done.stderr)

    def test_workers_do_not_restart(self):
        for method in ("fork", "spawn", "forkserver"):
            (self.folder / "worker.py").write_text(
                "import memomalloc, multiprocessing\n"
                "def work():\n    try:\n        memomalloc.enable(restart=True, library=LIBRARY)\n"
                "    except RuntimeError as error:\n        print(error, flush=True)\n"
                "if __name__ == '__main__':\n    worker = multiprocessing.get_context(METHOD).Process(target=work)\n"
                "    worker.start()\n    worker.join()\n    print(worker.exitcode)\n"
                .replace("LIBRARY", repr(str(LIBRARY))).replace("METHOD", repr(method)))
            self.assertRegex(self.python("worker.py").stdout, r"^memomalloc.enable: a worker .*\n0\n$", method)

    def test_a_path_that_the_list_cannot_name_is_refused(self):
        (self.folder / "my lib").mkdir()
        shutil.copy(LIBRARY, self.folder / "my lib/libmemomalloc.so.1")
        for call in ("enable", "environment"):
            done = self.python(self.script(f"memomalloc.{call}(library='my lib/libmemomalloc.so.1')"))
            self.assertEqual(1, done.returncode)
            self.assertIn("RuntimeError: memomalloc: LD_PRELOAD cannot name", done.stderr)
        done = self.python("-m", "memomalloc", "jupyter", "install", "--library", "my lib/libmemomalloc.so.1",
                           JUPYTER_DATA_DIR=str(self.folder / "data"))
        self.assertEqual(2, done.returncode)
        self.assertIn("LD_PRELOAD cannot name", done.stderr)
        whole = self.python(self.script("print(memomalloc.environment(library='./x.so')['LD_PRELOAD'])")).stdout
        self.assertEqual(f"{self.folder}/x.so\n", whole)

    def test_what_cannot_be_done_is_said(self):
        for library, error in (("nowhere.so", "FileNotFoundError"), (None, "RuntimeError")):
            done = self.python(self.script(f"memomalloc.enable(library={library!r})"))
            self.assertEqual(1, done.returncode)
            self.assertIn(f"{error}: memomalloc.enable: ", done.stderr)
        script = self.script(f"import types\nsys.modules['ipykernel'] = types\n"
                             f"memomalloc.enable(restart=True, library={str(LIBRARY)!r})")
        self.assertIn("jupyter install", self.python(script).stderr)
        script = f"import memomalloc\nmemomalloc.enable(restart=True, library={str(LIBRARY)!r})\nprint('done')"
        for words in ((), ("-",)):
            self.assertIn("from standard input cannot be read again", self.python(*words, input=script).stderr)
        self.assertEqual("done\n", self.python("-c", script).stdout)

    def test_the_list_keeps_what_was_there_and_has_one_of_ours(self):
        self.assertEqual("/a/libmemomalloc.so.1:x.so:y.so",
                         start.preload_list("/a/libmemomalloc.so.1", "x.so:/b/libmemomalloc.so y.so:x.so"))


class Report(unittest.TestCase):
    def test_the_text_says_what_was_served(self):
        program = f"import memomalloc\n{LOOP}\nprint(memomalloc.report())\nprint(memomalloc.report()._repr_html_())"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              env=os.environ | {"PYTHONPATH": str(ROOT / "python"), "LD_PRELOAD": str(LIBRARY)})
        self.assertRegex(done.stdout, r"^\d+ % of [\d,]+ MiB in large blocks were served, \d+ % from a plan .* page faults avoided\.\nAll is well")
        self.assertRegex(done.stdout, r"<svg .*<rect x=\"0\.00\" .*from a plan")
        self.assertRegex(done.stdout, r"phase +serving")

    def test_without_the_library_it_says_how_to_start(self):
        text = str(summary.Report(None))
        self.assertIn("not loaded", text)
        self.assertIn("memomalloc run -- COMMAND", text)

    def test_advice_follows_from_what_was_counted(self):
        counted = {"large_allocations": 9, "since_serving": {"large_bytes": 100, "planned_bytes": 60, "at_hand_bytes": 40}}
        self.assertIn("All is well", summary.advice(counted))
        self.assertIn("trace", summary.advice(counted | {"since_serving": {"large_bytes": 100, "planned_bytes": 60, "at_hand_bytes": 20}}))
        self.assertIn("learns", summary.advice(counted | {"since_serving": {"large_bytes": 0, "planned_bytes": 0, "at_hand_bytes": 0}}))
        self.assertIn("Run your loop", summary.advice(counted | {"large_allocations": 0}))

    def test_shares_add_up(self):
        one = {"large_bytes": 8, "planned_bytes": 4, "at_hand_bytes": 3, "other_bytes": 1}
        self.assertEqual(1, sum(share for _, share, _ in summary.Report(one).shares()))
        self.assertEqual([], summary.Report(one | {"large_bytes": 0}).shares())


class Kernel(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def jupyter(self, *words):
        return subprocess.run([sys.executable, "-m", "memomalloc", "jupyter", *words], capture_output=True, text=True,
                              env=os.environ | {"PYTHONPATH": str(ROOT / "python"), "JUPYTER_DATA_DIR": str(self.folder)})

    def test_installed_and_removed(self):
        done = self.jupyter("install", "--user", "--library", str(LIBRARY), "--set", "MEMOMALLOC_THRESHOLD=16K")
        self.assertIn(done.returncode, (0, 1), done.stderr)  # 1: this Python has no ipykernel, and it says so
        self.assertEqual(done.returncode == 1, "pip install ipykernel" in done.stderr)
        kernel = json.loads((self.folder / "kernels/memomalloc/kernel.json").read_text())
        self.assertEqual({"LD_PRELOAD": str(LIBRARY), "MEMOMALLOC_THRESHOLD": "16K"}, kernel["env"])
        self.assertEqual([sys.executable, "-m", "ipykernel_launcher"], kernel["argv"][:3])
        self.assertEqual(0, self.jupyter("remove", "--user").returncode)
        self.assertEqual([], list((self.folder / "kernels").iterdir()))
        self.assertEqual(1, self.jupyter("remove", "--user").returncode)

    def test_no_name_leads_out_of_the_kernels_folder(self):
        outside = self.folder / "elsewhere"
        outside.mkdir()
        (outside / "kernel.json").write_text("{}")
        for name in ("../elsewhere", "../../elsewhere", str(outside), "..", "a/../../elsewhere", ""):
            self.assertEqual(2, self.jupyter("remove", "--user", "--name", name).returncode, name)
        self.assertTrue((outside / "kernel.json").exists())

    def test_bad_usage(self):
        for words in (("install", "--user"), ("install", "--user", "--library", "nowhere.so"), ("shine",),
                      ("install", "--user", "--library", str(LIBRARY), "--set", "PATH=x")):
            self.assertEqual(2, self.jupyter(*words).returncode, words)
        self.assertFalse((self.folder / "kernels").exists())


if __name__ == "__main__":
    unittest.main()
