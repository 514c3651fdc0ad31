"""The summary agrees with numpy and does not depend on the chunks."""

from dataclasses import fields

import dask.array as da
import numpy as np
import pytest

from sparsegp.data import Table, neighbour_correlation, summarise
from sparsegp.data import summary as summary_module
from sparsegp.errors import DataError

SHAPE = (501, 6)
CENTRED = np.random.default_rng(4).uniform(size=SHAPE)
SAMPLES = {
    "bells": np.random.default_rng(0).standard_normal(SHAPE),
    "far from zero": 1e6 + np.random.default_rng(1).standard_normal(SHAPE) * 1e-3,
    "bytes": np.random.default_rng(2).integers(0, 256, SHAPE).astype(np.uint8),
    "float32": np.random.default_rng(3).standard_normal(SHAPE).astype(np.float32) * 1e30,
    "centred": CENTRED - CENTRED.mean(axis=0),
    "tiny": np.random.default_rng(5).uniform(size=SHAPE) * 1e-30,
    "constant": np.full(SHAPE, 0.1),
    "bool": np.random.default_rng(6).uniform(size=SHAPE) < 0.01,
}


@pytest.fixture(params=SAMPLES, name="X")
def values(request):
    return SAMPLES[request.param]


def test_against_numpy(X):
    found = summarise(Table(da.from_array(X, chunks=(100, 6)), None, "X"))
    exact = X.astype(np.float64)
    assert (found.n, found.p) == SHAPE
    np.testing.assert_array_equal(found.low, exact.min(axis=0))
    np.testing.assert_array_equal(found.high, exact.max(axis=0))
    width = exact.max() - exact.min()
    np.testing.assert_allclose(found.mean, exact.mean(axis=0), rtol=1e-14, atol=width * 2.0**-23)
    np.testing.assert_allclose(found.variance, exact.var(axis=0), rtol=2.0**-23, atol=1e-30)
    assert found.whole == bool(np.all(exact == np.rint(exact)))
    constant = exact.min(axis=0) == exact.max(axis=0)
    np.testing.assert_array_equal(found.mean[constant], exact[0][constant])
    assert np.all(found.variance[constant] == 0)


@pytest.mark.parametrize("rows", [7, 250, (1, 0, 499, 1), 501])
def test_chunks_and_their_pieces_do_not_matter(X, rows, monkeypatch):
    one = summarise(Table(da.from_array(X, chunks=(33, 6)), None, "X"))
    monkeypatch.setattr(summary_module, "PIECE_VALUES", 40 if rows == 501 else 1 << 20)
    other = summarise(Table(da.from_array(X, chunks=(rows, 6)), None, "X"))
    for field in fields(one):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))


@pytest.mark.parametrize("rows", [1, 4, 20])
def test_bad_values_are_counted_and_placed(rows):
    X = np.ones((20, 3))
    X[11, 2], X[12, 0], X[19, 1] = np.nan, np.inf, -np.inf
    with pytest.raises(DataError, match=r"Z has 3 values .* first is nan in row 11, column 2"):
        summarise(Table(da.from_array(X, chunks=(rows, 3)), None, "Z"))
    X[:12] = 0
    with pytest.raises(DataError, match=r"Z has 2 values .* is inf in row 12, column 0, 'a' \("):
        summarise(Table(da.from_array(X, chunks=(rows, 3)), None, "Z", names=("a", "b", "c")))
    with pytest.raises(DataError, match=r"1 value that is not finite, the first is -inf in row 1"):
        summarise(Table(da.from_array(X[18:], chunks=(rows, 3)), None, "Z"))


def test_refused():
    X = np.ones((4, 2))
    X[:2, 1] = 1e300
    for rows in (1, 2, 4):
        with pytest.raises(DataError, match=r"too large .* column 1, from 1 to 1e\+300"):
            summarise(Table(da.from_array(X, chunks=(rows, 2)), None, "Z"))
    with pytest.raises(DataError, match=r"too small .* column 0, from 0 to 1e-300"):
        summarise(Table(da.from_array(np.array([[0.0, 1.0], [1e-300, 1.0]])), None, "Z"))


def test_resemblance_is_the_mean_correlation_of_neighbours():
    X = np.random.default_rng(0).normal(size=(1200, 5)).cumsum(axis=1)
    X[:, 3] = 7.0
    correlation = np.corrcoef(X[:1000, :3], rowvar=False)
    expected = (correlation[0, 1] + correlation[1, 2]) / 2
    assert neighbour_correlation(da.from_array(X, chunks=(170, 5))) == pytest.approx(
        expected, rel=1e-12
    )
    assert neighbour_correlation(da.ones((9, 4))) == 0.0
