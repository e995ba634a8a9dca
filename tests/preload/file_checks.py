"""Checks of everything that the library reads from or writes to outside of the process: settings, output
paths, plans, privileges. Whatever is wrong there, the program's own results stay the same."""

import contextlib
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile

import common
import control_group
from common import Mode, Skip, expect, expect_same

PROGRAM = "resize"  # learns, serves and checks contents within a fraction of a second


def with_settings(*settings, serving=False):
    return Mode("settings", settings=settings, serving=serving)


def program_survives(context, mode, lines=1):
    """The program's exit code and stdout are as without us, and stderr has at most `lines` lines, all ours."""
    result = context.run([context.programs / PROGRAM], mode)
    reference = context.run([context.programs / PROGRAM], common.SYSTEM)
    expect((result.code, result.out) == (reference.code, reference.out), f"{result}")
    said = result.err.decode(errors="replace").splitlines()
    expect(len(said) <= lines, f"{len(said)} lines on stderr, at most {lines}: {said[:4]}")
    expect(all(line.startswith("memomalloc") for line in said), f"not our prefix: {said}")
    return said


OUTPUTS = ("MEMOMALLOC_STATS_FILE", "MEMOMALLOC_TRACE_FILE")
MISSING = "/no/such/folder/file"


def outputs_that_cannot_be_written(context):
    with tempfile.TemporaryDirectory() as folder:
        link = pathlib.Path(folder) / "loop"
        link.symlink_to(link)
        for path in ("/dev/full", MISSING, folder, str(link), "/proc/version",
                     folder + "/" + "n" * 300):
            for variable in OUTPUTS:
                said = program_survives(context, with_settings((variable, path)), lines=2)
                expect(said or path != MISSING, f"{variable}: nothing is said of {path}")
    expect(not os.path.isfile("/dev/full"), "a file has taken the place of a device")


def outputs_are_written(context):
    with tempfile.TemporaryDirectory() as folder:
        settings = [(name, f"{folder}/{name}.%p") for name in OUTPUTS]
        program_survives(context, with_settings(*settings), lines=0)
        for name in OUTPUTS:
            found = list(pathlib.Path(folder).glob(name + ".*[0-9]"))
            expect(len(found) == 1 and found[0].stat().st_size > 0, f"{name}: {found}")
            expect(found[0].suffix[1:].isdigit(), f"%p is not expanded: {found[0]}")
            expect(stat.S_IMODE(found[0].stat().st_mode) & 0o022 == 0, f"others may write {found[0]}")


def stacks_are_unwound(context):
    """Each of the program's two callers, of which an unwinder knows nothing, is a site of its own."""
    with tempfile.TemporaryDirectory() as folder:
        result = context.run([context.programs / "bare_frames"], with_settings(("MEMOMALLOC_TRACE_FILE", f"{folder}/trace")))
        expect(result.code == 0, f"{result}")
        sites = set(pathlib.Path(folder, "trace.sites").read_text().splitlines()[1:])
        expect(len(sites) >= 2, f"sites: {sites}")


def a_symlinked_output_keeps_its_target(context):
    """An output path that is a link into somebody else's file, as an attacker in /tmp would plant it: the link
    is replaced, and never followed."""
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder) / "target"
        for variable in OUTPUTS:
            target.write_text("precious\n")
            link = pathlib.Path(folder) / variable
            link.symlink_to(target)
            program_survives(context, with_settings((variable, str(link))), lines=1)
            expect(target.read_text() == "precious\n", f"{variable}: the target of a symbolic link was overwritten")
            expect(not link.is_symlink(), f"{variable}: the link is kept")


def bad_settings_are_named_once(context):
    for setting in (("MEMOMALLOC_THRESHOLD", "many"), ("MEMOMALLOC_THRESHOLD", "-1"),
                    ("MEMOMALLOC_THRESHOLD", "99999999999999999999G"), ("MEMOMALLOC_SLAB_LIMIT", "1X"),
                    ("MEMOMALLOC_TRESHOLD", "64K"), ("MEMOMALLOC_HUGEPAGES", "sometimes"),
                    ("MEMOMALLOC_DISABLE", "perhaps"), ("MEMOMALLOC_PLANNER", "none-such"),
                    ("MEMOMALLOC_PLAN_TRUST", "all")):
        said = program_survives(context, with_settings(setting), lines=1)
        expect(len(said) == 1 and setting[0] in said[0], f"{setting}: {said}")


