#!/usr/bin/env python3
"""Pictures of the pages that people look at, for looking at: pages.py [report] [notebook] [site], into build/pages.

Each page is drawn by a headless Chromium at a phone's and a desktop's width, light and dark. It fails where a script
of the page ended with an error, where a page is wider than the screen, or where a notebook has not drawn the report.
report: a recorded trace, by build/memomalloc. site: what `make site` built. notebook: memomalloc.report() in the kernel
that `memomalloc jupyter install` adds to a real Jupyter server, in an environment that is made where it is missing.
Ends with `N passed, N failed`.
"""

import argparse
import json
import pathlib
import secrets
import socket
import subprocess
import sys
import time
import urllib.request

from browser import Browser

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIDTHS = {"phone": (390, 844), "desktop": (1280, 900)}
TRACE = ROOT / "tests/golden/traces/mobilenet_v2_b8.csv.gz"
CELLS = ("import memomalloc\nfor _ in range(300):\n    layers = [bytearray((number % 5 + 1) << 18) for number in range(8)]",
         "memomalloc.report()")
# Where the notebook's answer stands, and what must be in it.
ANSWER = "document.querySelector('.jp-OutputArea-output svg rect')"
PATIENCE = 180  # seconds for a server or a kernel to start on a busy machine


def wait_for(what, ready):
    end = time.monotonic() + PATIENCE
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not come within {PATIENCE} s")
        time.sleep(0.3)


class Report:
    """report.html of a recorded trace."""

    owns_scripts = True  # so that an error of one is the project's

    def __init__(self, arguments):
        self.page = arguments.output / "report.html"
        subprocess.run([ROOT / "build/memomalloc", "report", TRACE, "--output", self.page], check=True,
                       stdout=subprocess.DEVNULL)

    def url(self):
        return self.page.as_uri()

    def ready(self, browser, scheme):
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def faults(self, _):
        return []

    def close(self):
        pass


class Site(Report):
    """The site's first page."""

    def __init__(self, _):
        self.page = ROOT / "build/site/html/index.html"
        if not self.page.exists():
            raise FileNotFoundError(f"there is no {self.page.relative_to(ROOT)}; `make site` builds it")


class Notebook:
    """A notebook in Jupyter's own page, with the kernel that the package installs."""

    owns_scripts = False

    def __init__(self, arguments):
        folder = arguments.output / "notebook"
        folder.mkdir(parents=True, exist_ok=True)
        python = arguments.environment / "bin/python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", arguments.environment], check=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "notebook",
                            "ipykernel", arguments.wheel], check=True)
        subprocess.run([python, "-m", "memomalloc", "jupyter", "install", "--sys-prefix"], check=True,
                       stdout=subprocess.DEVNULL)
        kernel = {"name": "memomalloc", "display_name": "Python 3 (MemoMalloc)", "language": "python"}
        cells = [{"cell_type": "code", "execution_count": None, "id": f"cell{number}", "metadata": {}, "outputs": [],
                  "source": text} for number, text in enumerate(CELLS)]
        (folder / "first.ipynb").write_text(json.dumps(
            {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.token = secrets.token_hex(8)
        self.log = open(folder / "server.log", "w", encoding="utf-8")
        self.server = subprocess.Popen(
            [python, "-m", "notebook", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={self.port}",
             "--ServerApp.port_retries=0", f"--IdentityProvider.token={self.token}", f"--ServerApp.root_dir={folder}",
             "--JupyterNotebookApp.expose_app_in_browser=True"], stdout=self.log, stderr=self.log)
        wait_for("the Jupyter server", self.answers)

    def answers(self):
        if self.server.poll() is not None:
            raise ChildProcessError(f"the Jupyter server ended; {self.log.name} tells why")
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api?token={self.token}", timeout=5).close()
            return True
        except OSError:
            return False

    def url(self):
        return f"http://127.0.0.1:{self.port}/notebooks/first.ipynb?token={self.token}"

    def ready(self, browser, scheme):
        wait_for("the notebook", lambda: browser.evaluate("document.querySelectorAll('.jp-CodeCell').length") == 2)
        wait_for("the kernel", lambda: browser.evaluate(
            "jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status ?? ''") == "idle")
        theme = f"JupyterLab {scheme.capitalize()}"
        browser.evaluate(f"jupyterapp.commands.execute('apputils:change-theme', {{theme: '{theme}'}})")
        wait_for("the theme", lambda: browser.evaluate("document.body.dataset.jpThemeName") == theme)
        browser.evaluate("jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
        wait_for("an empty notebook", lambda: browser.evaluate(f"{ANSWER} === null"))
        browser.evaluate("jupyterapp.commands.execute('notebook:run-all-cells')")
        wait_for("the report's drawing", lambda: browser.evaluate(f"{ANSWER} !== null"))

    def faults(self, browser):
        text = browser.evaluate(f"{ANSWER}.closest('.jp-OutputArea-output').innerText")
        return [] if "of large blocks" in text or "were served" in text else [f"the report says {text[:100]!r}"]

    def close(self):
        self.server.terminate()
        self.server.wait(30)
        self.log.close()


PAGES = {"report": Report, "notebook": Notebook, "site": Site}


def draw(name, page, size, scheme, output):
    """One picture; returns what is wrong with the page, as sentences."""
    width, height = WIDTHS[size]
    with Browser(width, height) as browser:
        browser.open_url(page.url())
        page.ready(browser, scheme)
        wrong = [f"a script failed: {error['text']}" for error in browser.errors if page.owns_scripts]
        wide = browser.evaluate("document.documentElement.scrollWidth")
        if wide > width:
            wrong.append(f"{wide} pixels wide on a screen of {width}")
        wrong += page.faults(browser)
        path = output / f"{name}-{size}-{scheme}.png"
        browser.screenshot(path)
    print(f"{'FAILED' if wrong else 'ok':7}{path}", *wrong, sep="\n       " if wrong else "", flush=True)
    return wrong


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="some of: " + " ".join(PAGES))
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build/pages", help="folder (%(default)s)")
    parser.add_argument("--environment", type=pathlib.Path, default=ROOT / "build/pages/environment",
                        help="a Python environment with Jupyter and the wheel (%(default)s)")
    parser.add_argument("--wheel", help="what is installed where that is missing")
    arguments = parser.parse_args(argv)
    for word in arguments.pages:
        if word not in PAGES:
            parser.error(f"no page {word!r}; there are {', '.join(PAGES)}")
    if "notebook" in (arguments.pages or PAGES) and not (arguments.wheel or arguments.environment.exists()):
        parser.error("the notebook needs --wheel FILE")
    arguments.output = arguments.output.resolve()
    arguments.output.mkdir(parents=True, exist_ok=True)
    passed = failed = 0
    for name in arguments.pages or PAGES:
        page = PAGES[name](arguments)
        try:
            for size in WIDTHS:
                for scheme in ("light", "dark"):
                    wrong = draw(name, page, size, scheme, arguments.output)
                    passed, failed = passed + (not wrong), failed + bool(wrong)
        finally:
            page.close()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
