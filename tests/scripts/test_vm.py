"""The matrix of guests covers every pair of values, the initramfs is one that a kernel unpacks, and a guest's console
is judged for what it says: a guest that is silent, different from what was asked for, or ends early has failed."""

import contextlib
import gzip
import importlib.util
import io
import json
import pathlib
import subprocess
import shutil
import signal
import sys
import tempfile
import time
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts/packages"), str(ROOT / "tests/vm"), str(ROOT / "tests/preload")]
import cells
import common
import debian_packages
import guest
import image
import user_mode

# Under a name of its own: several programs of the project are called run.
specification = importlib.util.spec_from_file_location("vm_run", ROOT / "tests/vm/run.py")
run = importlib.util.module_from_spec(specification)
sys.modules["vm_run"] = run
specification.loader.exec_module(run)

CELL = next(cell for cell in cells.CELLS if cell.cgroup == "v1")
FACTS = ('guest: {"release": "6.1.0", "processor": "%s", "pages": %d, "thp": "%s", "overcommit": %d, "nodes": %d, '
         '"memory": %d, "cgroup": "%s", "limit": 128}'
         % (CELL.processor, CELL.pages, CELL.thp, CELL.overcommit, CELL.nodes, CELL.memory - 50, CELL.cgroup))


class Matrix(unittest.TestCase):
    def test_every_possible_pair_is_in_a_cell(self):
        covered = set().union(*(cells.pairs(cell) for cell in cells.CELLS))
        self.assertEqual(set(), cells.possible_pairs() - covered)

    def test_cells_are_possible_and_named_apart(self):
        self.assertTrue(all(cell.possible() for cell in cells.CELLS))
        self.assertEqual(len(cells.CELLS), len({cell.name for cell in cells.CELLS}))

    def test_columns_are_the_cells(self):
        for cell in cells.CELLS:
            for column, values in cells.COLUMNS.items():
                self.assertIn(getattr(cell, column), values)

    def command_line(self, cell, *rest):
        kernel, image.kernel = image.kernel, lambda *_: pathlib.Path("vmlinuz")
        try:
            return run.command_line(cell, "initrd", *rest)
        finally:
            image.kernel = kernel

    def test_two_nodes_share_memory_and_processors(self):
        cell = next(cell for cell in cells.CELLS if cell.nodes == 2)
        words = self.command_line(cell, "tcg", "console")
        self.assertIn(f"memory-backend-ram,id=memory1,size={cell.memory // 2}M", words)
        self.assertIn("node,nodeid=1,memdev=memory1,cpus=1", words)
        self.assertIn(f"memo.cgroup={cell.cgroup}", words[-1])

    def test_only_an_emulated_guest_is_taken_to_be_slow(self):
        for accelerator, slower in (("kvm", 1), ("tcg,thread=multi", guest.SLOWER)):
            words = self.command_line(CELL, accelerator, "console")[-1].split()
            self.assertIn(f"memo.slower={slower}", words)

    def test_programs_and_variables_reach_the_guest(self):
        words = self.command_line(CELL, "tcg", "console", ["limit", "resize"], ["A=b=c", "D=e"])[-1].split()
        told = guest.told(" ".join(words))
        self.assertEqual(["limit", "resize"], told.programs)
        self.assertEqual({"A": "b=c", "D": "e", "SLOWER": str(guest.SLOWER)}, told.variables)
        self.assertTrue(told.expected)
        self.assertEqual([True, True, False], [guest.chosen(name, told.programs)
                                               for name in ("limited", "resize", "sizes")])
        self.assertEqual([], guest.told("console=x memo.only= memo.expected=0").programs)
        self.assertTrue(guest.chosen("sizes", []))


