# Tangled from book/use/datasets.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Data you can trust

A comparison of classifiers is worth no more than the data under it. Here are two generators whose
*best possible* score we can compute, seven files (six real data sets, and the waveforms of UCI) of
which every byte is checked, and one way to split rows that keeps class proportions at every
training size.
"""

__all__ = ["make_pinwheels", "pinwheel_proba", "WAVES", "PAIRS", "make_waveform", "waveform_proba",
           "Spec", "Dataset", "FILES", "UCI", "rebuild_csv", "load", "stratified_split",
           "holdout_rows", "SPLITS", "training_sizes", "PAPER_RUNS"]


# book/use/datasets.ipynb, cell datasets-04
import fnmatch
import hashlib
import os
import zipfile
from numbers import Real
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, logsumexp

from cmn_literate.checks import check_count, check_X, check_y


# book/use/datasets.ipynb, cell datasets-06
def _check_numbers(wanted, **numbers):
    """ValueError unless all are finite, and as wanted: "", " >= 0" or " > 0"."""
    for name, value in numbers.items():
        real = isinstance(value, Real) and not isinstance(value, bool)
        if not (real and np.isfinite(value) and (
                value > 0 or wanted == "" or wanted == " >= 0" and value == 0)):
            raise ValueError(
                f"{name}: expected a finite number{wanted}, got {value!r}")


# book/use/datasets.ipynb, cell datasets-07
def make_pinwheels(
    n, rng, n_classes=5, radial_std=0.7, tangential_std=0.3, rate=0.2, scale=10.0):
    """n points on n_classes winding arms.  [eq-pinwheel]

    -> X (n, 2), y (n,) in 0..n_classes-1.  radial_std, tangential_std >= 0 are
    standard deviations before winding and scaling; scale > 0.
    ValueError, naming the argument, for a count below 1 or another bad number.
    """
    n, n_classes = check_count(n, "n"), check_count(n_classes, "n_classes")
    _check_numbers(" >= 0", radial_std=radial_std, tangential_std=tangential_std)
    _check_numbers(" > 0", scale=scale)
    _check_numbers("", rate=rate)
    y = rng.permutation(np.arange(n) % n_classes)
    r, t = (rng.normal(size=(n, 2)) * [radial_std, tangential_std] + [1.0, 0.0]).T
    angle = 2 * np.pi * y / n_classes + rate * np.exp(r)
    X = np.stack([r * np.cos(angle) + t * np.sin(angle),
                  t * np.cos(angle) - r * np.sin(angle)], axis=1)
    return scale * X, y


# book/use/datasets.ipynb, cell datasets-10
def pinwheel_proba(
    X, n_classes=5, radial_std=0.7, tangential_std=0.3, rate=0.2, scale=10.0):
    """The exact p(class | x) of make_pinwheels.  [eq-pinwheel-density]

    X (n, 2) -> (n, n_classes).  Deviations and scale must be positive.  With the
    default law good to 1e-4, but wrong within about 1e-4 scale of a fold, where two
    roots within one grid step are missed.  A row no arm reaches is NaN.
    """
    n_classes = check_count(n_classes, "n_classes")
    _check_numbers(" > 0", radial_std=radial_std, tangential_std=tangential_std,
                   scale=scale)
    _check_numbers("", rate=rate)
    X = check_X(X, n_features=2) / scale
    r = 1 + radial_std * np.linspace(-8, 8, 8001)
    turns = np.exp(2j * np.pi * np.arange(n_classes) / n_classes)
    unwind = np.exp(1j * rate * np.exp(r))
    density = np.zeros((len(X), n_classes))
    for n, x in enumerate(X[:, 0] + 1j * X[:, 1]):
        gap = (x * turns[:, None] * unwind).real - r
        c, i = np.nonzero((gap[:, 1:] > 0) != (gap[:, :-1] > 0))
        left, right = gap[c, i], gap[c, i + 1]
        root = r[i] + (r[i + 1] - r[i]) * left / (left - right)
        t = (x * turns[c] * np.exp(1j * rate * np.exp(root))).imag
        height = np.exp(
            -0.5 * ((root - 1) / radial_std) ** 2 - 0.5 * (t / tangential_std) ** 2
        )
        density[n] = np.bincount(
            c, height / np.abs(1 + rate * np.exp(root) * t), minlength=n_classes)
    with np.errstate(invalid="ignore"):
        return density / density.sum(1, keepdims=True)


# book/use/datasets.ipynb, cell datasets-15
# h1, h2, h3 as rows [eq-waves], and the two waves that each class blends
WAVES = np.maximum(6.0 - np.abs(np.arange(1, 22) - np.array([[7], [15], [11]])), 0)
PAIRS = ((0, 1), (0, 2), (1, 2))


# book/use/datasets.ipynb, cell datasets-16
def make_waveform(n, rng):
    """n noisy blends of two triangular waves.  [eq-waveform]

    -> X (n, 21), y (n,) in 0..2
    """
    n = check_count(n, "n")
    y = rng.integers(3, size=n)
    a, b = WAVES[np.array(PAIRS)[y].T]
    u = rng.uniform(size=(n, 1))
    return u * a + (1 - u) * b + rng.normal(size=(n, 21)), y


# book/use/datasets.ipynb, cell datasets-20
def waveform_proba(X):
    """The exact p(class | x) of make_waveform.  [eq-waveform-density]

    X (n, 21) -> (n, 3)
    """
    X = check_X(X, n_features=21)
    log_density = np.empty((len(X), 3))
    for c, (i, j) in enumerate(PAIRS):
        delta, rest = WAVES[i] - WAVES[j], X - WAVES[j]
        length = np.sqrt(delta @ delta)
        along = rest @ delta / length
        upper, lower = length - along, -along
        upper, lower = (
            np.where(lower > 0, -lower, upper), np.where(lower > 0, -upper, lower))
        log_upper, log_lower = log_ndtr(upper), log_ndtr(lower)
        log_mass = log_upper + np.log1p(-np.exp(log_lower - log_upper))
        log_density[:, c] = (
            log_mass - np.log(length) - ((rest**2).sum(1) - along**2) / 2)
    return np.exp(log_density - logsumexp(log_density, axis=1, keepdims=True))


# book/use/datasets.ipynb, cell datasets-24
class Spec(NamedTuple):
    """What we know about a file: size, names, fingerprint and origin."""

    rows: int
    features: tuple
    classes: tuple
    sha256: str
    doi: str
    uci: str
    member: str = ""


class Dataset(NamedTuple):
    """A data set in memory.

    X (n, d) float64 features as they are (not standardised)
    y (n,) int64, an index into class_names
    feature_names (d strings); class_names (L strings, sorted)
    source: where it was found
    sha256: fingerprint of the CSV's bytes, "" for a generator
    """

    X: np.ndarray
    y: np.ndarray
    feature_names: tuple
    class_names: tuple
    source: str
    sha256: str


# book/use/datasets.ipynb, cell datasets-25
_RICE = ("Area Perimeter Major_Axis_Length Minor_Axis_Length Eccentricity "
         "Convex_Area Extent")
_CELL = (
    "radius texture perimeter area smoothness compactness concavity "
    "concave_points symmetry fractal_dimension"
).split()
_CAR = (
    "compactness circularity distance_circularity radius_ratio "
    "pr_axis_aspect_ratio max_length_aspect_ratio scatter_ratio elongatedness "
    "pr_axis_rectangularity "
    "max_length_rectangularity scaled_variance_major scaled_variance_minor "
    "scaled_radius_of_gyration skewness_about_major skewness_about_minor "
    "kurtosis_about_minor kurtosis_about_major hollows_ratio"
)
FILES = {
    "rice": Spec(
        3810, tuple(_RICE.split()), ("Cammeo", "Osmancik"),
        "d1f4f5f3c9e76bf36e669a9481dd104ccfbd64f102326abec2e761b925905df4",
        "10.24432/C5MW4Z", "545/rice+cammeo+and+osmancik", "*.arff"),
    "wdbc": Spec(
        569, tuple(f"{kind}_{name}" for kind in ("mean", "se", "worst")
                   for name in _CELL), ("benign", "malignant"),
        "87fe5a57d359771902de547bdf772ae19cefe1b531c4e2f58777757f98ba2218",
        "10.24432/C5DW2B", "17/breast+cancer+wisconsin+diagnostic"),
    "vehicle": Spec(
        846, tuple(_CAR.split()), ("bus", "opel", "saab", "van"),
        "95e3ecee81d9c1bb502693e7c8cc4223980058962587b8b0d06b453a41e35f80",
        "10.24432/C5HG6N", "149/statlog+vehicle+silhouettes", "xa?.dat"),
    "banknote": Spec(
        1372, ("variance", "skewness", "curtosis", "entropy"), ("0", "1"),
        "e3ef550df6caf6da3f237c79105d6f53dd765e94954d1a2e4d56bd24e9263901",
        "10.24432/C55P57", "267/banknote+authentication", "*.txt"),
    "sonar": Spec(
        208, tuple(f"band_{i:02d}" for i in range(1, 61)), ("M", "R"),
        "4f0f1d59c737f8efc3c12754360257972720397f172ee14a98892f8b41662923",
        "10.24432/C5T01Q", "151/connectionist+bench+sonar+mines+vs+rocks",
        "sonar.all-data"),
    "waveform": Spec(
        5000, tuple(f"x{i}" for i in range(1, 22)), ("0", "1", "2"),
        "7d34fe9775df3ae839d1522b8d7e51d56c0bdf946315d0fa3bfade866e3d67a7",
        "10.24432/C5CS3C", "107/waveform+database+generator+version+1",
        "waveform.data"),
    "iris": Spec(
        150, ("sepal_length", "sepal_width", "petal_length", "petal_width"),
        ("setosa", "versicolor", "virginica"),
        "1df6318e35eba54ca1ec188bc86cb64f0281912fdd50a165b1d6565de2038d59",
        "10.24432/C56C76", "53/iris"),
}
UCI = "https://archive.ics.uci.edu/static/public"


# book/use/datasets.ipynb, cell datasets-26
def _parse(name, content, source):
    """The Dataset in these bytes; ValueError unless they are the known file.

    [eq-sha256]
    """
    spec, digest = FILES[name], hashlib.sha256(content).hexdigest()
    if digest != spec.sha256:
        lines = content.splitlines()
        columns = lines[0].count(b",") if lines else 0
        raise ValueError(
            f"{source}: not the {name} data this package knows. "
            f"SHA-256 expected {spec.sha256}, got {digest}; "
            f"expected {spec.rows} rows of {len(spec.features)} features, "
            f"got {max(len(lines) - 1, 0)} rows of {columns}")
    header, *rows = [line.split(",") for line in content.decode().splitlines()]
    X = np.array([row[:-1] for row in rows], dtype=float)
    y = np.array([spec.classes.index(row[-1]) for row in rows], dtype=np.int64)
    named = tuple(header) == (*spec.features, "target")
    if X.shape != (spec.rows, len(spec.features)) or not named:
        raise ValueError(
            f"{source}: expected shape {(spec.rows, len(spec.features))}, "
            f"got {X.shape}")
    return Dataset(X, y, spec.features, spec.classes, source, digest)


# book/use/datasets.ipynb, cell datasets-27
def _from_scikit_learn(name):
    """Bytes of iris.csv or wdbc.csv from scikit-learn, None without it."""
    if name not in ("iris", "wdbc"):
        return None
    try:
        from sklearn.datasets import load_breast_cancer, load_iris
    except ImportError:
        return None
    bunch, end = (
        (load_iris(), "") if name == "iris" else (load_breast_cancer(), ".0"))
    numbers = [
        [repr(float(v)).removesuffix(end) for v in row] for row in bunch.data]
    return _csv(name, [[*row, str(bunch.target_names[c])]
                       for row, c in zip(numbers, bunch.target)])


def _csv(name, rows):
    """Bytes of a CSV file with our header; rows: lists of strings."""
    table = [(*FILES[name].features, "target"), *rows]
    return "".join(",".join(row) + "\n" for row in table).encode()


# book/use/datasets.ipynb, cell datasets-28
def rebuild_csv(name, raw_text):
    """Our CSV, as bytes, from the text of UCI's raw file.  [eq-sha256]

    For vehicle: the text of the files xaa.dat ... xai.dat, joined in that order.
    ValueError if the name has no such recipe, or if the result is not the known
    file byte for byte.
    """
    known = [key for key in FILES if FILES[key].member]
    if name not in known:
        raise ValueError(f"name: expected one of {', '.join(known)}, got {name!r}")
    if not isinstance(raw_text, str):
        raise ValueError(f"raw_text: expected text, got {type(raw_text).__name__}")
    data_lines = [
        line for line in raw_text.splitlines() if line[:1] in tuple("-0123456789")]
    content = _csv(name, [line.replace(",", " ").split() for line in data_lines])
    _parse(name, content, f"the CSV rebuilt from {FILES[name].member}")
    return content


# book/use/datasets.ipynb, cell datasets-29
def _download(name):
    """Fetch UCI's archive with pooch (kept in its cache) and rebuild the CSV."""
    try:
        import pooch
    except ImportError as error:
        raise ImportError(
            "download=True needs pooch: pip install 'cmn_literate[data]'"
        ) from error
    archive = pooch.retrieve(
        f"{UCI}/{FILES[name].uci}.zip", known_hash=None, fname=f"{name}.zip",
        path=pooch.os_cache("cmn_literate"))
    if not zipfile.is_zipfile(archive):
        Path(archive).unlink()
        raise OSError("UCI sent something else than a ZIP archive; it is removed")
    with zipfile.ZipFile(archive) as content:
        names, wanted = sorted(content.namelist()), FILES[name].member
        found = [m for m in names if fnmatch.fnmatch(m.rpartition("/")[2], wanted)]
        if not found:
            raise ValueError(
                f"{archive}: expected a file {wanted} in UCI's archive, "
                f"got {', '.join(names)}. A packed file (.Z) must be unpacked "
                "by hand and given to rebuild_csv")
        return rebuild_csv(
            name, "\n".join(content.read(m).decode() for m in found))


