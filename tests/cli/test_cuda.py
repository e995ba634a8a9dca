"""libmemomalloc-cuda.so over a driver that is none, called as torch calls it; and memomalloc.cuda where there is no GPU."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

import snapshots

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("MEMO_BUILD", "build")
LIBRARY = BUILD / "libmemomalloc-cuda.so"


def surroundings(driver=True, **variables):
    environment = {**os.environ, "FAKE_CUDA_REAL": "1", **variables}
    if driver:
        environment["LD_LIBRARY_PATH"] = str(BUILD / "fakes")
    return environment


def door(what, *more, driver=True, **variables):
    return subprocess.run([BUILD / "fakes/door", LIBRARY, what, *map(str, more)], env=surroundings(driver, **variables),
                          capture_output=True, text=True, timeout=120, check=False)


#: c10::Error as torch has it, without the classes that are made of it
TORCH_ERROR = """
#include <exception>
#include <string>
namespace c10 {
struct SourceLocation { const char* function; const char* file; unsigned line; };
struct Error : std::exception {
  std::string text;
  Error(SourceLocation, std::string given);
  ~Error() override;
  const char* what() const noexcept override { return text.c_str(); }
};
Error::Error(SourceLocation, std::string given) : text(std::move(given)) {}
Error::~Error() {}
}
"""


class OverAFakeDriver(unittest.TestCase):
    def test_a_loop_is_planned_and_keeps_what_is_written(self):
        done = door("loop")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        figures = json.loads(done.stdout)
        self.assertEqual(figures["phase"], "serving")
        self.assertGreater(figures["planned_allocations"], 200)
        self.assertEqual(figures["misses"] + figures["occupied"], 0)

    def test_threads_on_streams_of_their_own(self):
        self.assertEqual(door("threads").stdout, "right\n")

    def test_asleep_nothing_is_held_and_contents_come_back(self):
        self.assertEqual(door("asleep").stdout, "0 1 0 1\n")

    def test_a_forked_child_gets_the_drivers_error(self):
        done = door("forked")
        self.assertEqual(done.stdout, "child 0, parent goes on\n")
        self.assertIn("CUDA_ERROR_NOT_INITIALIZED", done.stderr)

    def test_a_child_that_is_forked_in_another_threads_call_does_not_wait_for_it(self):
        self.assertEqual("child 0\n", door("forked in a call", FAKE_CUDA_SLOW="50").stdout)

    def test_before_the_first_block_a_child_may_be_forked(self):
        self.assertEqual(door("forked before").stdout, "child 0\n")

    def test_no_memory_is_no_end(self):
        done = door("refused")
        self.assertEqual(done.stdout, "null block\n")
        self.assertIn("Tried to allocate 4096.00 GiB", done.stderr)

    def test_where_torch_has_no_error_for_no_memory_its_usual_one_is_raised(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "torch.cc").write_text(TORCH_ERROR)
        subprocess.run(["g++", "-fPIC", "-shared", "-Wl,-soname,libc10.so", "torch.cc", "-o", "libc10.so"], cwd=folder, check=True)
        self.assertIn("Tried to allocate 4096.00 GiB", door("thrown", folder / "libc10.so").stdout)

    def test_misuse_ends_in_a_named_error(self):
        for what, words in (("twice", "free of what is not alive"), ("unknown", "free of what is not alive"),
                            ("device", "free on the wrong device")):
            with self.subTest(what):
                done = door(what)
                self.assertEqual(done.returncode, -6, done.stderr)
                self.assertRegex(done.stderr, f"memomalloc.*: cuda: {words}.* 0x[0-9a-f]+\n")

    def test_without_a_driver_it_says_so(self):
        done = door("nothing", driver=False)
        self.assertEqual(done.stdout, "null\n")
        self.assertIn("there is no CUDA driver (libcuda.so.1)", done.stderr)

    def test_each_call_of_the_driver_may_be_refused(self):
        for ever in (False, True):
            for at in (1, 2, 3, 4, 5, 8, 13, 21, 34, 55, 89):
                with self.subTest(at=at, ever=ever):
                    more = {"FAKE_CUDA_REFUSE_EVER": "1"} if ever else {}
                    done = door("loop", FAKE_CUDA_REFUSE=str(at), FAKE_CUDA_MIB="64", **more)
                    self.assertIn(done.returncode, (0, 1), done.stderr)
                    self.assertNotIn("overwritten", done.stdout)

    def test_it_needs_nothing_but_the_c_library(self):
        listed = subprocess.run(["readelf", "-d", LIBRARY], capture_output=True, text=True, check=True).stdout
        needed = set(re.findall(r"NEEDED.*\[(.*)\]", listed))
        self.assertLessEqual(needed, {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1",
                                      "libdl.so.2", "libpthread.so.0"})


class Plans(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def planned(self, iterations, device=0, **variables):
        """(planned allocations, what is said on stderr) of a process that has the folder's plans."""
        done = door("loop", iterations, device, MEMOMALLOC_PLANS=str(self.folder), **variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        figures = json.loads(done.stdout)
        self.assertEqual(figures["misses"] + figures["occupied"], 0)
        return figures["planned_allocations"], done.stderr

    def test_the_next_process_is_served_from_its_second_iteration_on(self):
        self.assertEqual((0, ""), self.planned(3))
        self.assertEqual([], list(self.folder.iterdir()))
        self.planned(60)
        self.assertTrue(list(self.folder.glob("*.plan")))
        for device in (0, 1):  # another rank
            with self.subTest(device=device):
                planned, said = self.planned(3, device)
                self.assertGreaterEqual(planned, 10)
                self.assertEqual("", said)
        listed = subprocess.run([BUILD / "memomalloc", "plans", "list", "--plans", self.folder, "--json"], capture_output=True, text=True,
                                check=True)
        self.assertEqual({"cuda"}, {row["machine"] for row in json.loads(listed.stdout)})

    def test_a_file_that_is_cut_is_told_and_replaced(self):
        self.planned(60)
        for path in self.folder.iterdir():
            path.write_bytes(path.read_bytes()[:-100])
        planned, said = self.planned(3)
        self.assertEqual(0, planned)
        self.assertRegex(said, "is not used: it is damaged; `memomalloc plans verify` tells of all\n")
        self.planned(60)
        self.assertGreaterEqual(self.planned(3)[0], 10)

    def test_a_folder_that_others_may_write_is_left_alone(self):
        self.planned(60)
        self.folder.chmod(0o777)
        planned, said = self.planned(60)
        self.assertIn("are not used", said)
        self.assertEqual(0, self.planned(3)[0])
        self.folder.chmod(0o700)

    def test_the_users_own_store(self):
        for _ in range(2):
            done = door("loop", 60, MEMOMALLOC_PLANS="1", XDG_CACHE_HOME=str(self.folder))
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["plans_made"], 0)
        self.assertTrue(list((self.folder / "memomalloc/plans").glob("*.plan")))


