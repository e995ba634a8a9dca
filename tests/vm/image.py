"""What a guest is booted from: Debian's kernel, and an initramfs with Debian's C library, Python and numpy, our
library and the conformance programs. An archive of the kernel's own format (newc) is written here, so that nobody
has to be root and no package is installed."""

import gzip
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "scripts/packages"))
import debian_packages

DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
# The release that the project is built on: its C library runs on every kernel of the matrix.
USERLAND = "bookworm"
KERNEL_SUITES = {"5.10": "bullseye", "6.1": "bookworm", "newest": "trixie-backports"}
PYTHON = "python3.11"
# libunwind and what it needs are loaded by the library where it unwinds.
PACKAGES = ("busybox-static", "dash", "coreutils", "libc6", "libgcc-s1", "libstdc++6", "libunwind8", "liblzma5",
            "zlib1g", "libexpat1", "libffi8", f"{PYTHON}-minimal", f"lib{PYTHON}-minimal", f"lib{PYTHON}-stdlib",
            "python3-numpy", "libblas3", "liblapack3", "libgfortran5")
ONLY_ON = {"x86_64": ("libquadmath0",), "aarch64": ()}
# Of coreutils only what the programs start; libacl and libselinux, which others need, are then not missed.
KEPT_TOOLS = ("bin/true", "bin/cat", "bin/echo")
LEFT_OUT = ("usr/share/", "etc/", f"usr/lib/{PYTHON}/test/", f"usr/lib/{PYTHON}/lib2to3/",
            f"usr/lib/{PYTHON}/idlelib/", f"usr/lib/{PYTHON}/pydoc_data/", f"usr/lib/{PYTHON}/ensurepip/")
# What Debian merged into /usr, and its packages of this release still name by the old way.
MERGED = ("bin", "sbin", "lib", "lib64")
TOOLS = {"usr/bin/sh": "dash", "usr/bin/python3": PYTHON, "usr/bin/ls": "busybox"}
DIRECTORIES = ("dev", "proc", "sys", "tmp", "root")
CONSOLE = (5, 1)  # the device's numbers


class Archive:
    """A cpio archive of the kind that the kernel unpacks, in memory."""

    def __init__(self):
        self.parts = []
        self.names = set()

    def _append(self, name, mode, data=b"", device=(0, 0)):
        fields = (len(self.parts) + 1, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name.encode()) + 1, 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        self.parts.append(head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4))

    def directory(self, name):
        """Adds a directory, and those that it lies in, once."""
        if name in ("", ".") or name in self.names:
            return
        self.directory(os.path.dirname(name))
        self.names.add(name)
        self._append(name, stat.S_IFDIR | 0o755)

    def _entry(self, name, *rest):
        if name not in self.names:
            self.directory(os.path.dirname(name))
            self.names.add(name)
            self._append(name, *rest)

    def link(self, name, target):
        self._entry(name, stat.S_IFLNK | 0o777, target.encode())

    def device(self, name, numbers):
        self._entry(name, stat.S_IFCHR | 0o600, b"", numbers)

    def file(self, name, data, executable=False):
        self._entry(name, stat.S_IFREG | (0o755 if executable else 0o644), data)

    def copy(self, name, path):
        """Adds a file or a symbolic link as it lies at `path`."""
        if path.is_symlink():
            self.link(name, os.readlink(path))
        else:
            self.file(name, path.read_bytes(), bool(path.stat().st_mode & stat.S_IXUSR))

    def whole(self):
        """The archive with its end, to which nothing can be added any more."""
        self._append("TRAILER!!!", 0)
        return b"".join(self.parts)

    def compressed(self):
        return gzip.compress(self.whole(), 1)


def place(relative):
    """Where a package's file lies in the guest, or None if it is left out."""
    head, _, rest = relative.partition("/")
    if head in MERGED:
        relative = f"usr/{head}/{rest}"
    left_out = relative.startswith(LEFT_OUT) or "/tests/" in relative or relative.endswith((".a", ".h"))
    return None if left_out else relative


def add_package(archive, folder, package):
    for path in sorted(folder.rglob("*")):
        relative = str(path.relative_to(folder))
        if path.is_dir() and not path.is_symlink():
            continue
        if package == "coreutils" and relative not in KEPT_TOOLS:
            continue
        name = place(relative)
        if name is None:
            continue
        archive.copy(name, path)
        # Debian's alternatives system, which is not here, would make these links.
        if package in ("libblas3", "liblapack3") and ".so" in path.name:
            library_folder = os.path.dirname(os.path.dirname(name))
            archive.link(f"{library_folder}/{path.name}", f"{os.path.basename(os.path.dirname(name))}/{path.name}")


def compile_python(folders):
    """Byte code beside the sources, where this machine's Python is the guest's: an emulated processor takes long
    for it. It is not compared with the sources, whose times the archive does not keep."""
    python = shutil.which(f"/usr/bin/{PYTHON}")
    if python:
        subprocess.run([python, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", *folders],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def unpacked(processor, below, names):
    """The packages' folders, by their names."""
    packages = debian_packages.Packages(below / f"{processor}-{USERLAND}", USERLAND, DEBIAN[processor])
    return {name: packages.unpack(name) for name in names}


def skeleton(folders, init):
    """An archive with what every guest needs, its first process and the packages of `folders`."""
    archive = Archive()
    for name in DIRECTORIES:
        archive.directory(name)
    for name in MERGED:
        archive.directory(f"usr/{name}")
        archive.link(name, f"usr/{name}")
    archive.device("dev/console", CONSOLE)
    archive.copy("init", init)
    for package, folder in folders.items():
        add_package(archive, folder, package)
    return archive


def initramfs(processor, build, target, settings):
    """Writes the archive with the library and the programs of the folder `build`."""
    folders = unpacked(processor, target.parent, PACKAGES + ONLY_ON[processor])
    compile_python([folder for package, folder in folders.items() if "python" in package])
    archive = skeleton(folders, HERE / "guest_init")
    for name, goal in TOOLS.items():
        archive.link(name, goal)
    for name in ("guest.py", "numpy_loop.py", "confined.sh"):
        archive.copy(f"vm/{name}", HERE / name)
    archive.copy("vm/common.py", ROOT / "tests/preload/common.py")
    archive.copy("vm/hang.py", ROOT / "tests/preload/hang.py")
    archive.copy("vm/libmemomalloc.so", build / "libmemomalloc.so")
    for path in sorted((build / "programs").iterdir()):
        archive.copy(f"vm/programs/{path.name}", path)
    archive.file("vm/settings.json", json.dumps(settings).encode())
    target.write_bytes(archive.compressed())
    return target


def kernel(processor, pages, version, below):
    """The path of the kernel's image, from Debian's package that a machine would get."""
    suite, architecture = KERNEL_SUITES[version], DEBIAN[processor]
    packages = debian_packages.Packages(below / f"{processor}-{suite}", suite, architecture)
    meta = f"linux-image-{architecture}" + ("-16k" if pages == 16 else "")
    known = packages.below / f"{meta}.package"
    if not known.exists():
        package = packages.dependency(meta, r"linux-image-\d")
        # From trixie's backports on the image lies in a package of its own.
        known.write_text(packages.dependency(package, "linux-binary-") or package)
    folder = packages.unpack(known.read_text(), "vmlinuz*")
    return next(path for path in folder.rglob("vmlinuz*") if path.is_file())
