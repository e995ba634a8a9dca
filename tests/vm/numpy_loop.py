"""A periodic loop of large arrays, as a service has it: prints sums that depend on every element. Under the
library the arrays must come from a plan."""

import ctypes
import json
import os

import numpy

# Fewer where it takes long: enough to be learned, and served.
ITERATIONS = max(60, 300 // int(os.environ.get("SLOWER", "1")))
ROWS = 128
COLUMNS = 320  # doubles: 320 KiB an array


def step(weights, seed):
    """Eight temporaries of three sizes, all dead at the end."""
    batch = numpy.arange(ROWS * COLUMNS, dtype=numpy.float64).reshape(ROWS, COLUMNS) + seed
    hidden = batch * weights
    hidden = numpy.maximum(hidden - hidden.mean(), 0.0)
    doubled = numpy.concatenate([hidden, batch])
    scaled = doubled.astype(numpy.float32) / 3
    return float(scaled.sum(dtype=numpy.float64)) + float(doubled[::7].sum())


def served():
    """Allocations that plans served in this process."""
    text = ctypes.create_string_buffer(16384)
    ctypes.CDLL(None).memomalloc_stats_json(text, ctypes.c_size_t(len(text)))
    return json.loads(text.value)["planned_allocations"]


def main():
    weights = numpy.linspace(-1.0, 1.0, COLUMNS)
    results = [step(weights, seed) for seed in range(ITERATIONS)]
    print(f"{results[0]:.6f} {results[-1]:.6f} {sum(results):.3f}")
    if os.environ.get("EXPECT_SERVING") and "libmemomalloc" in os.environ.get("LD_PRELOAD", ""):
        if not served():
            raise SystemExit("no array came from a plan")


if __name__ == "__main__":
    main()
