#!/usr/bin/env python3
"""What `memomalloc doctor` says of libraries with an allocator of their own (src/cli/run/hiders.def), before and after the
setting that shows their memory. Each library is a small loop, run by an interpreter that
has it; what is not installed is a row that says so."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/tables"))
import results as kept

COMMAND = ROOT / "build/memomalloc"
LOOPS = {
    "pyarrow": "import pyarrow as a, numpy as n\nx = a.array(n.arange(150_000.0))\n"
               "import pyarrow.compute as c\n"
               "for i in range(60):\n kept = [c.add(x, float(j)) for j in range(8)]",
    "polars": "import polars as p\nx = p.Series(range(200_000))\nfor i in range(60):\n kept = [x + j for j in range(4)]",
    "duckdb": "import duckdb\nfor i in range(20):\n duckdb.sql('select i * 2 as a, i + 1 as b from range(300000) t(i) order by a desc').fetchnumpy()",
    "jax": "import jax, jax.numpy as n\nf = jax.jit(lambda x, w: n.tanh(x @ w) @ w.T)\nx = n.ones((256, 1024)); w = n.ones((1024, 2048))\n"
           "for i in range(60):\n f(x, w).block_until_ready()",
    "tensorflow": "import tensorflow as t\nl = t.keras.Sequential([t.keras.layers.Conv2D(16, 3), t.keras.layers.Conv2D(16, 3)])\n"
                  "x = t.random.normal((4, 64, 64, 3))\nfor i in range(60):\n l(x, training=False)",
    # ARENA: the setting, which is in the loop itself.
    "onnxruntime": f"import sys; sys.path.insert(0, {str(ROOT / 'bench/workloads')!r})\nimport numpy, onnxruntime, onnx_infer\no = onnxruntime.SessionOptions()\n"
                   "o.enable_cpu_mem_arena = ARENA\no.intra_op_num_threads = 1\n"
                   "s = onnxruntime.InferenceSession(onnx_infer.residual_network(numpy, 1), o, providers=['CPUExecutionProvider'])\n"
                   "x = numpy.ones((1, 3, 224, 224), 'f4')\nfor i in range(20):\n s.run(None, {'images': x})",
    # CPython's mimalloc as raw memory, as a free-threaded one has it from 3.15 on: here by CPython's interface.
    "numpy": """import ctypes, os, sys
if os.environ.get("PYTHONMALLOC") != "mimalloc":
    os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"PYTHONMALLOC": "mimalloc"})
RAW, OF_MIMALLOC, allocator = 0, 1, ctypes.create_string_buffer(5 * 8)
ctypes.pythonapi.PyMem_GetAllocator(OF_MIMALLOC, allocator)
import numpy
ctypes.pythonapi.PyMem_SetAllocator(RAW, allocator)
SETTING
x = numpy.ones(200_000)
for i in range(60):
    a = x * i; b = a + x; c = numpy.sqrt(b)
os._exit(0)  # what came from malloc before is not taken back by the other
""",
}
# Library, what the row calls its loop, the setting, its variables (None: there is no setting), a line that the loop has then.
ROWS = (
    ("pyarrow", "60 times eight buffers of 1.2 MB", "`run --open`", {"ARROW_DEFAULT_MEMORY_POOL": "system"}, ""),
    ("polars", "60 times four series of 200,000 numbers", "none", None, ""),
    ("duckdb", "20 queries and their results as numpy arrays", "none", None, ""),
    ("jax", "60 times two layers of a perceptron", "none is needed", None, ""),
    ("tensorflow", "60 times two convolutions", "`TF_ENABLE_ONEDNN_OPTS=0`", {"TF_ENABLE_ONEDNN_OPTS": "0"}, ""),
    ("onnxruntime", "20 times a residual network b1", "`enable_cpu_mem_arena = False`", {}, ""),
    ("numpy", "60 times three arrays of 1.6 MB, CPython's raw memory from mimalloc", "`memomalloc.numpy.use_malloc()`", {},
     "import memomalloc.numpy; memomalloc.numpy.use_malloc()"),
)


def diagnose(python, script, variables, limit):
    """(large calls, the finding `hidden`, that of `serving`) of the doctor; None if the loop has failed."""
    clean = {name: value for name, value in os.environ.items()
             if name != "LD_PRELOAD" and not name.startswith("MEMOMALLOC_")}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "loop.py")
        path.write_text(script)
        command = [COMMAND, "doctor", "--json", "--", python, path]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False,
                                  env=clean | {"PYTHONPATH": str(ROOT / "python")} | variables)
        except subprocess.TimeoutExpired:
            return None
    try:
        told = json.loads(done.stdout)
    except ValueError:
        return None
    found = told["findings"]
    seen = next((re.match(r"(\d+)", row["what"]) for row in found if row["question"] == "seen"), None)
    if "Traceback" in done.stderr:
        return None
    hidden = [row["what"] for row in found if row["question"] == "hidden"]
    serving = next((row["what"] for row in found if row["question"] == "serving"), "")
    share = re.search(r"(\d+(?:\.\d+)?) ?% of all large bytes", serving)
    return int(seen[1]) if seen else 0, hidden, share[1] if share else "0"


def version(python, library):
    """Of the library as it was installed, of whichever package has it; "" if none has."""
    code = ("import importlib.metadata as m, sys\n"
            "for name in m.packages_distributions().get(sys.argv[1], [])[:1]: print(m.version(name))")
    done = subprocess.run([python, "-c", code, library], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def row(python, library, what, setting, variables, line, limit):
    found_version = version(python, library)
    if not found_version:
        return f"| {library} | {what} | not installed | | | |"
    loop = LOOPS[library]
    results = [diagnose(python, loop.replace("ARENA", "True").replace("SETTING", ""), {}, limit)]
    if variables is not None:
        results.append(diagnose(python, loop.replace("ARENA", "False").replace("SETTING", line), variables, limit))
    cells = [f"{each[0]}; {each[2]} %" if each else "failed" for each in results] + ["the same"] * (2 - len(results))
    named = "yes" if results[0] and results[0][1] else "no"
    return f"| {library} {found_version} | {what} | {named} | {cells[0]} | {setting} | {cells[1]} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has the libraries (this one)")
    parser.add_argument("--numpy", metavar="PYTHON",
                        help="an interpreter of CPython 3.13 or later with numpy 2.5 or later; without it numpy has no row")
    parser.add_argument("--only", default="", help="libraries whose name contains this text")
    parser.add_argument("--limit", type=int, default=600, help="seconds for each loop (%(default)s)")
    parser.add_argument("--write", action="store_true", help="keep the table in results/")
    arguments = parser.parse_args()
    lines = ["| library | loop | named by `doctor` | large calls seen; % of their bytes from plan and pool | setting | with it |",
             "| --- " * 6 + "|"]
    for library, *rest in ROWS:
        python = arguments.numpy if library == "numpy" else arguments.python
        if arguments.only in library and python:
            lines.append(row(python, library, *rest, arguments.limit))
            print(lines[-1], flush=True)
    print("\n".join(lines))
    if arguments.write:
        kept.keep("hiders", "scripts/experiments/hiders.py", lines)
    return 1 if any("failed" in line for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
