#!/usr/bin/env python3
"""Memory that comes back: resident memory before a loop, in it, after it, and a second loop.

After the first loop the program calls memomalloc_release() if the process has it (--release), or
just goes on with small work for --pause seconds. Prints one line of JSON, KiB and ms: resident memory
before anything ran, before the loop (after one warm-up step, which loads code and fills caches that
stay; what the allocator kept of that step is given back first), in the loop, then second by second,
and the first step and the median of a second loop, where a stall would show.
"""

import time

import workload
from loaded_library import library_function
from workload import measure


def release():
    """Calls memomalloc_release(); False if this process does not have it."""
    function = library_function("memomalloc_release")
    if function is None:
        return False
    function()
    return True


def small_work(seconds):
    """Resident memory at the end of each second, during which only small blocks come and go."""
    levels = []
    for _ in range(seconds):
        end = time.monotonic() + 1
        while time.monotonic() < end:
            {number: str(number) for number in range(100)}
            time.sleep(0.01)
        levels.append(measure.rss_kib())
    return levels


def main():
    options = workload.parser(__doc__, iterations=30)
    options.add_argument("--model", default="resnet50", help="of torchvision (%(default)s)")
    options.add_argument("--batch", type=int, default=8, help="images at once (%(default)s)")
    options.add_argument("--pause", type=int, default=10, help="seconds (%(default)s)")
    options.add_argument("--release", action="store_true", help="call memomalloc_release() first")
    arguments = options.parse_args()
    torch = workload.torch_for(arguments)
    import infer

    _, models = infer.import_torchvision()
    network = infer.build(models, arguments.model)
    images = torch.randn(arguments.batch, 3, 224, 224)
    cold = measure.rss_kib()
    with torch.inference_mode():
        network(images)
        release()
        first = measure.loop(lambda index: network(images), arguments.iterations, "first loop")
        released = release() if arguments.release else False
        levels = small_work(arguments.pause)
        second = measure.loop(lambda index: network(images), arguments.iterations, "second loop")
    measure.print_json({"model": arguments.model, "batch": arguments.batch, "released": released,
                        "cold_kib": cold, "before_kib": first["rss_before_kib"],
                        "in_loop_kib": first["steady_rss_kib"], "peak_rss_kib": second["peak_rss_kib"],
                        "after_kib": levels, "p50_ms": first["p50_ms"],
                        "again_first_ms": second["first_ms"], "again_p50_ms": second["p50_ms"],
                        "checksum": first["checksum"],
                        "equal": first["checksum"] == second["checksum"]})


if __name__ == "__main__":
    main()
