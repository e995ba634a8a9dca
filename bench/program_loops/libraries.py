"""Loops of other libraries of Python: each function prepares one, and returns what makes an iteration of it."""


def scipy_fft():
    """scipy.fft, a filter in two dimensions"""
    import numpy
    import scipy.fft
    picture = numpy.random.default_rng(1).random((700, 700))
    weights = numpy.ones((700, 351)) * 0.5
    return lambda: float(scipy.fft.irfft2(scipy.fft.rfft2(picture) * weights)[0, 0])


def pillow():
    """Pillow, scale, blur and turn"""
    from PIL import Image, ImageFilter
    picture = Image.radial_gradient("L").resize((1600, 1200)).convert("RGB")

    def step():
        small = picture.resize((800, 600), Image.Resampling.LANCZOS)
        return small.filter(ImageFilter.GaussianBlur(3)).rotate(7, expand=True).convert("L").getpixel((10, 10))
    return step


def opencv():
    """OpenCV, edges of a picture"""
    import cv2
    import numpy
    cv2.setNumThreads(2)
    picture = numpy.random.default_rng(1).integers(0, 255, (1080, 1920, 3), dtype=numpy.uint8)

    def step():
        grey = cv2.cvtColor(cv2.GaussianBlur(picture, (7, 7), 0), cv2.COLOR_BGR2GRAY)
        edges = cv2.Canny(grey, 50, 150)
        return int(cv2.resize(edges, (960, 540)).sum())
    return step


def skimage():
    """scikit-image, segments of a picture"""
    import numpy
    from skimage import filters, measure, transform
    picture = numpy.random.default_rng(1).random((600, 800))

    def step():
        smooth = filters.gaussian(picture, 3)
        labels = measure.label(smooth > filters.threshold_otsu(smooth))
        return float(transform.resize(filters.sobel(smooth), (300, 400)).sum()) + int(labels.max())
    return step


def pandas():
    """pandas, join and group"""
    import numpy
    import pandas as pd
    draw = numpy.random.default_rng(1)
    left = pd.DataFrame({"key": draw.integers(0, 1000, 200_000), "value": draw.random(200_000)})
    right = pd.DataFrame({"key": numpy.arange(1000), "weight": draw.random(1000)})

    def step():
        joined = left.merge(right, on="key")
        joined["product"] = joined["value"] * joined["weight"]
        return float(joined.sort_values("product").groupby("key")["product"].mean().sum())
    return step


def pyarrow():
    """pyarrow with the system's pool"""
    import numpy
    import pyarrow
    import pyarrow.compute as compute
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    draw = numpy.random.default_rng(1)
    table = pyarrow.table({"key": draw.integers(0, 100, 400_000), "value": draw.random(400_000)})

    def step():
        kept = table.filter(compute.greater(table["value"], 0.3))
        kept = kept.append_column("twice", compute.multiply(kept["value"], 2.0))
        return kept.sort_by("value").group_by("key").aggregate([("twice", "sum")]).num_rows
    return step


def xgboost():
    """xgboost, a round of boosting"""
    import numpy
    import xgboost as xgb
    draw = numpy.random.default_rng(1)
    data = draw.random((40_000, 30), dtype=numpy.float32)
    matrix = xgb.DMatrix(data, label=data[:, 0] + data[:, 1] * data[:, 2])
    model = xgb.Booster({"max_depth": 6, "nthread": 2, "tree_method": "hist"}, [matrix])
    state = {"round": 0}

    def step():
        model.update(matrix, state["round"])
        state["round"] += 1
        return float(model.predict(matrix)[0])
    return step


def lightgbm():
    """lightgbm, a small model"""
    import numpy
    import lightgbm as lgb
    draw = numpy.random.default_rng(1)
    data = draw.random((5_000, 20))
    target = data[:, 0] + data[:, 1] * data[:, 2]

    def step():
        rows = lgb.Dataset(data, target, params={"verbose": -1})
        model = lgb.train({"verbose": -1, "num_threads": 2, "num_leaves": 31}, rows, num_boost_round=5)
        return float(model.predict(data)[0])
    return step


def sklearn():
    """scikit-learn, clusters and components"""
    import numpy
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    data = numpy.random.default_rng(1).random((6_000, 40))

    def step():
        few = PCA(8, svd_solver="full").fit_transform(data)
        return float(KMeans(6, n_init=1, max_iter=10, random_state=1).fit(few).inertia_)
    return step


def statsmodels():
    """statsmodels, least squares"""
    import numpy
    import statsmodels.api as sm
    draw = numpy.random.default_rng(1)
    data = sm.add_constant(draw.random((60_000, 12)))
    target = data @ draw.random(13) + draw.random(60_000)
    return lambda: float(sm.OLS(target, data).fit().get_robustcov_results().bse[0])


def h5py():
    """h5py, packed columns in memory"""
    import h5py as h5
    import numpy
    column = numpy.arange(500_000, dtype=numpy.float64)

    def step():
        with h5.File("column.h5", "w", driver="core", backing_store=False) as file:
            file.create_dataset("column", data=column, chunks=(65_536,), compression="gzip", compression_opts=1)
            return float(file["column"][:].sum())
    return step


def duckdb():
    """duckdb, a query"""
    import duckdb as duck
    base = duck.connect()
    base.execute("SET threads TO 2")
    base.execute("CREATE TABLE rows AS SELECT range % 5000 AS key, range * 0.5 AS value FROM range(400000)")
    query = "SELECT key, sum(value), max(value) FROM (SELECT * FROM rows ORDER BY value DESC LIMIT 200000) GROUP BY key"
    return lambda: len(base.execute(query).fetchnumpy()["key"])


LOOPS = (scipy_fft, pillow, opencv, skimage, pandas, pyarrow, xgboost, lightgbm, sklearn, statsmodels, h5py, duckdb)
# What pip calls a module.
PACKAGES = {"PIL": "pillow", "cv2": "opencv-python-headless", "skimage": "scikit-image", "sklearn": "scikit-learn"}
