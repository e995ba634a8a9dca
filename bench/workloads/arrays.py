#!/usr/bin/env python3
"""Array programs without a network: numpy, scipy, pandas, scikit-learn.

images: 12 pictures of 640x480 are converted, blurred, halved and normalised. groupby: a frame of
500000 rows is filtered, grouped, joined and sorted. signal: 8 channels of 2^18 samples are filtered,
resampled and turned into spectrograms. learn: a scaler, a PCA and a logistic regression
are fitted on 20000 rows of 64 features and asked.
"""

import workload


def images(numpy, arguments):
    pictures = numpy.random.default_rng(arguments.seed).integers(
        0, 256, (12, 480, 640, 3), dtype=numpy.uint8)
    kernel = numpy.array([1, 4, 6, 4, 1], dtype=numpy.float32) / 16
    mean = numpy.array([0.485, 0.456, 0.406], dtype=numpy.float32)
    deviation = numpy.array([0.229, 0.224, 0.225], dtype=numpy.float32)

    def blur(picture, axis):
        length = picture.shape[axis] - 4
        parts = [weight * picture.take(range(first, first + length), axis)
                 for first, weight in enumerate(kernel)]
        return sum(parts[1:], parts[0])

    def step(index):
        batch = []
        for picture in pictures:
            soft = blur(blur(picture.astype(numpy.float32) / 255, 0), 1)
            half = (soft[0::2, 0::2] + soft[1::2, 0::2] + soft[0::2, 1::2] + soft[1::2, 1::2]) / 4
            batch.append(((half - mean) / deviation).transpose(2, 0, 1))
        return numpy.stack(batch)

    return step


def groupby(numpy, arguments):
    import pandas

    random = numpy.random.default_rng(arguments.seed)
    rows = 500_000
    frame = pandas.DataFrame({"key": random.integers(0, 2000, rows),
                              "shop": random.integers(0, 50, rows),
                              "price": random.random(rows), "count": random.integers(1, 9, rows)})
    shops = pandas.DataFrame({"shop": range(50), "factor": random.random(50)})

    def step(index):
        chosen = frame[frame["price"] > 0.1]
        joined = chosen.merge(shops, on="shop")
        joined["total"] = joined["price"] * joined["count"] * joined["factor"]
        grouped = joined.groupby("key")["total"].agg(["sum", "mean", "max"])
        return grouped.sort_values("sum").to_numpy()

    return step


def signal(numpy, arguments):
    import scipy.ndimage
    import scipy.signal

    channels = numpy.random.default_rng(arguments.seed).normal(size=(8, 1 << 18))
    taps = scipy.signal.firwin(129, 0.25)

    def step(index):
        smooth = scipy.signal.fftconvolve(channels, taps[None, :], mode="same", axes=1)
        halved = scipy.signal.resample_poly(smooth, 1, 2, axis=1)
        _, _, spectra = scipy.signal.stft(halved, nperseg=512)
        return scipy.ndimage.gaussian_filter(numpy.abs(spectra), (0, 1, 1))

    return step


def learn(numpy, arguments):
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    random = numpy.random.default_rng(arguments.seed)
    features = random.normal(size=(20_000, 64))
    labels = (features[:, :8].sum(1) + random.normal(size=20_000) > 0).astype(int)

    def step(index):
        model = make_pipeline(StandardScaler(), PCA(16, svd_solver="covariance_eigh"),
                              LogisticRegression(max_iter=20))
        return model.fit(features, labels).predict_proba(features)

    return step


TASKS = {"images": images, "groupby": groupby, "signal": signal, "learn": learn}


def main():
    options = workload.parser(__doc__, iterations=40)
    options.add_argument("--task", choices=TASKS, default="images", help="(%(default)s)")
    arguments = options.parse_args()
    workload.limit_threads(arguments.threads)
    import numpy

    workload.run(TASKS[arguments.task](numpy, arguments), arguments, arguments.task)


if __name__ == "__main__":
    main()
