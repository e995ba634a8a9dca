"""install_deps.sh: names of packages in other releases, what the archives lack, no root, no apt; with stand-ins for apt."""

import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIRST = ("make", "g++", "libxxhash-dev", "zlib1g-dev", "libcli11-dev", "nlohmann-json3-dev", "python3", "binutils")
SUITE = "libpython{}-testsuite".format(subprocess.run(
    ["/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True).stdout.strip())
STAND_INS = {
    # Nothing is installed; offered is what the variable names.
    "dpkg-query": "exit 1",
    "apt-cache": 'case " $OFFERED " in *" $2 "*) echo "  Candidate: 1.0" ;; *) echo "  Candidate: (none)" ;; esac',
    "apt-get": 'echo "apt-get $*" >>"$SAID"; case "$* " in *" update "*) ;; *) exit ${CODE:-0} ;; esac',
    "id": 'echo "${USER_NUMBER:-0}"',
    "sudo": '[ "$1" = -v ] || exec "$@"',
}


class Install(unittest.TestCase):
    def install(self, *words, offered=FIRST, without=(), **variables):
        """(exit code, what it says, what apt-get was asked to install, what was left out)."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for tool, text in STAND_INS.items():
                if tool not in without:
                    (folder / tool).write_text(f"#!/bin/sh\n{text}\n")
                    (folder / tool).chmod(0o755)
            others = folder / "others"
            others.mkdir()
            for tool in ("bash", "sh", "env", "dirname", "basename", "cat", "tr", "grep", "rm", "mkdir", "chmod", "head", "sed",
                         "ldd", "sleep"):
                (others / tool).symlink_to(f"/usr/bin/{tool}")
            environment = {"PATH": f"{folder}:{others}", "OFFERED": " ".join(offered), "SAID": f"{folder}/said",
                           "MEMO_LEFT_OUT": f"{folder}/left/out", "MEMO_POLICY": f"{folder}/policy", "TMPDIR": name, **variables}
            done = subprocess.run([ROOT / "scripts/install_deps.sh", *words], env=environment, text=True, capture_output=True,
                                  timeout=60)
            said = (folder / "said").read_text() if (folder / "said").exists() else ""
            asked = [line.split("--no-install-recommends ")[1].split() for line in said.splitlines() if " install " in line]
            left = (folder / "left/out").read_text().split() if (folder / "left/out").exists() else []
            self.assertFalse((folder / "policy").exists())
            return done.returncode, done.stderr, asked[0] if asked else [], left

    def test_first_name_that_the_archives_have(self):
        for names in ((), ("libcatch2-dev", "catch2"), ("catch2",)):
            code, said, asked, left = self.install("build", offered=(*FIRST, *names))
            self.assertEqual((0, list(FIRST[:7]), []), (code, asked, left), said)
        rest = ("git", "binutils", "libbenchmark-dev", "valgrind", "sqlite3", "libjemalloc2", "stress-ng", "redis-server", "redis-tools",
                "pkg-config", "man-db", "libunwind8", "cpio", "g++-aarch64-linux-gnu", "python3-venv", "zlib1g-dev")
        code, said, asked, left = self.install("cross", offered=(*FIRST, *rest, "catch2", "libtcmalloc-minimal4", "clang"))
        self.assertEqual(0, code, said)
        self.assertTrue({"catch2", "libtcmalloc-minimal4", "clang"} <= set(asked), asked)
        self.assertTrue({"chromium", "clang-format-19", "coinor-libcbc-dev"} <= set(left), left)
        self.assertIn("left out, since the archives of this system do not have them: ", said)
        code, _, asked, _ = self.install("cross", offered=(*FIRST, *rest, "catch2", "libcatch2-dev", "libtcmalloc-minimal4",
                                                           "libtcmalloc-minimal4t64", "clang-format-20", SUITE))
        self.assertEqual(0, code)
        self.assertTrue({"libcatch2-dev", "libtcmalloc-minimal4t64", "clang-format-20", SUITE} <= set(asked), asked)
        self.assertFalse({"catch2", "libtcmalloc-minimal4"} & set(asked), asked)

    def test_what_is_needed_and_not_there_is_named(self):
        code, said, asked, _ = self.install("build", offered=FIRST[1:])
        self.assertEqual((2, []), (code, asked))
        self.assertIn("the archives of this system have no package make", said)

    def test_sudo_is_used_where_the_user_is_not_root(self):
        code, said, asked, _ = self.install("build", USER_NUMBER="1000")
        self.assertEqual((0, list(FIRST[:7])), (code, asked), said)
        code, said, asked, _ = self.install("build", USER_NUMBER="1000", without=("sudo",))
        self.assertEqual((2, []), (code, asked))
        self.assertIn(f"`apt-get install --no-install-recommends {' '.join(FIRST[:7])}`", said)

    def test_a_system_without_apt_gets_the_list(self):
        code, said, asked, _ = self.install("build", without=("apt-get", "dpkg-query"))
        self.assertEqual((2, []), (code, asked))
        self.assertIn("has no apt", said)
        self.assertIn("make g++ libxxhash-dev zlib1g-dev", said)

    def test_a_failed_installation_says_where_its_words_are(self):
        code, said, _, _ = self.install("build", CODE="1")
        self.assertEqual(2, code)
        self.assertRegex(said, r"apt-get cannot install them; .* \(/.*\.log\)")


if __name__ == "__main__":
    unittest.main()
