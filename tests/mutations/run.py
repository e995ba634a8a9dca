#!/usr/bin/env python3
"""Shows that the tests can fail: breaks a copy of the library, one line at a time, and runs the test that must
notice. Each row of MUTATIONS is a file, the text in it, what to put there, and the test: a unit test's name
(Catch2), or the name of a check of tests/preload/run.py. A row passes when its test does on the whole copy and
fails on the broken one. Ends with `N passed, N failed`; exit code 1 if any failed."""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

UNIT, PRELOAD = "unit", "preload"

MUTATIONS = (
    ("a place is granted although its pages are in use", "src/serve/page_map.cc",
     "const bool granted = (any & (kEveryByte * kUsed)) == 0;", "const bool granted = any != 1;",
     UNIT, "server: no schedule makes two live blocks share a page"),
    ("a second free of a block is accepted", "src/serve/page_map.cc",
     "    return 0;\n  }\n  const std::uint64_t count = length_[first];",
     "  }\n  const std::uint64_t count = length_[first];",
     PRELOAD, "bad_frees [default]"),
    ("calloc leaves a dirty page of the slab as it is", "src/engine/lane.cc",
     "if (request.zero && placement.dirty)", "if (request.zero && placement.wrapped)",
     PRELOAD, "zeroed [default]"),
    ("the place's alignment is not compared", "src/serve/server.cc",
     "alignment > kGranule && (step.offset & (alignment - 1)) != 0", "alignment == 3",
     PRELOAD, "hostile_plans [default]"),
    ("realloc copies a byte less", "preload/shim.cc",
     "std::memcpy(moved, pointer, now < size ? now : size);\n    free_owned(pointer);",
     "std::memcpy(moved, pointer, (now < size ? now : size) - 1);\n    free_owned(pointer);",
     PRELOAD, "resize [default]"),
    ("errno is not kept", "preload/shim.cc",
     "  errno = saved;\n  // Whoever", "  errno = saved + 1;\n  // Whoever",
     PRELOAD, "errno_kept [default]"),
    ("a product that overflows is not noticed", "preload/shim.cc",
     "    errno = ENOMEM;\n    return nullptr;\n  }\n  return realloc(pointer, bytes);",
     "  }\n  return realloc(pointer, bytes);",
     PRELOAD, "sizes [default]"),
    ("the stack that is left is not looked at", "src/trace/signature.cc",
     "stack.room() < kUnwindStack", "stack.high == 1",
     UNIT, "signature: names the call stack, where the stack is known"),
    ("no stack is unwound", "src/trace/signature.cc",
     "  return signature;", "  return signature & 0;",
     UNIT, "engine: sizes that follow from the iteration's first are served"),
    ("a walk reads below the stack in use", "src/trace/call_stack.cc",
     "address % kWord != 0 || address < sp ||", "address % kWord != 0 ||",
     UNIT, "call stack: garbage is not followed out of the stack"),
    ("unwind tables are read beyond their end", "src/trace/table_reader.h",
     "bytes <= end_ - at_;", "bytes <= 4096;",
     UNIT, "frame rule: tables cut anywhere, with bytes changed, are not left"),
    ("the row behind the call is taken", "src/trace/frame_rule.cc",
     "const std::uint64_t call = return_address - 1;", "const std::uint64_t call = return_address;",
     UNIT, "frame rule: the row of the call that has not come back"),
    ("pages are taken to have 4 KiB", "src/serve/space.cc",
     "round_down(from * each, os::page_size())", "round_down(from * each, 4096)",
     PRELOAD, "page_calls [pages of 64 KiB]"),
    ("a setuid program reads the environment", "preload/lifecycle.cc",
     "if (getauxval(AT_SECURE) == 0)", "if (getauxval(AT_SECURE) < 2)",
     PRELOAD, "outside world: setuid"),
    ("forked children report", "preload/lifecycle.cc",
     "return getpid() == owner;", "return owner != 0;",
     PRELOAD, "outside world: forked children"),
    ("a damaged plan file is believed", "src/io/plan_file.cc",
     "header.checksum != XXH3_64bits(rest.data(), rest.size())", "header.checksum == 1",
     UNIT, "plan file: with any bit flipped, nothing false is taken"),
    ("the readable bytes behind the last block are forgotten", "src/serve/space.cc",
     "round_up(bytes + kGranule, kCommitStep)", "round_up(bytes, kCommitStep)",
     UNIT, "space: committed step by step, readable past the end"),
    ("the second thread may have the same lane", "src/engine/engine.cc",
     "if (lanes_[i].phase() == Phase::kIdle)", "if (lanes_[i].phase() != Phase::kIdle)",
     UNIT, "threads: a lane is used again when its thread has ended"),
    ("what was claimed is forgotten where the plan is lost in the same call", "src/engine/lane.cc",
     "    if (!matched && phase() == Phase::kServing) {",
     "    if (phase() != Phase::kServing) {\n      return pool(request);\n    }\n    if (!matched) {",
     UNIT, "engine: a place that was claimed is served where the plan is lost in the same call"),
    ("a lost plan is judged", "src/engine/lane.cc",
     "  if (phase() == Phase::kServing) {\n    fall_back", "  if (phase() != Phase::kIdle) {\n    fall_back",
     UNIT, "engine: a shape without memory ends the plan at whatever call it is seen"),
    ("handlers of fork are served while the locks are held", "src/engine/engine.cc",
     "  ++t_state.inside;\n  registry_.lock();", "  registry_.lock();",
     PRELOAD, "fork_handlers [default]"),
    ("a thread may be cancelled where a message is written", "src/base/message.cc",
     "syscall(SYS_write, STDERR_FILENO, buffer_, size_ + 1)",
     "if (write(STDERR_FILENO, buffer_, size_ + 1) < 0) {\n    return;\n  }",
     PRELOAD, "cancellation [default]"),
    ("a shape is laid out with the sizes of another", "src/serve/shape.cc",
     "sizes_[i] = plan_->steps[i].rule.bytes(first_);", "sizes_[i] = plan_->steps[i].rule.bytes(largest_);",
     UNIT, "engine: sizes that follow from the iteration's first are served"),
)