class Status(unittest.TestCase):
    def setUp(self):
        self.runtime = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def ask(self, *words):
        return subprocess.run([BUILD / "memomalloc", *map(str, words)], capture_output=True, text=True, check=False, timeout=60,
                              env={**os.environ, "XDG_RUNTIME_DIR": str(self.runtime)})

    def running(self, what, **variables):
        """A process that waits until its standard input ends; when it can be looked into."""
        process = subprocess.Popen(
            [BUILD / "fakes/door", LIBRARY, what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=surroundings(XDG_RUNTIME_DIR=str(self.runtime), MEMOMALLOC_STATUS="1", **variables))
        self.addCleanup(lambda: (process.stdin.close(), process.stdout.close(), process.kill(), process.wait()))
        return process

    def row(self, process, good):
        """The process' statistics, once `good` says so."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            rows = json.loads(self.ask("status", process.pid, "--json").stdout)
            if rows and good(rows[0]):
                return rows[0]
            time.sleep(0.1)
        self.fail(f"status does not tell: {rows}")

    def test_tells_of_each_device(self):
        process = self.running("hold")
        figures = json.loads(process.stdout.readline())
        row = self.row(process, lambda row: len(row["devices"]) == 2)
        first, second = row["devices"]
        self.assertEqual([0, 1], [first["device"], second["device"]])
        for name in ("planned_bytes", "reused_bytes", "other_bytes", "plan_bytes", "total_bytes"):
            self.assertEqual(figures[name], first[name], name)
        self.assertEqual(figures["reserved_bytes.all.peak"], first["peak_reserved_bytes"])
        self.assertEqual(figures["requested_bytes.all.peak"], first["peak_alive_bytes"])
        self.assertEqual([0, 7 << 20], [first["alive_bytes"], second["alive_bytes"]])
        self.assertEqual("serving", first["phase"])
        told = self.ask("status", process.pid).stdout
        self.assertRegex(told, r"GPUs\n +GPU +phase +reserved")
        self.assertRegex(told, r"\n +1 +learning +8\.0 MiB +8\.0 MiB +7\.0 MiB +7\.0 MiB +0 % +0 % +100 % ")
        metrics = self.ask("status", "--openmetrics").stdout
        self.assertIn("# TYPE memomalloc_gpu_planned_bytes counter\n", metrics)
        for number, device in enumerate((first, second)):
            for name, total in (("planned_bytes", "_total"), ("reserved_bytes", ""), ("peak_alive_bytes", "")):
                self.assertIn(f'memomalloc_gpu_{name}{total}{{pid="{process.pid}",process="door",device="{number}"}} '
                              f"{device[name]}\n", metrics)
        released = self.ask("release", process.pid)
        self.assertEqual(0, released.returncode, released.stderr)
        self.assertIn("GPU 0: reserved 0.0 MiB now\nGPU 1: reserved 8.0 MiB now\n", released.stdout)
        process.stdin.close()
        self.assertEqual(0, process.wait(60))
        self.assertEqual([], [path for path in self.runtime.rglob("*") if path.is_file()])

    def test_with_the_library_for_processors_in_the_process(self):
        process = self.running("hold", LD_PRELOAD=str(BUILD / "libmemomalloc.so"), MEMOMALLOC_THRESHOLD="4K")
        process.stdout.readline()
        row = self.row(process, lambda row: row["devices"] and row["lanes"])
        self.assertGreater(row["large_bytes"], 0)
        self.assertEqual(1, len(json.loads(self.ask("status", process.pid, "--json").stdout)))
        self.assertRegex(self.ask("status", process.pid).stdout, r"(?s)threads and their slabs.*GPUs\n")

    def test_what_is_observed(self):
        process = self.running("observed")
        device, = self.row(process, lambda row: row["devices"])["devices"]
        self.assertEqual(("observed", 900 << 20, 620 << 20),
                         (device["phase"], device["peak_reserved_bytes"], device["plan_bytes"]))

    def test_nothing_is_left_where_it_was_not_asked_for(self):
        done = door("loop", XDG_RUNTIME_DIR=str(self.runtime))
        self.assertEqual(0, done.returncode)
        self.assertEqual([], list(self.runtime.iterdir()))


#: what memomalloc.cuda asks of torch where it observes: one device with a recorded snapshot, and one that is not used
OBSERVED_TORCH = """
import pickle, sys, types
def no(*words, **more):
    raise AssertionError("torch's allocator is not to be changed, nor the driver started")
cuda = types.ModuleType("torch.cuda")
cuda.is_available, cuda._device_count_nvml, cuda.is_initialized, cuda.device_count = no, lambda: 2, lambda: cuda.started, lambda: 2
cuda.started, cuda.waiting = False, []
cuda._lazy_call = cuda.waiting.append
cuda.memory_reserved, cuda.memory_allocated = lambda device: 8 << 20, lambda device: 3 << 20
cuda.memory = types.ModuleType("torch.cuda.memory")
cuda.memory._record_memory_history = lambda **how: None
cuda.memory.CUDAPluggableAllocator = cuda.memory.change_current_allocator = no
cuda.memory._snapshot = lambda: pickle.load(open(sys.argv[1], "rb"))
torch = types.ModuleType("torch")
torch.cuda = cuda
torch.backends = types.SimpleNamespace(cuda=types.SimpleNamespace(is_built=lambda: True))
sys.modules.update({"torch": torch, "torch.cuda": cuda, "torch.cuda.memory": cuda.memory})
import memomalloc.cuda
memomalloc.cuda._FIRST_PAUSE = 0.05
assert memomalloc.cuda.enable(observe=True, library=sys.argv[2])
[call() for call in cuda.waiting]
cuda.started = True
print("started", flush=True)
sys.stdin.read()
"""


class Observing(unittest.TestCase):
    def test_what_a_plan_would_save_is_told_at_the_end_and_in_status(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        path = snapshots.write(folder / "snapshot.pickle", snapshots.snapshot(snapshots.loop(snapshots.Device())))
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "MEMOMALLOC_STATUS": "1",
                       "XDG_RUNTIME_DIR": str(folder), "PATH": f"{BUILD}:{os.environ['PATH']}"}
        process = subprocess.Popen([sys.executable, "-c", OBSERVED_TORCH, path, LIBRARY], env=environment, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        self.assertEqual("started\n", process.stdout.readline())
        found = json.loads(subprocess.run([BUILD / "memomalloc", "plan", path, "--json"], capture_output=True, text=True,
                                          check=True).stdout)
        rows, end = [], time.monotonic() + 60
        while not (rows and rows[0]["devices"]) and time.monotonic() < end:
            time.sleep(0.1)
            done = subprocess.run([BUILD / "memomalloc", "status", str(process.pid), "--json"], env=environment,
                                  capture_output=True, text=True, check=False)
            rows = json.loads(done.stdout)
        device, = rows[0]["devices"]
        self.assertEqual((0, "observed", 8 << 20, 3 << 20), tuple(device[name] for name in (
            "device", "phase", "reserved_bytes", "alive_bytes")))
        self.assertEqual(tuple(found[name] for name in ("reserved", "alive", "height")), tuple(device[name] for name in (
            "peak_reserved_bytes", "peak_alive_bytes", "plan_bytes")))
        _, said = process.communicate(timeout=60)
        self.assertEqual(f"memomalloc: cuda: observed, device 0: {found['sentence']}\n", said)
        self.assertEqual(0, process.returncode)


#: what memomalloc.cuda.enable() asks of torch; tensors are blocks of the library, over the driver that is none
ENABLED_TORCH = """
import ctypes, os, sys, types
def no(*words, **more):
    raise AssertionError("the driver is not to be started")
cuda = types.ModuleType("torch.cuda")
cuda.is_available, cuda._device_count_nvml, cuda.is_initialized, cuda.device_count = no, lambda: 2, lambda: cuda.started, lambda: 2
cuda.started, cuda.current_device = False, lambda: 0
cuda._utils = types.SimpleNamespace(_get_device_index=lambda device, optional: device)
cuda.memory = types.ModuleType("torch.cuda.memory")
class Pluggable:
    def __init__(self, path, take, give):
        self.hooks = types.SimpleNamespace(**{name: lambda address: None for name in memomalloc.cuda._HOOKS})
    def allocator(self):
        return self.hooks
cuda.memory.CUDAPluggableAllocator, cuda.memory.change_current_allocator = Pluggable, lambda allocator: None
torch = types.ModuleType("torch")
torch.cuda, torch._C = cuda, types.SimpleNamespace(_cuda_emptyCache=lambda: None, **{
    f"_accelerator_{name}": no for name in ("isAllocatorInitialized", "getDeviceStats", "resetPeakStats", "emptyCache")})
torch.backends = types.SimpleNamespace(cuda=types.SimpleNamespace(is_built=lambda: True))
sys.modules.update({"torch": torch, "torch.cuda": cuda, "torch.cuda.memory": cuda.memory})
import memomalloc.cuda
assert memomalloc.cuda.enable(library=sys.argv[1])
shared, driver = ctypes.CDLL(sys.argv[1]), ctypes.CDLL("libcuda.so.1")
shared.memomalloc_cuda_malloc.restype = ctypes.c_void_p
def tensor(device):
    cuda.started = True
    return shared.memomalloc_cuda_malloc(ctypes.c_ssize_t(4 << 20), device, None)
"""


class Enabled(unittest.TestCase):
    def run_python(self, script, **variables):
        done = subprocess.run([sys.executable, "-c", ENABLED_TORCH + script, LIBRARY], capture_output=True, text=True, check=False,
                              timeout=120, env=surroundings(PYTHONPATH=str(ROOT / "python"), **variables))
        self.assertEqual(0, done.returncode, done.stderr)
        return done

    def test_where_a_gpu_cannot_map_memory_torch_keeps_its_allocator(self):
        script = ENABLED_TORCH.replace("assert memomalloc.cuda.enable", "print(memomalloc.cuda.enable")
        script = script.replace("library=sys.argv[1])", "library=sys.argv[1]))", 1) + "print(memomalloc.cuda.enabled(), driver.fakeCalls())"
        done = subprocess.run([sys.executable, "-c", script, LIBRARY], capture_output=True, text=True, check=False, timeout=120,
                              env=surroundings(PYTHONPATH=str(ROOT / "python"), FAKE_CUDA_OLD="1"))
        self.assertEqual("False\nFalse 0\n", done.stdout, done.stderr)
        self.assertEqual("memomalloc: cuda: GPU 0 has no virtual memory management; nothing is changed\n", done.stderr)

    def test_processes_that_a_program_starts_do_not_ask_for_the_gpus_again(self):
        self.assertEqual("1\n", self.run_python('print(os.environ["_MEMOMALLOC_GPUS"])').stdout)
        self.run_python("", FAKE_CUDA_OLD="1", _MEMOMALLOC_GPUS="1")

    def test_the_driver_starts_with_the_first_tensor(self):
        self.assertEqual("0\nTrue\n", self.run_python("print(driver.fakeCalls()); tensor(0); print(driver.fakeCalls() > 0)").stdout)

    def test_asked_for_figures_no_gpu_is_taken_into_use(self):
        done = self.run_python("""
print(memomalloc.cuda.stats(), memomalloc.cuda.memory_summary(1), torch._C._cuda_memoryStats(1)["num_ooms"], driver.fakeContexts())
tensor(1)
torch._C._cuda_resetPeakMemoryStats(0)
print(memomalloc.cuda.stats(), memomalloc.cuda.stats(1)["reserved_bytes.all.peak"] >> 20, memomalloc.cuda.stats(99))
memomalloc.cuda._tell_at_exit(os.getpid())
print(len(memomalloc.cuda.memory_summary(1).splitlines()), driver.fakeContexts())
""")
        self.assertEqual("{} device 1: no tensor until now 0 0\n{} 4 {}\n7 1\n", done.stdout)
        self.assertRegex(done.stderr, r"^memomalloc: cuda: device 1: .*; reserved 4\.0 MiB at most, .*\n$")

    def test_torch_accelerator_is_answered_where_torch_has_it(self):
        done = self.run_python("""
print(torch._C._accelerator_isAllocatorInitialized())
tensor(0)
print(torch._C._accelerator_isAllocatorInitialized(), torch._C._accelerator_getDeviceStats(0)["allocated_bytes"]["all"]["peak"] >> 20)
torch._C._accelerator_resetPeakStats(0)
torch._C._accelerator_emptyCache()
print(hasattr(torch._C, "_accelerator_resetAccumulatedStats"))
""")
        self.assertEqual("False\nTrue 4\nFalse\n", done.stdout)

    def test_a_forked_child_tells_nothing_at_its_end(self):
        done = self.run_python("""
tensor(0)
child = os.fork()
if not child:
    sys.exit()
os.waitpid(child, 0)
""", MEMOMALLOC_STATS="1")
        self.assertEqual(1, done.stderr.count("memomalloc: cuda: device 0: "), done.stderr)


class WithoutAGpu(unittest.TestCase):
    def run_python(self, script, **variables):
        return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120,
                              env={**os.environ, "PYTHONPATH": str(ROOT / "python"), **variables})

    def test_torch_without_cuda_goes_on(self):
        done = self.run_python("import torch, memomalloc.cuda as c\n"
                               "print(c.enable(), c.enabled(), c.stats(), c.enable(observe=True))\n"
                               "c.release(); c.sleep(); c.wake(); print(c.memory_summary())")
        if "No module named 'torch'" in done.stderr:
            self.skipTest("no torch")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "False False {} False\nmemomalloc.cuda is not enabled\n")
        self.assertIn("torch sees no GPU here; nothing is changed", done.stderr)


    def test_run_enables_it_when_torch_is_imported(self):
        for more in ((), ("--no-open",), ("--observe",)):
            with self.subTest(more):
                done = subprocess.run([BUILD / "memomalloc", "run", "--cuda", *more, "--", sys.executable, "-c", "import torch; print(1)"],
                                      capture_output=True, text=True, check=False, timeout=120)
                if "No module named 'torch'" in done.stderr:
                    self.skipTest("no torch")
                self.assertEqual(done.stdout, "1\n", done.stderr)
                self.assertIn("cuda: torch sees no GPU here; nothing is changed", done.stderr)
        done = subprocess.run([BUILD / "memomalloc", "run", "--", sys.executable, "-c", "import torch; print(1)"],
                              capture_output=True, text=True, check=False, timeout=120)
        self.assertNotIn("cuda", done.stderr)


if __name__ == "__main__":
    unittest.main()
