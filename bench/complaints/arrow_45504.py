"""apache/arrow#45504: pandas.read_parquet() by pyarrow, again and again. There: a file of the reporter's."""

import tempfile

import measure
import numpy
import pandas

file = tempfile.NamedTemporaryFile(suffix=".parquet")
random = numpy.random.default_rng(1)
pandas.DataFrame({f"column {i}": random.random(300_000) for i in range(8)} |
                 {"text": [f"row {i % 5000}" for i in range(300_000)]}).to_parquet(file.name)


def loop():
    for _ in range(20):
        pandas.read_parquet(file.name, engine="pyarrow")


measure.run(loop)
