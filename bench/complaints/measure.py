"""What each program of this folder tells: memory before and after its loop, ten seconds later, the peak, and time."""

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
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += family(int(child))
    return found


def held():
    """MiB of the process and those that it has started, without what is mapped from files; what several processes have
    is divided among them."""
    total = 0
    for pid in family(os.getpid()):
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


def run(loop):
    """Runs loop(), which leaves nothing that it still needs, and prints a line of JSON."""
    before, begin, processor = held(), time.perf_counter(), processor_seconds()
    loop()
    seconds, spent = time.perf_counter() - begin, processor_seconds() - processor
    gc.collect()
    after = held()
    time.sleep(WAIT)
    print(json.dumps({"before": before, "after": after, "later": held(), "peak": peak(), "seconds": seconds,
                      "processor_seconds": spent}), flush=True)
