"""The site's checks, on a small one: what leads nowhere is found; and every page of the menu is in the tree."""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
found = importlib.util.spec_from_file_location("site_build", ROOT / "scripts/site/build.py")
build = importlib.util.module_from_spec(found)
found.loader.exec_module(build)


class Site(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()

    def page(self, name, body):
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(f"<html><body>{body}</body></html>")

    def test_dead_links(self):
        self.page("index.html", '<a href="a/b.html#here">x</a><a href="a/">x</a><a href="#top" id="top">x</a>')
        self.page("a/b.html", '<h1 id="here"></h1><a href="../index.html">x</a>')
        self.page("a/index.html", '<a href="https://example.org/x">x</a><a href="mailto:x@y">x</a>')
        self.assertEqual([], list(build.dead_links(self.folder)))
        self.page("a/b.html", '<a href="../none.html">x</a><img src="p.svg"><a href="#gone">x</a>')
        self.assertEqual(["a/b.html: ../none.html leads nowhere", "a/b.html: p.svg leads nowhere",
                          "a/b.html: #gone: there is no such heading",
                          "index.html: a/b.html#here: there is no such heading"], list(build.dead_links(self.folder)))

    def test_what_needs_a_network(self):
        self.page("index.html", '<script src="js/a.js"></script><link rel="canonical" href="https://example.org/">')
        self.assertEqual([], list(build.loaded_from_network(self.folder)))
        self.page("index.html", '<script src="https://example.org/a.js"></script><img src="//example.org/a.png">')
        self.assertEqual(2, len(list(build.loaded_from_network(self.folder))))

    def test_links_to_no_page_become_text(self):
        text = "[a](../README.md#x) [b](../src/base/os.h) ![c](pictures/memory.svg) [d](https://example.org) [e](#f)"
        self.assertEqual("[a](../README.md#x) b ![c](pictures/memory.svg) [d](https://example.org) [e](#f)",
                         build.without_dead_links(text, "docs/using.md", {"README.md"}))
        self.assertEqual("[all](../results/gpu.md)", build.without_dead_links("[all](../results/gpu)", "docs/gpu.md", {"results/gpu.md"}))

    def test_diagrams_become_tables(self):
        text = "a\n\n```mermaid\nstateDiagram-v2\n  [*] --> idle\n  idle --> pooling: taken, lost\n```\n\nb"
        self.assertEqual("a\n\n| from | to | on |\n| --- | --- | --- |\n| idle | pooling | taken, lost |\n\nb", build.without_diagrams(text))

    def test_colours_follow_the_system_when_it_changes(self):
        # The entry that the generator takes first is kept by the browser: one of a fixed scheme would stay for ever.
        first, *others = build.SETTINGS["theme"]["palette"]
        self.assertEqual("(prefers-color-scheme)", first["media"])
        self.assertEqual({"default", "slate"}, {one["scheme"] for one in others})
        self.assertTrue(all("toggle" in one for one in (first, *others)))

    def test_the_menu_has_every_document(self):
        self.assertEqual([], [page for page in build.pages() if not (ROOT / page).exists()])
        documents = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
        self.assertEqual(set(), documents - set(build.pages()))


class Pictures(unittest.TestCase):
    def test_the_drawings_are_what_their_data_give(self):
        done = subprocess.run([sys.executable, ROOT / "scripts/pictures/run.py", "--check"], capture_output=True, text=True)
        self.assertEqual((0, ""), (done.returncode, done.stdout), done.stderr)
        for path in sorted((ROOT / "docs/pictures").glob("*.svg")):
            self.assertIn("prefers-color-scheme:dark", path.read_text(), path)


if __name__ == "__main__":
    unittest.main()
