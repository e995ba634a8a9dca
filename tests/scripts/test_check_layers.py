"""check_layers.py on small trees: what is in order passes, each kind of fault is named."""

import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/gates"))
import check_layers


class Layers(unittest.TestCase):
    def faults(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return list(check_layers.faults(check_layers.Tree(folder)))

    def test_downward_include_passes(self):
        self.assertEqual([], self.faults({"src/base/os.h": "#include <cstdint>\n",
                                          "src/trace/event.h": '#include "src/base/os.h"\n'}))

    def test_upward_include_fails(self):
        found = self.faults({"src/base/os.h": '#include "src/trace/event.h"\n',
                             "src/trace/event.h": ""})
        self.assertEqual(["src/base/os.h:1: src/base may not include src/trace/event.h"], found)

    def test_banned_header_fails_in_hot_folders_only(self):
        found = self.faults({"src/base/os.h": "\n#include <vector>\n",
                             "src/learn/period.h": "#include <vector>\n"})
        self.assertEqual(1, len(found))
        self.assertTrue(found[0].startswith("src/base/os.h:2: <vector>"), found)

    def test_banned_header_behind_a_cold_one_fails(self):
        found = self.faults({"src/engine/engine.h": '#include "src/learn/learn.h"\n',
                             "src/learn/learn.h": "#include <string>\n"})
        self.assertEqual(1, len(found))
        self.assertIn("through src/learn/learn.h", found[0])

    def test_include_path_of_public_headers_resolves(self):
        found = self.faults({"src/serve/slab.h": '#include "dsa/problem.h"\n',
                             "include/dsa/problem.h": ""})
        self.assertEqual(["src/serve/slab.h:1: src/serve may not include include/dsa/problem.h"], found)

    def test_an_edge_that_nothing_uses_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {"src/base/os.h": "", "src/trace/event.h": '#include "src/base/os.h"\n'}.items():
                pathlib.Path(folder, name).parent.mkdir(parents=True)
                pathlib.Path(folder, name).write_text(text)
            layers = {"src/base": (True, ()), "src/trace": (True, ("src/base",))}
            with mock.patch.object(check_layers, "LAYERS", layers):
                tree = check_layers.Tree(folder)
                self.assertEqual([], list(check_layers.unused_edges(tree)))
                layers["src/base"] = (True, ("src/trace/event.h",))
                self.assertEqual(["scripts/gates/check_layers.py: no file of src/base includes src/trace/event.h; "
                                  "take it out of LAYERS"], list(check_layers.unused_edges(tree)))

    def test_unknown_folder_fails(self):
        self.assertIn("in no layer", self.faults({"src/misc/a.h": ""})[0])


if __name__ == "__main__":
    unittest.main()
