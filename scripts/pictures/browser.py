"""Drives a headless Chromium through its debugging pipe: no driver program, no network.

Messages of the DevTools protocol are JSON texts ended by a zero byte; Chromium reads them from file
descriptor 3 and writes to 4.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """A page of `width` x `height`; use as a context manager."""

    def __init__(self, width=1400, height=1000):
        self.profile = tempfile.TemporaryDirectory()
        self.errors, self.buffer, self.number, self.session = [], b"", 0, None
        read_commands, self.commands = os.pipe()
        self.answers, write_answers = os.pipe()

        def connect():
            # Away from 3 and 4 first, so that neither is overwritten before it is copied.
            pair = os.dup2(read_commands, 63), os.dup2(write_answers, 64)
            os.dup2(pair[0], 3)
            os.dup2(pair[1], 4)

        self.process = subprocess.Popen(
            [PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}",
             f"--window-size={width},{height}"],
            preexec_fn=connect, close_fds=False, stderr=subprocess.DEVNULL)
        os.close(read_commands)
        os.close(write_answers)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Runtime.enable")
        self.call("Page.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setScrollbarsHidden", hidden=True)  # as on a phone; else they cover what a picture shows

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)
        os.close(self.commands)
        os.close(self.answers)
        shutil.rmtree(self.profile.name, ignore_errors=True)

    def message(self, timeout):
        end = time.monotonic() + timeout
        while b"\0" not in self.buffer:
            if not select.select([self.answers], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            chunk = os.read(self.answers, 1 << 20)
            if not chunk:
                raise ConnectionError("the browser has ended")
            self.buffer += chunk
        text, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(text)

    def call(self, method, timeout=60, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.message(timeout)
            if answer.get("method") == "Runtime.exceptionThrown":
                self.errors.append(answer["params"]["exceptionDetails"])
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, path):
        self.open_url(path.resolve().as_uri())

    def open_url(self, url):
        self.call("Page.navigate", url=url)
        while self.evaluate("document.readyState") != "complete":
            time.sleep(0.05)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def frames(self):
        """Waits until what was asked for has been drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)
        self.frames()

    def screenshot(self, path, full=True):
        self.frames()
        image = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        path.write_bytes(base64.b64decode(image["data"]))
