"""What `memomalloc status PID --watch` shows of a gunicorn worker that has its requests: a terminal's screen."""

import contextlib
import os
import pathlib
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import svg

SECONDS = 12  # of requests before the screen is taken
WIDTH, LETTER, LINE, EDGE = 580, 6.62, 16, 16
NAME = 12  # letters that a line's name takes
STYLE = svg.STYLE + '.mono{font-family:"DejaVu Sans Mono",ui-monospace,Menlo,Consolas,monospace;font-size:11px;white-space:pre}\n'


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(port, until):
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30).read()


def last_screen(command, environment, seconds):
    """The lines that the command leaves on a terminal after so many seconds."""
    child, terminal = pty.fork()
    if child == 0:
        os.execve(command[0], command, environment)
    text, end = b"", time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            text += os.read(terminal, 65536)
    os.kill(child, signal.SIGINT)
    os.waitpid(child, 0)
    os.close(terminal)
    screen = text.decode().split("\033[H")[-1].split("\033[J")[0]
    return [line.rstrip() for line in re.sub(r"\033\[K|\r", "", screen).splitlines()]


def measure(build, root):
    """Drives gunicorn with two workers, and looks at one of them: the drawing's data."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        environment |= {"XDG_RUNTIME_DIR": folder, "OPENBLAS_NUM_THREADS": "1"}
        port, command = free_port(), str(build / "memomalloc")
        server = subprocess.Popen([command, "run", "--status", "--", sys.executable, "-m", "gunicorn", "--workers", "2",
                                   "--log-level", "warning", "--bind", f"127.0.0.1:{port}", "server_app:app"],
                                  cwd=root / "tests/cli", env=environment, start_new_session=True)
        try:
            clients = [threading.Thread(target=ask, args=(port, time.monotonic() + 2 * SECONDS)) for _ in range(4)]
            for client in clients:
                client.start()
            time.sleep(SECONDS)
            pages = pathlib.Path(folder, "memomalloc").glob("*.page")
            worker = max(int(page.name.partition("-")[0]) for page in pages)
            lines = last_screen([command, "status", str(worker), "--watch"], environment, 4)
            for client in clients:
                client.join()
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
    return {"command": f"memomalloc status {worker} --watch", "lines": lines}


def draw(data, path):
    lines = [f"$ {data['command']}", *data["lines"]]
    picture = svg.Picture(2 * EDGE + LINE * len(lines), data["command"], " ".join(data["lines"][:2]), WIDTH, STYLE)
    for number, line in enumerate(lines):
        named = number > 1 and line[NAME - 1:NAME] == " " and not line.startswith(("  ", "threads"))
        head = line[:NAME] if named else "" if line.startswith(" ") else line
        y = EDGE + LINE * (number + 0.75)
        picture.text(EDGE, y, head, "mono strong ours" if number == 0 else "mono strong")
        picture.text(EDGE + LETTER * len(head), y, line[len(head):], "mono")
    picture.save(path)
