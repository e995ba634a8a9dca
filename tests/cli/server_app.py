"""A network's worth of large arrays for each request, as a WSGI application (`app`) and an ASGI one (`asgi`). The
answer is JSON: the worker's process, how many requests it has served, and the page faults of this one."""

import json
import os
import resource

import numpy

weights = [numpy.ones(1 << 20) for _ in range(8)]
served = 0


def infer():
    """Each block is written whole, and freed when the next is there."""
    previous = numpy.ones(30_000)
    for size in range(20_000, 320_000, 25_000):
        block = numpy.empty(size)
        block[:] = previous[0] + weights[0][0]
        previous = block
    return float(previous[-1])


def answer():
    global served
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    value = infer()
    faults = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before
    served += 1
    return json.dumps({"pid": os.getpid(), "request": served, "faults": faults, "value": value}).encode()


def app(environment, start_response):
    start_response("200 OK", [("Content-Type", "application/json")])
    return [answer()]


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        raise NotImplementedError(scope["type"])
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": answer()})
