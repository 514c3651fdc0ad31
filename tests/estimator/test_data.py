"""Inputs and labels of many kinds, and the messages for those that cannot be used."""

from contextlib import nullcontext
from types import SimpleNamespace

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import sparsegp
from sparsegp import DenseGPClassifier, SparseGPClassifier, SparseGPRegressor

NAMES = ["sepal length", "sepal width", "petal length", "petal width"]


@pytest.mark.parametrize(
    "labels",
    [
        *(np.array(["b", "a", "c"], dtype) for dtype in (str, object)),
        *map(np.array, ([2.0, -1.0, 7.0], np.uint8([3, 200, 17]), [True, False, True])),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_labels_keep_their_type(iris, labels, tmp_path):
    """Also on disk."""
    X, y = iris[0], labels[iris[1]]
    estimator = SparseGPClassifier(n_active=20).fit(X, y)
    np.testing.assert_array_equal(estimator.classes_, np.unique(labels))
    predicted = estimator.predict(X)
    assert estimator.classes_.dtype == predicted.dtype == y.dtype
    assert estimator.score(X, y) > 0.9
    estimator.save(tmp_path / "saved")
    stored = SparseGPClassifier.load(tmp_path / "saved").predict(X)
    np.testing.assert_array_equal(stored, predicted, strict=True)


@pytest.mark.parametrize("kind", [np.array, pd.Series])
def test_labels_that_are_integers_as_objects(iris, kind):
    X, y = iris[0], kind(iris[1].tolist(), dtype=object)
    for estimator in (SparseGPClassifier(n_active=20), SparseGPRegressor(n_active=20)):
        found, plain = (clone(estimator).fit(X, labels) for labels in (y, iris[1]))
        np.testing.assert_array_equal(found.predict(X), plain.predict(X), strict=True)
        assert found.score(X, y) == plain.score(X, iris[1])


@pytest.mark.parametrize(
    "dtype", ["boolean", "bool[pyarrow]", "Int64", "string", "object", "category"]
)
def test_labels_of_data_frames_keep_type_and_value(dtype):
    X = np.random.default_rng(0).normal(size=(90, 3))
    values = np.array([2**60, 2**60 + 1, 7])[np.digitize(X[:, 0], [-0.5, 0.5])]
    if "bool" in dtype:
        values = values > 7
    elif dtype == "object":
        values = (values == 7).astype(float)
    y = pd.Series(values.astype(str) if dtype == "string" else values).astype(dtype)
    fitted = SparseGPClassifier(kernel="10*rbf", n_active=20).fit(X, y)
    expected = np.unique(y.tolist())
    np.testing.assert_array_equal(fitted.classes_, expected)
    assert fitted.classes_.dtype.kind in {expected.dtype.kind, "O"}
    assert fitted.score(X, y) > 0.8
    y[4] = None
    with pytest.raises(ValueError, match=r"every row needs a label; row 4 of y has|NaN"):
        fitted.fit(X, y)


@pytest.mark.parametrize("first", [True, False])
def test_a_failed_fit_leaves_the_estimator_as_it_was(first, iris):
    X, y = iris
    estimator = SparseGPClassifier(kernel="10*rbf", n_active=20)
    frame = pd.DataFrame(X, columns=list("abcd"))
    if not first:
        estimator.fit(X, y)
    with pytest.raises(ValueError, match="one class only"):
        estimator.fit(frame[list("dcb")], 0 * y)
    with pytest.raises(NotFittedError) if first else nullcontext():
        assert estimator.score(X, y) > 0.9
    assert not hasattr(estimator, "feature_names_in_")
    assert estimator.fit(frame, y).feature_names_in_.tolist() == list("abcd")
    assert not hasattr(estimator.fit(X, y), "feature_names_in_")


def test_values_of_arrow_dictionaries_that_no_row_has_are_no_levels():
    rng = np.random.default_rng(0)
    kind = pd.ArrowDtype(pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))
    words = pd.Series([f"city {n:03}" for n in range(400)] + ["Ulm", "Bonn"] * 60)
    frame = pd.DataFrame({"city": words.astype(kind), "x": rng.normal(size=len(words))})[400:]
    y = (frame["city"] == "Ulm").astype(int)
    model = sparsegp.train(frame, y.to_numpy(), kernel="10*rbf", n_active=20)
    assert model.names == ("city=Ulm", "x")


@pytest.mark.parametrize("known", [["yes", "no"], [1, 0]])
@pytest.mark.parametrize("frame", [True, False])
def test_missing_labels_are_refused(iris, known, frame):
    X = pd.DataFrame(iris[0], columns=NAMES) if frame else iris[0]
    y = np.array(known * 75, object)[: len(X)]
    fitted = SparseGPClassifier(n_active=5, kernel="rbf").fit(X, y)
    y[7] = None
    for call in (fitted.fit, fitted.score):
        with pytest.raises(ValueError, match="every row needs a label; row 7 of y has None"):
            call(X, y)


@pytest.mark.parametrize("kind", ["pandas", "dask", "polars", "pyarrow"])
def test_data_frames_hold_gaps_and_categories(iris, words, kind, tmp_path):
    X = pd.DataFrame(iris[0], columns=NAMES).assign(
        size=np.where(iris[0][:, 0] > 6, "large", "small"), **{NAMES[3]: iris[0][:, 3] > 1}
    )
    X.loc[3, NAMES[0]] = np.nan
    given = X
    if kind == "dask":
        given = dd.from_pandas(X, npartitions=2)
    elif kind == "polars":
        given = pytest.importorskip("polars").from_pandas(X)
    elif kind == "pyarrow":
        given = pyarrow.Table.from_pandas(X)
    expected = SparseGPClassifier(n_active=20).fit(X, words)
    found = SparseGPClassifier(n_active=20).fit(given, words)
    assert found.score(given, words) > 0.9
    np.testing.assert_allclose(found.predict_proba(given), expected.predict_proba(X), rtol=1e-12)
    assert found.n_features_in_ == 5
    assert len(found.model_.names) == 6
    found.save(tmp_path / "copy")
    again = SparseGPClassifier.load(tmp_path / "copy")
    assert list(again.feature_names_in_) == [*NAMES, "size"]
    np.testing.assert_array_equal(again.predict_proba(X), expected.predict_proba(X))
    with pytest.raises(ValueError, match="feature names should match"):
        found.predict(X[X.columns[::-1]])
    with pytest.raises(ValueError, match="X must be a data frame with the columns of the fit"):
        found.predict(iris[0])


@pytest.mark.parametrize("kernel", ["2*ard", "2*laplace({'size': 3, 'width missing': 2})"])
def test_a_kernel_by_name_fits_rows_that_are_encoded_otherwise(iris, words, kernel):
    X = pd.DataFrame({"width": iris[0][:, 1]})
    X["size"] = np.where(iris[0][:, 0] > 6, "large", "small")
    X.loc[:1, "width"], X.loc[2:4, "size"] = np.nan, "odd"
    first = SparseGPClassifier(kernel=kernel, n_active=20).fit(X, words)
    assert '"width missing": ' in first.kernel_
    again = SparseGPClassifier(kernel=first.kernel_, scaling=first.scaling_, n_active=20)
    np.testing.assert_array_equal(again.fit(X, words).predict_proba(X), first.predict_proba(X))
    assert again.kernel_ == first.kernel_
    again.fit(X[5:], words[5:])
    assert again.model_.names == ("width", "size=large", "size=small")[: len(again.model_.names)]
    assert "missing" not in again.kernel_
    with pytest.raises(ValueError, match="length scales must be of columns, got 'size"):
        again.fit(X[["width"]], words)
    with pytest.raises(ValueError, match="found: columns without names"):
        again.fit(iris[0], words)


@pytest.mark.parametrize(
    ("name", "is_known"),
    [
        *((name, True) for name in ("day: hour (sin)", "day missing", "size=odd", "size: rare")),
        *((name, True) for name in ("size: code 3", "day: year")),  # the year of older models
        *((name, False) for name in ("day", "day: night", "size: night", "size: code 16")),
    ],
)
def test_kernels_name_parts_that_dates_and_categories_can_have(iris, words, name, is_known):
    days = pd.date_range("2020-01-01", periods=len(words), freq="D")
    X = pd.DataFrame({"day": days, "size": np.where(iris[0][:, 0] > 6, "large", "small")})
    kernel = f"laplace({{'day: time': 1, '{name}': 2}})"
    outcome = nullcontext() if is_known else pytest.raises(ValueError, match=f"got '{name}'; fo")
    with outcome:
        SparseGPClassifier(kernel=kernel, n_active=20).fit(X, words)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[1.0], [2.0]], [5, 5], "one class only, 5,"),
        ([[1.0], [2.0]], [0, 1, 0], "inconsistent numbers of samples"),
        ([[1.0], [2.0]], np.array(["one", 2], object), "labels must be all numbers or all words"),
        (np.array([["a"], ["b"]]), [0, 1], "not compatible with arrays of bytes/strings"),
        (pd.DataFrame(np.eye(2), columns=["a", "a"]), [0, 1], "X has 2 columns 'a': rename all"),
        (SimpleNamespace(collect_schema=None), [0, 1], "hold its rows, got a .*; collect it"),
    ],
)
def test_useless_data_are_refused(X, y, message):
    with pytest.raises(ValueError, match=message):
        SparseGPClassifier().fit(X, y)


