"""Checks of the shared object itself: what it exports, needs and keeps per thread, and what it costs to load."""

import pathlib
import re
import shutil
import subprocess
import tempfile

import common
from common import Skip, expect

# Bytes of initial-exec TLS: the static reserve is shared by all libraries of a process.
TLS_LIMIT = 64

# Instructions that loading and unloading the library may add to /bin/true, which runs 130,000 to 200,000.
STARTUP_LIMIT = 400_000


# The oldest glibc that wheels are for; and what is newer in name only: the linker of an older one puts `stat` and its like
# in by other functions, and the last two are asked for by this machine's libgcc and libstdc++.
OLDEST = (2, 28)
OF_THE_COMPILER = ("stat", "fstat", "lstat", "_dl_find_object", "__libc_single_threaded")


def output(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True,
                          text=True).stdout


def hooks():
    """The names in preload/hooks.def: the first argument of each row."""
    text = (common.ROOT / "preload" / "hooks.def").read_text()
    names = re.findall(r"^(?:HOOK|ENTRY|OPERATOR|PEER)\((\w+),", text, re.MULTILINE)
    return set(names), len(names)


def declared():
    """The functions of the C API, from its header."""
    header = (common.ROOT / "include" / "memomalloc" / "memomalloc.h").read_text()
    return set(re.findall(r"\b(memomalloc_\w+)\s*\(", header))


def exported_names(context):
    exported = {line.split()[-1].split("@")[0]
                for line in output("nm", "-D", "--defined-only", context.library).splitlines()
                if line.split()[-2] != "A"}
    listed, rows = hooks()
    ours = {name for name in exported if not name.startswith("memomalloc_")}
    foreign = ours - listed
    expect(not foreign, f"exported, but not in preload/hooks.def: {sorted(foreign)}")
    expect(len(ours) == rows, f"{len(ours)} functions exported for {rows} rows of preload/hooks.def")
    api = exported - ours
    expect(api == declared(), f"exported {sorted(api)}, declared {sorted(declared())}")


def no_leaked_symbols(context):
    listed, _ = hooks()
    names = "\n".join(line for line in output("nm", "-D", "--defined-only", context.library).splitlines()
                      if line.split()[-1].split("@")[0] not in listed)
    for pattern in (r"\b_Z", r"_Unwind_", r"_?_?unw_", r"_ULx86|_Ux86|_ULaarch64", r"\bXXH", r"__cxa",
                    r"__gxx", r"lzma_"):
        found = re.search(rf".*{pattern}.*", names)
        expect(not found, f"leaked: {found and found.group(0)}")


def needed_libraries(context):
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", context.library)))
    # All parts of glibc: threads and dlsym were libraries of their own before 2.34, for which wheels are built.
    unexpected = {name for name in needed if not re.match(r"(libc\.so|ld-linux|libm\.so|lib(dl|pthread)\.so)", name)}
    expect(not unexpected, f"needs {sorted(unexpected)}")


def old_systems(context):
    """Wheels are linked for glibc 2.28 (PEP 600): what is asked of glibc was there then, under whichever version."""
    def functions(file, *options):
        found = {}
        for line in output("nm", "-D", *options, file).splitlines():
            symbol = re.search(r"(\S+?)@@?GLIBC_([\d.]+)$", line)
            if symbol:
                found.setdefault(symbol[1], []).append(tuple(map(int, symbol[2].split("."))))
        return found

    offered = {}
    for library in re.findall(r"=> (/\S*/lib[cm]\.so\.6)|(/lib\S*/ld-linux\S+)", output("ldd", context.library)):
        for name, versions in functions("".join(library), "--defined-only").items():
            offered.setdefault(name, []).extend(versions)
    expect("pthread_create" in offered, "glibc's own functions are not found")
    new = {name for name in functions(context.library, "--undefined-only")
           if name not in OF_THE_COMPILER and min(offered.get(name, [(0,)])) > OLDEST}
    expect(not new, f"not in glibc {'.'.join(map(str, OLDEST))}: {sorted(new)}")


def hardened(context):
    text = output("readelf", "-dlW", context.library)
    expect("BIND_NOW" in text or "NOW" in text, "lazy binding would enter the linker inside malloc")
    stack = re.search(r"GNU_STACK.*", text).group(0)
    expect("RWE" not in stack, f"executable stack: {stack}")
    expect("TEXTREL" not in text, "text relocations")


def thread_local_storage(context):
    text = output("readelf", "-lW", context.library)
    segment = re.search(r"^\s*TLS\s+\S+\s+\S+\s+\S+\s+\S+\s+(0x\w+)", text, re.MULTILINE)
    size = int(segment.group(1), 16) if segment else 0
    expect(size <= TLS_LIMIT, f"{size} bytes of thread-local storage, at most {TLS_LIMIT}")
    # In the static block: an access never allocates, whatever the model of a cold object's variable is.
    expect("STATIC_TLS" in output("readelf", "-dW", context.library), "not in the static block")


def instructions(context, mode):
    """Instructions of one run of /bin/true, counted by callgrind: the same number at every run."""
    result = context.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                          "/bin/true"], mode, timeout=120)
    found = re.search(rb"Collected : (\d+)", result.err)
    expect(result.code == 0 and found, f"callgrind: {result}")
    return int(found.group(1))