def strict_stops_on_bad_settings(context):
    for name, value in (("MEMOMALLOC_THRESHOLD", "many"), ("MEMOMALLOC_PLANNER", "none-such")):
        result = context.run([context.programs / PROGRAM], with_settings(("MEMOMALLOC_STRICT", "1"), (name, value)))
        expect(result.code != 0, f"a bad {name} did not stop the program")
        expect(name.encode() in result.err and result.err.count(b"\n") <= 2, f"{result}")


def odd_but_valid_settings(context):
    for settings in ((("MEMOMALLOC_THRESHOLD", "1"),), (("MEMOMALLOC_THRESHOLD", "1G"),),
                     (("MEMOMALLOC_SLAB_LIMIT", "1"),), (("MEMOMALLOC_SLAB_LIMIT", "300K"),),
                     (("MEMOMALLOC_PLAN_TIME", "0"),), (("MEMOMALLOC_HUGEPAGES", "always"),),
                     (("MEMOMALLOC_HUGEPAGES", "never"),), (("MEMOMALLOC_PLANNER", "bump"),),
                     (("MEMOMALLOC_EXE", "somebody:else"),), (("MEMOMALLOC_EXE", PROGRAM),)):
        program_survives(context, with_settings(*settings), lines=0)


def a_program_goes_by_two_names(context):
    """MEMOMALLOC_EXE means the file, or the link by which it was executed; others stay silent."""
    with tempfile.TemporaryDirectory() as folder:
        link = pathlib.Path(folder, "link")
        link.symlink_to(context.programs / PROGRAM)
        for name, meant in ((PROGRAM, True), ("other:link", True), ("lin", False), (f"{folder}/link", False)):
            result = context.run([link], with_settings(("MEMOMALLOC_EXE", name), ("MEMOMALLOC_STATS", "1")))
            expect(result.code == 0 and bool(result.err) == meant, f"{name}: {result}")


def closed_streams_stay_silent(context):
    """Every report is asked for, and there is nowhere to write: no stream is open, and the output paths are
    the closed streams. The program ends as it does without us."""
    program = str(context.programs / PROGRAM)
    settings = (("MEMOMALLOC_STATS", "1"), ("MEMOMALLOC_VERBOSE", "3"), ("MEMOMALLOC_TRESHOLD", "1"),
                ("MEMOMALLOC_STATS_FILE", "/dev/stdout"), ("MEMOMALLOC_TRACE_FILE", "/dev/stderr"))
    for closed in ("<&- >&- 2>&-", ">&-", "2>&-", "<&-"):
        command = ["sh", "-c", f'exec "$0" {closed}', program]
        reference = context.run(command, common.SYSTEM)
        result = context.run(command, with_settings(*settings))
        expect(result.code == reference.code, f"{closed}: {result}")
        expect(reference.out in result.out, f"{closed}: the program's own output is damaged: {result}")


def remarks_stay_out_of_a_daemons_files(context):
    """What the program opens where stderr was gets no line of ours: it looks itself, and ends with 4 if there is one."""
    for variable in OUTPUTS:
        mode = with_settings((variable, MISSING))
        expect(context.run([context.programs / PROGRAM], mode).err, f"{variable}: nothing is said of a missing folder")
        result = context.run([context.programs / "closed_files"], mode)
        expect((result.code, result.out) == (0, b"closed files ok\n"), f"{variable}: {result}")


FULL_TMP = """set -e; mount -t tmpfs -o size=64k none "$1"; cd "$1"; shift
    dd if=/dev/zero of=filler bs=4096 count=100 2>/dev/null || true; exec "$@" """


