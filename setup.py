"""Adds what the Makefile builds, the library and the command, to the Python package.

`pip install .` builds them for this machine. scripts/packages/wheels.py builds them for older ones first and names
the folder in MEMO_BUILT, with the man pages below its share/, and the wheel's platform in MEMO_PLATFORM; they are
then taken as they are.
"""

import os
import pathlib
import shutil
import subprocess

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).resolve().parent
PARTS = {"libmemomalloc.so": "lib/libmemomalloc.so.1", "memomalloc": "bin/memomalloc",
         "libmemomalloc-dsa.so": "lib/libmemomalloc-dsa.so.1", "libmemomalloc-cuda.so": "lib/libmemomalloc-cuda.so.1"}
# A mode of its own, without CBC: a wheel cannot ask for a system's packages.
MAKE = ["make", f"-j{os.cpu_count() or 1}", "MODE=wheel", "HAVE_CBC=", "all"]
BUILT = os.environ.get("MEMO_BUILT")


class BuildWithMake(build_py):
    def run(self):
        super().run()
        if not BUILT:
            subprocess.run(MAKE, cwd=ROOT, check=True)
        for source, target in PARTS.items():
            path = pathlib.Path(self.build_lib) / "memomalloc" / target
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / (BUILT or "build/wheel") / source, path)
            if not BUILT:
                subprocess.run(["strip", "--strip-unneeded", path], check=True)

    def get_outputs(self, include_bytecode=True):
        folder = pathlib.Path(self.build_lib) / "memomalloc"
        return super().get_outputs(include_bytecode) + [str(folder / part) for part in PARTS.values()]


class AnyPythonThisMachine(bdist_wheel):
    def get_tag(self):
        return "py3", "none", os.environ.get("MEMO_PLATFORM") or super().get_tag()[2]


class BinaryDistribution(Distribution):
    def has_ext_modules(self):
        return True


def shared_files():
    """(folder, files) below the environment's prefix: man pages and the completion, where they were made."""
    share = ROOT / (BUILT or "none") / "share"
    files = [path for path in sorted(share.rglob("*")) if path.is_file()]
    return [(str(path.parent.relative_to(share.parent)), [os.path.relpath(path, ROOT)]) for path in files]


setup(cmdclass={"build_py": BuildWithMake, "bdist_wheel": AnyPythonThisMachine},
      distclass=BinaryDistribution, data_files=shared_files())
