"""The places of the library that make a system call, as its machine code has them: every call of a function that
calls.py knows, imported or the library's own of that name, by the instruction. A function that it does not know, or a way out that cannot be turned, is an
error."""

import dataclasses
import re
import subprocess

import calls

# What refuse.c turns, and what needs no turning: addresses of our own, and thread-local storage.
TURNED = {"R_X86_64_JUMP_SLO", "R_X86_64_JUMP_SLOT", "R_X86_64_GLOB_DAT", "R_X86_64_64"}
OWN = {"R_X86_64_RELATIVE", "R_X86_64_DTPMOD64", "R_X86_64_TPOFF64", "R_X86_64_DTPOFF64"}


# Runs before there is a C library.
BEFORE = ("load_as_auditor",)


@dataclasses.dataclass(frozen=True)
class Place:
    function: str
    offset: int  # of the return address; for a tail call, of the instruction
    inside: str  # the function that the instruction is in
    argument: int | None = None  # the first one, where the code has it as a number
    tail: bool = False
    own: bool = True  # False: the compiler's run-time code, which the library has in it

    def __str__(self):
        return f"{self.function} in {self.inside} ({self.offset:x}{', tail' if self.tail else ''})"

    @property
    def pairs(self):
        """(form, errno) of each refusal that the function's manual names."""
        if self.function == "syscall":
            if self.argument not in calls.BY_NUMBER:
                raise Unknown(f"{self}: say in tests/refusal/calls.py how system call {self.argument} is refused")
            return calls.BY_NUMBER[self.argument][1]
        if (self.function, self.argument) in calls.ANSWERED:
            return ()
        return calls.REFUSED[self.function]


def short(name):
    """A demangled name without arguments and parameters of templates."""
    while True:
        shorter = re.sub(r"<[^<>]*>|\([^()]*\)( const)?", "", name.replace("(anonymous namespace)::", ""))
        if shorter == name:
            return name.replace("bool ", "").replace("memo::", "").split("::{lambda")[0]
        name = shorter


class Unknown(Exception):
    """The library has a way to the kernel that the harness does not reach."""


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def imports(library):
    """The names of the functions that the library takes from elsewhere."""
    names = set()
    for line in output("readelf", "-W", "--dyn-syms", str(library)).splitlines():
        words = line.split()
        if len(words) >= 8 and words[6] == "UND" and words[3] != "OBJECT":
            names.add(words[7].split("@")[0])
    return {name for name in names if not name.startswith("_ZN3dsa")}  # our own, weak, for the solver


def plain(name):
    """The name of a function that the linker has put in another's place (--wrap) is that one's."""
    return name.removeprefix("__wrap_")


def own_names(library):
    """The C library's names that the library has for itself (preload/system_names.cc)."""
    rows = [line.split() for line in output("nm", "--defined-only", str(library)).splitlines()]
    return {plain(row[2]) for row in rows if row[1] == "t"} & (calls.REFUSED.keys() | {"syscall"})


def turned(library):
    """The imported or exported functions that are to be turned. Raises Unknown."""
    known = calls.REFUSED.keys() | calls.NEVER_REFUSED | {"syscall"}
    unknown = sorted(imports(library) - known)
    if unknown:
        raise Unknown(f"the library imports {', '.join(unknown)}: say in tests/refusal/calls.py how each is refused")
    names = own_names(library)
    for line in output("readelf", "-rW", str(library)).splitlines():
        words = line.split()
        if len(words) < 3 or not words[2].startswith("R_"):
            continue
        if words[2] not in TURNED | OWN:
            raise Unknown(f"relocation {words[2]}: refuse.c does not turn it")
        if words[2] in TURNED and len(words) > 4:
            names.add(words[4].split("@")[0])
    return sorted(names & (calls.REFUSED.keys() | {"syscall"}))


def places(library, names):
    """The places in the library's code that call one of `names`. Raises Unknown where a system call is made without
    a function."""
    found, inside, last, argument, own = [], "", None, None, False
    for line in output("objdump", "-dC", "--no-show-raw-insn", "-j", ".text", str(library)).splitlines():
        heading = re.match(r"[0-9a-f]+ <(.*)>:$", line)
        if heading:
            inside, argument = short(heading[1]), None
            own = "memo::" in heading[1] or "dsa::" in heading[1]
            hidden = plain(heading[1]) in calls.REFUSED.keys() | calls.NEVER_REFUSED | {"syscall"} or inside in BEFORE
            continue
        match = re.match(r"\s*([0-9a-f]+):\s+(\S+)\s*(.*)$", line)
        if not match:
            continue
        offset, word, rest = int(match[1], 16), match[2], match[3]
        if last:
            found.append(Place(last[0], offset, last[1], last[2], own=own))
            last = argument = None
        number = re.fullmatch(r"\$0x([0-9a-f]+),%[er]di", rest)
        if number or re.search(r"%[er]?di$", rest):
            argument = int(number[1], 16) if number else 0 if word == "xor" else None
        if hidden:
            continue
        if word in ("syscall", "sysenter") or (word == "int" and "0x80" in rest):
            raise Unknown(f"{inside} has the instruction {word} at {offset:x}")
        target = re.search(r"<([^@>]+)(?:@[^>]*)?>$", rest)
        if not target or plain(target[1]) not in names:
            continue
        if word == "call":
            last = (plain(target[1]), inside, argument)
        elif word.startswith("j"):
            found.append(Place(plain(target[1]), offset, inside, argument, True, own))
    return found
