"""Dask collections in, lazy dask arrays out; a cluster with two worker processes."""

import copy
import pickle
import warnings

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.utils import parse_bytes
from distributed import Client, LocalCluster
from sklearn.model_selection import GridSearchCV

from sparsegp import DenseGPClassifier, SparseGPClassifier, SparseGPRegressor, train
from sparsegp.data import as_table, summarise
from sparsegp.errors import SettingsError

CHUNKS = (60, 50, 39)


@pytest.fixture(scope="module")
def cluster():
    how = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**how) as running:
        yield running


@pytest.fixture
def client(cluster):
    with Client(cluster, set_as_default=False) as connected:
        yield connected


def arrays(iris, words):
    return da.from_array(iris[0], chunks=(CHUNKS, 4)), da.from_array(words, chunks=(CHUNKS,))


def settings():
    return SparseGPClassifier(n_active=20, posterior="all")


def assert_same(found, fitted, X):
    np.testing.assert_array_equal(found.active_indices_, fitted.active_indices_)
    np.testing.assert_array_equal(found.predict_proba(X), fitted.predict_proba(X))
    assert list(found.classes_) == list(fitted.classes_)


def test_fit_on_frames(iris, words, fitted):
    X = dd.from_pandas(pd.DataFrame(iris[0], columns=list("abcd")), npartitions=3)
    y = dd.from_pandas(pd.Series(words), npartitions=3)
    found = settings().fit(X, y)
    assert list(found.feature_names_in_) == list("abcd")
    np.testing.assert_array_equal(found.predict_proba(X).compute(), fitted.predict_proba(iris[0]))
    assert found.score(X, y) == fitted.score(iris[0], words)
    with pytest.raises(ValueError, match="feature names should match"):
        found.predict(X[["d", "c", "b", "a"]])


@pytest.mark.parametrize(
    ("kind", "methods"),
    [
        (SparseGPClassifier, ("predict", "predict_log_proba", "latent_mean_and_variance")),
        (SparseGPRegressor, ("predict", "latent_mean_and_variance")),
        (DenseGPClassifier, ("predict_proba",)),
    ],
)
def test_predictions_are_lazy_with_the_chunks_of_the_rows(iris, words, kind, methods):
    X, y = arrays(iris, words)
    y = X[:, 0] if kind is SparseGPRegressor else y
    fitted = kind(n_jobs=2).fit(X, y)
    for method in methods:
        options = {"return_std": True} if (kind, method) == (SparseGPRegressor, "predict") else {}
        lazy, dense = (getattr(fitted, method)(rows, **options) for rows in (X, iris[0]))
        if not isinstance(lazy, tuple):
            lazy, dense = (lazy,), (dense,)
        for found, expected in zip(lazy, dense, strict=True):
            assert isinstance(found, da.Array)
            assert found.shape == expected.shape
            assert found.chunks[0] == CHUNKS
            values = found.compute()
            assert found.dtype == values.dtype == expected.dtype
            np.testing.assert_array_equal(values, expected)
    assert fitted.score(X, y) == fitted.score(iris[0], np.asarray(y))


def test_useless_collections_are_refused(fitted, iris, words):
    X, y = arrays(iris, words)
    for wrong, labels, message in (
        (X[:, 0], y, "Expected 2D array"),
        (X, None, "requires y to be passed"),
        (X, y[:100], "149 rows and 100 labels"),
        (X, da.zeros(149), "one class"),
        (X, da.linspace(0, 1, 149), "Unknown label type"),
        (da.where(X[7, 0] == X, np.nan, X), y, "not finite"),
    ):
        with pytest.raises(ValueError, match=message):
            settings().fit(wrong, labels)
    with pytest.raises(ValueError, match="X has 3 features"):
        fitted.predict(X[:, :3])
    bad = fitted.predict(da.where(X[7, 0] == X, np.nan, X))
    with pytest.raises(ValueError, match="must be finite"):
        bad.compute()


def test_arrays_in_memory_are_not_sent_to_the_default_client(cluster, iris, words, fitted):
    with Client(cluster) as client:

        def transitions():
            """Count the changes of state of all tasks that the scheduler ever had."""
            return client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.transition_counter)

        before = transitions()
        assert_same(settings().fit(iris[0], words), fitted, iris[0])
        train(iris[0], words, n_active=20, test=(iris[0], words))
        assert transitions() == before
        summarise(as_table(iris[0]))
        assert transitions() > before


@pytest.mark.slow
def test_fit_by_a_client(client, iris, words, fitted):
    X, y = arrays(iris, words)
    for given in ((iris[0], words), (client.persist(X), client.persist(y))):
        found = settings().set_params(client=client).fit(*given)
        assert found.client_ is client
        assert_same(found, fitted, iris[0])
    model = train(iris[0], words, n_active=20, posterior="all", client=client)
    np.testing.assert_array_equal(model.rows, fitted.active_indices_)
    with pytest.raises(SettingsError, match="give only one of `runtime` and `client`"):
        train(iris[0], words, runtime="threads=1", client=client)
    assert found.score(client.persist(X), y) == fitted.score(iris[0], words)
    with client.as_current():  # which fits collections, and no others
        found = settings().fit(X.persist(), y.persist())
        assert found.client_ is client
        assert settings().fit(iris[0], words).client_ is None
    assert_same(found, fitted, iris[0])


@pytest.mark.slow
def test_a_large_model_makes_no_large_graph(client):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 5))
    large = SparseGPClassifier(
        n_active=1200, criterion="random", posterior="adf", settings={"panel": 64}
    )
    large.fit(X, X[:, 0] > 0)
    assert len(large.model_.posterior.x[0]) == 1200  # which it keeps from then on
    assert len(pickle.dumps(large.model_)) > parse_bytes("10 MiB"), "dask would not warn"
    rows = da.from_array(X, chunks=(300, 5))
    with client.as_current(), warnings.catch_warnings():
        warnings.simplefilter("error")
        values = large.predict_proba(rows).compute()
    np.testing.assert_allclose(values, large.predict_proba(X), rtol=1e-12)
    np.testing.assert_array_equal(large.predict_proba(rows).compute(), values)


def test_a_client_is_shared_by_clones_and_not_pickled(client, iris, words):
    estimator = settings().set_params(client=client).fit(iris[0], words)
    search = GridSearchCV(estimator, {"n_active": [5, 20]}, cv=2).fit(*iris)  # of clones
    assert search.best_estimator_.client_ is client
    for other in (pickle.loads(pickle.dumps(estimator)), copy.deepcopy(estimator)):
        assert other.client is None
        assert other.client_ is None
        np.testing.assert_array_equal(other.predict(iris[0]), estimator.predict(iris[0]))
    assert estimator.client_ is client
