#!/usr/bin/env python3
"""The documents as a site: mkdocs-material with search, working offline, into build/site/html.

The pages of PAGES are copied as they lie in the tree, so that their links hold; a link to a file that is no page
becomes its text. Those of results/ are made here, of its CSV files, its notes and the tree's lists. The generator ends with an error for a page or a picture that is not there; afterwards every link of every
page is followed, to the heading. Exit code 0: built; 1: a link leads nowhere; 2: bad usage.
"""

import argparse
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import result_pages  # noqa: E402

WORK = ROOT / "build/site"
PACKAGES = ("mkdocs-material==9.*", "mkdocs==1.6.*")
# Heading of a group -> (title, page) in the order of the menu.
PAGES = {
    "Start": [("MemoMalloc", "README.md"), ("Get started", "docs/get-started.md"), ("Frameworks", "docs/frameworks.md"),
              ("Jupyter and scripts", "docs/jupyter.md"), ("Troubleshooting", "docs/troubleshooting.md")],
    "Tasks": [("Servers", "docs/servers.md"), ("Containers", "docs/containers.md"), ("Share plans", "docs/share-plans.md"),
              ("NUMA", "docs/numa.md"), ("Inspect memory", "docs/inspect-memory.md"), ("GPU", "docs/gpu.md"),
              ("torch.compile", "docs/torch-compile.md")],
    "Understand": [("How it works", "docs/how-it-works.md"), ("Performance", "docs/performance.md"),
                   ("Limitations", "docs/limitations.md"), ("Security", "SECURITY.md"), ("Glossary", "docs/glossary.md"),
                   ("Papers", "docs/papers.md")],
    "Look up": [("Commands", "docs/commands.md"), ("Variables", "docs/variables.md"), ("Statistics", "docs/statistics.md"),
                ("Python interface", "docs/python-api.md"), ("C interface", "docs/c-api.md"),
                ("File formats", "docs/file-formats.md")],
    "Contribute": [("Contributing", "CONTRIBUTING.md"), ("Architecture", "src/README.md"), ("The preloaded library", "preload/README.md"),
                   ("Learning", "src/learn/README.md"),
                   ("The planner", "planner/README.md"), ("The scheduler", "scheduler/README.md"), ("Testing", "tests/README.md"),
                   ("Fault injection", "tests/refusal/README.md"), ("Measuring", "bench/README.md"),
                   ("Other allocators", "bench/peers/README.md"), ("Changes", "CHANGELOG.md")],
    "Results": [("Results", "results/index.md"), ("Targets", "results/targets.md"), ("Thresholds", "results/thresholds.md"),
                ("Where each promise is tested", "results/promises.md"), ("What tests may skip", "results/skips.md")],
}
FILES = ("docs/pictures",)  # what pages show besides
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!\w+:|#)([^)#\s]+)(#[^)]*)?\)")
# As the reader's system says, also when it changes its mind; a button chooses otherwise.
PALETTE = [{"media": f"(prefers-color-scheme{media})", "primary": "deep orange", "accent": "deep orange",
            "toggle": {"icon": f"material/{icon}", "name": f"Colours: {now}; switch to {after}"}}
           | ({"scheme": scheme} if scheme else {})
           for media, scheme, icon, now, after in (
               ("", "", "brightness-auto", "as the system", "light"),
               (": light", "default", "weather-sunny", "light", "dark"),
               (": dark", "slate", "weather-night", "dark", "as the system"))]
SETTINGS = {
    "site_name": "MemoMalloc", "docs_dir": "source", "site_dir": "html", "use_directory_urls": False, "strict": True,
    "theme": {"name": "material", "font": False, "features": ["navigation.sections", "navigation.top", "search.highlight",
                                                              "content.code.copy", "toc.follow"],
              "palette": PALETTE},
    "plugins": ["search", "offline"], "extra_css": ["site.css"],
    "validation": {"links": {"not_found": "warn", "anchors": "warn", "absolute_links": "warn"}},
    "markdown_extensions": ["tables", "admonition", {"toc": {"permalink": True}}, "pymdownx.superfences",
                            {"pymdownx.highlight": {"use_pygments": True}}],
}


def pages():
    """The pages of the menu that lie in the tree."""
    return [page for group in PAGES.values() for _, page in group if not page.startswith(result_pages.FOLDER)]


def without_dead_links(text, page, known):
    """Links to what is no page become their text; a link to a page stays, and one to a folder of results is to its page."""
    def replace(match):
        target = (ROOT / page).parent.joinpath(match[2]).resolve()
        name = str(target.relative_to(ROOT)) if target.is_relative_to(ROOT) else ""
        if f"{name}.md" in known:
            return f"[{match[1]}]({match[2]}.md)"
        return match[0] if name in known else match[1]

    return LINK.sub(replace, text)


