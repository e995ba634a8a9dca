"""A server of conversations on the loopback: long histories as JSON, joined and written again for each request, from eight
threads."""

import concurrent.futures
import http.server
import json
import random
import threading
import urllib.request

import measure

random.seed(1)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        history = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = "\n".join(f"{turn['role']}: {turn['text']}" for turn in history)
        answer = json.dumps({"prompt": prompt, "words": prompt.split()[:5000]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
        measure.between()

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()


def ask(_):
    history = [{"role": "user", "text": "word " * random.randint(200, 20000)} for _ in range(random.randint(5, 30))]
    body = json.dumps(history).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/", body, timeout=60) as page:
        return len(page.read())


def loop():
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(60)))


measure.run(loop)
