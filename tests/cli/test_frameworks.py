"""What `memomalloc run` makes visible by itself, with the frameworks and servers themselves. MEMO_RUNTIMES names an interpreter
that has them; else the one of MEMO_VENV is asked. Each test skips what is not installed."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

from support import COMMAND, ROOT, json_of, memomalloc

PYTHON = os.environ.get("MEMO_RUNTIMES") or (
    f"{os.environ['MEMO_VENV']}/bin/python" if os.environ.get("MEMO_VENV") else sys.executable)

# A network of onnxruntime whose pictures have a new size each time, as a session with its own options or with none.
SESSION = """
import hashlib, numpy, onnx_models, onnxruntime, random, sys, tempfile
def session(options=None):
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        onnx_models.convolutions(file.name)
        return onnxruntime.InferenceSession(file.name, options, providers=["CPUExecutionProvider"])
def work(one, turns=30):
    rng, digest = random.Random(1), hashlib.sha256()
    for _ in range(turns):
        picture = numpy.full((1, 3, rng.randint(100, 300), rng.randint(100, 300)), 0.5, numpy.float32)
        digest.update(one.run(None, {"x": picture})[0].tobytes())
    return digest.hexdigest()
"""
OWN = SESSION + """
import json, memomalloc
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
if sys.argv[1:] == ["asks"]:
    options.enable_cpu_mem_arena = True
before = memomalloc.stats()
answer = work(session(None if sys.argv[1:] == ["none"] else options))
print(json.dumps({"answer": answer, "calls": memomalloc.stats()["large_allocations"] - before["large_allocations"]}))
"""
SERVED = SESSION + """
import json, os
one = session()
def answer():
    return json.dumps({"pid": os.getpid(), "answer": work(one, 5), "arena": onnxruntime.SessionOptions().enable_cpu_mem_arena})
def wsgi(environment, start):
    start("200 OK", [])
    return [answer().encode()]
