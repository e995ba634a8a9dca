#!/usr/bin/env python3
"""Makes the man pages and docs/commands.md from what the command itself prints.

`memomalloc --help` lists the commands, `memomalloc COMMAND --help` tells each one's options, and
`memomalloc options --json` the variables: the code's own tables, so that no page can say otherwise.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

DESCRIPTION = """\
A program that runs a neural network again and again asks malloc for the same large blocks in the
same order. libmemomalloc, preloaded into it, learns that order in the first iterations, plans a
place for each block, and serves later iterations from one slab, with hardly a page fault. A pool
serves large blocks that no plan places. A wrong guess costs time, never a wrong answer."""

LIBRARY_TEXT = """\
Preload the library with
.B memomalloc run \\-\\- COMMAND
or with
.BR LD_PRELOAD=libmemomalloc.so.1 .
Allocations below the threshold, and all that it does not serve, go to the underlying allocator: the
next in the link order, the C library's or another preloaded one. Variables are read once, when
the library is loaded; a setuid program ignores them. Paths expand %p to the process id and %h to the host name.
Nothing is ever written to standard output."""

API = (
    ("const char *memomalloc_version(void)", "the version as text"),
    ("void memomalloc_iteration(void)",
     "an iteration begins here in this thread; optional, since boundaries are found without it"),
    ("size_t memomalloc_stats_json(char *buffer, size_t size)",
     "writes the statistics as JSON; returns their whole length"),
    ("void memomalloc_release(void)", "releases the slabs and all unused memory to the system"),
    ("const void *memomalloc_numpy_handler(void)",
     "a handler for numpy's PyDataMem_SetHandler(), by which arrays come from malloc"),
)


class Help:
    """The parts of a command's --help."""

    def __init__(self, text):
        self.usage, _, rest = text.removeprefix("usage: ").partition("\n\n")
        head, _, rest = rest.partition("\n\n")
        # A line that ends with an example, or is one, is a sentence.
        head = re.sub(r"(?m)(?:^|(?<=: ))(memomalloc [a-z]+ .*)$", r"`\1`.", head)
        self.description = " ".join(head.split())
        self.options, self.footer = [], []
        section = None
        for line in rest.splitlines():
            if re.match(r"^(Arguments|Options|Advanced):$", line):
                section = self.options
            elif line.startswith("  ") and section is self.options:
                self.add_option(line)
            elif line or self.footer:
                section = self.footer
                self.footer.append(line)

    def add_option(self, line):
        name, _, text = line.strip().partition("  ")
        if line.startswith(20 * " "):  # the text of an option whose name is long
            name, text = "", line.strip()
        if name:
            self.options.append([name, text.strip()])
        else:
            self.options[-1][1] = f"{self.options[-1][1]} {text}".strip()


COMMAND = ROOT / "build/memomalloc"


def run(*words):
    return subprocess.run([COMMAND, *words], check=True, capture_output=True,
                          text=True).stdout


def commands():
    """(name, summary, Help) of each command."""
    rows = re.findall(r"^  ([a-z]+) +(.*)$", run("--help"), re.MULTILINE)
    return [(name, summary, Help(run(name, "--help"))) for name, summary in rows]


def groups():
    """(title, names of its commands) of each group."""
    parts = re.findall(r"^([a-z ]+):\n((?:  [a-z]+ .*\n)+)", run("--help"), re.MULTILINE)
    return [(title, re.findall(r"^  ([a-z]+)", text, re.MULTILINE)) for title, text in parts]


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def tagged(name, text):
    return f".TP\n.B {roff(name)}\n{roff(text) or '.'}\n"


def title(page, section, version):
    return f'.TH {page.upper()} {section} "" "memomalloc {version}" "MemoMalloc"\n'


