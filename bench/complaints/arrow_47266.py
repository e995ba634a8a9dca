"""apache/arrow#47266: reading a Parquet dataset again and again. There: ten columns of five million numbers, 50 times."""

import tempfile

import measure
import numpy
import pyarrow
import pyarrow.dataset

folder = tempfile.TemporaryDirectory()
random = numpy.random.default_rng(1)
table = pyarrow.Table.from_pydict({f"column {i}": random.random(500_000) for i in range(10)})
pyarrow.dataset.write_dataset(table, folder.name, format="parquet")
del table


def loop():
    for _ in range(20):
        pyarrow.dataset.dataset(folder.name).to_table()


measure.run(loop)
folder.cleanup()
