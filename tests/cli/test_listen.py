"""`status --listen`: an HTTP server for Prometheus, on this machine alone, and what hostile clients can do to it."""

import http.client
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import unittest

from status_server import PATIENCE
from support import COMMAND


class Listening(unittest.TestCase):
    """`status --listen`."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.process = subprocess.Popen([COMMAND, "status", "--listen", "0"], stderr=subprocess.PIPE, text=True,
                                        env=os.environ | {"XDG_RUNTIME_DIR": holder.name})
        self.addCleanup(self.end)
        said = re.fullmatch(r"listening at http://127\.0\.0\.1:(\d+)/metrics\n", self.process.stderr.readline())
        self.port = int(said[1])

    def end(self):
        self.process.terminate()
        self.process.communicate()
        self.assertEqual(0, self.process.returncode)

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        self.addCleanup(connection.close)
        return connection

    def raw(self, request):
        """The answer's first line to the bytes; "" where there is none."""
        connection = self.connect()
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        answer = b""
        try:
            while part := connection.recv(65536):
                answer += part
        except OSError:
            pass
        return answer.partition(b"\r\n")[0].decode()

    def ask(self, method="GET", path="/metrics"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request(method, path)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer, text

    def test_answers(self):
        answer, text = self.ask()
        self.assertEqual(200, answer.status)
        self.assertEqual("application/openmetrics-text; version=1.0.0; charset=utf-8", answer.getheader("Content-Type"))
        self.assertTrue(text.endswith("# EOF\n"))
        answer, text = self.ask("HEAD", "/?x=1")
        self.assertEqual((200, ""), (answer.status, text))
        self.assertEqual(404, self.ask(path="/etc/passwd")[0].status)
        self.assertEqual(405, self.ask("POST")[0].status)

    def test_listens_on_this_machine_alone(self):
        ports = pathlib.Path("/proc/net/tcp").read_text() + pathlib.Path("/proc/net/tcp6").read_text()
        listening = re.findall(rf"([0-9A-F]+):{self.port:04X} [0-9A-F:]+ 0A ", ports)
        self.assertEqual(["0100007F"], listening)

    def test_bears_hostile_requests(self):
        seed = random.randrange(1 << 32)
        print(f"seed {seed}", end=" ", file=sys.stderr)
        chance = random.Random(seed)
        for request, status in ((b"\r\n\r\n", "400"), (b"GET\r\n\r\n", "400"), (b"GET /\r\n\r\n", "400"),
                                (b"GET  HTTP/1.1\r\n\r\n", "404"), (b"GET / HTTP/9\r\n\r\n", "400"),
                                (b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", "404"),
                                (b"GET /metrics\0x HTTP/1.1\r\n\r\n", "404"),
                                (b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\n\r\n", "431"),
                                (b"GET / HTTP/1.1\r\nX: " + b"a" * (1 << 20), "431")):
            self.assertEqual(status, self.raw(request).split(" ")[1], request[:40])
        for _ in range(100):
            self.raw(chance.randbytes(chance.randrange(1, 3000)))
        for _ in range(20):  # who breaks off
            connection = self.connect()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.send(b"GET /metrics HTTP/1.1\r\n\r\n")
            connection.close()
        self.assertEqual(200, self.ask()[0].status)

    def test_waits_for_nobody(self):
        """More clients than it takes at once that say nothing: they go after five seconds, and the next is answered."""
        silent = [self.connect() for _ in range(40)]
        for connection in silent[:20]:
            connection.send(b"GET /metrics HTTP/1.1\r\n")
        self.assertEqual(200, self.ask()[0].status)
        files = len(os.listdir(f"/proc/{self.process.pid}/fd"))
        self.assertLess(files, 30)


if __name__ == "__main__":
    unittest.main()
