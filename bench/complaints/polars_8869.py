"""pola-rs/polars#8869: the memory of unique() stays. There: the same frame of 315,000 rows in up to 50,000 groups,
without end."""

import datetime

import measure
import numpy
import polars

times = polars.datetime_range(datetime.datetime(2020, 1, 1), datetime.datetime(2020, 12, 31), "5m", eager=True)


def loop():
    for _ in range(4):
        groups = numpy.random.randint(0, 5000, len(times))
        parts = polars.DataFrame({"time": times, "group": groups}).partition_by("group")
        polars.concat(parts, how="diagonal").unique()


measure.run(loop)
