"""Checks of the library between others: allocators before and behind it, libraries that wrap malloc, a second copy."""

import pathlib
import re
import shutil
import subprocess
import tempfile

import common
from common import expect

SOURCES = common.HERE / "neighbours"


class Workshop:
    """Compiles the sources of `neighbours`, and runs them in a link chain that the check writes down."""

    def __init__(self, context, folder):
        self.context = context
        self.folder = pathlib.Path(folder)
        self.library = str(context.library)
        copy = self.folder / "copy.so"
        shutil.copy(context.library, copy)
        self.copy = str(copy)

    def build(self, name, *options):
        source = SOURCES / name
        target = self.folder / (source.stem + "".join(options).replace("/", ""))
        subprocess.run(["g++" if source.suffix == ".cc" else "gcc", "-O1", *options, source, "-o", target],
                       check=True, capture_output=True)
        return str(target)

    def program(self, name, *options):
        return self.build(name, "-fno-builtin", *options)

    def preloaded(self, name):
        return self.build(name, "-fno-builtin", "-shared", "-fPIC")

    def run(self, command, chain, **settings):
        mode = common.Mode(":".join(chain), ours=False, settings=tuple(settings.items()), serving=False)
        return self.context.run(command, mode, extra={"LD_PRELOAD": ":".join(chain)} if chain else {})

    def expect_as_alone(self, command, chain):
        """The chain has the library, and maybe its copy, among others; without them the command prints the same."""
        alone = self.run(command, [part for part in chain if part not in (self.library, self.copy)])
        result = self.run(command, chain)
        expect(alone.code == 0, f"alone, {chain}: {alone}")
        expect(result == alone, f"{command} in {chain}: {result}\n  alone {alone}")


def peers():
    found = [common.find_peer(peer) for peer in common.PEERS if common.find_peer(peer)]
    if not found:
        raise common.Skip("needs an allocator besides glibc's")
    return found


NOT_SERVED = b"nothing is served: another allocator stands before this library"


def serves(result):
    """True if the statistics on stderr tell of served blocks."""
    counts = re.findall(rb"(?:planned|at_hand)_allocations (\d+)", result.err)
    return any(int(count) for count in counts)


def allocators_of_the_programs_own(shop):
    """What the program's own allocator has no function for is asked of its realloc and free; nothing is served."""
    for words in (["own_malloc.c"], ["libc_malloc.c", "-DPROGRAM"]):
        program = shop.program(*words)
        shop.expect_as_alone([program], [shop.library])
        said = shop.run([program], [shop.library], MEMOMALLOC_STATS="1")
        expect(not serves(said), str(said))
        expect(NOT_SERVED in said.err, str(said))


def allocators_preloaded_before(shop):
    program = shop.program("sized.c")
    for peer in peers():
        shop.expect_as_alone([program], [peer, shop.library])
        said = shop.run([program], [peer, shop.library], MEMOMALLOC_STATS="1")
        expect(not serves(said) and NOT_SERVED in said.err, f"{peer}: {said}")
    wrapper = shop.preloaded("libc_malloc.c")
    shop.expect_as_alone([shop.program("steps.c")], [wrapper, shop.library])
    expect(serves(shop.run([program], [shop.library], MEMOMALLOC_STATS="1")), "not served without anybody before")


def libraries_between(shop):
    """A wrapper before or behind, which passes on what it gets, changes nothing."""
    wrapper = shop.preloaded("counting.c")
    past = shop.preloaded("libc_malloc.c")
    program = shop.program("sized.c")
    aligned = shop.build("aligned_new.cc")
    for chain in ([wrapper, shop.library], [shop.library, wrapper]):
        shop.expect_as_alone([program], chain)
        expect(serves(shop.run([program], chain, MEMOMALLOC_STATS="1")), f"not served in {chain}")
    for peer in peers():
        shop.expect_as_alone([aligned], [shop.library, wrapper, peer])
        shop.expect_as_alone([aligned], [shop.library, past, peer])
        shop.expect_as_alone(["/usr/bin/nice", "true"], [shop.library, past, peer])


