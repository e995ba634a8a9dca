"""How the preload checks are performed and counted."""

import concurrent.futures
import sys
import time

import common


def perform(name, check):
    """Returns (name, verdict, detail, seconds); verdict is passed, failed or skipped."""
    started = time.monotonic()
    try:
        verdict, detail = "passed", check() or ""
    except common.Skip as reason:
        verdict, detail = "skipped", str(reason)
    except AssertionError as failure:
        verdict, detail = "failed", str(failure)
    except Exception as failure:  # a broken check must not hide the others
        verdict, detail = "failed", f"{type(failure).__name__}: {failure}"
    return name, verdict, detail, time.monotonic() - started


def perform_all(checks, jobs, verbose):
    """Performs checks in parallel and prints the failures and the counts; the exit code."""
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    progress = sys.stderr.isatty() and not verbose
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(perform, name, check) for name, check in checks]
        for future in concurrent.futures.as_completed(futures):
            name, verdict, detail, seconds = future.result()
            counts[verdict] += 1
            if progress:
                print(f"\r\033[K{sum(counts.values())}/{len(checks)} {name}", end="",
                      file=sys.stderr, flush=True)
            clear = "\r\033[K" if progress else ""
            if verdict == "skipped":
                print(f"{clear}skipped: {name}: {detail}", flush=True)
            elif verdict == "failed" or verbose:
                print(f"{clear}{verdict}: {name} ({seconds:.1f} s) {detail}", flush=True)
    if progress:
        print("\r\033[K", end="", file=sys.stderr)
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] or not checks else 0
