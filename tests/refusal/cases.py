"""What is run while system calls are refused: programs, settings, circumstances, and the refusals themselves."""

import dataclasses
import errno
import resource

# A limit says no for ever; what says "again" (a signal, a full pipe) does so for a while: this many occasions more.
EVENTS = 63

FILES = (("STATS_FILE", "{temp}/stats.%h.json"), ("PLANS", "{temp}/plans"), ("TRACE_FILE", "{temp}/trace.csv"))
VARIANTS = {  # MEMOMALLOC_ variables of each
    "default": (),
    "4K": (("THRESHOLD", "4K"),),
    "stacks": (("TRACE_FILE", "/dev/null"),),
    "files": FILES,
    "plans": (("PLANS", "{temp}/learned"), ("STATS_FILE", "{temp}/stats.json"), ("EXE", "{program}")),
    "spoken": (("VERBOSE", "3"), ("STATS", "1")),
    "devices": (("STATS_FILE", "/dev/null"), ("PLANS", "/dev/null"), ("TRACE_FILE", "/dev/null")),
    "768 MiB": (),  # of addresses
    "interleaved": (("NUMA", "interleave"),),
    "search": (("PLAN_TIME", "0"),),  # a lower plan is looked for by a thread of the library's own
}
# What a whole process may be started in: (name, limit, its value: bytes, or a number). The last has a pipe for stderr
# that nobody reads any more.
CIRCUMSTANCES = (("no bytes in files", resource.RLIMIT_FSIZE, 0), ("few descriptors", resource.RLIMIT_NOFILE, 4),
                 ("768 MiB of addresses", resource.RLIMIT_AS, 768 << 20),
                 ("192 MiB of data", resource.RLIMIT_DATA, 192 << 20),
                 ("no locked memory", resource.RLIMIT_MEMLOCK, 0), ("stderr is not read", None, 0))

# A variant under a limit: what is only called then can be refused there.
LIMITED = {"768 MiB": CIRCUMSTANCES[2]}
LOOPS = ("loops",)
# What may be said on stderr: these lines of ours, where a file cannot be used or where it was asked for.
MAY_SAY = {"files", "plans", "spoken", "stacks", "devices"}

SHORT = [(LOOPS, variant) for variant in VARIANTS if variant != "search"] + [
    (("loops", "idle"), "search"), (("sizes",), "default"), (("zeroed",), "default")]
WHOLE = SHORT + [((name,), variant) for name, variant in (
    ("loops idle", "default"), ("loops idle", "files"), ("alignment", "default"), ("cross_thread", "default"),
    ("lifecycle", "files"), ("usable", "4K"), ("random_programs 11 3000 4", "default"),
    ("random_programs 12 3000 4", "files"), ("random_programs 13 3000 3", "4K"), ("thread_exit", "default"),
    ("fork_handlers", "default"), ("every_path", "default"), ("every_path", "4K"), ("errno_kept", "default"),
    ("resize", "default"), ("operators", "default"), ("operators", "stacks"), ("introspection", "default"),
    ("cancellation", "files"), ("module_walk", "stacks"), ("page_calls", "default"), ("sparse", "default"),
    ("small_stacks", "stacks"), ("signals", "stacks"), ("spawning", "default"), ("bare_frames", "stacks"),
    ("closed_files", "files"), ("first_call", "default"), ("limits", "default"), ("forking", "default"),
    ("hostile_plans", "files"))]
WHOLE = [(tuple(" ".join(words).split()), variant) for words, variant in WHOLE]


@dataclasses.dataclass(frozen=True)
class Case:
    """A program with its arguments, and a row of VARIANTS."""

    words: tuple
    variant: str

    @property
    def around(self):
        return LIMITED.get(self.variant, ())

    def __str__(self):
        return f"{' '.join(self.words)} [{self.variant}]"


def number_of(name):
    """An errno's number on x86-64; `short` has none."""
    return 0 if name == "short" else 133 if name == "EHWPOISON" else getattr(errno, name)


@dataclasses.dataclass(frozen=True)
class Rule:
    """One refusal, as refuse.c reads it. Offset 0: at every place of the function."""

    function: str
    offset: int
    form: str
    name: str  # of the errno, or `short`
    first: int  # occasion
    ever: bool

    @property
    def last(self):
        if not self.ever:
            return self.first
        event = self.name == "EINTR" or (self.name == "EAGAIN" and self.function in ("read", "write", "syscall"))
        return self.first + EVENTS if event else 2**63

    def __str__(self):
        number = number_of(self.name)
        return f"{self.function}:{self.offset:x}:{self.form}:{number}:{self.first}:{self.last}"


@dataclasses.dataclass
class Job:
    case: Case
    rules: tuple  # the last one is what is tried; those before it lead there
    place: object = None  # code.Place of the last rule, None for a function as a whole
    around: tuple = ()  # a row of CIRCUMSTANCES

    def __str__(self):
        if not self.rules:
            return f"{self.case}: {self.around[0] if self.around else 'nothing refused'}"
        rule, where = self.rules[-1], self.place or f"{self.rules[-1].function} everywhere"
        led = "".join(f", after {rule.function} ({rule.offset:x}) {rule.name}" for rule in self.rules[:-1])
        return (f"{self.case}: {where}{led}: {rule.form} {rule.name} from occasion {rule.first}, "
                f"{'ever' if rule.ever else 'once'}")


# Refusals that ended a program once, and that a sample seldom has.
ALWAYS = (
    Job(Case(LOOPS, "4K"), (Rule("malloc", 0, "null", "ENOMEM", 1, True),)),  # an exception could not be thrown
    Job(Case(("sparse",), "default"), (Rule("madvise", 0, "after", "ENOMEM", 3, True),)),  # memory for what is not written
    Job(Case(("sparse",), "default"), (Rule("mmap", 0, "minus", "ETXTBSY", 16, True),)),
    Job(Case(("small_stacks",), "stacks"), (Rule("mmap", 0, "minus", "EAGAIN", 2, True),)),  # ran out of its stack
    Job(Case(("random_programs", "11", "3000", "4"), "default"),  # a search for a plan never ended
        (Rule("clock_gettime", 0, "minus", "EPERM", 3, True),)),
)


def occasions(most, whole):
    """1, 2, 4, ... up to `most`, and in the whole run each of the first few."""
    doubling = {1 << shift for shift in range(most.bit_length()) if 1 << shift <= most}
    return sorted(doubling | (set(range(1, min(most, 8) + 1)) if whole else set()))