@pytest.mark.parametrize("masked", [0, 1, 2])
@pytest.mark.parametrize("method", ["fit", "score"])
def test_masked_values_are_refused(iris, masked, method):
    """In rows, labels or weights."""
    given = [*iris, np.ones(len(iris[1]))]
    estimator = SparseGPClassifier(n_active=10).fit(*iris)
    given[masked] = np.ma.array(given[masked], copy=True)
    given[masked][7] = np.ma.masked
    with pytest.raises(ValueError, match=r"(found one|X has nan) in row 7"):
        getattr(estimator, method)(*given)


@pytest.fixture(scope="module")
def numbers(iris):
    """Whole numbers, then zeros and ones, as plain arrays with what is predicted for them."""
    both = np.round(10 * iris[0]), (iris[0] > 2.0).astype(float)
    fits = [SparseGPClassifier(n_active=10).fit(X, iris[1]) for X in both]
    return [(X, fitted.predict_proba(X)) for X, fitted in zip(both, fits, strict=True)]


@pytest.mark.parametrize(
    "kind",
    ["object", "Int64", "Float64", "float32", "uint8", "bool", "list", "nested list of str", "coo"],
)
def test_what_fit_takes_predict_takes(numbers, iris, kind):
    X, expected = numbers[kind == "bool"]
    if kind in {"Int64", "Float64"}:
        given = pd.DataFrame(X.astype(int)).astype(kind)
    elif kind == "coo":
        given = scipy.sparse.csr_array(X).asformat(kind)
    elif kind == "list":
        given = X.tolist()
    elif kind == "nested list of str":
        given = X.astype(str).astype(object)
    else:
        given = X.astype(kind)
    found = SparseGPClassifier(n_active=10, precision="float32").fit(given, iris[1])
    np.testing.assert_array_equal(found.predict_proba(given), expected)
    if not kind.startswith("nested"):
        trained = sparsegp.train(given, iris[1], n_active=10)
        np.testing.assert_array_equal(trained.predict_proba(given), expected)


