"""The parts of documents that scripts print: `<!-- measured:NAME -->` up to `<!-- /measured -->`.

A part begins with a line that says on which machine, at which commit and on which day it was measured.
"""

import datetime
import os
import pathlib
import platform
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def stamp(command):
    """The line that stands above a part: what printed it, where and when."""
    model = next((line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())
    done = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True)
    return (f"`{command}`, commit {done.stdout.strip() or 'unknown'}, {datetime.date.today()}, {os.cpu_count()} cores "
            f"of {model}, Linux {platform.release().split('-')[0]}.")


def replace(document, parts):
    """Puts lines in the place of a document's parts; `parts`: name -> lines. LookupError if one is not there."""
    path = ROOT / document
    text = path.read_text(encoding="utf-8")
    for name, lines in parts.items():
        pattern = re.compile(rf"(<!-- measured:{re.escape(name)} -->\n).*?(<!-- /measured -->)", re.DOTALL)
        if not pattern.search(text):
            raise LookupError(f"{document} has no part measured:{name}")
        body = "\n".join(lines) + "\n"
        text = pattern.sub(lambda match: match[1] + body + match[2], text)
    path.write_text(text, encoding="utf-8")