def without_diagrams(text):
    """A diagram of states in Mermaid's language, which needs a script from the network, becomes a table."""
    def replace(match):
        edges = re.findall(r"^ *(\S+) --> (\w+): (.*)$", match[0], re.MULTILINE)
        return "\n".join(["| from | to | on |", "| --- | --- | --- |", *(f"| {start} | {end} | {on} |" for start, end, on in edges)])

    return re.sub(r"^```mermaid\n.*?^```", replace, text, flags=re.DOTALL | re.MULTILINE)


def copy():
    """The pages and pictures below WORK/source."""
    source, made = WORK / "source", result_pages.pages()
    known = {*pages(), *made}
    shutil.rmtree(source, ignore_errors=True)
    for page in (*pages(), *made):
        (source / page).parent.mkdir(parents=True, exist_ok=True)
        text = made[page] if page in made else (ROOT / page).read_text(encoding="utf-8")
        text = without_diagrams(without_dead_links(text, page, known))
        # A list or table needs an empty line before it here, which GitHub does not ask for.
        text = re.sub(r"(?m)^([^\n|#>`*-][^\n]*:)\n(- )", r"\1\n\n\2", text)
        (source / page).write_text(text, encoding="utf-8")
    shutil.copy2(ROOT / "scripts/site/site.css", source / "site.css")
    for folder in FILES:
        shutil.copytree(ROOT / folder, source / folder)


class Page(html.parser.HTMLParser):
    """What a page links to, and the names that can be linked to in it."""

    def __init__(self, path):
        super().__init__()
        self.links, self.names = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" and value:
                self.names.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def dead_links(folder):
    """A sentence for each link of a built site that leads nowhere or to the network."""
    parsed = {path.resolve(): Page(path) for path in sorted(folder.rglob("*.html"))}
    for path, page in parsed.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            where = path.relative_to(folder.resolve())
            if path.name == "404.html" or parts.scheme in ("mailto", "data", "javascript"):
                continue
            if parts.scheme or parts.netloc:
                continue  # another site's; a reader chooses to go there
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                yield f"{where}: {link} leads nowhere"
            elif parts.fragment and target in parsed and parts.fragment not in parsed[target].names | {"__tabbed"}:
                yield f"{where}: {link}: there is no such heading"


def loaded_from_network(folder):
    """A sentence for each script, style or picture that a page would load from the network."""
    pattern = re.compile(r'<(?:script|img|link)[^>]+(?:src|href)="(?:https?:)?//[^"]+"[^>]*>')
    for path in sorted(folder.rglob("*.html")):
        for found in pattern.findall(path.read_text(encoding="utf-8")):
            if 'rel="canonical"' not in found:
                yield f"{path.relative_to(folder)}: {found[:100]} needs a network"


def own_worker(folder):
    """The offline plugin's pages take a worker for files from another site; they get ours instead."""
    name = "assets/javascripts/frame_worker.js"
    shutil.copy2(ROOT / "scripts/site/frame_worker.js", folder / name)
    for path in folder.rglob("*.html"):
        up = "../" * (len(path.relative_to(folder).parts) - 1)
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("https://unpkg.com/iframe-worker/shim", up + name), encoding="utf-8")


def generator():
    """The interpreter of the environment with mkdocs, made where it is missing."""
    python, done = WORK / "tools/bin/python", WORK / "tools/done"
    if not done.exists() or done.read_text() != " ".join(PACKAGES):
        print("site: installing", *PACKAGES, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", WORK / "tools"], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES], check=True)
        done.write_text(" ".join(PACKAGES))
    return python


def main(argv=None):
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args(argv)
    WORK.mkdir(parents=True, exist_ok=True)
    copy()
    menu = [{group: [{title: page} for title, page in rows]} for group, rows in PAGES.items()]
    (WORK / "mkdocs.yml").write_text(json.dumps({**SETTINGS, "nav": menu}))  # JSON is YAML
    shutil.rmtree(WORK / "html", ignore_errors=True)
    if subprocess.run([generator(), "-m", "mkdocs", "build", "--quiet"], cwd=WORK,
                      env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}).returncode:
        return 1
    own_worker(WORK / "html")
    told = [*dead_links(WORK / "html"), *loaded_from_network(WORK / "html")]
    for sentence in told:
        print(sentence)
    print(f"{(WORK / 'html/index.html').relative_to(ROOT)}: {len(pages())} pages, {len(told)} links lead nowhere")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
