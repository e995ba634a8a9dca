"""The package's writer of graphs, for scripts that run from the tree: the package need not be installed."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from memomalloc.graph import GraphWriter, describe  # noqa: E402, F401
