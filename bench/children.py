"""Programs in processes of their own, one allocator each: what the tables of counts share.

Importing it makes scripts/ and scripts/tables importable, too: loaded_library tells a program the statistics of the library
it runs under, results.py writes into results/.
"""

import json
import os
import pathlib
import subprocess
import sys

import allocators

SCRIPTS = pathlib.Path(__file__).resolve().parents[1] / "scripts"
sys.path[:0] = [str(SCRIPTS), str(SCRIPTS / "tables")]


def add_options(parser, names):
    """Which allocators (`names` by default), which build of the library, which Python."""
    parser.add_argument("--allocators", default=names)
    parser.add_argument("--library", help="another build of the library")
    parser.add_argument("--python-torch", default=sys.executable, help="has what the programs import (this one)")


def chosen(arguments):
    """The allocators that were asked for and are installed."""
    return allocators.chosen(arguments.allocators.split(","), arguments.library)


def run(script, words, allocator, arguments):
    """What the script prints last, as JSON, when it is started with these words under the allocator."""
    words = [str(word) for word in words]
    done = subprocess.run([arguments.python_torch, script, *words], env=allocator.environment(os.environ), capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{pathlib.Path(script).name}: {' '.join(words)} under {allocator.name} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])
