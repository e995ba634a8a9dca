"""One process of scripts/hardware/gpu.py: a workload on one allocator, which does what it reads from stdin.

A line of stdin is a JSON list: a verb and its arguments. The answer is a line of JSON on stdout.
"""

import ctypes
import gc
import json
import os
import sys
import time
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)


def start(allocator: str, library: str) -> Any:
    """torch with the allocator: native, expandable or memomalloc."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if allocator == "expandable":
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    import torch

    if library:  # of the tree
        sys.path.insert(1, os.path.join(HERE, "../../python"))
    if allocator == "memomalloc" and torch.cuda.is_available():
        import memomalloc.cuda

        if not memomalloc.cuda.enable(library=library or None):
            raise RuntimeError("memomalloc.cuda.enable() did nothing")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cuda.enable_cudnn_sdp(False)  # its backward pass is not deterministic
    return torch


class Child:
    def __init__(self, allocator: str, library: str, tiny: bool) -> None:
        self.torch, self.allocator, self.tiny = start(allocator, library), allocator, tiny
        if not self.torch.cuda.is_available() and not tiny:
            raise RuntimeError("torch sees no GPU")
        self.step: Any = None

    def _wait(self) -> None:
        if self.torch.cuda.is_available():
            self.torch.cuda.synchronize()

    def make(self, name: str, batch: int) -> dict[str, Any]:
        import gpu_steps

        begun = time.perf_counter()
        self.step = gpu_steps.make(name, batch, self.tiny)
        self._wait()
        return {"seconds": time.perf_counter() - begun}

    def steps(self, count: int) -> dict[str, Any]:
        """Seconds of each step, its loss as its exact number, and which share of its large tensors' bytes was planned."""
        seconds, losses, planned = [], [], []
        before = self._shares()
        for _ in range(count):
            begun = time.perf_counter()
            loss = self.step()
            self._wait()
            seconds.append(time.perf_counter() - begun)
            losses.append(float(loss).hex())
            now = self._shares()
            if now:
                asked = sum(now) - sum(before)
                planned.append((now[0] - before[0]) / asked if asked else 0)
                before = now
        return {"seconds": seconds, "losses": losses, "planned": planned}

    def _shares(self) -> list[int]:
        """Bytes planned, reused and other until now; none of another allocator."""
        if self.allocator != "memomalloc" or not self.torch.cuda.is_available():
            return []
        import memomalloc.cuda

        figures = memomalloc.cuda.stats()
        return [figures.get(f"{name}_bytes", 0) for name in ("planned", "reused", "other")]

    def run(self, count: int) -> dict[str, Any]:
        """Seconds of each of `count` steps that are not waited for one by one."""
        begun = time.perf_counter()
        for _ in range(count):
            self.step()
        self._wait()
        return {"step": (time.perf_counter() - begun) / count}

    def memory(self) -> dict[str, Any]:
        if not self.torch.cuda.is_available():
            return {}
        found = self.torch.cuda.memory_stats()
        result = {name: found[f"{key}.all.peak"] for name, key in
                  (("reserved", "reserved_bytes"), ("requested", "requested_bytes"), ("allocated", "allocated_bytes"))}
        if self.allocator == "memomalloc":
            import memomalloc.cuda

            result["figures"] = {key: value for key, value in memomalloc.cuda.stats().items() if "." not in key}
        return result

    def largest(self, name: str, fraction: float, first: int, grain: int) -> dict[str, Any]:
        """The largest batch, in multiples of `grain`, of which three steps fit into the fraction of the memory."""
        import gpu_steps

        if not self.torch.cuda.is_available():
            return {}
        self.torch.cuda.set_per_process_memory_fraction(fraction)
        tried = {}

        def fits(batch: int) -> bool:
            step = None
            try:
                step = gpu_steps.make(name, batch, self.tiny)
                for _ in range(4):
                    step()
                self._wait()
                tried[batch] = "fits"
                return True
            except self.torch.OutOfMemoryError as error:
                tried[batch] = str(error)[:300]
                return False
            finally:
                del step
                gc.collect()
                self.torch.cuda.empty_cache()

        low, high = 0, first
        while fits(high) and high < 64 * first:
            low, high = high, high + max(grain, first // 4 // grain * grain)
        while high - low > grain:
            middle = (low + high) // 2 // grain * grain
            if middle in (low, high):
                break
            low, high = (middle, high) if fits(middle) else (low, middle)
        return {"batch": low, "tried": tried}

    def smoke(self) -> dict[str, Any]:
        """Each thing that a program may do with an allocator, and what came of it."""
        torch, results = self.torch, {}

        def attempt(name: str, function: Any) -> None:
            try:
                results[name] = str(function())
            except Exception as error:  # each failure is a result
                results[name] = f"{type(error).__name__}: {error}"[:400]
            print(f"  {self.allocator}: {name}: {results[name]}", file=sys.stderr, flush=True)  # where a later one hangs

        def out_of_memory() -> str:
            try:
                torch.empty(1 << 42, device="cuda")
            except torch.OutOfMemoryError as error:
                return f"torch.OutOfMemoryError: {error}"[:300]
            return "no error"

        def graph() -> str:
            given = torch.zeros(1 << 20, device="cuda")
            one = torch.cuda.CUDAGraph()
            with torch.cuda.graph(one):
                twice = given * 2
                result = twice + 1
            other = [torch.full((1 << 20,), 9.0, device="cuda") for _ in range(8)]
            given.fill_(3)
            one.replay()
            torch.cuda.synchronize()
            right = bool((result == 7).all()) and all(bool((x == 9).all()) for x in other)
            del one, twice, result
            return "right" if right else "wrong"

        def two_streams() -> str:
            side = torch.cuda.Stream()
            for turn in range(200):
                with torch.cuda.stream(side):
                    copied = torch.full((1 << 20,), float(turn), device="cuda")
                torch.cuda.current_stream().wait_stream(side)
                copied.record_stream(torch.cuda.current_stream())
                total = copied * 1.0
                del copied
                with torch.cuda.stream(side):
                    torch.full((1 << 20,), -1.0, device="cuda")
                if turn % 50 == 49 and not bool((total == turn).all()):
                    return f"wrong in turn {turn}"
            return "right"

        def asleep() -> str:
            import memomalloc.cuda

            kept = torch.arange(1 << 24, device="cuda")
            before = torch.cuda.mem_get_info()[0]
            memomalloc.cuda.sleep()
            freed = torch.cuda.mem_get_info()[0] - before
            memomalloc.cuda.wake()
            return f"{'right' if bool((kept == torch.arange(1 << 24, device='cuda')).all()) else 'wrong'}, {freed >> 20} MiB free meanwhile"

        def graph_asleep() -> str:
            """A graph whose memory is nearly all free once it is captured."""
            import memomalloc.cuda

            given = torch.zeros(1 << 24, device="cuda")
            one = torch.cuda.CUDAGraph()
            with torch.cuda.graph(one):
                result = (given * 2 + 1).max()
            memomalloc.cuda.sleep()
            memomalloc.cuda.wake()
            given.fill_(3)
            one.replay()
            torch.cuda.synchronize()
            return "right" if float(result) == 7 else "wrong"

        def forked() -> str:
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    torch.ones(4, device="cuda")
                except RuntimeError:
                    code = 0
                os._exit(code)
            return f"exit {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}"

        def threads() -> str:
            import threading

            wrong = []

            def work(seed: int) -> None:
                with torch.cuda.stream(torch.cuda.Stream()):
                    for turn in range(200):
                        one = torch.full((((turn * 37 + seed) % 8 + 1) << 18,), float(seed), device="cuda")
                        if not bool((one == seed).all()):
                            wrong.append(turn)

            all_threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
            for one in all_threads:
                one.start()
            for one in all_threads:
                one.join()
            return "right" if not wrong else f"wrong {wrong[:5]}"

        def compiled() -> str:
            """A network trained by torch.compile's code, whose losses are those without it."""
            def losses(compile_it: bool) -> list[float]:
                torch.manual_seed(7)
                net = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)).to(device)
                run = torch.compile(net) if compile_it else net
                told = []
                for _ in range(4):
                    loss = run(torch.ones(1024, 512, device=device)).square().mean()
                    loss.backward()
                    with torch.no_grad():
                        for one in net.parameters():
                            one -= 0.1 * one.grad
                            one.grad = None
                    told.append(float(loss.detach()))
                return told

            usual, found = losses(False), losses(True)
            near = all(abs(one - other) <= 1e-3 * abs(one) for one, other in zip(usual, found))
            return f"{'right' if near else 'wrong'}, {found}"

        device = "cuda" if torch.cuda.is_available() else "cpu"
        if device == "cpu":
            attempt("compiled", compiled)
            return results
        attempt("sum", lambda: float(torch.ones(1 << 20, device="cuda").sum()))
        attempt("memory_stats", lambda: len(torch.cuda.memory_stats()))
        attempt("memory_summary", lambda: len(torch.cuda.memory_summary()))
        attempt("max_memory_allocated", torch.cuda.max_memory_allocated)
        attempt("out_of_memory", out_of_memory)
        attempt("after_out_of_memory", lambda: float(torch.ones(1 << 20, device="cuda").sum()))
        attempt("graph", graph)
        attempt("graph_again", graph)
        attempt("two_streams", two_streams)
        attempt("threads", threads)
        attempt("empty_cache", torch.cuda.empty_cache)
        if self.allocator == "memomalloc":
            attempt("sleep", asleep)
            attempt("graph_asleep", graph_asleep)
            import memomalloc.cuda

            attempt("summary", memomalloc.cuda.memory_summary)
        attempt("fork", forked)
        attempt("device_to_device", lambda: bool((torch.ones(1 << 22, device="cuda").clone() == 1).all()))
        attempt("compiled", compiled)
        return results


def main() -> None:
    # What a library prints must not end up among the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    allocator, library, tiny = sys.argv[1], sys.argv[2], sys.argv[3] == "tiny"
    # Ends with its parent, however that ends: PR_SET_PDEATHSIG, SIGKILL.
    ctypes.CDLL(None).prctl(1, 9)
    child, problem = None, None
    try:
        child = Child(allocator, library, tiny)  # before it is asked: importing torch takes long
    except Exception as error:  # told at the first verb
        problem = error
    for line in sys.stdin:
        verb, *arguments = json.loads(line)
        if verb == "quit":
            break
        try:
            if problem:
                raise problem
            answer = getattr(child, verb)(*arguments)
        except Exception as error:  # told, and the next verb is tried
            answer = {"error": f"{type(error).__name__}: {error}"[:600]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
