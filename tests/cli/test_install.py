"""`make install` into an empty folder, the pages made from --help, and the completion."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import COMMAND, ROOT, memomalloc

FILES = {"bin/memomalloc", "lib/libmemomalloc.so", "lib/libmemomalloc.so.1", "lib/pkgconfig/memomalloc.pc",
         "include/memomalloc/memomalloc.h", "share/man/man1/memomalloc.1", "share/man/man7/libmemomalloc.7",
         "share/bash-completion/completions/memomalloc",
         *(f"share/memomalloc/opening/{name}" for name in ("sitecustomize.py", "_memomalloc_opening.py",
                                                           "libtcmalloc-is-not-needed/README.txt"))}
HOST = """#include <memomalloc/memomalloc.h>
#include <stdio.h>
int main(void) { puts(memomalloc_version ? memomalloc_version() : "none"); }
"""


def make(*words):
    # With the flags that the checks build with, so that nothing is compiled again.
    return subprocess.run(["make", "-s", "WERROR=1", *words], cwd=ROOT, check=True, capture_output=True, text=True)


def files_below(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.prefix = cls.folder / "usr/local"
        make("install", f"DESTDIR={cls.folder}", "PREFIX=/usr/local")

    def test_the_files_are_there_and_uninstall_takes_them_all(self):
        version = (ROOT / "VERSION").read_text().strip()
        self.assertEqual(FILES | {f"lib/libmemomalloc.so.{version}"}, files_below(self.prefix))
        copy = self.folder.with_name(self.folder.name + "-copy")
        shutil.copytree(self.prefix, copy / "usr/local", symlinks=True)
        shutil.copy(copy / f"usr/local/lib/libmemomalloc.so.{version}", copy / "usr/local/lib/libmemomalloc.so.0.0.9")
        try:
            make("uninstall", f"DESTDIR={copy}", "PREFIX=/usr/local")
            self.assertEqual(set(), files_below(copy))
        finally:
            shutil.rmtree(copy)

    def test_paths_with_blanks_are_refused_before_anything_is_done(self):
        for target in ("install", "uninstall"):
            with self.assertRaises(subprocess.CalledProcessError) as refused:
                make(target, f"DESTDIR={self.folder}/a stage", "PREFIX=/usr/local")
            self.assertIn("may have no blank", refused.exception.stderr)
        self.assertFalse((self.folder / "a stage").exists())

    def test_the_command_finds_its_library(self):
        process = subprocess.run([self.prefix / "bin/memomalloc", "run", "--", "sh", "-c", "echo $LD_PRELOAD"],
                                 capture_output=True, text=True, cwd="/", check=True)
        found = pathlib.Path(process.stdout.strip().split(":")[0])
        self.assertEqual(self.prefix / "lib/libmemomalloc.so.1", found)
        self.assertEqual("", process.stderr)

    def test_the_command_finds_the_start_hook(self):
        process = subprocess.run([self.prefix / "bin/memomalloc", "run", "--", sys.executable, "-c",
                                  "import sys; print(sys.modules['_memomalloc_opening'].__file__)"],
                                 capture_output=True, text=True, cwd="/", check=True,
                                 env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual(str(self.prefix / "share/memomalloc/opening/_memomalloc_opening.py"), process.stdout.strip())

    def test_pkg_config(self):
        if shutil.which("pkg-config") is None:
            self.skipTest("pkg-config is not installed")
        environment = os.environ | {"PKG_CONFIG_PATH": str(self.prefix / "lib/pkgconfig")}
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "memomalloc"], env=environment,
                               capture_output=True, text=True, check=True).stdout
        self.assertIn("-lmemomalloc", flags)
        # DESTDIR is no part of the paths in the file.
        flags = flags.replace("/usr/local", str(self.prefix)).split()
        program = self.folder / "linked"
        (self.folder / "linked.c").write_text(HOST)
        subprocess.run(["gcc", "-Wl,--as-needed", self.folder / "linked.c", *flags, "-o", program], check=True)
        environment = os.environ | {"LD_LIBRARY_PATH": str(self.prefix / "lib")}
        printed = subprocess.run([program], env=environment, capture_output=True, text=True).stdout
        self.assertEqual((ROOT / "VERSION").read_text(), printed)

    def test_a_host_builds_with_the_header_and_runs_without_the_library(self):
        source = self.folder / "host.c"
        source.write_text(HOST)
        program = self.folder / "host"
        subprocess.run(["gcc", "-I", self.prefix / "include", source, "-o", program], check=True)
        run = [self.prefix / "bin/memomalloc", "run", "--", program]
        self.assertEqual("none\n", subprocess.run([program], capture_output=True, text=True).stdout)
        self.assertEqual((ROOT / "VERSION").read_text(), subprocess.run(run, capture_output=True, text=True).stdout)

    def test_man_pages_name_every_command_and_variable(self):
        commands = (self.prefix / "share/man/man1/memomalloc.1").read_text()
        library = (self.prefix / "share/man/man7/libmemomalloc.7").read_text()
        listed = subprocess.run([self.prefix / "bin/memomalloc", "options", "--json"], capture_output=True,
                                text=True).stdout
        for row in json.loads(listed):
            self.assertIn(row["variable"], library)
        for name in ("run", "doctor", "compare", "replay", "report", "options", "plan"):
            self.assertIn(f".SS {name}:", commands)

    @unittest.skipUnless(shutil.which("man"), "man is not installed")
    def test_man_pages_are_set_without_a_warning(self):
        for page in ("man1/memomalloc.1", "man7/libmemomalloc.7"):
            process = subprocess.run(["man", "--warnings", "-l", self.prefix / "share/man" / page],
                                     capture_output=True, text=True, env=os.environ | {"MANWIDTH": "100"})
            self.assertEqual("", process.stderr)

    def complete(self, *words):
        """What a Tab after the last of these words offers."""
        script = self.prefix / "share/bash-completion/completions/memomalloc"
        quoted = " ".join(f"'{word}'" for word in words)
        shell = (f". {script}; COMP_WORDS=('{self.prefix}/bin/memomalloc' {quoted}); "
                 f"COMP_CWORD={len(words)}; _memomalloc; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
        return subprocess.run(["bash", "-c", shell], capture_output=True, text=True).stdout.split()

    def test_completion_knows_every_command_and_option(self):
        table = (ROOT / "src/cli/base/commands.def").read_text()
        commands = re.findall(r'^COMMAND\("([a-z]+)"', table, re.MULTILINE)
        self.assertEqual(sorted([*commands, "--help", "--version"]), sorted(self.complete("")))
        for command in commands:
            text = memomalloc(command, "--help").stdout
            with self.subTest(command):
                options = re.findall(r"^  (?:-\w, |    )(--[\w-]+)", text, re.MULTILINE)
                self.assertIn("--help", options)
                dashes = ["--"] if "-- COMMAND" in text else []
                self.assertEqual(sorted(options + dashes), sorted(self.complete(command, "-")))
        for row in json.loads(memomalloc("options", "--json").stdout):
            self.assertIn(row["option"], self.complete("run", "--"))

    def test_completion_knows_actions_and_choices(self):
        source = (ROOT / "src/cli/plan/plans.cc").read_text()
        actions = re.findall('"(\\w+)"', re.search(r"IsMember\(\{(.*?)\}\)", source, re.DOTALL)[1])
        self.assertIn("verify", actions)
        self.assertEqual(sorted(actions), sorted(self.complete("plans", "")))
        self.assertEqual(["prune"], self.complete("plans", "pr"))
        self.assertEqual(["report", "replay"], self.complete("rep"))
        self.assertEqual(["always", "auto"], sorted(self.complete("run", "--hugepages", "a")))
        self.assertEqual(["always", "auto", "never"], sorted(self.complete("run", "--hugepages", "=")))
        self.assertEqual(["never"], self.complete("run", "--hugepages", "=", "n"))
        self.assertIn("skyline", self.complete("plan", "--planner", ""))
        self.assertEqual([str(ROOT / "README.md")], self.complete("plan", str(ROOT / "READ")))
        self.assertEqual([str(ROOT / "README.md")], self.complete("plans", "import", str(ROOT / "READ")))


class Documentation(unittest.TestCase):
    def test_the_commands_page_is_what_help_prints(self):
        process = subprocess.run(["python3", "scripts/tables/gen_man.py", "--markdown", "docs/commands.md", "--check"],
                                 cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(0, process.returncode, process.stderr)

    def test_the_order_of_the_example_graph_is_what_schedule_prints(self):
        graph, order = re.findall(r"```json\n(.*?)```", (ROOT / "docs/file-formats.md").read_text(), re.DOTALL)
        process = subprocess.run([COMMAND, "schedule", "-", "-o", "-"], input=graph, capture_output=True, text=True)
        self.assertEqual(json.loads(order), json.loads(process.stdout), process.stderr)


if __name__ == "__main__":
    unittest.main()
