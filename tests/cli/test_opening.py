"""What `memomalloc run` makes visible by itself: variables, and Python's start hook, with stand-ins for the frameworks and,
where an environment has them, with the frameworks themselves (test_frameworks.py)."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from support import ROOT, memomalloc

PYTHON = sys.executable
LIBM = next(str(path) for path in pathlib.Path("/").glob("*lib*/*-linux-gnu*/libm.so.6"))

FAKES = {
    "onnxruntime/__init__.py": "from onnxruntime.capi._pybind_state import SessionOptions, get_default_session_options\n",
    "onnxruntime/capi/__init__.py": "",
    "onnxruntime/capi/_pybind_state.py": """
class SessionOptions:
    def __init__(self):
        self.arena = True
    @property
    def enable_cpu_mem_arena(self):
        return self.arena
    @enable_cpu_mem_arena.setter
    def enable_cpu_mem_arena(self, value):
        self.arena = value
def get_default_session_options():
    made = SessionOptions()
    made.arena = True
    return made
""",
    "mlx/__init__.py": "",
    "mlx/core.py": "limit = None\ndevice = 'Device(cpu, 0)'\ndef default_device(): return device\n"
                   "def set_cache_limit(bytes):\n    global limit\n    limit = bytes\n",
    "pyarrow/__init__.py": "import os\npool = os.environ.get('ARROW_DEFAULT_MEMORY_POOL')\n",
    # As vLLM's platform for processors does.
    "vllm/__init__.py": "import os\nlist = os.environ.get('LD_PRELOAD', '')\nif 'libtcmalloc' not in list:\n"
                        "    os.environ['LD_PRELOAD'] = '/nowhere/libtcmalloc_minimal.so.4:' + list\n",
}
ARENAS = """
import json, sys
import onnxruntime as o
own = o.SessionOptions()
asks = o.SessionOptions()
asks.enable_cpu_mem_arena = True
off = o.SessionOptions()
off.enable_cpu_mem_arena = False
print(json.dumps([one.enable_cpu_mem_arena for one in (own, o.get_default_session_options(), asks, off)]))
"""


class Opening(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        # Python takes a compiled module for new if the source has the same size and second of writing.
        self.enterContext(unittest.mock.patch.dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))
        for name, text in FAKES.items():
            path = self.folder / "fakes" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def run_python(self, code, *flags, options=(), words=(), **variables):
        variables = {"PYTHONPATH": str(self.folder / "fakes")} | variables
        done = memomalloc("run", *options, "--", PYTHON, *flags, "-c", code, *words, environment=variables)
        self.assertEqual(0, done.returncode, done.stderr)
        return done

    def arenas(self, **how):
        return json.loads(self.run_python(ARENAS, **how).stdout)

    def test_sessions_have_no_arena_but_where_it_is_asked_for(self):
        self.assertEqual([False, False, True, False], self.arenas())

    def test_each_way_to_leave_it(self):
        as_it_comes = [True, True, True, False]
        for how in ({"options": ["--no-open"]}, {"options": ["--open", "none"]}, {"options": ["--open=-onnxruntime"]},
                    {"options": ["--open", "mlx"]}, {"MEMOMALLOC_OPEN": "none"}, {"MEMOMALLOC_OPEN": "-onnxruntime, -mlx"},
                    {"MEMOMALLOC_DISABLE": "1"}):
            with self.subTest(how):
                self.assertEqual(as_it_comes, self.arenas(**how))
        for how in ({"options": ["--open", "onnxruntime,mlx"]}, {"MEMOMALLOC_OPEN": "all"}, {"options": ["--open=-mlx"]}):
            with self.subTest(how):
                self.assertEqual([False, False, True, False], self.arenas(**how))
        wrong = memomalloc("run", "--open", "onnx", "--", "true")
        self.assertEqual(2, wrong.returncode)
        self.assertIn("there is no opening 'onnx'", wrong.stderr)

    def test_a_variable_that_is_wrong_is_told_and_the_default_holds(self):
        show = ("run", "--", "sh", "-c", "echo $MEMOMALLOC_OPEN $ARROW_DEFAULT_MEMORY_POOL")
        wrong = memomalloc(*show, environment={"MEMOMALLOC_OPEN": "none,onnx"})
        self.assertEqual((0, "all system\n"), (wrong.returncode, wrong.stdout))
        self.assertRegex(wrong.stderr, "^memomalloc: bad value of MEMOMALLOC_OPEN: there is no opening 'onnx'.* default is used\n$")
        strict = memomalloc(*show, environment={"MEMOMALLOC_OPEN": "onnx", "MEMOMALLOC_STRICT": "1"})
        self.assertEqual((2, ""), (strict.returncode, strict.stdout))
        self.assertIn("there is no opening 'onnx'", strict.stderr)

    def test_it_is_told_in_one_line_by_the_first_process(self):
        code = "import onnxruntime, subprocess, sys\nif len(sys.argv) < 3:\n    subprocess.run([sys.executable, '-c', sys.argv[1], *sys.argv[1:], '1'])"
        told = self.run_python(code, words=[code]).stderr
        self.assertEqual(1, told.count("\n"), told)
        self.assertRegex(told, r"^memomalloc: onnxruntime: .*MEMOMALLOC_OPEN=-onnxruntime")
        self.assertEqual("", self.run_python(code, words=[code], MEMOMALLOC_VERBOSE="0").stderr)
        self.assertEqual("", self.run_python("import json").stderr)

    def test_a_framework_of_another_shape_goes_on_as_it_is(self):
        state = self.folder / "fakes/onnxruntime/capi/_pybind_state.py"
        for text in ("SessionOptions = 3\ndef get_default_session_options(): return 4\n",
                     "class SessionOptions: pass\nget_default_session_options = None\n"):
            state.write_text(text)
            self.run_python("import onnxruntime")

    def test_nothing_is_set_where_the_library_is_off(self):
        code = "import os; print(os.environ.get('ARROW_DEFAULT_MEMORY_POOL'), os.environ['PYTHONPATH'].count('opening'))"
        self.assertEqual("system 1\n", self.run_python(code).stdout)
        self.assertEqual("None 0\n", self.run_python(code, MEMOMALLOC_DISABLE="1").stdout)

    def test_gpu_memory_that_cannot_be_planned_is_told(self):
        """As after `make install`, which has the hook and no Python module."""
        shutil.copytree(ROOT / "python/memomalloc/opening", self.folder / "alone/opening")
        (self.folder / "fakes/torch.py").write_text("")
        variables = {"PYTHONPATH": f"{self.folder}/alone/opening:{self.folder}/fakes", "MEMOMALLOC_CUDA": "1",
                     "LD_PRELOAD": str(ROOT / "build/libmemomalloc.so")}
        for verbose, told in (({}, "memomalloc: torch stays as it is: planned GPU memory is in memomalloc's wheel, which is not installed\n"),
                              ({"MEMOMALLOC_VERBOSE": "0"}, "")):
            done = subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, text=True,
                                  env=os.environ | variables | verbose)
            self.assertEqual((0, told), (done.returncode, done.stderr))

    def test_gpu_memory_leaves_the_order_of_packages_and_no_name_behind(self):
        for name in ("one", "two"):
            (self.folder / name).mkdir()
        (self.folder / "fakes/torch.py").write_text("")
        code = "import sys\nbefore = list(sys.path)\nimport torch\nprint(before == sys.path, 'memomalloc' in sys.modules)"
        shutil.copytree(ROOT / "python/memomalloc/opening", self.folder / "share/memomalloc/opening")
        for hook, path in ((ROOT / "python/memomalloc/opening", f"{self.folder}/one:{ROOT}/python:{self.folder}/two"),
                           (self.folder / "share/memomalloc/opening", f"{self.folder}/one")):
            variables = {"PYTHONPATH": f"{hook}:{self.folder}/fakes:{path}", "MEMOMALLOC_CUDA": "1",
                         "LD_PRELOAD": str(ROOT / "build/libmemomalloc.so")}
            done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, env=os.environ | variables)
            self.assertEqual(f"True {hook.is_relative_to(ROOT)}\n", done.stdout, done.stderr)
            with open("/dev/full", "w", encoding="utf-8") as full:
                self.assertEqual(0, subprocess.run([PYTHON, "-c", "import torch"], stderr=full,
                                                   env=os.environ | variables).returncode)

    def test_other_tools_that_put_a_loader_in_place_of_a_modules(self):
        code = ("import importlib.abc, importlib.util, sys\n"
                "class Loader(importlib.abc.Loader):\n    def __init__(self, loader): self.loader = loader\n"
                "    def create_module(self, spec): return self.loader.create_module(spec)\n"
                "    def exec_module(self, module): self.loader.exec_module(module)\n"
                "class Finder:\n    busy = False\n    def find_spec(self, name, path=None, target=None):\n"
                "        if self.busy or not name.startswith('onnxruntime'): return None\n        self.busy = True\n"
                "        spec = importlib.util.find_spec(name)\n        self.busy = False\n"
                "        spec.loader = Loader(spec.loader)\n        return spec\n"
                "sys.meta_path.insert(0, Finder())\nimport onnxruntime\nprint(onnxruntime.SessionOptions().arena)")
        self.assertEqual("False\n", self.run_python(code).stdout)

    def test_nothing_is_done_for_a_framework_that_is_only_looked_for(self):
        code = "import importlib.util; print(importlib.util.find_spec('pyarrow') is not None)"
        done = self.run_python(code, MEMOMALLOC_VERBOSE="1")
        self.assertEqual("True\n", done.stdout)
        self.assertNotIn("pyarrow", done.stderr)

    def test_mlx_gives_its_cache_back_on_a_processor_only(self):
        code = "import mlx.core as m; print(m.limit)"
        self.assertEqual("0\n", self.run_python(code).stdout)
        self.assertEqual("None\n", self.run_python(code, options=["--open=-mlx"]).stdout)
        core = self.folder / "fakes/mlx/core.py"
        core.write_text(core.read_text().replace("cpu", "gpu"))
        self.assertEqual("None\n", self.run_python(code).stdout)

    def test_a_pool_of_pyarrow_that_is_named_stays(self):
        code = "import pyarrow; print(pyarrow.pool)"
        self.assertEqual("system\n", self.run_python(code).stdout)
        self.assertEqual("jemalloc\n", self.run_python(code, ARROW_DEFAULT_MEMORY_POOL="jemalloc").stdout)

    def test_the_library_stays_first_where_vllm_looks_for_a_word(self):
        code = ("import os, subprocess, sys, vllm\nprint(os.environ['LD_PRELOAD'], flush=True)\n"
                "subprocess.run([sys.executable, '-c', 'import memomalloc; print(memomalloc.loaded())'])")
        for options in ([], ["--next", LIBM]):
            done = self.run_python(code, options=options, PYTHONPATH=f"{self.folder}/fakes:{ROOT}/python")
            order, served = done.stdout.splitlines()
            first = order.split(":")[0]
            self.assertIn("libtcmalloc", first)
            self.assertTrue(os.path.samefile(first, ROOT / "build/libmemomalloc.so"), first)
            self.assertEqual("True", served)
            self.assertNotIn("ld.so", done.stderr)
        alone = self.run_python(code, options=["--no-open"], PYTHONPATH=f"{self.folder}/fakes:{ROOT}/python").stdout
        self.assertTrue(alone.startswith("/nowhere/"), alone)

    def test_onetbb_is_told_of_an_allocator_behind(self):
        script = "echo ${TBB_ENABLE_SANITIZERS-none}"
        for options, value in ((["--next", LIBM], "1"), ([], "none"), (["--next", LIBM, "--no-open"], "none")):
            self.assertEqual(value + "\n", memomalloc("run", *options, "--", "sh", "-c", script).stdout)

    def test_a_sitecustomize_that_is_there_is_kept(self):
        own = self.folder / "own"
        own.mkdir()
        (own / "sitecustomize.py").write_text("print('own')\nmine = 7\n")
        code = "import sys, sitecustomize, onnxruntime\nprint(sitecustomize.mine, onnxruntime.SessionOptions().arena)\nprint([e for e in sys.path if 'opening' in e])"
        done = self.run_python(code, PYTHONPATH=f"{own}:{self.folder / 'fakes'}")
        self.assertEqual("own\n7 False\n[]\n", done.stdout)
        (own / "sitecustomize.py").write_text("import no_such_module\n")
        broken = self.run_python("print('goes on')", PYTHONPATH=str(own))
        alone = memomalloc("run", "--no-open", "--", PYTHON, "-c", "print('goes on')", environment={"PYTHONPATH": str(own)})
        self.assertEqual(alone.stdout, broken.stdout)
        self.assertIn("no_such_module", alone.stderr)
        self.assertEqual(alone.stderr.splitlines()[-1:], broken.stderr.splitlines()[-1:])

    def test_interpreters_that_leave_the_environment_out_have_no_hook(self):
        code = "import sys; print(any('_memomalloc' in name for name in sys.modules))"
        self.assertEqual("True\n", self.run_python(code).stdout)
        for flag in ("-E", "-I", "-S"):
            done = self.run_python(code, flag)
            self.assertEqual(("False\n", ""), (done.stdout, done.stderr))

    def test_the_programs_own_pythonpath_stays(self):
        code = "import os; print(os.environ['PYTHONPATH'])"
        for rest in ("", "/a", "/a::/b", ":"):
            hook, _, kept = self.run_python(code, PYTHONPATH=rest).stdout.rstrip("\n").partition(":")
            self.assertTrue(hook.endswith("/opening"))
            self.assertEqual(rest, kept)
        # One that runs under another has it once.
        inner = f"import subprocess; subprocess.run(['{ROOT}/build/memomalloc', 'run', '--', 'sh', '-c', 'echo $PYTHONPATH'])"
        self.assertEqual(1, self.run_python(inner).stdout.count("opening"))

    def test_processes_that_a_program_starts_have_it(self):
        script = self.folder / "spawns.py"
        script.write_text("import multiprocessing, sys\n"
                          "def arena(_):\n    import onnxruntime\n    return onnxruntime.SessionOptions().enable_cpu_mem_arena\n"
                          "if __name__ == '__main__':\n"
                          "    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:\n        print(pool.map(arena, range(4)))\n")
        for method in ("spawn", "fork", "forkserver"):
            done = memomalloc("run", "--", PYTHON, script, method, environment={"PYTHONPATH": str(self.folder / "fakes")})
            self.assertEqual("[False, False, False, False]\n", done.stdout, done.stderr)

    def test_a_program_that_enables_it_itself(self):
        library = ROOT / "build/libmemomalloc.so"
        code = (f"import memomalloc\nmemomalloc.enable(restart=True, library={str(library)!r}, WORDS)\n"
                "import os, onnxruntime, subprocess, sys\n"
                "print(onnxruntime.SessionOptions().arena, flush=True)\n"
                "subprocess.run([sys.executable, '-c', 'import onnxruntime; print(onnxruntime.SessionOptions().arena)'])")
        for words, found in (("", "False\nFalse\n"), ("open='none'", "True\nTrue\n")):
            script = self.folder / "enables.py"
            script.write_text(code.replace("WORDS", words))
            clean = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD" and not k.startswith("MEMOMALLOC_")}
            done = subprocess.run([PYTHON, script], capture_output=True, text=True,
                                  env=clean | {"PYTHONPATH": f"{ROOT}/python:{self.folder}/fakes"})
            self.assertEqual(found, done.stdout, done.stderr)

    def test_an_environment_for_other_processes(self):
        code = "import json, memomalloc; print(json.dumps([memomalloc.environment(), memomalloc.environment(open='none'), memomalloc.environment(open='none', cuda=True)]))"
        done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True,
                              env={"PYTHONPATH": str(ROOT / "python"), "PATH": os.environ["PATH"]})
        opened, closed, planned = json.loads(done.stdout)
        hook, rest = opened["PYTHONPATH"].split(":")
        self.assertTrue(pathlib.Path(hook, "sitecustomize.py").exists())
        self.assertEqual(str(ROOT / "python"), rest)
        self.assertEqual("system", opened["ARROW_DEFAULT_MEMORY_POOL"])
        self.assertEqual({"LD_PRELOAD", "MEMOMALLOC_OPEN"}, set(closed))
        self.assertEqual({"LD_PRELOAD", "MEMOMALLOC_OPEN", "MEMOMALLOC_CUDA", "PYTHONPATH"}, set(planned))


if __name__ == "__main__":
    unittest.main()
