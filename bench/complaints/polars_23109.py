"""pola-rs/polars#23109: read_parquet() grows. There: a file of the reporter's, 300 times."""

import tempfile

import measure
import numpy
import polars

file = tempfile.NamedTemporaryFile(suffix=".parquet")
random = numpy.random.default_rng(1)
polars.DataFrame({f"column {i}": random.random(300_000) for i in range(10)}).write_parquet(file.name)


def loop():
    for _ in range(40):
        frame = polars.read_parquet(file.name, use_pyarrow=False)
        del frame


measure.run(loop)
