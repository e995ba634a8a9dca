"""Plan files as a running program meets them: damaged, shared with processes that write them, written by others.
The program's own results stay the same."""

import concurrent.futures
import os
import pathlib
import random
import stat
import tempfile

from common import expect
from file_checks import program_survives, with_settings


def damaged_plan_files(context):
    """Saves a plan, then loads it truncated, with flipped bytes, extended, foreign and from the future."""
    random_state = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "plan"
        mode = with_settings(("MEMOMALLOC_PLAN_FILE", str(path)))
        program_survives(context, mode, lines=0)
        expect(path.exists() and path.stat().st_size > 0, "no plan file was written")
        good = path.read_bytes()
        program_survives(context, mode, lines=0)
        versions = [good[:len(good) * part // 8] for part in range(8)]
        for _ in range(16):
            damaged = bytearray(good)
            for _ in range(random_state.randrange(1, 6)):
                damaged[random_state.randrange(len(damaged))] = random_state.randrange(256)
            versions.append(bytes(damaged))
        versions += [good + good, good.replace(b"1", b"9"), b"\0" * 5000, os.urandom(3000),
                     b"id,lower,upper,size\n0,0,1,5\n", pathlib.Path("/bin/true").read_bytes()]
        for version in versions:
            path.write_bytes(version)
            program_survives(context, mode, lines=1)


def a_plan_file_shared_at_once(context):
    """Processes that start and end while others read and replace the same plan file: each reads a whole one."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "plan"
        mode = with_settings(("MEMOMALLOC_PLAN_FILE", str(path)))
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            runs = [pool.submit(program_survives, context, mode, 0) for _ in range(30)]
            for run in runs:
                run.result()
        expect([entry.name for entry in path.parent.iterdir()] == ["plan"], "a half-written file was left behind")
        program_survives(context, mode, lines=0)


def save_other_plans(context, path):
    """Puts another program's plans there: what is only read is not saved again, and what is learned is."""
    path.unlink(missing_ok=True)
    script = "for _ in range(60):\n    for size in range(100000, 900000, 70000): block = bytearray(size)\n    del block"
    context.run(["/usr/bin/python3", "-c", script], with_settings(("MEMOMALLOC_PLAN_FILE", str(path))))
    expect(path.exists(), "no plan file was written")


def a_plan_file_that_others_may_write(context):
    """It is refused with one line that says what to do, and left as it is, until the user says that a group is
    trusted; one that only its owner may read stays so when it is replaced."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "plan"
        mode = with_settings(("MEMOMALLOC_PLAN_FILE", str(path)))
        group = with_settings(("MEMOMALLOC_PLAN_FILE", str(path)), ("MEMOMALLOC_PLAN_TRUST", "group"))
        save_other_plans(context, path)
        path.chmod(0o600)
        before = path.stat()
        program_survives(context, mode, lines=0)
        expect(path.stat().st_mtime_ns != before.st_mtime_ns, "new plans were not saved")
        expect(stat.S_IMODE(path.stat().st_mode) == 0o600, f"the mode became {oct(path.stat().st_mode)}")
        for bits, trusting, advice in ((0o602, group, "chmod o-w"), (0o620, mode, "MEMOMALLOC_PLAN_TRUST=group")):
            path.chmod(bits)
            before = path.stat()
            said = program_survives(context, trusting, lines=1)
            expect(len(said) == 1 and advice in said[0], f"{oct(bits)}: {said}")
            expect(path.stat().st_ino == before.st_ino, f"{oct(bits)}: the file was replaced")
        save_other_plans(context, path)
        path.chmod(0o620)
        before = path.stat()
        program_survives(context, group, lines=0)
        expect(path.stat().st_mtime_ns != before.st_mtime_ns, "a group's file was not used and renewed")
        expect(stat.S_IMODE(path.stat().st_mode) == 0o620, f"the mode became {oct(path.stat().st_mode)}")


def checks(context):
    functions = (damaged_plan_files, a_plan_file_shared_at_once, a_plan_file_that_others_may_write)
    return [(f"outside world: {function.__name__.replace('_', ' ')}",
             lambda function=function: function(context)) for function in functions]