# book/use/datasets.ipynb, cell datasets-30
def load(name, data_home=None, download=False):
    """The data set of that name, as a Dataset.  [eq-sha256]

    name: a key of FILES, or "pinwheels" (2100 generated rows).  Looks for
    <name>.csv in data_home, then in the folder $CMN_DATA, then at scikit-learn's
    copy (iris, wdbc), then, only with download=True, at UCI.  FileNotFoundError
    says where we looked, how to get the file, and why a download failed;
    ValueError: an unknown name, or a file that is not the known one byte for byte.
    """
    if name == "pinwheels":
        X, y = make_pinwheels(2100, np.random.default_rng(2016))
        return Dataset(
            X, y, ("x1", "x2"), tuple("01234"),
            "make_pinwheels(2100, default_rng(2016))", "")
    if name not in list(FILES):
        raise ValueError(
            f"name: expected one of pinwheels, {', '.join(FILES)}, got {name!r}")
    for folder in filter(None, (data_home, os.environ.get("CMN_DATA"))):
        path = Path(folder) / f"{name}.csv"
        if path.is_file():
            return _parse(name, path.read_bytes(), str(path))
    content, source = _from_scikit_learn(name), "scikit-learn"
    if content is None and download and FILES[name].member:
        try:
            content, source = _download(name), f"UCI, doi:{FILES[name].doi}"
        except OSError as error:
            raise FileNotFoundError(
                f"{_how_to_get(name, data_home)}\nThe download failed: {error}"
            ) from error
    if content is None:
        raise FileNotFoundError(_how_to_get(name, data_home))
    return _parse(name, content, source)


