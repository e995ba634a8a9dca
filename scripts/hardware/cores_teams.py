"""The processes of scripts/hardware/cores.py: an allocator's team is one process, or one for each core."""

import json
import os
import pathlib
import select
import statistics
import subprocess
import sys
import tempfile
import time

END_SECONDS = 30  # that a process may take to end


class Failed(Exception):
    """A process that ended, answered wrongly, or took too long."""


class Worker:
    """A process of cores_worker.py, and its lines."""

    def __init__(self, allocator, group, count, number):
        batch, size = group.shape
        words = [sys.executable, str(pathlib.Path(__file__).with_name("cores_worker.py")), "--network", group.network,
                 "--batch", str(batch), "--size", str(size), "--library", allocator.library() or ""]
        environment = allocator.environment(os.environ) | {"CUDA_VISIBLE_DEVICES": ""}
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            environment.pop(name, None)
            if group.kind != "threads":
                environment[name] = "1"
        if group.kind == "server":
            words += ["--servers", str(count)]
        if group.kind == "processes":
            processors = sorted(os.sched_getaffinity(0))
            words += ["--processor", str(processors[number % len(processors)])]
        self.rest, self.said = b"", tempfile.TemporaryFile()
        self.process = subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said)

    def ended(self):
        """How it ended, with the last line that it said."""
        code = self.process.wait(END_SECONDS)
        self.said.seek(0)
        lines = self.said.read().decode(errors="replace").strip().splitlines() or [""]
        return Failed(f"ended with code {code}: {lines[-1][:200]}")

    def ask(self, command):
        try:
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise self.ended() from error

    def answer(self, seconds):
        end = time.monotonic() + seconds
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.process.stdout], [], [], max(end - time.monotonic(), 0))
            if not ready:
                raise Failed("took too long")
            part = os.read(self.process.stdout.fileno(), 1 << 16)
            if not part:
                raise self.ended()
            self.rest += part
        line, self.rest = self.rest.split(b"\n", 1)
        figures = json.loads(line)
        if "error" in figures:
            raise Failed(figures["error"])
        return figures

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.said.close()


class Team:
    """The processes of one allocator: one, or one for each core."""

    def __init__(self, allocator, group, count):
        self.name = allocator.name
        self.members = [Worker(allocator, group, count, number)
                        for number in range(count if group.kind == "processes" else 1)]

    def ready(self, seconds):
        end = time.monotonic() + seconds
        for member in self.members:
            member.answer(end - time.monotonic())

    def turn(self, command, seconds):
        """Figures of a turn: times and counts of one process in the middle, memory of all together."""
        end = time.monotonic() + seconds
        for member in self.members:
            member.ask(command)
        answers = [member.answer(end - time.monotonic()) for member in self.members]

        def middle(values):
            return round(statistics.median(values), 4)

        def total(name):
            return sum(answer[name] for answer in answers)

        large = total("large_bytes")
        return {"steps": command["steps"], "first_ms": middle(answer["ms"][0] for answer in answers),
                "step_ms": middle(statistics.median(answer["ms"][1:] or answer["ms"]) for answer in answers),
                "faults": middle(answer["faults"] for answer in answers),
                "user_ms": middle(answer["user_ms"] for answer in answers),
                "system_ms": middle(answer["system_ms"] for answer in answers),
                "rss_mib": round(total("rss_kib") / 1024, 1), "anon_mib": round(total("anon_kib") / 1024, 1),
                "peak_mib": round(total("peak_kib") / 1024, 1),
                "planned_share": round(total("planned_bytes") / large, 4) if large else "",
                "at_hand_share": round(total("at_hand_bytes") / large, 4) if large else ""}

    def stop(self):
        for member in self.members:
            member.stop()
