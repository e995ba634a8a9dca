"""Work that later steps of the check need, done while earlier ones leave processors idle: these mostly wait for each
other's threads and for clocks. At the lowest priority, so that what they wait for comes as before; in the same
session, since Linux shares processors out among sessions first (sched_autogroup_enabled)."""

import os
import signal
import subprocess
import threading


class Ahead:
    """`with Ahead(work, folder)`: `work` has a command for each step that it is for. From start() on one after the other
    is run. What fails there fails again in the step itself, which says why."""

    def __init__(self, work, folder):
        self.left, self.folder = dict(work), folder
        self.lock, self.thread = threading.Lock(), None
        self.step = self.process = None  # what is being done

    def start(self):
        if self.left and self.thread is None:
            self.thread = threading.Thread(target=self.work)
            self.thread.start()

    def work(self):
        while True:
            with self.lock:
                if not self.left:
                    self.step = self.process = None
                    return
                self.step = next(iter(self.left))
                self.process = subprocess.Popen(
                    ["nice", "-n", "19", *self.left.pop(self.step)], cwd=self.folder, stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
            self.process.wait()

    def before(self, step):
        """The step is next: its work is waited for where it has begun, and left to it where it has not."""
        with self.lock:
            self.left.pop(step, None)
            process = self.process if self.step == step else None
        if process is not None:
            process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with self.lock:
            self.left.clear()
            if self.process is not None and self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGTERM)
        if self.thread is not None:
            self.thread.join()