# book/use/datasets.ipynb, cell datasets-31
def _how_to_get(name, data_home):
    """The message of load's FileNotFoundError."""
    spec = FILES[name]
    lines = [
        f"{name}.csv not found. Looked in",
        f"  data_home: {'not given' if data_home is None else data_home}",
        f"  $CMN_DATA: {os.environ.get('CMN_DATA') or 'not set'}"]
    if not spec.member:
        return "\n".join([
            *lines, "  scikit-learn: not installed",
            f"How to get it: pip install scikit-learn, which carries {name}."])
    if name != "waveform":
        lines += [
            "Let it be fetched:", "  pip install 'cmn_literate[data]'",
            f"  load({name!r}, download=True)"]
    packed = ["  and in it waveform.data.Z (gzip -d)"] * (name == "waveform")
    return "\n".join([
        *lines, f"Or fetch it by hand (doi:{spec.doi}): unpack",
        f"  {UCI}/{spec.uci}.zip", *packed,
        f"and write rebuild_csv({name!r}, text of {spec.member}) to {name}.csv",
        "in one of these folders."])


# book/use/datasets.ipynb, cell datasets-39
def _classwise(y, rng):
    """Rows shuffled within classes, rank of each in its class, size of that."""
    rows = rng.permutation(len(y))
    rows = rows[np.argsort(y[rows], kind="stable")]
    size = np.bincount(y)
    return (
        rows, np.concatenate([np.arange(s) for s in size]), np.repeat(size, size))


