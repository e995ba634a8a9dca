"""What a wheel is held to: forged ones, each with one thing wrong, are refused for it."""

import pathlib
import struct
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/packages"))
import wheel_checks
import wheel_planner

NAME = "memomalloc-0.1.0-py3-none-manylinux_2_28_x86_64.whl"
INFO = "memomalloc-0.1.0.dist-info"


class Version(unittest.TestCase):
    def test_it_is_one_everywhere(self):
        version = (ROOT / "VERSION").read_text().strip()
        self.assertTrue((ROOT / "packaging/debian/changelog").read_text().startswith(f"memomalloc ({version}) "))
        newest = next(line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## "))
        self.assertIn(version, newest)


def elf(machine=62, needed=("libc.so.6",), section=".dynamic"):
    """A file with a dynamic section of this name that asks for these libraries."""
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in (section, ".dynstr", *needed))
    dynamic = b"".join(struct.pack("<qQ", 1, strings.index(name.encode())) for name in needed) + bytes(16)
    at = 64 + len(strings)
    header = struct.pack("<4sBB10xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 3, machine, 1, 0, 0, at + len(dynamic), 0, 64, 0, 0,
                         64, 3, 2)
    rows = [(0,) * 10, (1, 6, 0, 0, at, len(dynamic), 2, 0, 0, 16),
            (strings.index(b".dynstr"), 3, 0, 0, 64, len(strings), 0, 0, 0, 0)]
    return header + strings + dynamic + b"".join(struct.pack("<IIQQQQIIQQ", *row) for row in rows)


class Wheels(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def complaints(self, name=NAME, without="", executable=0o755, tag="manylinux_2_28_x86_64", version="0.1.0",
                   **binary):
        """What is said of a wheel that is right but for what is given."""
        files = dict.fromkeys(wheel_checks.BINARIES, elf(**binary))
        files |= dict.fromkeys((f"memomalloc-0.1.0.data/data/{path}" for path in wheel_checks.SHARED), b"")
        files |= dict.fromkeys((f"{INFO}/licenses/packaging/licenses/{one}.txt" for one in wheel_checks.LICENSES), b"")
        package = ROOT / "python/memomalloc"
        files |= {f"memomalloc/{path.relative_to(package)}": b"" for path in (*package.rglob("*.py"), *package.rglob("README.txt"))}
        files[f"{INFO}/WHEEL"] = f"Wheel-Version: 1.0\nTag: py3-none-{tag}\n".encode()
        files[f"{INFO}/METADATA"] = f"Name: memomalloc\nVersion: {version}\n".encode()
        with zipfile.ZipFile(self.folder / name, "w") as archive:
            for path, data in files.items():
                if not without or without not in path:
                    item = zipfile.ZipInfo(path)
                    item.external_attr = executable << 16
                    archive.writestr(item, data)
        return wheel_checks.complaints(self.folder / name)

    def test_a_right_one(self):
        self.assertEqual([], self.complaints())
        self.assertEqual([], self.complaints(needed=("libpthread.so.0", "ld-linux-x86-64.so.2")))

    def test_what_is_missing_is_named(self):
        for part in ("libmemomalloc.so.1", "man1/memomalloc.1", "zlib.txt", "command.py"):
            self.assertEqual(1, len(self.complaints(without=part)), part)
            self.assertIn(part, self.complaints(without=part)[0])

    def test_binaries(self):
        for sentence, change in (("is for another processor", {"machine": 183}),
                                 ("needs libstdc++.so.6", {"needed": ("libc.so.6", "libstdc++.so.6")}),
                                 ("is not stripped: .debug_info", {"section": ".debug_info"})):
            told = self.complaints(**change)
            self.assertEqual(len(wheel_checks.BINARIES), len(told), told)
            self.assertIn(sentence, told[0])
        self.assertEqual(["memomalloc/bin/memomalloc may not be executed"], self.complaints(executable=0o644))

    def test_name_tag_and_size(self):
        self.assertIn("Tag: ", self.complaints(tag="linux_x86_64")[0])
        self.assertIn("is no name", self.complaints(name="memomalloc-0.1.0-py3-none-linux_x86_64.whl")[0])
        self.assertEqual(["METADATA has another version than 0.1.0"], self.complaints(version="0.2.0"))
        most, wheel_checks.MOST_BYTES = wheel_checks.MOST_BYTES, 1000
        self.addCleanup(setattr, wheel_checks, "MOST_BYTES", most)
        self.assertIn("at most 1000", self.complaints()[0])

    def test_auditwheel_must_agree(self):
        shown = '{} is\nconsistent with the following platform tag: "{}".'
        for platform, count in (("manylinux_2_28_x86_64", 0), ("manylinux_2_17_x86_64", 0), ("manylinux_2_34_x86_64", 1),
                                ("linux_x86_64", 1)):
            told = wheel_checks.audit_complaints(shown.format(NAME, platform), NAME)
            self.assertEqual(count, len(told), (platform, told))
        self.assertEqual(1, len(wheel_checks.audit_complaints("a crash", NAME)))


class Planner(unittest.TestCase):
    problem = {"a": (0, 4, 8), "b": (2, 6, 8), "c": (4, 6, 8)}

    def test_plans_are_judged_pair_by_pair(self):
        def fault(a, b, c):
            return wheel_planner.fault(self.problem, {name: (*self.problem[name], offset)
                                                      for name, offset in zip("abc", (a, b, c))})

        self.assertIsNone(fault(0, 8, 0))
        self.assertIn("overlap", fault(0, 4, 16))
        self.assertIn("overlap", fault(0, 8, 8))
        self.assertIn("outside", fault(0, 8, wheel_planner.CAPACITY))
        self.assertIn("other buffers", wheel_planner.fault(self.problem, {}))


if __name__ == "__main__":
    unittest.main()
