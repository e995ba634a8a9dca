#!/usr/bin/env python3
"""Runtimes for processors, each by `memomalloc run` and nothing else, and the doctor's first line beside it:

    bench/runtimes.py [--only TEXT] [--others jemalloc,tcmalloc,mimalloc] [--again] [--python PYTHON]

runtime_loops.py has the runtimes' loops, and complaints has the programs that are built on them. complaints/run.py explains the
figures. A runtime that is not installed is named and left out. Results go to results/runtimes; --only prints them alone.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE / "complaints"), str(HERE), str(ROOT / "scripts/tables")]
import results  # noqa: E402
import run as complaints  # noqa: E402
import runtime_loops  # noqa: E402
import table  # noqa: E402

PACKAGES = {"onnxruntime": ("onnxruntime", "onnx"), "fastapi": ("fastapi", "uvicorn", "onnxruntime", "onnx"), "openvino": ("openvino", "onnx"),
            "mnn": ("MNN",), "scikit-learn": ("sklearn",), **{f"threads by phase, {name}": (name,) for name in ("numpy", "torch", "faiss")},
            "litert": ("ai_edge_litert", "flatbuffers"),
            "iree": ("iree.runtime", "iree.compiler"), "mlx": ("mlx.core",), "llama.cpp": ("xllamacpp", "gguf")}
# What is built on them: a program of complaints with its words, and the packages.
BUILT = {"rapidocr": (("rapid_ocr",), ("rapidocr", "onnxruntime")), "embeddings": (("onnx_texts", "arena", "24"), ("onnxruntime", "onnx")),
         "reranker": (("onnx_texts", "no-arena", "24"), ("onnxruntime", "onnx")), "whisper": (("whisper", "3", "6"), ("ctranslate2",)),
         "ocr in torch": (("torch_ocr",), ("torch",)), "tokenizers": (("long_texts",), ("tokenizers",)),
         "sentence-transformers": (("sentence_transformers_1795",), ("torch",)), "pandas": (("pandas_2659",), ("pandas",)),
         "pyarrow": (("arrow_47266",), ("pyarrow",)), "polars": (("polars_23109",), ("polars",))}
COLUMNS = ("runtime", "how", *complaints.FIGURES, "note")


def doctor(python, program, words):
    """The first line, and the exit code."""
    try:
        done = subprocess.run([ROOT / "build/memomalloc", "doctor", "--json", "--", python, HERE / "complaints" / f"{program}.py", *words],
                              capture_output=True, text=True, timeout=complaints.PATIENCE, check=False,
                              env=os.environ | {"COMPLAINT_WAIT": "0"})
    except subprocess.TimeoutExpired:
        return f"no end within {complaints.PATIENCE} seconds", None
    try:
        return json.loads(done.stdout)["verdict"]["line"], done.returncode
    except ValueError:
        return (done.stderr.splitlines() or ["nothing was said"])[-1], done.returncode


def one_runtime(python, name, hows, kept):
    program, packages = BUILT.get(name, (("../runtime_loops", name), PACKAGES.get(name, (name,))))
    if complaints.interpreter((python,), packages) is None:
        return name, [], "not installed", None
    loop = table.Complaint(name, program, packages, "")
    rows = kept + [{"runtime": name, "how": how} | complaints.measured(python, loop, how) for how in hows]
    return name, rows, *doctor(python, program[0], program[1:])


def document(results, hows):
    lines = ["| runtime | " + " | ".join(hows) + " | the doctor's first line |", "|---|" + "---|" * (len(hows) + 1)]
    for name, rows, line, _ in results:
        own = {row["how"]: row for row in rows}
        lines.append(f"| {name} | " + " | ".join(complaints.cell(own.get(how)) for how in hows) + f" | {line} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="runtimes whose names hold this")
    parser.add_argument("--others", default="", help="more allocators, with commas between them")
    parser.add_argument("--again", action="store_true", help="the others' rows are those of the last result, where it has them")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has them (this one)")
    parser.add_argument("--jobs", type=int, default=1, help="runtimes at a time")
    arguments = parser.parse_args()
    hows = ("glibc", *filter(None, arguments.others.split(",")), "memomalloc")
    names = [name for name in (*runtime_loops.LOOPS, *BUILT) if arguments.only in name]
    last, whence = results.newest("runtimes") if arguments.again else ([], {})
    kept = {name: [row for row in last if row["runtime"] == name and row["how"] != "memomalloc"] for name in names}
    found = []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as threads:
        for result in threads.map(lambda name: one_runtime(arguments.python, name, hows[-1:] if kept[name] else hows, kept[name]), names):
            found.append(result)
            print(document([result], hows).splitlines()[-1], flush=True)
    if not arguments.only:
        told = [{"runtime": name, "line": line, "exit_code": code} for name, _, line, code in found]
        results.store("runtimes", "bench/runtimes.py", [row for _, rows, _, _ in found for row in rows], doctor=told,
                      title="Runtimes for processors by memomalloc run, and the doctor's first line",
                      about="RSS in MiB ten seconds after the loop (held), in the mean while it runs, and at most." +
                      (f" Rows of other allocators that {whence['date']} had are of then." if whence else ""))
    print(document(found, hows))


if __name__ == "__main__":
    main()