# book/use/datasets.ipynb, cell datasets-40
def stratified_split(y, n_train, n_test, rng):
    """Row numbers train (n_train,) and test (n_test,), disjoint.  [eq-quota]

    Class shares are as in y (n,), integers 0, 1, ....  train[:m] holds every class
    once m >= number of classes, and is then as proportional as m rows can be:
    training sets are nested prefixes, with one test set for all of them.
    ValueError unless n_train >= 1, n_test >= 0 and n_train + n_test <= n.
    """
    y = check_y(y, np.size(y))
    n_train, n_test = (
        check_count(n_train, "n_train"), check_count(n_test, "n_test", least=0))
    if n_train + n_test > len(y):
        raise ValueError(
            f"n_train + n_test: expected at most {len(y)}, the rows of y, "
            f"got {n_train} + {n_test}")
    rows, rank, size = _classwise(y, rng)
    order = np.where(rank == size - 1, np.inf, (rank + 0.5) / size)
    test = rows[np.argsort(order, kind="stable")[:n_test]]
    rest = np.setdiff1d(np.arange(len(y)), test)
    rows, rank, size = _classwise(y[rest], rng)
    order = np.where(rank == 0, -size, (rank + 0.5) / size)
    return rest[rows[np.argsort(order, kind="stable")[:n_train]]], test


