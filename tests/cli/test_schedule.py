"""`memomalloc schedule`: what it prints."""

import json
import pathlib
import tempfile
import unittest

from support import memomalloc

MIB = 1 << 20


def wide_graph(order, name="wide"):
    """Two branches with a large tensor each, of which the second may wait; the nodes in the given order."""
    tensors = [{"name": "x", "bytes": MIB, "kind": "input"}]
    tensors += [{"name": name, "bytes": size * MIB} for name, size in (("a", 100), ("b", 100), ("c", 1), ("d", 1), ("y", 1))]
    nodes = {"a": ["x"], "b": ["x"], "c": ["a"], "d": ["b"], "y": ["c", "d"]}
    return json.dumps({"format": "memomalloc-graph", "version": 1, "name": name, "tensors": tensors, "outputs": ["y"],
                       "nodes": [{"name": name, "inputs": nodes[name], "outputs": [name]} for name in order]})


class Schedule(unittest.TestCase):
    def lines(self, order, name="wide"):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "graph.json")
            path.write_text(wide_graph(order, name))
            process = memomalloc("schedule", path, "--seconds", "5")
        self.assertEqual(0, process.returncode, process.stderr)
        return process.stdout.splitlines()

    def test_the_result_is_first(self):
        first, blank, given, *_ = self.lines("abcdy")
        self.assertEqual("The order found needs 102.00 MiB, 49.3 % less than the given one. No order needs less.", first)
        self.assertEqual("", blank)
        self.assertIn("?[2J: 5 operators", "\n".join(self.lines("abcdy", "\x1b[2J")))
        self.assertRegex(given, r"^  given order +201\.00 MiB$")

    def test_a_given_order_that_is_best_is_kept(self):
        lines = self.lines("acbdy")
        self.assertEqual("The given order is kept. It needs 102.00 MiB. No order needs less.", lines[0])
        self.assertIn("memory plan", "\n".join(lines))


if __name__ == "__main__":
    unittest.main()
