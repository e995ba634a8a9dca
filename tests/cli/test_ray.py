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

# Two nodes on one machine, each with a daemon and workers of its own; they share a folder of plans.
TWO_NODES = """
import json, os, sys, time
import memomalloc, ray
from ray.cluster_utils import Cluster
folder, library = sys.argv[1:]
variables = memomalloc.environment(library=library, plans=folder + "/plans", stats_file=folder + "/%p.json")
variables |= {"PYTHONPATH": os.environ["PYTHONPATH"], "OPENBLAS_NUM_THREADS": "1"}
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False,
                                                        "resources": {"first": 1}})
cluster.add_node(num_cpus=1, resources={"second": 1})
ray.init(address=cluster.address, runtime_env={"env_vars": variables}, log_to_driver=False)

@ray.remote
class Worker:
    def answer(self):
        import server_app
        return json.loads(server_app.answer()) | {"node": ray.get_runtime_context().get_node_id()}

answers = []
for node in ("first", "second"):
    worker = Worker.options(num_cpus=1, resources={node: 1}).remote()
    answers.append([ray.get(worker.answer.remote()) for _ in range(40)])
    time.sleep(3)  # plans are saved within two seconds
    ray.kill(worker)
ray.shutdown()
cluster.shutdown()
print(json.dumps(answers))
"""


def has_ray():
    probe = "import importlib.metadata as m; m.version('ray'); m.version('numpy')"
    return subprocess.run([PYTHON, "-c", probe], capture_output=True).returncode == 0


def drive(program, *words):
    """Runs a driver, outside of the library and with the modules that it and its workers import."""
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith("MEMOMALLOC_") and name != "LD_PRELOAD"}
    return subprocess.run([PYTHON, "-c", program, *map(str, words)], capture_output=True, text=True, timeout=300,
                          env=clean | {"PYTHONPATH": f"{ROOT / 'python'}:{HERE}"})


@unittest.skipUnless(has_ray(), "ray is not installed")
class Ray(unittest.TestCase):
    def test_two_workers(self):
        with tempfile.TemporaryDirectory() as folder:
            driver = drive(DRIVER, folder, ROOT / "build/libmemomalloc.so", ROOT / "build/memomalloc")
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

    def test_what_one_node_has_learned_serves_a_worker_of_another_from_its_first_request(self):
        with tempfile.TemporaryDirectory() as folder:
            driver = drive(TWO_NODES, folder, ROOT / "build/libmemomalloc.so")
            self.assertEqual(0, driver.returncode, driver.stderr)
            first, second = json.loads(driver.stdout.splitlines()[-1])
            self.assertNotEqual(first[0]["node"], second[0]["node"])
            self.assertNotEqual(first[0]["pid"], second[0]["pid"])
            # The second worker's slab is touched in its first request; after that there is nothing to learn.
            self.assertLess(second[0]["faults"], first[0]["faults"])
            self.assertLess(sum(answer["faults"] for answer in second[1:]), 100)
            self.assertGreater(sum(answer["faults"] for answer in first[1:]),
                               10 * sum(answer["faults"] for answer in second[1:]))


if __name__ == "__main__":
    unittest.main()
