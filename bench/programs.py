#!/usr/bin/env python3
"""What the first iterations of many programs cost under each allocator, while the library still learns.

Each program runs its iterations under each allocator in a process of its own. Counted are the page faults, the system
time and the processor time of all iterations together, and the peak of resident memory. A program of Python counts by
itself, after its imports; of another one what it costs to start it for no iterations is subtracted (the peak is that of
the process). Under this library the shares of the large bytes are told: planned, reused from the pool,
other; of all iterations and of their second half. Faults, peaks and shares hold on a busy machine, too.
"""

import argparse
import json
import os
import pathlib
import resource
import shlex
import statistics
import sys
import tempfile

import allocators
import children
import loaded_library
import results as kept
from program_loops import arrays, commands, libraries, networks

ROUNDS = 20
FIGURES = ("faults", "system", "processor", "peak")
SHARES = ("planned_bytes", "at_hand_bytes", "other_bytes")
HUGE_PAGES = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
LOOPS = {loop.__name__: loop for module in (arrays, networks, libraries) for loop in module.LOOPS}
COMMANDS = {command.name: command for command in commands.COMMANDS}


class Missing(Exception):
    """The program is not installed; the text tells how to get it."""


def shares(before, now):
    """Of the large bytes between two looks at the statistics, the shares; None where there are hardly any."""
    parts = [now[name] - before[name] for name in SHARES]
    return [part / sum(parts) for part in parts] if sum(parts) >= 1 << 20 else None


