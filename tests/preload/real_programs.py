#!/usr/bin/env python3
"""Real programs under the preload: the same exit code and output as without it. The short list belongs to
run.py; `real_programs.py --long` is the set for a soak, with CPython's own tests and longer loads."""

import argparse
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import common
import perform
from common import MODES, Mode, Skip, expect, expect_same

DEFAULT = Mode("default", serving=False)
STACKED = [mode for mode in MODES if mode.ours and mode.next != "glibc"]
LOW = Mode("threshold-4K", settings=(("MEMOMALLOC_THRESHOLD", "4K"),), serving=False)

# Debian's interpreter, whose tests come in libpython3.11-testsuite; PATH may lead to another one.
PYTHON = "/usr/bin/python3"
PYTHON_TESTS_SHORT = "test_array test_mmap test_memoryview".split()
PYTHON_TESTS_LONG = """test_array test_mmap test_memoryview test_bytes test_buffer test_ctypes test_threading
    test_thread test_threadsignals test_fork1 test_subprocess test_multiprocessing_fork
    test_multiprocessing_spawn test_concurrent_futures test_queue test_gc test_list test_dict test_set
    test_unicode test_struct test_zlib test_bz2 test_lzma test_pickle test_json test_io test_tempfile
    test_signal test_faulthandler test_exceptions test_weakref test_decimal test_sqlite3""".split()


LARGE = ("large_allocations",)
SERVED = ("planned_allocations", "at_hand_allocations")  # by a plan or by the pool: what a loop's blocks come to be


def expect_counted(context, command, counters, timeout=common.TIMEOUT, **options):
    """Runs a command with statistics, and expects one of the counters above 0 in one of its processes: a program that never
    reaches the library is the same with it."""
    with tempfile.TemporaryDirectory() as folder:
        mode = Mode("statistics", settings=(("MEMOMALLOC_STATS_FILE", f"{folder}/%p.json"),), serving=False)
        result = context.run(command, mode, timeout, **options)
        expect(result.code == 0, f"[{mode.name}] {result}")
        told = [json.loads(path.read_text()) for path in pathlib.Path(folder).glob("*.json")]
    expect(any(figures.get(name, 0) for figures in told for name in counters),
           f"no {' or '.join(counters)} in any of {len(told)} processes that wrote statistics")


def same(context, command, modes=(DEFAULT, LOW), timeout=common.TIMEOUT, counted=LARGE, **options):
    if not shutil.which(command[0]):
        raise Skip(f"{command[0]} is not installed")
    reference = context.run(command, common.SYSTEM, timeout, **options)
    expect(reference.code == 0, f"fails without the library: {reference}")
    for mode in modes:
        expect_same(context.run(command, mode, timeout, **options), reference, f"[{mode.name}]")
    if counted:
        expect_counted(context, command, counted, timeout, **options)


def true(context):
    every = [mode for mode in MODES if mode.ours]
    same(context, ["true"], modes=every, counted=())


def git(context, modes=(DEFAULT, LOW)):
    script = """
        set -e; cd "$1"; git init -q .; git config user.email a@b; git config user.name n
        i=0; while [ $i -lt 30 ]; do head -c 200000 /dev/zero | tr '\\0' "\\\\$((141 + i % 20))" > f$i
        seq $i 20000 > s$i; i=$((i + 1)); done; git add .; git commit -qm one; rm -f f1 f2; seq 5 9 >> s7
        git commit -qam two; git gc -q; git fsck --no-progress; git log --stat --format=%s
        git diff HEAD~1 | cksum; rm -rf .git *"""
    with tempfile.TemporaryDirectory() as folder:
        same(context, ["sh", "-c", script, "sh", folder], modes)


def sqlite(context, modes=(DEFAULT, LOW)):
    script = """create table t(a integer primary key, b text, c blob);
        with recursive n(i) as (select 1 union all select i+1 from n where i < 40000)
          insert into t select i, printf('%08d', i * 7919 % 40000), zeroblob(i % 300) from n;
        create index k on t(b); select count(*), sum(length(c)), min(b), max(b) from t;
        select hex(substr(group_concat(b), 100000, 40)) from (select b from t order by b);
        delete from t where a % 3 = 0; vacuum; pragma integrity_check;
        select length(zeroblob(50000000));"""
    same(context, ["sqlite3", ":memory:", script], modes)