def test_no_rows_give_no_predictions(fitted, iris, caplog):
    none = iris[0][:0]
    assert fitted.predict_proba(none).shape == fitted.predict_log_proba(none).shape == (0, 3)
    predicted = fitted.predict(none)
    assert (predicted.shape, predicted.dtype) == ((0,), fitted.classes_.dtype)
    mean, variance = fitted.latent_mean_and_variance(none)
    assert mean.shape == variance.shape == (0, 3)
    regressor = SparseGPRegressor(n_active=10, learn="none").fit(*iris)
    assert not caplog.text  # few numbers are no surprise to a regressor
    assert regressor.predict(none).shape == (0,)
    dense = DenseGPClassifier(n_jobs=1).fit(iris[0][:30], iris[1][:30])
    assert dense.predict_proba(none).shape == (0, 3)


def test_functions_of_a_model_take_a_fitted_estimator(fitted, iris, words):
    for use in (
        lambda of: sparsegp.evaluate(of, iris[0], words).nlpp,
        lambda of: sparsegp.update(of, iris[0][:9], words[:9]).predict_proba(iris[0]),
        lambda of: sparsegp.virtual_rows(of, (iris[0], words), lambda X: [X + 0.1]).X.compute(),
        sparsegp.same_settings,
    ):
        np.testing.assert_equal(use(fitted), use(fitted.model_))
        for other in (SparseGPClassifier(), iris[0]):
            with pytest.raises(ValueError, match="must be a Model or a fitted estimator"):
                use(other)


def test_needs_fit_first(iris):
    estimator = SparseGPClassifier()
    for use in (estimator.latent_mean_and_variance, estimator.save):
        with pytest.raises(NotFittedError):
            use(iris[0])
    assert not hasattr(estimator, "client_")
