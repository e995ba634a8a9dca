"""What the preload checks share: the allocators found on this machine, and how a command is run under them."""

import dataclasses
import glob
import os
import pathlib
import re
import signal
import subprocess
import sys

import hang

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "scripts")]  # loops.py; control_group.py

# Seconds that a command may take: what ends by itself is ended only where it hangs, since a machine may be busy.
TIMEOUT = 300

# What tcmalloc says on stderr of each request that the system refuses it: how many there are depends on who asks.
OWN_WORDS = re.compile(rb"^src/\S+\] tcmalloc: allocation failed \d+ *\n", re.MULTILINE)

# Debian's names; each is optional, and where it is not installed its modes are one check that is skipped.
PEERS = {
    "jemalloc": "libjemalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "mimalloc": "libmimalloc.so.2",
}


def find_peer(name):
    """The path of a peer's shared object, or None if it is not installed."""
    found = sorted(glob.glob(f"/usr/lib/*/{PEERS[name]}") + glob.glob(f"/usr/lib/{PEERS[name]}"))
    return found[0] if found else None


@dataclasses.dataclass(frozen=True)
class Mode:
    """One way to run a program: which allocators are loaded and with which settings."""

    name: str
    ours: bool = True  # our library is loaded, in front of `next`
    next: str = "glibc"
    pages: int = 0  # bytes; not 0: pages.so answers for a kernel with pages of this size
    settings: tuple = ()  # of (variable, value)
    serving: bool = True  # programs insist on blocks from the slab


SYSTEM = Mode("system", ours=False, serving=False)


def modes(peers):
    """Every mode, where these peers are installed."""
    return [
        SYSTEM,
        Mode("pass-through", settings=(("MEMOMALLOC_DISABLE", "1"),), serving=False),
        Mode("default"),
        # The stack of every large call is unwound, which otherwise only streams without a plain order are worth.
        Mode("call stacks", settings=(("MEMOMALLOC_TRACE_FILE", "/dev/null"),)),
        # Recording and serving of nearly everything; sequences then contain what the C library allocates, so
        # the programs cannot tell which of their blocks are served.
        Mode("observed", settings=(("MEMOMALLOC_OBSERVE", "1"),), serving=False),
        Mode("threshold-4K", settings=(("MEMOMALLOC_THRESHOLD", "4K"),), serving=False),
        Mode("pages of 16 KiB", pages=16 << 10),
        Mode("pages of 64 KiB", pages=64 << 10),
    ] + [
        mode
        for peer in peers
        for mode in (
            Mode(f"{peer} alone", ours=False, next=peer, serving=False),
            Mode(f"on {peer}", next=peer),
        )
    ]


MODES = modes([peer for peer in PEERS if find_peer(peer)])


def oracle(mode):
    """The mode whose results `mode` must repeat: the same underlying allocator without us."""
    return SYSTEM if mode.next == "glibc" else next(
        m for m in MODES if m.next == mode.next and not m.ours)


@dataclasses.dataclass
class Result:
    code: int  # exit code, negative for a signal
    out: bytes
    err: bytes

    def __str__(self):
        def text(data):
            return data.decode(errors="replace")[-2000:]

        how = signal.Signals(-self.code).name if self.code < 0 else f"exit {self.code}"
        return f"{how}\n  stdout: {text(self.out)!r}\n  stderr: {text(self.err)!r}"


class Context:
    """The build under test. `emulator`: the words of a command that runs its programs, which are another
    processor's; the variables reach them, but what is to be preloaded must not be loaded by the emulator."""

    def __init__(self, build, emulator=()):
        self.build = pathlib.Path(build).resolve()
        self.library = self.build / "libmemomalloc.so"
        self.programs = self.build / "programs"
        self.emulator = list(emulator)

    def environment(self, mode, extra=()):
        """The variables for `mode`, over a clean environment."""
        chain = ([str(self.library)] if mode.ours else []) + (
            [str(self.build / "pages.so")] if mode.pages else []) + (
            [find_peer(mode.next)] if mode.next in PEERS else [])
        clean = {k: v for k, v in os.environ.items()
                 if k != "LD_PRELOAD" and not k.startswith(("MEMOMALLOC_", "MALLOC_"))}
        clean.update(LC_ALL="C.UTF-8", NEXT_ALLOCATOR=mode.next)
        if self.emulator:
            words = self.emulator + (["-E", "LD_PRELOAD=" + ":".join(chain)] if chain else [])
            clean["RUN_UNDER"] = " ".join(words)
        elif chain:
            clean["LD_PRELOAD"] = ":".join(chain)
        if mode.pages:
            clean["PAGE_BYTES"] = str(mode.pages)
        if mode.serving:
            clean["EXPECT_SERVING"] = "1"
        clean.update(mode.settings)
        clean.update(extra)
        return clean

    def run(self, command, mode, timeout=TIMEOUT, extra=(), **options):
        """Runs a command under `mode`; its whole process group is ended when the time is up."""
        variables = self.environment(mode, extra)
        process = subprocess.Popen(
            variables.get("RUN_UNDER", "").split() + [str(part) for part in command], env=variables,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True, **options)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            threads = hang.tell(process.pid)
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            err += f"\nno end within {timeout} s\n{threads}".encode()
        return Result(process.returncode, out, OWN_WORDS.sub(b"", err) if mode.next == "tcmalloc" else err)


class Skip(Exception):
    """Raised by a check that this machine cannot make; the text says what is missing."""


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


def expect_same(result, reference, what="the oracle"):
    """The same exit code and the same output, byte for byte."""
    same = (result.code, result.out, result.err) == (reference.code, reference.out, reference.err)
    expect(same, f"{result}\n  differs from {what}: {reference}")