class PanicAtBoot(unittest.TestCase):
    def test_only_a_kernel_that_panicked_before_our_first_process_is_booted_again(self):
        panic = "[    2.15] Kernel panic - not syncing: Fatal exception in interrupt"
        self.assertTrue(run.died_at_boot(f"[    2.11] Oops: int3: 0000\n{panic}\n"))
        self.assertFalse(run.died_at_boot(f"{FACTS}\npassed: a (1.0 s) \"\"\n{panic}\n"))
        self.assertFalse(run.died_at_boot(""))
        self.assertFalse(run.judge(CELL, f"{panic}\n", 1).passed)

    def test_it_is_booted_three_times_at_most(self):
        for dies, boots in ((1, 2), (9, 3)):
            with tempfile.TemporaryDirectory() as folder:
                console, tries = pathlib.Path(folder) / "guest.log", []

                def boot(*_):
                    tries.append(0)
                    console.write_text("Kernel panic" if len(tries) <= dies else "guest: done")
                with mock.patch.object(run, "boot", boot), mock.patch("builtins.print"):
                    told = run.told_by([], console, 1)
            self.assertEqual((boots, "guest: done" if dies < boots else "Kernel panic"), (len(tries), told))


class Accelerator(unittest.TestCase):
    """What is taken for "auto" on a machine that has kvm, or seems to."""

    def choose(self, asked="auto", processor="here", ends=True, says="guest: done"):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(run, "BELOW", pathlib.Path(folder)), \
                mock.patch.object(run.os, "access", return_value=True), \
                mock.patch.object(run.platform, "machine", return_value="here"):
            def boot(command, _):
                self.assertEqual("kvm", command[0])
                command[1].write_text(says)
                return ends
            with mock.patch.object(run, "boot", boot):
                return run.accelerator(processor, asked, "guest:", lambda *words: words)

    def test_kvm_where_a_guest_comes_to_its_end(self):
        self.assertEqual("kvm", self.choose())

    def test_emulation_where_it_does_not(self):
        self.assertEqual("tcg,thread=multi", self.choose(ends=False))
        self.assertEqual("tcg,thread=multi", self.choose(says=""))

    def test_emulation_of_another_processor(self):
        self.assertEqual("tcg,thread=multi", self.choose(processor="other"))

    def test_what_is_asked_for_is_not_tried_first(self):
        self.assertEqual("kvm", self.choose(asked="kvm", ends=False))
        self.assertEqual("tcg,thread=multi", self.choose(asked="tcg"))


class Console(unittest.TestCase):
    def outcome(self, *lines):
        return run.judge(CELL, "\r\n".join(lines) + "\r\n", 1.0)

    def test_good_run(self):
        outcome = self.outcome(FACTS, 'passed: sizes (1.0 s) ""', 'skipped: grown (1.0 s) "there is no room for the blocks"',
                               "1 passed, 0 failed, 1 skipped")
        self.assertTrue(outcome.passed)
        self.assertEqual({"passed": 1, "failed": 0, "skipped": 1}, outcome.counts)
        self.assertEqual(["grown: there is no room for the blocks"], outcome.skipped)

    def test_what_is_skipped_and_not_on_the_list_has_failed(self):
        for line in ('skipped: sizes (1.0 s) "there is no room for the blocks"', 'skipped: grown (1.0 s) "exit 1"'):
            outcome = self.outcome(FACTS, 'passed: a (1.0 s) ""', line, "1 passed, 0 failed, 1 skipped")
            self.assertTrue(outcome.trouble[0].startswith("not allowed, skipped: "), outcome.trouble)

    def test_failed_program(self):
        outcome = self.outcome(FACTS, 'passed: sizes (1.0 s) ""', 'failed: limits (1.0 s) "a\\nb"',
                               "1 passed, 1 failed, 0 skipped")
        self.assertEqual(["limits: a\nb"], outcome.trouble)

    def test_guest_that_stops_early_has_failed(self):
        self.assertFalse(self.outcome(FACTS, 'passed: sizes (1.0 s) ""').passed)
        self.assertFalse(self.outcome("").passed)

    def test_guest_without_a_pass_has_failed(self):
        self.assertFalse(self.outcome(FACTS, "0 passed, 0 failed, 0 skipped").passed)

    def test_guest_that_is_not_what_was_asked_for_has_failed(self):
        lines = ('passed: sizes (1.0 s) ""', "1 passed, 0 failed, 0 skipped")
        self.assertTrue(self.outcome(FACTS, *lines).passed)
        for was, instead in (('"release": "6.1.0"', '"release": "6.12.3"'), ('"pages": 4', '"pages": 64'), ('"limit": 128', '"limit": 0'),
                             ('"memory": ', '"memory": 9')):
            self.assertFalse(self.outcome(FACTS.replace(was, instead), *lines).passed)
        self.assertFalse(self.outcome(*lines).passed)


    def test_the_newest_kernel_is_later_than_those_with_a_number(self):
        for release, asked, same in (("7.3.4+deb13-amd64", "newest", True), ("6.1.0-50-amd64", "newest", False),
                                     ("5.10.0-32-arm64", "5.10", True), ("6.1.0-50-arm64", "6.1", True),
                                     ("6.12.1", "6.1", False)):
            self.assertEqual(same, run.agrees("release", release, asked), release)


