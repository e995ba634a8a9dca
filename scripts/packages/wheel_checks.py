"""What a wheel must be: its name and tags, what is in it, how large it is, and what its binaries need."""

import os
import pathlib
import re
import struct
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_BYTES = 8 << 20
BINARIES = ("memomalloc/lib/libmemomalloc.so.1", "memomalloc/lib/libmemomalloc-dsa.so.1", "memomalloc/lib/libmemomalloc-cuda.so.1",
            "memomalloc/bin/memomalloc")
SHARED = ("share/man/man1/memomalloc.1", "share/man/man7/libmemomalloc.7",
          "share/bash-completion/completions/memomalloc")
LICENSES = ("CLI11", "LLVM", "Zig", "nlohmann-json", "xxHash", "zlib")  # of what is compiled in
# Libraries that are parts of glibc; nothing else may be asked for.
GLIBC_PARTS = re.compile(r"^(lib(c|m|dl|pthread|rt)\.so\.\d|ld-linux-(x86-64|aarch64)\.so\.\d)$")
MACHINES = {"x86_64": 62, "aarch64": 183}  # e_machine
NAME = re.compile(r"^memomalloc-(?P<version>[^-]+)-py3-none-(?P<platform>manylinux_2_\d+_(?P<processor>\w+))\.whl$")
SHT_SYMTAB, SHT_DYNAMIC, DT_NEEDED, PF_X = 2, 6, 1, 1


class Elf:
    """What the section headers of a 64-bit little-endian file tell."""

    def __init__(self, data):
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("no 64-bit ELF file")
        self.data = data
        self.machine = struct.unpack_from("<H", data, 18)[0]
        offset, = struct.unpack_from("<Q", data, 40)
        size, count, names = struct.unpack_from("<HHH", data, 58)
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + size * i) for i in range(count)]
        self.names = [self.text(self.sections[names][4] + row[0]) for row in self.sections] if count else []

    def text(self, offset):
        return self.data[offset:self.data.index(b"\0", offset)].decode()

    def needed(self):
        """The shared objects that it asks the loader for."""
        found = []
        for row in self.sections:
            if row[1] == SHT_DYNAMIC:
                strings = self.sections[row[6]][4]
                entries = struct.iter_unpack("<qQ", self.data[row[4]:row[4] + row[5]])
                found += [self.text(strings + value) for tag, value in entries if tag == DT_NEEDED]
        return found

    def debug_sections(self):
        """Those that only a debugger or a linker reads."""
        return [name for name, row in zip(self.names, self.sections)
                if name.startswith((".debug_", ".zdebug_")) or row[1] == SHT_SYMTAB]


def binary_complaints(name, data, processor):
    try:
        elf = Elf(data)
    except (ValueError, struct.error, IndexError) as error:
        return [f"{name}: {error}"]
    told = []
    if elf.machine != MACHINES[processor]:
        told.append(f"{name} is for another processor than {processor}")
    if elf.debug_sections():
        told.append(f"{name} is not stripped: {' '.join(elf.debug_sections()[:3])}")
    told += [f"{name} needs {library}" for library in elf.needed() if not GLIBC_PARTS.match(library)]
    return told


def complaints(path):
    """What is wrong with the wheel, as sentences; nothing if all is well."""
    match = NAME.match(path.name)
    if not match or match["processor"] not in MACHINES:
        return [f"{path.name} is no name of a wheel for these processors"]
    told, processor = [], match["processor"]
    if path.stat().st_size > MOST_BYTES:
        told.append(f"{path.stat().st_size} bytes, at most {MOST_BYTES} are allowed")
    with zipfile.ZipFile(path) as archive:
        there = {item.filename: item for item in archive.infolist()}
        info, data = (f"memomalloc-{match['version']}.{folder}" for folder in ("dist-info", "data"))
        package = ROOT / "python/memomalloc"
        sources = [path.relative_to(package) for path in sorted([*package.rglob("*.py"), *package.rglob("README.txt")])]
        wanted = [*BINARIES, *(f"{data}/data/{name}" for name in SHARED),
                  *(f"{info}/licenses/packaging/licenses/{name}.txt" for name in LICENSES),
                  *(f"memomalloc/{source}" for source in sources), f"{info}/METADATA", f"{info}/WHEEL"]
        told += [f"{name} is missing" for name in wanted if name not in there]
        own = {f"{info}/{name}" for name in ("RECORD", "top_level.txt", "entry_points.txt")}
        told += [f"{name} does not belong there" for name in there if name not in {*wanted, *own} and not name.endswith("/")]
        if f"{info}/WHEEL" in there:
            tag = f"Tag: py3-none-{match['platform']}"
            if tag not in archive.read(f"{info}/WHEEL").decode().splitlines():
                told.append(f"WHEEL has no line {tag!r}")
        if f"{info}/METADATA" in there:
            if f"Version: {match['version']}" not in archive.read(f"{info}/METADATA").decode().splitlines():
                told.append(f"METADATA has another version than {match['version']}")
        for name in BINARIES:
            if name in there:
                told += binary_complaints(name, archive.read(name), processor)
                if not there[name].external_attr >> 16 & 0o111 and "/bin/" in name:
                    told.append(f"{name} may not be executed")
    return told


def audit_complaints(shown, name):
    """What `auditwheel show` says against the platform in the wheel's name."""
    platform = NAME.match(name)["platform"]
    consistent = re.search(r'is\s+consistent\s+with\s+the\s+following\s+platform\s+tag:\s+"([^"]+)"', shown)
    if not consistent:
        return [f"auditwheel names no platform: {shown.strip()[:200]}"]
    own, found = (tuple(map(int, re.match(r"manylinux_(\d+)_(\d+)", tag).groups())) if tag.startswith("manylinux_")
                  else (99, 99) for tag in (platform, consistent[1]))
    return [] if found <= own else [f"auditwheel allows {consistent[1]}, the name promises {platform}"]


def native_tests(folder):
    """The commands that test what a wheel for this processor holds; `folder` has the binaries and the programs."""
    project = pathlib.Path(os.environ.get("MEMO_VENV", ROOT / ".venv")) / "bin/python"  # with torch
    python = str(project) if project.exists() else sys.executable
    return [[python, "tests/preload/run.py", "--build", str(folder)],
            [python, "scripts/packages/wheel_planner.py", str(folder / "memomalloc")],
            [python, "scripts/gates/smoke_torch.py", "--library", str(folder / "libmemomalloc.so")]]
