"""Programs under a limit on memory, as a container has one: in a cgroup of this machine, version 1 or 2."""

import contextlib
import dataclasses
import os
import pathlib

# The folder of each version's memory controller, what its limit is called, the limit that keeps programs from swapping, and
# what the most is that a group ever had. Version 1 limits memory and swap together.
VERSIONS = (("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max_usage_in_bytes"),
            ("/sys/fs/cgroup", "memory.max", "memory.swap.max", "memory.peak"))
# Moves itself into the group and becomes the program.
ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


class Unavailable(Exception):
    """The machine or the rights do not allow cgroups."""


@dataclasses.dataclass(frozen=True)
class Group:
    folder: pathlib.Path
    most: str  # the file that tells the peak

    def command(self, words):
        """What to start instead of `words`: the same inside the group."""
        return ["sh", "-c", ENTER, str(self.folder), *map(str, words)]

    def peak(self):
        """Bytes that the group's processes had at most, what they read of files among them; None if the kernel does
        not tell."""
        try:
            return int((self.folder / self.most).read_text())
        except OSError:
            return None


@contextlib.contextmanager
def limited(limit):
    """A group whose processes may have `limit` bytes; it is gone afterwards. Raises Unavailable."""
    for number, (root, name, swap, most) in enumerate(VERSIONS):
        folder = pathlib.Path(root) / f"memomalloc-{os.getpid()}-{number}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            try:
                (folder / name).write_text(str(limit))
            except OSError:
                continue
            with contextlib.suppress(OSError):  # a kernel without swap has no such file
                (folder / swap).write_text(str(limit) if "memsw" in swap else "0")
            yield Group(folder, most)
            return
        finally:
            folder.rmdir()
    raise Unavailable("needs the right to make cgroups")
