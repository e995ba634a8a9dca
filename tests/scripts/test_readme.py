"""README.md's blocks name only what a fresh clone has, or what an earlier line has made. scripts/packages/try_readme.sh runs
them."""

import os
import pathlib
import re
import shlex
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
MOST_LINES = 110
# What lines make that are checked here: the demo a Python environment, `make install` the command and the library.
MADE_BY = {"./scripts/demo.sh": [".venv/bin/activate", "python"], "make install": ["memomalloc", "libmemomalloc.so"]}


def lines(text):
    """Every command line of the blocks of shell, in order."""
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            for command in line.split(" && "):
                words = shlex.split(command, comments=True)
                if words:
                    yield words


def make_targets():
    told = subprocess.run(["make", "-C", ROOT, "help"], capture_output=True, text=True, check=True).stdout
    return {name for line in told.splitlines() for name in line.split("  ")[0].split()}


def options_of(command):
    told = subprocess.run([ROOT / "build/memomalloc", command, "--help"], capture_output=True, text=True)
    return re.findall(r"--[\w-]+", told.stdout) if told.returncode == 0 else []


def faults(text):
    """What a fresh clone has not, as sentences."""
    made, found, targets = set(), [], make_targets()
    for words in lines(text):
        settings = [word for word in words if re.match(r"[A-Z_]+=", word)]
        words = [word for word in words if word != "sudo" and word not in settings]
        if "LD_PRELOAD=libmemomalloc.so" in settings and "libmemomalloc.so" not in made:
            found.append("the library is used before it is installed")
        own, _, other = " ".join(words).partition(" -- ")
        for name, *rest in filter(None, (own.split(), other.split())):
            if name == "make":
                found += [f"make has no target {target}" for target in rest if target not in targets]
            elif name == "memomalloc":
                if name not in made:
                    found.append("memomalloc is used before it is installed")
                options = options_of(rest[0])
                found += [f"{rest[0]} has no option {word}" for word in rest if word.startswith("--") and word not in options]
                if rest[0] == "report" and rest[1] not in made:
                    found.append(f"{rest[1]} is used before it is made")
                made.update(rest[rest.index("--trace-file") + 1:][:1] if "--trace-file" in rest else [])
            elif name == ".":
                found += [f"{rest[0]} is used before it is made"] if rest[0] not in made else []
            elif name == "ln":
                found += [f"there is no {rest[-2]}"] if not (ROOT / rest[-2]).exists() else []
                made.add(rest[-1])
            elif name == "python":
                found += [f"{word} is used before it is made" for word in (name, rest[0]) if word not in made]
            elif not os.access(ROOT / name, os.X_OK):
                found.append(f"there is no {name}")
        made.update(MADE_BY.get(" ".join(words), []))
    return found


class Readme(unittest.TestCase):
    def test_blocks_need_nothing_that_was_not_made(self):
        self.assertEqual([], faults(TEXT))
        commands = [" ".join(words) for words in lines(TEXT)]
        for needed in ("./scripts/demo.sh", "./scripts/check.sh", "make test", "sudo make uninstall",
                       "LD_PRELOAD=libmemomalloc.so python infer.py", "memomalloc run -- python infer.py"):
            self.assertIn(needed, commands)

    def test_faults_are_found(self):
        for block, fault in (("./scripts/gone.sh", "there is no ./scripts/gone.sh"), ("make gone", "no target gone"),
                             ("memomalloc run -- python x.py", "memomalloc is used before"),
                             ("make install\nmemomalloc run --gone 1 -- true.sh", "run has no option --gone"),
                             ("make install\nmemomalloc report x.csv", "x.csv is used before"),
                             ("ln -sf gone.py infer.py", "there is no gone.py"),
                             ("./scripts/demo.sh\npython infer.py", "infer.py is used before")):
            with self.subTest(block):
                self.assertTrue(any(fault in one for one in faults(f"```sh\n{block}\n```\n")))

    def test_a_first_screen_stays_one(self):
        self.assertLessEqual(len(TEXT.splitlines()), MOST_LINES)
        self.assertEqual(1, TEXT.count("!["))


if __name__ == "__main__":
    unittest.main()
