"""Where the threads of processes that do not end are: a line for each, with what its stack holds of code. Debuggers are not
in guests of tests/vm, and take the place of what hangs by chance."""

import itertools
import os
import pathlib
import struct

WORDS = 1024  # of a stack that are looked at
NAMED = 24  # places in code that a line has at most


def read(path):
    try:
        return path.read_text()
    except OSError:
        return ""


def in_session(leader):
    """The processes of a session, as folders of /proc."""
    for folder in pathlib.Path("/proc").iterdir():
        fields = read(folder / "stat").rpartition(")")[2].split() if folder.name.isdigit() else []
        if len(fields) > 3 and int(fields[3]) == leader:
            yield folder


def code_of(process):
    """(start, end, offset in the file, name) of what a process has mapped to run."""
    for line in read(process / "maps").splitlines():
        fields = line.split()
        if "x" in fields[1]:
            start, end = (int(part, 16) for part in fields[0].split("-"))
            yield start, end, int(fields[2], 16), os.path.basename(fields[5]) if len(fields) > 5 else "no file"


def place(address, code):
    """NAME+OFFSET in the file, "" for what is no code."""
    return next((f"{name}+{address - start + offset:#x}" for start, end, offset, name in code if start <= address < end),
                "")


def stack_words(process, pointer):
    try:
        with open(process / "mem", "rb", buffering=0) as memory:
            memory.seek(pointer)
            found = memory.read(8 * WORDS)
    except (OSError, ValueError, OverflowError):
        return ()
    return struct.unpack(f"={len(found) // 8}Q", found[:len(found) // 8 * 8])


def threads(process):
    code = list(code_of(process))
    for task in sorted((process / "task").iterdir()):
        words = read(task / "syscall").split()
        if len(words) < 3:
            yield f"{process.name}/{task.name} runs"
            continue
        pointer, counter = (int(word, 16) for word in words[-2:])
        places = filter(None, (place(word, code) for word in (counter, *stack_words(process, pointer))))
        yield (f"{process.name}/{task.name} waits in {read(task / 'wchan')}, call {' '.join(words[:5])}: "
               f"{' '.join(itertools.islice(places, NAMED))}")


def tell(leader):
    """A line for each thread of a session's processes; for who may trace them."""
    lines = []
    for process in in_session(leader):
        try:
            lines += threads(process)
        except OSError:  # it has ended
            continue
    return "\n".join(lines)
