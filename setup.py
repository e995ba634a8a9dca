"""Adds what the Makefile builds, the library and the command, to the Python package."""

import os
import pathlib
import shutil
import subprocess

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).resolve().parent
PARTS = {"build/wheel/libmemomalloc.so": "lib/libmemomalloc.so.1", "build/wheel/memomalloc": "bin/memomalloc",
         "build/wheel/libmemomalloc-dsa.so": "lib/libmemomalloc-dsa.so.1"}
# A mode of its own, without CBC: a wheel cannot ask for a system's packages.
MAKE = ["make", f"-j{os.cpu_count() or 1}", "MODE=wheel", "HAVE_CBC=", "all"]


class BuildWithMake(build_py):
    def run(self):
        super().run()
        subprocess.run(MAKE, cwd=ROOT, check=True)
        for source, target in PARTS.items():
            path = pathlib.Path(self.build_lib) / "memomalloc" / target
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / source, path)
            subprocess.run(["strip", "--strip-unneeded", path], check=True)

    def get_outputs(self, include_bytecode=True):
        folder = pathlib.Path(self.build_lib) / "memomalloc"
        return super().get_outputs(include_bytecode) + [str(folder / part) for part in PARTS.values()]


class AnyPythonThisMachine(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class BinaryDistribution(Distribution):
    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": BuildWithMake, "bdist_wheel": AnyPythonThisMachine},
      distclass=BinaryDistribution)