def startup_cost(context):
    if not shutil.which("valgrind"):
        raise Skip("valgrind is not installed")
    without = instructions(context, common.SYSTEM)
    with_us = instructions(context, common.Mode("default"))
    expect(with_us - without <= STARTUP_LIMIT,
           f"{with_us - without} instructions more than the {without} of /bin/true")
    return f"/bin/true: {without} instructions, {with_us - without} more with the library"


HEAP_SOURCE = """
#include <malloc.h>
#include <stdio.h>
int main(void) {
  const struct mallinfo2 heap = mallinfo2();
  printf("%zu %zu\\n", heap.arena, heap.uordblks + heap.hblkhd);
}
"""


def nothing_on_the_heap(context):
    """Being loaded takes none of the program's heap: a bad_alloc of ours needs no reserve there."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "heap"
        subprocess.run(["gcc", "-x", "c", "-", "-o", program], input=HEAP_SOURCE.encode(), check=True, capture_output=True)
        alone = context.run([program], common.SYSTEM)
        result = context.run([program], common.Mode("default"))
        expect(result == alone and alone.code == 0, f"{result}, alone {alone}")


PLUGIN_SOURCE = """
#include <pthread.h>
#include <stdlib.h>
static void* work(void* unused) {
  for (int i = 0; i < 40; ++i) {
    void* volatile block = malloc(1 << 20);
    free(block);
  }
  return unused;
}
__attribute__((constructor)) static void begin(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, work, NULL) == 0)
    pthread_join(thread, NULL);
}
"""


def constructors_that_wait_for_threads(context):
    """dlopen holds one of the linker's locks while a plugin's constructor waits for a thread: looking at that
    thread's call stacks must not want it."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "plugin.c"
        plugin = source.with_suffix(".so")
        source.write_text(PLUGIN_SOURCE)
        subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", plugin], check=True, capture_output=True)
        for variable in ("MEMOMALLOC_PLANS", "MEMOMALLOC_TRACE_FILE"):
            mode = common.Mode("plugin", settings=((variable, f"{folder}/out"),), serving=False)
            result = context.run(["/usr/bin/python3", "-c", f"import ctypes; ctypes.CDLL('{plugin}')"], mode,
                                 timeout=30)
            expect(result.code == 0, f"{variable}: {result}")


ODD_SOURCE = """
#include <stdlib.h>
__attribute__((noinline)) static int allocate(int depth) {
  if (depth > 0)
    return allocate(depth - 1) + 1;
  void* volatile block = malloc(1 << 20);
  free(block);
  return block != NULL;
}
__attribute__((constructor)) static void begin(void) {
  for (int i = 0; i < 40; ++i) {
    if (allocate(64) != 65)
      abort();
  }
}
"""


def modules_with_odd_names(context):
    """Beside a trace each place has one line, whatever its module's name holds."""
    with tempfile.TemporaryDirectory() as folder:
        plugin = pathlib.Path(folder, "two\nlines.so")
        subprocess.run(["gcc", "-x", "c", "-", "-O1", "-fno-optimize-sibling-calls", "-shared", "-fPIC", "-o", plugin], input=ODD_SOURCE.encode(), check=True,
                       capture_output=True)
        trace = f"{folder}/trace.csv"
        result = context.run(["/usr/bin/python3", "-c", f"import ctypes; ctypes.CDLL({str(plugin)!r})"],
                             common.Mode("odd", settings=(("MEMOMALLOC_TRACE_FILE", trace),), serving=False))
        expect(result.code == 0, f"{result}")
        lines = pathlib.Path(trace + ".sites").read_text().splitlines()
        expect(any("two?lines.so" in line for line in lines), f"{lines}")
        odd = [line for line in lines[1:] if not re.match(r"[0-9a-f]{16},.", line)]
        expect(not odd, f"{odd}")


def an_auditor_that_is_none(context):
    """LD_AUDIT loads the library into a name space of its own, where it says in a line that it is no auditor."""
    alone = context.run([context.programs / "sizes"], common.SYSTEM)
    result = context.run([context.programs / "sizes"], common.SYSTEM, extra={"LD_AUDIT": str(context.library)})
    expect((result.code, result.out) == (0, alone.out) and result.err.count(b"LD_PRELOAD\n") == 1, f"{result}")


def traces_with_a_small_stack(context):
    """A trace is written at the end, on a stack of the library's own: the program's may have 32 KiB."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "few")
        source = b"#include <stdlib.h>\nint main(void) { for (int i = 0; i < 9; ++i) free(malloc(1 << 20)); }\n"
        subprocess.run(["gcc", "-fno-builtin", "-x", "c", "-", "-o", program], input=source, check=True, capture_output=True)
        for name in ("TRACE_FILE", "STATS_FILE"):
            mode = common.Mode("small", settings=((f"MEMOMALLOC_{name}", f"{folder}/out"),), serving=False)
            result = context.run(["sh", "-c", f"ulimit -s 32 && exec env -i LD_PRELOAD=$LD_PRELOAD "
                                  f"MEMOMALLOC_{name}={folder}/out {program}"], mode)
            expect(result.code == 0 and pathlib.Path(folder, "out").exists(), f"{name}: {result}")
            pathlib.Path(folder, "out").unlink()


def checks(context):
    functions = (exported_names, no_leaked_symbols, needed_libraries, old_systems, hardened, thread_local_storage,
                 startup_cost, nothing_on_the_heap, constructors_that_wait_for_threads,
                 modules_with_odd_names, traces_with_a_small_stack, an_auditor_that_is_none)
    return [(f"shared object: {function.__name__.replace('_', ' ')}",
             lambda function=function: function(context)) for function in functions]