def a_full_tmp(context):
    """A file system with no room left: the program ends as it does elsewhere, with one line for each file."""
    probe = subprocess.run(["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True)
    if probe.returncode != 0:
        raise Skip("needs the right to mount a file system of its own")
    with tempfile.TemporaryDirectory() as folder:
        settings = [(name, f"{folder}/{name}") for name in OUTPUTS]
        command = ["unshare", "-m", "sh", "-c", FULL_TMP, "sh", folder, context.programs / PROGRAM]
        reference = context.run(command, common.SYSTEM)
        result = context.run(command, with_settings(*settings, ("MEMOMALLOC_EXE", PROGRAM)))
        expect(reference.code == 0 and (result.code, result.out) == (reference.code, reference.out),
               f"{result}")
        said = result.err.decode(errors="replace").splitlines()
        expect(said and len(said) <= len(OUTPUTS), f"a line for each file that could not be written: {said}")
        expect(all("cannot write" in line for line in said), f"{said}")


def read_and_write(path, text):
    """Writes a setting of the kernel; what it was."""
    before = pathlib.Path(path).read_text()
    pathlib.Path(path).write_text(text)
    return before


def strict_overcommit(context):
    """vm.overcommit_memory=2: the kernel counts every page that may be written, at once. The setting is the
    machine's, so the check must be asked for; the limit is set so high that nobody else meets it. Reserved
    addresses must not count, and what goes beyond the limit gives ENOMEM."""
    if os.environ.get("MEMO_MACHINE_SETTINGS") != "1":
        raise Skip("changes a setting of the machine: MEMO_MACHINE_SETTINGS=1 allows it")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    script = f"try: bytearray({20 * memory})\nexcept MemoryError: print('refused')"
    commands = [[context.programs / name] for name in ("resize", "sizes", "zeroed", "cross_thread")]
    commands.append(["/usr/bin/python3", "-c", script])
    ratio = read_and_write("/proc/sys/vm/overcommit_ratio", "1000")  # the limit: ten times the memory
    policy = read_and_write("/proc/sys/vm/overcommit_memory", "2")
    try:
        for command in commands:
            reference = context.run(command, common.SYSTEM)
            expect(reference.code == 0, f"fails without the library: {reference}")
            expect_same(context.run(command, Mode("default")), reference)
    finally:
        pathlib.Path("/proc/sys/vm/overcommit_memory").write_text(policy)
        pathlib.Path("/proc/sys/vm/overcommit_ratio").write_text(ratio)


@contextlib.contextmanager
def group_of(limit):
    """A cgroup whose processes may have `limit` bytes, or a skip."""
    try:
        with control_group.limited(limit) as group:
            yield group
    except control_group.Unavailable as reason:
        raise Skip(str(reason)) from reason


def a_control_group(context):
    """A group that has room for a loop or for the blocks after it, large or small, but not for both: it ends who
    takes more."""
    for limit, words in ((52, ("", "small", "again small")), (70, ("grown", "again one"))):
        with group_of(limit << 20) as group:
            for word in words:
                command = group.command([context.programs / "left_loop", *word.split()])
                reference = context.run(command, common.SYSTEM)
                expect(reference.code == 0, f"fails without the library: {reference}")
                for settings in ((), (("MEMOMALLOC_SLAB_LIMIT", "1G"),)):
                    expect_same(context.run(command, with_settings(*settings, serving=bool(settings))), reference, word)


def settings_of_the_c_library(context):
    """glibc's own variables, and the linker's: programs that insist on being served end as they do without us."""
    rows = [("LD_BIND_NOW", "1"), ("MALLOC_CHECK_", "3"), ("MALLOC_PERTURB_", "165"), ("MALLOC_ARENA_MAX", "1"),
            ("MALLOC_TOP_PAD_", "0"), ("MALLOC_MMAP_THRESHOLD_", "65536"), ("MALLOC_TRIM_THRESHOLD_", "0")]
    rows += [("GLIBC_TUNABLES", tunable) for tunable in (
        "glibc.malloc.check=3", "glibc.malloc.perturb=90", "glibc.malloc.tcache_count=0", "glibc.malloc.hugetlb=1",
        "glibc.malloc.mmap_max=0", "glibc.rtld.optional_static_tls=0", "glibc.pthread.rseq=0",
        "glibc.pthread.stack_cache_size=0")]
    for row in rows:
        for program in ("zeroed", "resize"):
            reference = context.run([context.programs / program], common.SYSTEM, extra=[row])
            result = context.run([context.programs / program], Mode("default"), extra=[row])
            expect(reference.code == 0, f"{row}: {program} fails without the library: {reference}")
            expect_same(result, reference, f"{row}, {program} without the library")


LATE = """import ctypes, _ctypes, os, sys, threading
library = ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW)
library.malloc.restype = ctypes.c_void_p
library.memomalloc_version.restype = ctypes.c_char_p
report = ctypes.create_string_buffer(8192)
def work():
    for i in range(40):
        blocks = [library.malloc(ctypes.c_size_t(100000 + 5000 * (j % 5))) for j in range(10)]
        for j, block in enumerate(blocks):
            ctypes.memset(block, j, 100000)
        for j, block in enumerate(blocks):
            assert ctypes.string_at(block, 100000) == bytes([j]) * 100000
            library.free(ctypes.c_void_p(block))
    library.memomalloc_stats_json(report, ctypes.c_size_t(8192))
    if len(sys.argv) > 2:
        _ctypes.dlclose(library._handle)
thread = threading.Thread(target=work)
thread.start()
thread.join()
child = os.fork()
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(len(library.memomalloc_version()) > 0 if len(sys.argv) < 3 else True,
      b'"phase": "serving"' in report.value or b'"phase":"serving"' in report.value)
"""


def loaded_late(context):
    """By dlopen, in a process that runs already: its thread-local storage fits in what the loader keeps for
    such libraries; it serves who asks it, and outlives dlclose, since threads and forks still call it."""
    for more in ([], ["close"]):
        result = context.run(["/usr/bin/python3", "-c", LATE, context.library, *more], common.SYSTEM)
        expect((result.code, result.out) == (0, b"True True\n"), f"{more}: {result}")


SETUID_SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
  for (int i = 0; i < 20; ++i) {
    void *a = malloc(100000), *b = malloc(200000), *c = malloc(300000);
    memset(a, 1, 1000), memset(b, 1, 1000), memset(c, 1, 1000);
    free(a), free(b), free(c);
  }
  return 0;
}
"""


def setuid_ignores_the_environment(context):
    """A setuid program that is linked with the library (a preload by path is already ignored there) must not
    let its caller choose files to write."""
    if os.geteuid() != 0:
        raise Skip("needs root to make a setuid program")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        shutil.copy(context.library, folder)
        # The loader looks for the soname, which carries a version.
        soname = pathlib.Path(folder) / "libmemomalloc.so.1"
        shutil.copy(context.library, soname)
        program = pathlib.Path(folder) / "program"
        source = pathlib.Path(folder) / "program.c"
        source.write_text(SETUID_SOURCE)
        subprocess.run(["gcc", "-fno-builtin", source, "-o", program, "-Wl,--no-as-needed", soname,
                        f"-Wl,-rpath,{folder}"], check=True, capture_output=True)
        report = pathlib.Path(folder) / "report"

        def run_as_nobody():
            settings = (("MEMOMALLOC_STATS_FILE", str(report)), ("MEMOMALLOC_STATS", "1"),
                        ("MEMOMALLOC_VERBOSE", "3"))
            mode = Mode("linked", ours=False, settings=settings, serving=False)
            return context.run([program], mode, user=65534, group=65534, extra_groups=[])

        result = run_as_nobody()
        expect(result.code == 0 and report.exists(), f"the linked program writes no report: {result}")
        report.unlink()
        os.chown(program, 0, 0)
        program.chmod(0o4755)
        result = run_as_nobody()
        expect(result.code == 0 and not result.err, f"{result}")
        expect(not report.exists(), "a setuid program wrote a file that its caller named")


def a_device_gets_one_document(context):
    """Statistics that go to a device or a pipe are written at the end alone: a second document would follow the first."""
    mode = Mode("device", settings=(("MEMOMALLOC_STATS_FILE", "/dev/stdout"),), serving=False)
    result = context.run([context.programs / "loops"], mode)
    expect(result.code == 0 and result.out.count(b'{"version"') == 1, f"{result}")


def silent_children(context):
    """A pipeline of shells and tools under the preload prints what it prints without."""
    script = "for i in 1 2 3; do echo $i | cat | sort; done; ls / | wc -l; exec printf 'end\\n'"
    command = ["sh", "-c", script]
    expect_same(context.run(command, Mode("default")), context.run(command, common.SYSTEM))


def checks(context):
    functions = (outputs_that_cannot_be_written, outputs_are_written, stacks_are_unwound,
                 a_symlinked_output_keeps_its_target,
                 bad_settings_are_named_once, strict_stops_on_bad_settings, odd_but_valid_settings,
                 a_program_goes_by_two_names, closed_streams_stay_silent, remarks_stay_out_of_a_daemons_files, a_full_tmp, strict_overcommit,
                 a_control_group,
                 a_device_gets_one_document,
                 settings_of_the_c_library, loaded_late, setuid_ignores_the_environment, silent_children)
    return [(f"outside world: {function.__name__.replace('_', ' ')}",
             lambda function=function: function(context)) for function in functions]