# book/use/datasets.ipynb, cell datasets-44
def holdout_rows(codes, n_test, rng):
    """Row numbers to fit and to score, classes in proportion.  [eq-clf-rank]

    codes (N,) integers from 0, 1 <= n_test < N -> (N - n_test,), (n_test,), both sorted
    """
    rows, rank, size = _classwise(codes, rng)
    height = np.empty(len(codes))
    height[rows] = (rank + 0.5) / size
    order = np.argsort(height, kind="stable")
    return np.sort(order[:-n_test]), np.sort(order[-n_test:])


# book/use/datasets.ipynb, cell datasets-47
# first and last training size, rows of the test set
SPLITS = {
    "pinwheels": (50, 1600, 500), "waveform": (60, 3840, 1160),
    "vehicle": (20, 640, 205), "rice": (40, 2560, 1250), "wdbc": (25, 400, 169),
    "sonar": (8, 128, 80), "banknote": (25, 800, 500), "iris": (25, 100, 50)}


def training_sizes(name):
    """The doubling training sizes of a data set, smallest first.  [eq-doubling]

    ValueError: unknown name
    """
    if name not in list(SPLITS):
        raise ValueError(
            f"name: expected one of {', '.join(SPLITS)}, got {name!r}")
    sizes = [SPLITS[name][0]]
    while sizes[-1] < SPLITS[name][1]:
        sizes.append(2 * sizes[-1])
    return sizes


# training rows, test rows, experts of the paper's single runs
PAPER_RUNS = {name: (n_train, n_test, 20)
              for name, (_, n_train, n_test) in SPLITS.items()
              } | {"pinwheels": (400, 500, 10)}
