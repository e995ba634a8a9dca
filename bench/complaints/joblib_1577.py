"""joblib/joblib#1577: the memory of results stays after they were deleted. There: 10,000 arrays of 50,000 numbers by six
workers, five rounds."""

import measure
import numpy
from joblib import Parallel, delayed


def work():
    return numpy.ones(50_000)


def loop():
    for _ in range(3):
        results = Parallel(n_jobs=2)(delayed(work)() for _ in range(1200))
        del results


if __name__ == "__main__":
    measure.run(loop)
