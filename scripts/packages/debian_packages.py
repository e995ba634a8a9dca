#!/usr/bin/env python3
"""Unpacks packages of any Debian release and architecture below a folder, without a change to the machine's own:
with package lists of its own, from the mirror that the machine's apt uses. Prints each package's folder."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# Names that a release may have in the machine's own list of sources besides its code name.
ALIASES = ("stable", "oldstable", "oldoldstable", "testing", "unstable")


class Unavailable(Exception):
    """No mirror, or it does not have what is asked for; the text says which."""


def code_name(path="/etc/os-release"):
    """The machine's own release of Debian, as bookworm; "" if it is none, or its file does not say."""
    try:
        text = pathlib.Path(path).read_text()
    except OSError:
        return ""
    found = re.search(r'^VERSION_CODENAME="?([\w-]+)', text, re.MULTILINE)
    return found[1] if found and re.search(r'^ID="?debian"?$', text, re.MULTILINE) else ""


def choose_mirror(targets, own):
    """The address of the repository that has the release `own` or one of ALIASES; `targets` is what apt says of its
    index files, a line each: release, component, address. None if there is no such line."""
    rows = [line.split() for line in targets.splitlines()]
    for names in ((own,), ALIASES):
        for row in rows:
            if len(row) == 3 and row[0] in names and row[1] == "main":
                return row[2]
    return None


def find_mirror():
    """MEMO_DEBIAN_MIRROR, else the mirror in apt's configuration, whichever format its lists have."""
    named = os.environ.get("MEMO_DEBIAN_MIRROR")
    if named:
        return named
    command = ["apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"]
    targets = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    mirror = choose_mirror(targets, code_name())
    if not mirror:
        raise Unavailable("apt's configuration names no mirror of Debian; set MEMO_DEBIAN_MIRROR to one's address")
    return mirror


class Packages:
    """The packages of one release for one architecture, unpacked below `below`/debs, a folder for each.
    A package that is there is not fetched again."""

    def __init__(self, below, suite, architecture):
        self.below = pathlib.Path(below).resolve()
        self.suite = suite
        self.architecture = architecture
        self.updated = False

    def unpack(self, package, members=None):
        """The folder with a package's files; of those alone that match `members` (a tar wildcard), if given."""
        folder = self.below / "debs" / package
        if folder.is_dir():
            return folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as work:
            self._apt("apt-get", "download", "-qq", package, cwd=work)
            archive = next(pathlib.Path(work).glob("*.deb"))
            files = pathlib.Path(work, "files")
            files.mkdir()
            unpack = ["tar", "-x", "-C", files] + (["--wildcards", "--no-anchored", members] if members else [])
            with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE) as source:
                if subprocess.run(unpack, stdin=source.stdout, check=False).returncode:
                    raise Unavailable(f"{package} has no {members}")
            files.rename(folder)
        return folder

    def dependency(self, package, pattern):
        """The first package that `package` depends on whose name matches the regular expression, or None."""
        out = self._apt("apt-cache", "depends", package)
        names = re.findall(r"^ *\|?(?:Pre)?Depends: (\S+)", out, re.MULTILINE)
        return next((name for name in names if re.match(pattern, name)), None)

    def _apt(self, *command, cwd=None):
        self._update()
        done = self._run(command, cwd)
        if done.returncode:
            raise Unavailable(f"{self.suite} for {self.architecture}: {done.stderr.strip()}")
        return done.stdout

    def _run(self, command, cwd=None):
        variables = {**os.environ, "APT_CONFIG": str(self._state() / "apt.conf"), "LC_ALL": "C"}
        return subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)

    def _state(self):
        return self.below / "apt" / f"{self.suite}-{self.architecture}"

    def _update(self):
        if self.updated:
            return
        if not shutil.which("apt-get"):
            raise Unavailable("this is no Debian: apt-get is missing")
        state = self._state()
        for folder in ("lists/partial", "cache/archives/partial"):
            (state / folder).mkdir(parents=True, exist_ok=True)
        (state / "status").touch()
        (state / "sources.list").write_text(f"deb [signed-by={KEYRING}] {find_mirror()} {self.suite} main\n")
        settings = {"Dir::Etc::sourcelist": state / "sources.list", "Dir::Etc::sourceparts": "-",
                    "Dir::State::lists": state / "lists", "Dir::State::status": state / "status",
                    "Dir::Cache": state / "cache", "APT::Architecture": self.architecture,
                    "APT::Sandbox::User": "root"}
        lines = [f'{name} "{value}";' for name, value in settings.items()]
        lines.append(f'APT::Architectures {{ "{self.architecture}"; }};')
        (state / "apt.conf").write_text("\n".join(lines) + "\n")
        done = self._run(["apt-get", "update", "-qq"])
        if done.returncode:
            raise Unavailable(f"{self.suite} for {self.architecture}: {done.stderr.strip()}")
        self.updated = True


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--below", required=True, help="folder in which debs/PACKAGE and the lists lie")
    parser.add_argument("--suite", required=True, help="Debian's release, as bookworm-backports")
    parser.add_argument("--architecture", required=True, help="as amd64")
    parser.add_argument("package", nargs="+")
    arguments = parser.parse_args()
    packages = Packages(arguments.below, arguments.suite, arguments.architecture)
    try:
        for package in arguments.package:
            print(packages.unpack(package))
    except Unavailable as reason:
        sys.exit(f"debian_packages.py: {reason}")


if __name__ == "__main__":
    main()
