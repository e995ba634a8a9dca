"""The allocators that are compared, each as it comes and tuned to keep its memory.

"Tuned" is what a person would set who knows that the program takes the same memory again and again:
never return pages, no mapping of its own per block, huge pages where the allocator can ask for them.
"""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclasses.dataclass(frozen=True)
class Allocator:
    name: str
    preload: str  # a soname that ldconfig knows, a path below the root, or "" for glibc
    package: str  # of Debian, for its version
    settings: tuple = ()  # (variable, value) pairs

    def library(self):
        """The path to preload, "" for glibc, None if it is not installed."""
        if not self.preload:
            return ""
        if "/" in self.preload:
            path = ROOT / self.preload
            return str(path) if path.exists() else None
        return shared_objects().get(self.preload)

    def environment(self, base):
        """The environment `base` with this allocator and its settings put in place."""
        result = {name: value for name, value in base.items()
                  if not name.startswith(("MEMOMALLOC_", "MALLOC_", "TCMALLOC_", "MIMALLOC_"))
                  and name not in ("LD_PRELOAD", "GLIBC_TUNABLES")}
        if self.preload:
            result["LD_PRELOAD"] = self.library()
        return result | dict(self.settings)


ALLOCATORS = (
    Allocator("glibc", "", "libc6"),
    Allocator("glibc_tuned", "", "libc6", (
        ("GLIBC_TUNABLES", "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=68719476736:"
                           "glibc.malloc.top_pad=67108864:glibc.malloc.hugetlb=1"),)),
    Allocator("jemalloc", "libjemalloc.so.2", "libjemalloc2"),
    Allocator("jemalloc_tuned", "libjemalloc.so.2", "libjemalloc2", (
        ("MALLOC_CONF", "dirty_decay_ms:-1,muzzy_decay_ms:-1,thp:always,metadata_thp:auto,"
                        "oversize_threshold:0"),)),
    Allocator("tcmalloc", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
    Allocator("tcmalloc_tuned", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4", (
        ("TCMALLOC_RELEASE_RATE", "0"),
        ("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", "268435456"))),
    Allocator("mimalloc", "libmimalloc.so.2", "libmimalloc2.0"),
    # 2.0 names the delay after its reset and decommit, later versions after the purge.
    Allocator("mimalloc_tuned", "libmimalloc.so.2", "libmimalloc2.0", (
        ("MIMALLOC_ALLOW_DECOMMIT", "0"), ("MIMALLOC_PAGE_RESET", "0"),
        ("MIMALLOC_RESET_DELAY", "-1"), ("MIMALLOC_PURGE_DELAY", "-1"),
        ("MIMALLOC_LARGE_OS_PAGES", "1"), ("MIMALLOC_ALLOW_LARGE_OS_PAGES", "1"))),
    Allocator("memomalloc", "build/libmemomalloc.so", ""),
)
OURS = "memomalloc"
BY_NAME = {allocator.name: allocator for allocator in ALLOCATORS}


def peer(text):
    """The allocator of a `NAME=LIBRARY[,VARIABLE=VALUE...]`; ValueError says what is wrong with it.

    A value may hold commas: what follows one without a `=` goes on with it.
    """
    first, *parts = text.split(",")
    pairs = []
    for part in parts:
        if pairs and "=" in pairs[0] and "=" not in part:
            pairs[-1] += "," + part
        else:
            pairs.append(part)
    name, equals, library = first.partition("=")
    settings = tuple(tuple(pair.split("=", 1)) for pair in pairs)
    if not name or not equals or any(len(pair) != 2 or not pair[0] for pair in settings):
        raise ValueError(f"{text!r} is not NAME=LIBRARY[,VARIABLE=VALUE...]")
    if name in BY_NAME:
        raise ValueError(f"{name!r} is the name of an allocator that is there already")
    path = pathlib.Path(library)
    if "/" in library and not path.is_file():
        raise ValueError(f"there is no file {library!r}")
    return Allocator(name, str(path.resolve()) if "/" in library else library, "", settings)


def chosen(wanted, library, peers=()):
    """The installed allocators among the names, ours from `library` if that is not None; and the peers."""
    found = []
    for allocator in [*(BY_NAME[name] for name in wanted), *peers]:
        name = allocator.name
        if library and name == OURS:
            allocator = dataclasses.replace(allocator, preload=str(pathlib.Path(library).resolve()))
        if allocator.library() is None:
            print(f"left out: {name} ({allocator.preload} is not here)", file=sys.stderr)
        else:
            found.append(allocator)
    return found


def version(allocator):
    """The installed version of an allocator, as far as a package tells."""
    if allocator.package:
        return package_version(allocator.package)
    return "this project" if allocator.name == OURS else f"{allocator.preload}, of no package"


def shared_objects():
    """soname -> path of every library that the dynamic linker knows."""
    tool = shutil.which("ldconfig", path=os.environ.get("PATH", "") + ":/sbin:/usr/sbin")
    listed = subprocess.run([tool, "-p"], capture_output=True, text=True).stdout if tool else ""
    pairs = (line.split(" => ", 1) for line in listed.splitlines() if " => " in line)
    return {left.split()[0]: right.strip() for left, right in pairs}


def package_version(package):
    """The installed version of a Debian package, or "unknown"."""
    try:
        done = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package],
                              capture_output=True, text=True)
    except OSError:
        return "unknown"
    return done.stdout or "unknown"
