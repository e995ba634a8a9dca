"""Ray's workers under the library, by `memomalloc.environment()`: each is served, tells of itself while it runs, and
leaves its statistics. Needs ray in the environment that MEMO_VENV names."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support import ROOT

HERE = pathlib.Path(__file__).resolve().parent
VENV = pathlib.Path(os.environ.get("MEMO_VENV", ROOT / ".venv"))
PYTHON = str(VENV / "bin/python" if (VENV / "bin/python").exists() else sys.executable)

DRIVER = """
import json, os, subprocess, sys, time
import memomalloc, ray
folder, library, command = sys.argv[1:]
variables = memomalloc.environment(library=library, status=True, stats_file=folder + "/%p.json")
variables |= {"XDG_RUNTIME_DIR": folder, "PYTHONPATH": os.environ["PYTHONPATH"], "OPENBLAS_NUM_THREADS": "1"}
ray.init(num_cpus=2, include_dashboard=False, runtime_env={"env_vars": variables}, log_to_driver=False)

@ray.remote
class Worker:
    def answer(self):
        import server_app
        return json.loads(server_app.answer())

workers = [Worker.remote() for _ in range(2)]
answers = [answer for _ in range(60) for answer in ray.get([worker.answer.remote() for worker in workers])]
time.sleep(5)
told = subprocess.run([command, "status", "--json"], env=os.environ | {"XDG_RUNTIME_DIR": folder}, capture_output=True)
ray.shutdown()
print(json.dumps([answers, json.loads(told.stdout)]))
"""


def has_ray():
    probe = "import importlib.metadata as m; m.version('ray'); m.version('numpy')"
    return subprocess.run([PYTHON, "-c", probe], capture_output=True).returncode == 0


@unittest.skipUnless(has_ray(), "ray is not installed")
class Ray(unittest.TestCase):
    def test_two_workers(self):
        with tempfile.TemporaryDirectory() as folder:
            clean = {name: value for name, value in os.environ.items()
                     if not name.startswith("MEMOMALLOC_") and name != "LD_PRELOAD"}
            driver = subprocess.run([PYTHON, "-c", DRIVER, folder, str(ROOT / "build/libmemomalloc.so"),
                                     str(ROOT / "build/memomalloc")], capture_output=True, text=True, timeout=300,
                                    env=clean | {"PYTHONPATH": f"{ROOT / 'python'}:{HERE}"})
            self.assertEqual(0, driver.returncode, driver.stderr)
            answers, told = json.loads(driver.stdout.splitlines()[-1])
            workers = {answer["pid"] for answer in answers}
            self.assertEqual(2, len(workers))
            rows = {row["pid"]: row for row in told}
            for pid in workers:
                faults = [answer["faults"] for answer in answers if answer["pid"] == pid]
                self.assertGreater(faults[0], 1000)
                self.assertEqual([0] * 20, faults[-20:])
                self.assertEqual("serving", rows[pid]["phase"])
                left = json.loads((pathlib.Path(folder) / f"{pid}.json").read_text())
                self.assertGreater(left["planned_bytes"], left["large_bytes"] // 2)


if __name__ == "__main__":
    unittest.main()