async def asgi(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": answer().encode()})
"""


def has(*packages):
    probe = "import importlib.util as u, sys; sys.exit(any(u.find_spec(name) is None for name in sys.argv[1:]))"
    return subprocess.run([PYTHON, "-c", probe, *packages], capture_output=True).returncode == 0


def needs(*packages):
    missing = [name for name in packages if not has(name)]
    return unittest.skipUnless(not missing, f"{', '.join(missing)} is not installed")


class Frameworks(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.path = f"{self.folder}:{ROOT}/python:{ROOT}/bench/complaints"

    def under(self, code, *words, options=(), **variables):
        (self.folder / "program.py").write_text(code)
        done = memomalloc("run", *options, "--", PYTHON, self.folder / "program.py", *words, timeout=300,
                          environment={"PYTHONPATH": self.path} | variables)
        self.assertEqual(0, done.returncode, done.stderr)
        return done

    @needs("onnxruntime", "onnx")
    def test_onnxruntimes_tensors_are_seen(self):
        closed = json_of(self.under(OWN, options=["--no-open"]))
        for words in ([], ["none"]):
            opened = json_of(self.under(OWN, *words))
            self.assertEqual(closed["answer"], opened["answer"])
            self.assertGreater(opened["calls"], closed["calls"] + 30, (words, closed))
        asked = json_of(self.under(OWN, "asks"))
        self.assertEqual(closed["answer"], asked["answer"])
        self.assertLess(asked["calls"], opened["calls"] - 30)
        left = json_of(self.under(OWN, MEMOMALLOC_OPEN="-onnxruntime"))
        self.assertLess(left["calls"], opened["calls"] - 30)

    @needs("onnxruntime", "onnx")
    def test_the_doctor_says_nothing_of_an_arena_that_is_off(self):
        (self.folder / "program.py").write_text(OWN)
        for words, hidden in (([], 0), (["asks"], 1)):
            done = memomalloc("doctor", "--json", "--", PYTHON, self.folder / "program.py", *words, timeout=300,
                              environment={"PYTHONPATH": self.path})
            found = [row for row in json_of(done)["findings"] if row["question"] == "hidden" and "onnxruntime" in row["what"]]
            self.assertEqual(hidden, len(found), found)

    @needs("mlx.core")
    def test_mlx_keeps_no_cache(self):
        code = ("import json, memomalloc, mlx.core as m\nfor i in range(20):\n    a = m.ones((512, 512 + 8 * i)); m.eval(a @ a.T)\n"
                "del a\nprint(json.dumps([m.get_cache_memory(), float(m.sum(m.ones((64, 64))))]))")
        self.assertEqual([0, 4096.0], json_of(self.under(code)))
        self.assertLess(0, json_of(self.under(code, options=["--open=-mlx"]))[0])

    @needs("pyarrow")
    def test_pyarrow_uses_malloc(self):
        code = "import pyarrow; print(pyarrow.default_memory_pool().backend_name)"
        self.assertEqual("system\n", self.under(code).stdout)
        self.assertNotEqual("system\n", self.under(code, options=["--no-open"]).stdout)

    @needs("openvino")
    def test_openvino_runs_with_an_allocator_behind(self):
        code = ("import numpy, openvino as o\np = o.opset13.parameter([-1, 64], numpy.float32)\n"
                "m = o.Model([o.opset13.relu(p)], [p])\nf = o.compile_model(m, 'CPU')\n"
                "print(float(sum(f(numpy.ones((n, 64), 'f4'))[0].sum() for n in range(1, 20))))")
        alone = self.under(code).stdout
        for name in ("jemalloc", "tcmalloc", "mimalloc"):
            found = memomalloc("run", "--next", name, "--", "true")
            if found.returncode == 0:
                done = self.under(code, options=["--next", name])
                self.assertEqual(alone, done.stdout)

    @needs("numpy")
    def test_numpys_arrays_are_seen(self):
        code = ("import memomalloc, numpy\nbefore = memomalloc.stats()['large_allocations']\n"
                "for i in range(40):\n    numpy.zeros(1 << 16 + i % 4).sum()\n"
                "print(memomalloc.stats()['large_allocations'] - before)")
        self.assertGreaterEqual(int(self.under(code).stdout), 40)

    def hidden_by(self, code, **variables):
        (self.folder / "program.py").write_text(code)
        done = memomalloc("doctor", "--json", "--", PYTHON, self.folder / "program.py", environment=variables)
        return str([row["what"] for row in json_of(done)["findings"] if row["question"] == "hidden"])

    @needs("polars")
    def test_the_doctor_names_polars_allocator(self):
        code = "import polars, time; print(polars.Series(range(1 << 20)).sort().sum()); time.sleep(0.5)"
        self.assertIn("polars has an allocator of its own", self.hidden_by(code))

    @needs("duckdb")
    def test_the_doctor_names_duckdbs_allocator(self):
        code = "import duckdb, time; print(duckdb.sql('select sum(i) from range(1000000) t(i)').fetchone()); time.sleep(0.5)"
        self.assertIn("duckdb has an allocator of its own", self.hidden_by(code))

    @needs("vllm")
    def test_vllm_looks_for_the_word_in_the_librarys_path(self):
        # Nothing of it is imported, which takes long and many packages.
        code = ("import importlib.util, os, pathlib\nplace = pathlib.Path(importlib.util.find_spec('vllm').origin).parent\n"
                "print('libtcmalloc' in (place / 'platforms/cpu.py').read_text(), os.environ['LD_PRELOAD'].split(':')[0])")
        looks, first = self.under(code).stdout.split()
        self.assertEqual("True", looks)
        self.assertIn("libtcmalloc", first)
        self.assertTrue(os.path.samefile(first, ROOT / "build/libmemomalloc.so"), first)

    def server(self, *command):
        """What two workers answer."""
        (self.folder / "served.py").write_text(SERVED)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith("MEMOMALLOC_") and name != "LD_PRELOAD"}
        words = [word.replace("PORT", str(port)) for word in command]
        with subprocess.Popen([COMMAND, "run", "--", PYTHON, "-m", *words], env=clean | {"PYTHONPATH": self.path},
                              cwd=self.folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
            try:
                answers, until = {}, time.monotonic() + 120
                while len(answers) < 2 and time.monotonic() < until:
                    try:
                        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as page:
                            one = json.loads(page.read())
                            answers[one["pid"]] = one
                    except OSError:
                        time.sleep(0.2)
            finally:
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=60)
        return list(answers.values())

    @needs("gunicorn", "onnxruntime", "onnx")
    def test_gunicorns_workers(self):
        for extra in ([], ["--preload"]):
            found = self.server("gunicorn", "-w", "2", "-b", "127.0.0.1:PORT", *extra, "served:wsgi")
            self.assertEqual([False, False], [one["arena"] for one in found])

    @needs("uvicorn", "onnxruntime", "onnx")
    def test_uvicorns_workers(self):
        found = self.server("uvicorn", "--workers", "2", "--port", "PORT", "--log-level", "error", "served:asgi")
        self.assertEqual([False, False], [one["arena"] for one in found])

    @needs("celery", "onnxruntime", "onnx")
    def test_celerys_workers(self):
        (self.folder / "tasks.py").write_text(
            "import celery, os\napp = celery.Celery('tasks', broker='filesystem://', backend='file://' + os.environ['RESULTS'])\n"
            "app.conf.broker_transport_options = {'data_folder_in': os.environ['QUEUE'], 'data_folder_out': os.environ['QUEUE'],\n"
            "                                     'control_folder': os.environ['CONTROL']}\n"
            "@app.task\ndef arena():\n    import onnxruntime\n    return onnxruntime.SessionOptions().enable_cpu_mem_arena\n")
        folders = {}
        for name in ("RESULTS", "QUEUE", "CONTROL"):
            (self.folder / name).mkdir()
            folders[name] = str(self.folder / name)
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith("MEMOMALLOC_") and name != "LD_PRELOAD"} | folders | {"PYTHONPATH": self.path}
        with subprocess.Popen([COMMAND, "run", "--", PYTHON, "-m", "celery", "-A", "tasks", "worker", "-c", "1", "-l", "ERROR",
                               "--without-gossip", "--without-mingle"], env=clean, cwd=self.folder, stderr=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL) as worker:
            try:
                ask = "import tasks; print(tasks.arena.delay().get(timeout=90))"
                asked = subprocess.run([PYTHON, "-c", ask], env=clean, cwd=self.folder, capture_output=True, text=True, timeout=120)
            finally:
                worker.send_signal(signal.SIGTERM)
                worker.wait(60)
        self.assertEqual("False\n", asked.stdout, asked.stderr)

    @needs("ray", "onnxruntime")
    def test_rays_workers(self):
        code = ("import ray\nray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)\n"
                "@ray.remote\ndef arena():\n    import onnxruntime\n    return onnxruntime.SessionOptions().enable_cpu_mem_arena\n"
                "print(ray.get(arena.remote()))\nray.shutdown()")
        self.assertEqual("False\n", self.under(code).stdout)


if __name__ == "__main__":
    unittest.main()
