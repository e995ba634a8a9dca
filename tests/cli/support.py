"""Runs the `memomalloc` command, as built or installed, for the tests in this folder."""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))  # loops.py
sys.path.append(str(ROOT / "scripts/pictures"))  # browser.py
# MEMO_COMMAND: an installed one instead.
COMMAND = pathlib.Path(os.environ.get("MEMO_COMMAND") or ROOT / "build/memomalloc")
GOLDEN = ROOT / "tests/golden"


def memomalloc(*words, environment=None, cwd=None, timeout=120):
    """The finished process: returncode, stdout, stderr."""
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith("MEMOMALLOC_") and name != "LD_PRELOAD"}
    return subprocess.run([str(COMMAND), *map(str, words)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=timeout, cwd=cwd,
                          env=clean | (environment or {}))


def json_of(process):
    return json.loads(process.stdout)


def readable_by_all(path):
    """May other users reach and run this?"""
    return all(folder.stat().st_mode & 0o5 == 0o5 for folder in (path.resolve(), *path.resolve().parents))