def run_loop(name, rounds):
    """In the child: the iterations of a program of Python; prints what they cost."""
    try:
        step = LOOPS[name]()
    except ModuleNotFoundError as error:
        print(json.dumps({"missing": error.name.split(".")[0]}))
        return
    looks, start = [loaded_library.library_stats()], resource.getrusage(resource.RUSAGE_SELF)
    each = [start.ru_minflt]
    for number in range(rounds):
        step()
        each.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
        if number + 1 in (rounds // 2, rounds):
            looks.append(loaded_library.library_stats())
    end = resource.getrusage(resource.RUSAGE_SELF)
    system = end.ru_stime - start.ru_stime
    result = {"faults": end.ru_minflt - start.ru_minflt, "system": system, "peak": end.ru_maxrss / 1024,
              "processor": end.ru_utime - start.ru_utime + system, "each": [after - before for before, after in zip(each, each[1:])]}
    if None not in looks:
        result |= {"all": shares(looks[0], looks[2]), "half": shares(looks[1], looks[2])}
    print(json.dumps(result))


def count_loop(name, allocator, arguments):
    """The figures of a program of Python."""
    result = children.run(__file__, ["--child", name, "--rounds", arguments.rounds], allocator, arguments)
    if "missing" in result:
        raise Missing(f"pip install {libraries.PACKAGES.get(result['missing'], result['missing'])}")
    return result


def sums(command, rounds, environment):
    """The statistics that the command's processes have written at their ends, added up."""
    with tempfile.TemporaryDirectory() as folder:
        commands.run(command, rounds, environment | {"MEMOMALLOC_STATS_FILE": f"{folder}/%p"})
        written = [json.loads(path.read_text()) for path in pathlib.Path(folder).iterdir()]
    return {name: sum(one[name] for one in written) for name in SHARES}


def count_command(name, allocator, arguments, told):
    """The figures of another program; with its shares if `told`, by runs of their own since statistics have a thread."""
    command, rounds = COMMANDS[name], arguments.rounds
    if command.tool() is None:
        raise Missing(f"apt-get install {command.package}")
    environment = allocator.environment(os.environ)
    result = commands.run(command, rounds, environment)
    if command.empty:
        before = commands.run(command, 0, environment)
        result |= {figure: result[figure] - before[figure] for figure in FIGURES if figure != "peak"}
    if told:
        none = sums(command, 0, environment) if command.empty else dict.fromkeys(SHARES, 0)
        half, whole = (sums(command, number, environment) for number in (rounds // 2, rounds))
        result |= {"all": shares(none, whole), "half": shares(half, whole)}
    return result


def results_of(name, chosen, arguments):
    """Allocator -> the results of all repetitions, the allocators in turns."""
    results = {allocator.name: [] for allocator in chosen}
    for repetition in range(arguments.repetitions):
        for allocator in chosen:
            told = allocator.name == allocators.OURS and repetition == 0
            one = (count_loop(name, allocator, arguments) if name in LOOPS
                   else count_command(name, allocator, arguments, told))
            results[allocator.name].append(one)
    return results


def worse(ours, reference, figure):
    """The median is above the other's, and no repetition is as good as one of the other's."""
    if reference is None or ours is reference:
        return False
    return min(one[figure] for one in ours) > max(one[figure] for one in reference)


def cell(results, reference):
    """The medians of one allocator's figures; bold is what is worse than the reference's."""
    texts = []
    for figure, form in zip(FIGURES, ("{:,.0f}", "{:.0f} ms", "{:.2f} s", "{:.0f} MiB")):
        value = max(0, statistics.median(one[figure] for one in results)) * (1000 if figure == "system" else 1)
        text = form.format(value)
        texts.append(f"**{text}**" if worse(results, reference, figure) else text)
    return ", ".join(texts)


def percent(parts):
    # Shares of a command are differences of runs, in which a compiler's processes need not ask for the same.
    return " + ".join(f"{100 * part:.0f}" for part in parts) if parts and min(parts) > -0.005 else "-"


def row(name, results):
    """A line of the table."""
    title = LOOPS[name].__doc__ if name in LOOPS else COMMANDS[name].title
    ours = results.get(allocators.OURS)
    cells = [cell(found, results.get("glibc") if found is ours else None) for found in results.values()]
    if ours is not None:
        cells += [percent(ours[0].get(part)) for part in ("all", "half")]
    return f"| {title} | " + " | ".join(cells) + " |"


def table():
    """The result for this machine's huge pages: programs mean another thing where all memory comes in them."""
    always = HUGE_PAGES.exists() and "[always]" in HUGE_PAGES.read_text(encoding="utf-8")
    return "programs_huge_pages_always" if always else "programs"


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default=",".join([*LOOPS, *COMMANDS]), help="comma between them (all)")
    children.add_options(parser, "glibc,tcmalloc,jemalloc,memomalloc")
    parser.add_argument("--repetitions", type=int, default=1, help="of each, whose medians are told (%(default)s)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="iterations of each (%(default)s)")
    parser.add_argument("--each", action="store_true", help="print the faults of each iteration, too, where it is known")
    parser.add_argument("--write", action="store_true", help="keep the table in results/")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv):
    arguments = parse(argv)
    if arguments.child:
        run_loop(arguments.child, arguments.rounds)
        return 0
    names = arguments.programs.split(",")
    unknown = [name for name in names if name not in LOOPS and name not in COMMANDS]
    if unknown:
        raise SystemExit(f"programs.py: no program is named {', '.join(unknown)}; there are {', '.join([*LOOPS, *COMMANDS])}")
    chosen = children.chosen(arguments)
    told = ["planned + reused + other, %", "second half"] if any(a.name == allocators.OURS for a in chosen) else []
    lines, left_out = [], []

    def say(line):
        lines.append(line)
        print(line, flush=True)

    say("| program | " + " | ".join([a.name for a in chosen] + told) + " |")
    say("| --- " * (1 + len(chosen) + len(told)) + "|")
    for name in names:
        try:
            results = results_of(name, chosen, arguments)
        except Missing as how:
            left_out.append(f"{name} is left out: {how}")
            continue
        say(row(name, results))
        for allocator, found in results.items() if arguments.each and name in LOOPS else ():
            print(f"    {allocator}: {found[0]['each']}", flush=True)
    print(*left_out, sep="\n")
    if arguments.write:
        command = shlex.join(["bench/programs.py", *(word for word in argv if word not in ("--write", "--python-torch")
                                                     and not word.startswith("/"))])
        kept.keep(table(), command, lines, repetitions=arguments.repetitions)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