def second_copies(shop):
    """The first serves, the second passes on, and neither report nor file is written twice."""
    program = shop.program("sized.c")
    aligned = shop.build("aligned_new.cc")
    for behind in ([], *([peer] for peer in peers())):
        chain = [shop.library, shop.copy, *behind]
        for command in ([program], [aligned], ["/usr/bin/nice", "true"]):
            shop.expect_as_alone(command, chain)
        said = shop.run([program], chain, MEMOMALLOC_STATS="1")
        expect(serves(said) and said.err.count(b"planned_allocations ") == 1, f"{chain}: {said}")
    # Its operator new asks aligned_alloc, and its operator delete frees what it is given without asking whose it is: the
    # operators in front are ours.
    jemalloc = common.find_peer("jemalloc")
    if jemalloc:
        for chain in ([shop.library, jemalloc], [shop.library, shop.copy, jemalloc]):
            said = shop.run([aligned], chain, MEMOMALLOC_STATS="1")
            expect(serves(said), str(said))
    expect(serves(shop.run([aligned], [shop.library], MEMOMALLOC_STATS="1")), "the C++ library's operators are not served")


def blocks_of_no_bytes(shop):
    program = shop.program("to_nothing.c")
    for behind in ([], *([peer] for peer in peers())):
        shop.expect_as_alone([program], [shop.library, *behind])


def trims_whom_realloc_is_of(shop):
    """Where the underlying allocator has no malloc_trim, that of the C library is found, of whose heap nobody has asked for
    anything: it is let alone. A program that calls it itself gets it, as it does without us."""
    behind = shop.preloaded("trim.c")
    for peer in peers():
        chain = [shop.library, peer, behind]
        result = shop.run([shop.context.programs / "loops"], chain)
        expect((result.code, result.err) == (0, b""), f"{peer}: {result}")
        result = shop.run(["/usr/bin/python3", "-c", "import ctypes; ctypes.CDLL(None).malloc_trim(0)"], chain)
        expect((result.code, result.err) == (0, b"trimmed\n"), f"{peer}: {result}")


def next_allocators_that_tell_no_size(shop):
    """A small block that is made large in one step keeps what is in it; large ones are served."""
    chain = [shop.library, shop.preloaded("sizeless.c")]
    shop.expect_as_alone([shop.program("steps.c")], chain)
    said = shop.run([shop.build("aligned_new.cc")], chain, MEMOMALLOC_STATS="1")
    expect(said.code == 0 and serves(said), str(said))


def check(function, context):
    with tempfile.TemporaryDirectory() as folder:
        function(Workshop(context, folder))


def plugins_and_what_lies_beside_them(workshop):
    """A plugin finds what its $ORIGIN names, though dlopen() goes through the library; one that is bound deep, whose free()
    is not the library's, is told of in one line, and in the statistics."""
    built = workshop.build("opener.c", "-DPLUGIN", "-shared", "-fPIC", "-Wl,-rpath,$ORIGIN")
    plugin = shutil.copy(built, workshop.folder / "plugin.so")
    shutil.copy(built, workshop.folder / "libbeside.so")
    program = workshop.program("opener.c")
    workshop.expect_as_alone([program, plugin], [workshop.library])
    result = workshop.run([program, plugin, "deep"], [workshop.library], MEMOMALLOC_STATS="1")
    expect(result.code == 0 and result.out == b"found\nfound\n", f"{result}")
    expect(result.err.count(b"RTLD_DEEPBIND: its malloc") == 1 and b"deep_bound 2\n" in result.err, f"{result}")
    quiet = workshop.run([program, plugin, "deep"], [workshop.library], MEMOMALLOC_DISABLE="1")
    expect(quiet.err == b"", f"{quiet}")


def checks(context):
    functions = (plugins_and_what_lies_beside_them, allocators_of_the_programs_own, allocators_preloaded_before, libraries_between, second_copies,
                 blocks_of_no_bytes, trims_whom_realloc_is_of, next_allocators_that_tell_no_size)
    return [(f"neighbours: {function.__name__.replace('_', ' ')}", lambda function=function: check(function, context))
            for function in functions]