class OfPrograms(unittest.TestCase):
    """What a guest says of a program that ends so under the library, and so without it."""

    def verdict(self, ours, alone):
        def ended(code):
            return common.Result(code, b"", b"")
        context = mock.Mock(run=lambda command, mode, **_: ended(ours if mode.ours else alone))
        return guest.verdict(context, "p", ["p"], {}, 1, {})[0]

    def test_each(self):
        for ours, alone, told in ((0, 0, "passed"), (1, 0, "failed"), (1, 1, "skipped"), (2, 1, "skipped"),
                                  (-signal.SIGKILL, -signal.SIGKILL, "skipped"), (-signal.SIGSEGV, 1, "failed"),
                                  (-signal.SIGSEGV, -signal.SIGKILL, "failed"), (guest.NOT_HERE, guest.NOT_HERE, "skipped"),
                                  (guest.NOT_CONFINED, guest.NOT_CONFINED, "failed")):
            self.assertEqual(told, self.verdict(ours, alone), (ours, alone))


class Image(unittest.TestCase):
    def archive(self):
        archive = image.Archive()
        archive.file("vm/a", b"12345", executable=True)
        archive.file("vm/a", b"again")
        archive.link("vm/deep/er/b", "../a")
        return archive.compressed()

    @unittest.skipUnless(shutil.which("cpio") or shutil.which("busybox"), "cpio is not installed")
    def test_cpio_unpacks_it(self):
        command = ["cpio"] if shutil.which("cpio") else ["busybox", "cpio"]
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(command + ["-i"], input=gzip.decompress(self.archive()), cwd=folder, check=True,
                           capture_output=True)
            found = pathlib.Path(folder, "vm/a")
            self.assertEqual((b"12345", 0o755), (found.read_bytes(), found.stat().st_mode & 0o777))
            self.assertEqual("../a", str(pathlib.Path(folder, "vm/deep/er/b").readlink()))

    def test_records_are_aligned_and_directories_precede(self):
        data = gzip.decompress(self.archive())
        names, position = [], 0
        while position < len(data):
            self.assertEqual(b"070701", data[position:position + 6])
            size, length = (int(data[position + at:position + at + 8], 16) for at in (54, 94))
            names.append(data[position + 110:position + 110 + length - 1].decode())
            position += -(-(110 + length) // 4) * 4
            position += -(-size // 4) * 4
        self.assertEqual(["vm", "vm/a", "vm/deep", "vm/deep/er", "vm/deep/er/b", "TRAILER!!!"], names)

    def test_places(self):
        self.assertEqual("usr/lib/x/libc.so.6", image.place("lib/x/libc.so.6"))
        self.assertEqual("usr/bin/dash", image.place("bin/dash"))
        self.assertIsNone(image.place("usr/share/doc/x"))
        self.assertIsNone(image.place("usr/lib/python3/dist-packages/numpy/core/tests/test_x.py"))


class Mirror(unittest.TestCase):
    TARGETS = ("rel-updates main http://a/\nrel contrib http://b/\nstable main http://c/\nrel main http://d/\n"
               "other\n")

    def test_own_release_comes_first(self):
        self.assertEqual("http://d/", debian_packages.choose_mirror(self.TARGETS, "rel"))

    def test_the_release_is_one_of_debian(self):
        with tempfile.NamedTemporaryFile("w") as file:
            for system, told in (("debian", "bookworm"), ("ubuntu", ""), ("debian-like", "")):
                file.seek(0)
                file.truncate()
                file.write(f'NAME="x"\nVERSION_CODENAME=bookworm\nID={system}\n')
                file.flush()
                self.assertEqual(told, debian_packages.code_name(file.name))

    def test_else_an_alias(self):
        self.assertEqual("http://c/", debian_packages.choose_mirror(self.TARGETS, "none"))

    def test_else_none(self):
        self.assertIsNone(debian_packages.choose_mirror("foreign main http://x/\n", ""))


class UserMode(unittest.TestCase):
    """With a program in the kernel's place that does what is told, without a guest."""

    def run_with(self, kernel, command=("true",), left=(), most_mappings=1 << 20):
        """(exit code or message, what is printed, the kernel's arguments)."""
        with tempfile.TemporaryDirectory() as folder:
            below = pathlib.Path(folder, "below")
            below.mkdir()
            mappings = pathlib.Path(folder, "max_map_count")
            mappings.write_text(f"{most_mappings}\n")
            for name, text in dict(left).items():
                (below / name).write_text(text)
            if kernel is not None:
                program = pathlib.Path(folder, "linux.uml")
                program.write_text(f"#!/bin/sh\ncd {below}\necho $* > arguments\n{kernel}\n")
                program.chmod(0o755)
            printed = io.StringIO()
            path = f"{folder}:/usr/bin:/bin" if kernel is not None else folder  # this machine's own kernel is not meant
            with mock.patch.object(user_mode, "BELOW", below), mock.patch.object(user_mode, "MAPPINGS", mappings), \
                    mock.patch.dict("os.environ", {"PATH": path}), \
                    contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
                try:
                    code = user_mode.main(["--memory", "512", *command])
                except SystemExit as end:
                    code = end.code
            arguments = below / "arguments"
            return code, printed.getvalue(), arguments.read_text() if arguments.exists() else ""

    def test_the_commands_output_and_exit_code_are_passed_on(self):
        code, printed, arguments = self.run_with("echo there > output; echo 3 > status")
        self.assertEqual((3, "there\n"), (code, printed))
        self.assertIn("mem=512M", arguments)
        self.assertIn("init=", arguments)

    def test_the_command_reaches_the_guest_as_it_is(self):
        _, printed, _ = self.run_with("cp command.json output; echo 0 > status", ("sh", "-c", "a 'b'; exit 2"))
        self.assertEqual(["sh", "-c", "a 'b'; exit 2"], json.loads(printed)["command"])

    def test_a_guest_that_ends_early_is_told(self):
        self.assertIn("ended early", self.run_with("exit 0")[0])

    def test_what_an_earlier_guest_left_is_not_taken_for_this_ones(self):
        code, printed, _ = self.run_with("exit 0", left={"status": "0", "output": "earlier"})
        self.assertIn("ended early", code)
        self.assertEqual("", printed)

    def test_a_guest_that_takes_too_long_is_ended_with_its_processes(self):
        began = time.monotonic()
        code, _, _ = self.run_with("sleep 60 & wait", ("--seconds", "1", "true"))
        self.assertIn("ended early", code)
        self.assertLess(time.monotonic() - began, 30)

    def test_who_is_ended_ends_the_guest(self):
        began = time.monotonic()
        code, _, _ = self.run_with("sleep 1; kill $PPID; sleep 60 & wait")
        self.assertEqual(128 + signal.SIGTERM, code)
        self.assertLess(time.monotonic() - began, 30)

    def test_too_few_mappings_are_told_with_what_to_do(self):
        self.assertIn("sysctl -w vm.max_map_count=131072", self.run_with("exit 0", most_mappings=65530)[0])

    def test_without_the_kernel_the_package_is_named(self):
        self.assertIn("install user-mode-linux", self.run_with(None)[0])


if __name__ == "__main__":
    unittest.main()
