"""What each program of this folder tells: memory before and after its loop, ten seconds later, the peak, and time."""

import ctypes
import gc
import json
import os
import pathlib
import resource
import time

WAIT = float(os.environ.get("COMPLAINT_WAIT", 10))  # seconds


def family(pid):
    """The process and those that it has started."""
    found = [pid]
    try:
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += family(int(child))
    except OSError:  # one that has just ended
        pass
    return found


def held(pid=None):
    """MiB of the process and those that it has started, without what is mapped from files; what several processes have
    is divided among them."""
    total = 0
    for pid in family(pid or os.getpid()):
        try:
            text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
    return total / 1024


def peak():
    """MiB, of this process alone."""
    status = pathlib.Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024


def processor_seconds():
    """Of this process and of those it has started and waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def faults():
    """Page faults of this process and of those it has started and waited for."""
    return sum(resource.getrusage(who).ru_minflt for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def trim():
    ctypes.CDLL(None).malloc_trim(0)


def between():
    """Between two requests: what people paste in there, if the run is to show what that does."""
    if os.environ.get("COMPLAINT_TRIM"):
        gc.collect()
        trim()


def run(loop):
    """Runs loop(), which leaves nothing that it still needs, and prints a line of JSON. `begin` and `end` are the times of
    the loop by the clock of the machine, for who looks on from outside."""
    before, begin, processor, faulted = held(), time.monotonic(), processor_seconds(), faults()
    loop()
    end, spent, faulted = time.monotonic(), processor_seconds() - processor, faults() - faulted
    gc.collect()
    after = held()
    time.sleep(WAIT)
    print(json.dumps({"before": before, "after": after, "later": held(), "peak": peak(), "seconds": end - begin,
                      "processor_seconds": spent, "faults": faulted, "begin": begin, "end": end}), flush=True)