def command_page(rows, version):
    page = title("memomalloc", 1, version)
    page += (".SH NAME\nmemomalloc \\- run, diagnose, compare and draw programs with a learning allocator\n"
             ".SH SYNOPSIS\n.B memomalloc\n.I COMMAND\n[options]\n")
    page += f".SH DESCRIPTION\n{roff(DESCRIPTION)}\n.SH COMMANDS\n"
    for name, summary, text in rows:
        page += f".SS {name}: {roff(summary)}\n.B {roff(text.usage)}\n.PP\n{roff(text.description)}\n"
        page += "".join(tagged(*option) for option in text.options)
        if text.footer:
            page += ".PP\n.nf\n" + roff("\n".join(text.footer)) + "\n.fi\n"
    page += (".SH EXIT STATUS\n" + tagged("0", "done") +
             tagged("1", "the answer is no: no plan within the limits, a fault was found, a run failed") +
             tagged("2", "bad usage or input; a line on standard error says what and where") +
             ".PP\n.B memomalloc run\nhas the exit status of the command that it runs.\n"
             ".SH SEE ALSO\n.BR libmemomalloc (7),\n.BR ld.so (8),\n.BR malloc (3)\n")
    return page


def library_page(version):
    page = title("libmemomalloc", 7, version)
    page += (".SH NAME\nlibmemomalloc \\- allocator that learns a neural network's memory\n"
             f".SH DESCRIPTION\n{roff(DESCRIPTION)}\n.PP\n{LIBRARY_TEXT}\n.SH ENVIRONMENT\n")
    for row in json.loads(run("options", "--json")):
        initial = f" Default: {row['default']}." if row["default"] else ""
        page += tagged(f"{row['variable']} ({row['unit']})", f"{row['help']}.{initial}")
    page += ".SH PROGRAMMING INTERFACE\nAll names are weak in <memomalloc/memomalloc.h>, so that a program runs without the library too.\n"
    page += "".join(tagged(*row) for row in API)
    page += ".SH SEE ALSO\n.BR memomalloc (1),\n.BR ld.so (8),\n.BR malloc (3)\n"
    return page


def markdown(rows):
    text = ("# Commands\n\n**`memomalloc COMMAND --help` prints the same text; exit codes are 0 done, 1 the answer is no, 2 bad usage "
            "or input.**\n\nMade from each command's `--help` by `make docs`.\n\n| for | commands |\n|---|---|\n")
    for group, names in groups():
        text += f"| {group} | {', '.join(f'[{name}](#memomalloc-{name})' for name in names)} |\n"
    for name, summary, parts in rows:
        text += f"\n## memomalloc {name}\n\n{summary[0].upper() + summary[1:]}.\n\n"
        text += f"```\n{parts.usage}\n```\n\n{parts.description}\n\n| option | meaning |\n|---|---|\n"
        for option, meaning in parts.options:
            cells = (cell.replace("|", "\\|") for cell in (f"`{option}`", meaning))
            text += f"| {' | '.join(cells)} |\n"
        if parts.footer:
            text += "\n```\n" + "\n".join(parts.footer).strip() + "\n```\n"
    return text


def main():
    global COMMAND
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--man", type=pathlib.Path, metavar="FOLDER", help="write both man pages there")
    parser.add_argument("--markdown", type=pathlib.Path, metavar="FILE", help="write the Markdown there")
    parser.add_argument("--command", type=pathlib.Path, default=COMMAND, help="which is asked (build/memomalloc)")
    parser.add_argument("--check", action="store_true", help="fail if FILE is stale; write nothing")
    arguments = parser.parse_args()
    COMMAND = arguments.command.resolve()
    version = run("--version").split()[1]
    rows = commands()
    if arguments.man:
        arguments.man.mkdir(parents=True, exist_ok=True)
        (arguments.man / "libmemomalloc.7").write_text(library_page(version))
        (arguments.man / "memomalloc.1").write_text(command_page(rows, version))
    if arguments.markdown:
        new = markdown(rows)
        if not arguments.check:
            arguments.markdown.write_text(new)
        elif not arguments.markdown.exists() or arguments.markdown.read_text() != new:
            sys.exit(f"{arguments.markdown} is stale; run `make docs`")


if __name__ == "__main__":
    main()
