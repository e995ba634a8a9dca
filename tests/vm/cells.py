"""The matrix of `make vm`: each cell is one guest. Twelve of them have every pair of values that can be together;
tests/scripts/test_vm.py checks it."""

import dataclasses
import itertools

# Values of each column. "newest" is the latest of trixie's backports.
PROCESSORS = ("x86_64", "aarch64")
PAGES = (4, 16)  # KiB
KERNELS = ("5.10", "6.1", "newest")
THP = ("always", "madvise", "never")
OVERCOMMIT = (0, 2)
NODES = (1, 2)
MEMORY = (512, 2048)  # MiB
CGROUPS = ("none", "v1", "v2")

# What a cgroup allows its programs, MiB.
CGROUP_LIMIT = 128


@dataclasses.dataclass(frozen=True)
class Cell:
    processor: str
    pages: int
    kernel: str
    thp: str
    overcommit: int
    nodes: int
    memory: int
    cgroup: str

    @property
    def name(self):
        return (f"{self.processor}-{self.pages}k-{self.kernel}-{self.thp}-overcommit{self.overcommit}"
                f"-nodes{self.nodes}-{self.memory}m-cgroup_{self.cgroup}")

    def possible(self):
        """False for what Debian has no kernel for: x86-64 has one size of page, kernels of 16 KiB begin with trixie,
        and from trixie on the memory controller is no longer one of version 1."""
        if self.pages == 16 and (self.processor != "aarch64" or self.kernel != "newest"):
            return False
        return not (self.kernel == "newest" and self.cgroup == "v1")


COLUMNS = {"processor": PROCESSORS, "pages": PAGES, "kernel": KERNELS, "thp": THP, "overcommit": OVERCOMMIT,
           "nodes": NODES, "memory": MEMORY, "cgroup": CGROUPS}

CELLS = [
    Cell("x86_64", 4, "6.1", "always", 2, 1, 2048, "v1"),
    Cell("x86_64", 4, "5.10", "never", 2, 1, 512, "v2"),
    Cell("x86_64", 4, "newest", "always", 2, 1, 512, "none"),
    Cell("x86_64", 4, "5.10", "madvise", 0, 2, 512, "v1"),
    Cell("x86_64", 4, "6.1", "madvise", 2, 2, 2048, "none"),
    Cell("aarch64", 4, "5.10", "always", 0, 2, 2048, "none"),
    Cell("aarch64", 4, "6.1", "never", 0, 1, 512, "v1"),
    Cell("aarch64", 4, "6.1", "never", 2, 2, 2048, "v2"),
    Cell("aarch64", 4, "newest", "madvise", 0, 2, 512, "v2"),
    Cell("aarch64", 16, "newest", "always", 2, 2, 2048, "v2"),
    Cell("aarch64", 16, "newest", "madvise", 0, 1, 2048, "v2"),
    Cell("aarch64", 16, "newest", "never", 2, 2, 512, "none"),
]


def pairs(cell):
    """The pairs of values that a cell has, each as ((column, value), (column, value))."""
    return set(itertools.combinations(dataclasses.asdict(cell).items(), 2))


def possible_pairs():
    every = (Cell(*values) for values in itertools.product(*COLUMNS.values()))
    return set().union(*(pairs(cell) for cell in every if cell.possible()))