def compiler(context, modes=(DEFAULT,)):
    """The compiler builds a file of this project under the preload: the object must be the same."""
    source = common.ROOT / "planner"
    largest = max(source.glob("*.cc"), key=lambda path: path.stat().st_size)
    command = ["g++", "-std=c++20", "-O2", "-I", common.ROOT, "-I", common.ROOT / "include", "-c", largest]
    with tempfile.TemporaryDirectory() as folder:
        objects = []
        for mode in (common.SYSTEM, *modes):
            path = pathlib.Path(folder) / f"{mode.name}.o"
            # A compiler's cache would hand the first object out again.
            result = context.run(command + ["-o", path], mode, extra={"CCACHE_DISABLE": "1"})
            expect((result.code, result.err) == (0, b""), f"[{mode.name}] {result}")
            objects.append(path.read_bytes())
            expect(objects[0] == objects[-1], f"[{mode.name}] {largest.name} compiles to another object")
        expect_counted(context, command + ["-o", path], LARGE, extra={"CCACHE_DISABLE": "1"})


def python(context, modes=(DEFAULT, LOW)):
    same(context, [PYTHON, "-c", "print(sum(len(bytearray(n)) for n in range(0, 3000000, 50000)))"], modes)


def python_workers(context, modes=(DEFAULT,)):
    script = """import multiprocessing, os
def work(n):
    blocks = [bytearray(100000 + 1000 * (i % 7)) for i in range(n)]
    for _ in range(20):
        a, b, c = bytearray(300000), bytearray(200000), bytearray(150000)
    return sum(map(len, blocks))
if __name__ == '__main__':
    for method in ('fork', 'spawn', 'forkserver'):
        with multiprocessing.get_context(method).Pool(3) as pool:
            print(method, pool.map(work, range(10, 30)))
"""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "workers.py"
        path.write_text(script)
        same(context, [PYTHON, str(path)], modes, counted=SERVED)


def torch_workers(context, modes=(DEFAULT,)):
    """torch's DataLoader: worker processes that are forked from one that serves, batches in shared memory."""
    script = """import torch
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 48
    def __getitem__(self, i):
        return torch.full((3, 128, 128), float(i)) @ torch.ones(128, 128)
weight, total = torch.ones(128, 128), 0.0
for epoch in range(2):
    for batch in torch.utils.data.DataLoader(Data(), batch_size=8, num_workers=2):
        for _ in range(6):
            total += float(torch.relu(batch @ weight).sum()) % 1000
print(total)
"""
    if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode != 0:
        raise Skip("torch is not installed")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "workers.py"
        path.write_text(script)
        same(context, [sys.executable, str(path)], modes, counted=SERVED)


NUMPY_TESTS = ("test_multiarray", "test_mem_overlap", "test_mem_policy", "test_memmap", "test_nditer",
               "test_numeric", "test_indexing", "test_item_selection")


def numpy_tests(context):
    """numpy's own tests on memory and arrays: each test's verdict is what it is without us."""
    for module in ("numpy", "pytest", "hypothesis"):
        if subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode != 0:
            raise Skip(f"{module} is not installed")
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", "--pyargs",
               *(f"numpy._core.tests.{name}" for name in NUMPY_TESTS)]

    def verdicts(mode):
        with tempfile.TemporaryDirectory() as folder:
            result = context.run(command, mode, timeout=1800, cwd=folder)
        lines = result.out.decode(errors="replace").splitlines()
        wrong = sorted(line for line in lines if line.startswith(("FAILED", "ERROR")))
        counts = {word: int(number) for number, word in
                  re.findall(r"(\d+) (passed|skipped|xfailed|failed|error)", lines[-1] if lines else "")}
        # Whether a test for gigabytes is skipped depends on how much memory is free at the moment.
        ran = counts.pop("passed", 0) + counts.pop("skipped", 0)
        return result.code, wrong, ran, counts

    reference, found = verdicts(common.SYSTEM), verdicts(DEFAULT)
    expect(reference[2] > 0 and found == reference, f"{found} with the library, {reference} without")
    return f"{found[2]} tests"


def build_of_the_project(context):
    """make and the compiler build this library under the preload: the result is the same to the byte."""
    names = subprocess.run(["git", "ls-files"], cwd=common.ROOT, check=True, capture_output=True,
                           text=True).stdout.splitlines()
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        for name in names:
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(common.ROOT / name, tree / name)
        built = []
        for mode in (common.SYSTEM, DEFAULT):
            command = ["make", "-s", "-j2", "MODE=debug", "build/debug/libmemomalloc.so"]
            result = context.run(command, mode, timeout=1800, cwd=tree, extra={"CCACHE_DISABLE": "1"})
            expect((result.code, result.err) == (0, b""), f"[{mode.name}] {result}")
            built.append((tree / "build/debug/libmemomalloc.so").read_bytes())
            shutil.rmtree(tree / "build")
    expect(built[0] == built[1], "the library is built to other bytes under the preload")