def copy_tree(target):
    """The sources as they are here, and what was built from them, with their times: little is built again."""
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                           check=True, capture_output=True, text=True).stdout.splitlines()
    for name in names:
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    for name in ("release", "libmemomalloc.so", "programs", "pages.so", "unit_tests"):
        source = ROOT / "build" / name
        if source.is_dir():
            shutil.copytree(source, target / "build" / name)
        elif source.exists():
            (target / "build").mkdir(exist_ok=True)
            shutil.copy2(source, target / "build" / name)


def passes(tree, kind, test):
    """True if the test passes in the tree; raises CalledProcessError if the tree cannot be built."""
    goals = ["build/unit_tests"] if kind == UNIT else ["lib", "programs"]
    subprocess.run(["make", "-s", f"-j{os.cpu_count()}", *goals], cwd=tree, check=True, capture_output=True)
    command = ["build/unit_tests", test.replace(",", "\\,")] if kind == UNIT else [
        sys.executable, "tests/preload/run.py", "--build", "build", "--only", test]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=600, errors="replace")
    if "No test cases matched" in done.stdout or "preload checks: 0" in done.stdout:
        raise LookupError(f"there is no test {test!r}")
    return done.returncode == 0


def judge(tree, row):
    """What is wrong with a row, or an empty string."""
    _, name, old, new, kind, test = row
    path = tree / name
    text = path.read_text(encoding="utf-8")
    if text.count(old) != 1:
        return f"{name} has the text {text.count(old)} times"
    if not passes(tree, kind, test):
        return "the test fails without the mutation"
    path.write_text(text.replace(old, new), encoding="utf-8")
    try:
        return "the test does not notice" if passes(tree, kind, test) else ""
    finally:
        path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose name contains this text")
    wanted = parser.parse_args().only
    failed, rows = 0, [row for row in MUTATIONS if wanted in row[0]]
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        copy_tree(tree)
        for row in rows:
            try:
                wrong = judge(tree, row)
            except (subprocess.SubprocessError, LookupError) as error:
                wrong = str(error)
            failed += bool(wrong)
            print(f"{'FAILED' if wrong else 'noticed':8}{row[0]} ({row[-1]}) {wrong}", flush=True)
    print(f"{len(rows) - failed} passed, {failed} failed")
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