def python_tests(context, name):
    """The module's verdict must be what it is without us; one that fails there tells nothing."""
    probe = subprocess.run([PYTHON, "-c", "import test.test_array"], capture_output=True)
    if probe.returncode != 0:
        raise Skip("CPython's tests are not installed (libpython3.11-testsuite)")
    with tempfile.TemporaryDirectory() as folder:
        command = [PYTHON, "-m", "test", "-q", name]
        result = context.run(command, DEFAULT, timeout=900, cwd=folder)
        if result.code != 0:
            expect(context.run(command, common.SYSTEM, timeout=900, cwd=folder).code != 0, f"{result}")
            raise Skip("fails without the library")


def redis(context, seconds=2):
    """redis-server serves a benchmark's commands; Debian's is linked with jemalloc, which we precede."""
    if not shutil.which("redis-server") or not shutil.which("redis-benchmark"):
        raise Skip("redis is not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        command = ["redis-server", "--port", port, "--save", "", "--dir", folder, "--daemonize", "no"]
        server = subprocess.Popen(command, env=context.environment(LOW), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
        try:
            client = ["redis-cli", "-p", port]
            until = time.monotonic() + 20
            while subprocess.run(client + ["ping"], capture_output=True).stdout != b"PONG\n":
                expect(server.poll() is None and time.monotonic() < until, "redis-server does not start")
                time.sleep(0.1)
            subprocess.run(["redis-benchmark", "-p", port, "-q", "-n", str(1500 * seconds), "-d",
                            "100000", "-r", "200", "-t", "set,get,lpush,lpop,mset"],
                           check=True, capture_output=True, timeout=common.TIMEOUT + 20 * seconds)
            value = subprocess.run(client + ["-x", "set", "key"], input=b"v" * 1_000_000,
                                   capture_output=True).stdout
            expect(value == b"OK\n", f"set: {value}")
            got = subprocess.run(client + ["get", "key"], capture_output=True).stdout
            expect(got == b"v" * 1_000_000 + b"\n", "the value read is not the value written")
            subprocess.run(client + ["shutdown", "nosave"], capture_output=True)
            expect(server.wait(20) == 0, f"redis-server ends with {server.returncode}")
        finally:
            if server.poll() is None:
                server.kill()
        expect(server.stderr.read() == b"", "redis-server has something on stderr")


def stress_ng(context, seconds=3):
    """Its malloc stressor, which verifies what it wrote, and its mappings of large blocks."""
    if not shutil.which("stress-ng"):
        raise Skip("stress-ng is not installed")
    command = ["stress-ng", "--malloc", "2", "--malloc-bytes", "256M", "--malloc-max", "2000",
               "--malloc-thresh", "64K", "--malloc-pthreads", "2", "--verify", "--timeout", f"{seconds}s"]
    for mode in (common.SYSTEM, DEFAULT):
        result = context.run(command, mode, timeout=seconds + 60)
        expect(result.code == 0, f"[{mode.name}] {result}")
        # Newer ones end with a line on how many failed.
        expect(not re.search(rb"fail(?!ed: 0\b)|SIG", result.out + result.err), f"[{mode.name}] {result}")


def checks(context):
    functions = (true, git, sqlite, compiler, python, python_workers, torch_workers, redis, stress_ng)
    rows = [(f"real program: {function.__name__.replace('_', ' ')}",
             lambda function=function: function(context)) for function in functions]
    rows += [(f"CPython: {name}", lambda name=name: python_tests(context, name))
             for name in PYTHON_TESTS_SHORT]
    return rows


def long_checks(context):
    rows = [row for row in checks(context) if not row[0].startswith("CPython")]
    rows += [("numpy's tests", lambda: numpy_tests(context)),
             ("this project's build", lambda: build_of_the_project(context)),
             ("redis, longer", lambda: redis(context, 20)),
             ("stress-ng, longer", lambda: stress_ng(context, 30))]
    rows += [(f"{function.__name__.replace('_', ' ')} on other allocators",
              lambda function=function: function(context, STACKED))
             for function in (git, sqlite, compiler, python, python_workers, torch_workers)]
    rows += [(f"CPython: {name}", lambda name=name: python_tests(context, name))
             for name in PYTHON_TESTS_LONG]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    context = common.Context(arguments.build)
    rows = (long_checks if arguments.long else checks)(context)
    return perform.perform_all([row for row in rows if arguments.only in row[0]], jobs=2, verbose=True)


if __name__ == "__main__":
    sys.exit(main())
