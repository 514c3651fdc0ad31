"""Scalings: their properties, and what `auto` decides on samples of known kinds."""

import dataclasses

import dask.array as da
import numpy as np
import pytest
from sklearn.preprocessing import QuantileTransformer

from sparsegp.data import SCALINGS, Scaling, Table, open_dataset, summarise, toy
from sparsegp.errors import DataError, UnknownNameError
from sparsegp.state import from_arrays, to_arrays


def choose(name, X):
    return SCALINGS[name](summarise(Table(da.from_array(X), None, "X")), lambda: X)


@pytest.fixture
def X(sample):
    return np.column_stack([sample[0], np.full(30, 7.0)])


@pytest.mark.parametrize("name", SCALINGS)
def test_lazy_and_eager_agree_and_saving_keeps_all(name, X):
    scaling, before = choose(name, X), X.copy()
    stored = from_arrays(Scaling, to_arrays(scaling))
    for dtype in (np.float32, np.float64):
        scaled = scaling.apply(X, dtype)
        assert np.isfinite(scaled).all()
        if scaling.knots is None:
            expected = ((X - scaling.shift) * scaling.factor).astype(dtype)
            np.testing.assert_array_equal(scaled, expected, strict=True)
        lazy = stored.apply(da.from_array(X, chunks=(7, 5)), dtype)
        assert lazy.dtype == dtype
        np.testing.assert_array_equal(lazy.compute(), scaled, strict=True)
    assert stored.name == scaling.name
    np.testing.assert_array_equal(X, before)


def test_what_the_rules_do(X):
    scaled = choose("standard", X).apply(X)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(scaled.std(axis=0), [1, 1, 1, 1, 0], rtol=1e-6)
    scaled = choose("range", X).apply(X)
    assert np.abs(scaled).max() == pytest.approx(1)
    np.testing.assert_allclose(scaled * np.abs(X).max(), X)
    assert np.all(choose("range", np.zeros((3, 2))).factor == 1)
    np.testing.assert_array_equal(choose("none", X).apply(X), X)


def test_quantile():
    """As scikit-learn's transformer inside the range, in units of the standard deviation."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.exponential(size=900), rng.integers(0, 4, 900), np.full(900, 7.0)])
    scaling = choose("quantile", X)
    scaled = scaling.apply(X)
    reference = QuantileTransformer(n_quantiles=256, output_distribution="normal").fit_transform(X)
    inner = np.abs(reference[:, 0]) < 3.0
    gauss = scaled[:, 0] / scaling.factor[0] + scaling.shift[0]
    np.testing.assert_allclose(gauss[inner], reference[inner, 0], atol=1e-9)
    assert len(np.unique(scaled[:, 1])) == 4
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.std(axis=0), [1, 1, 0], atol=1e-12)
    far = scaling.apply(np.array([[1e300, 9, 8], [-1e300, -9, -8]]))
    assert np.abs(far).max() < 10
    order = np.argsort(X[:, 0])
    assert np.all(np.diff(scaled[order, 0]) >= 0)


def test_errors(X):
    with pytest.raises(UnknownNameError, match="unknown scaling 'minmax'; known: auto, none"):
        choose("minmax", X)
    with pytest.raises(DataError, match=r"for 5 columns; X has shape \(2, 3\)"):
        choose("none", X).apply(np.ones((2, 3)))
    for shift, factor in (([0.0], [1.0, 2.0]), ([0.0], [np.nan]), (0.0, 1.0)):
        with pytest.raises(DataError, match="finite numbers"):
            Scaling(np.array(shift), np.array(factor), "none")
    for knots in (np.zeros(3), np.zeros((2, 3)), np.array([[1.0, 0.0]]), np.zeros((1, 1000))):
        with pytest.raises(DataError, match="rising numbers"):
            Scaling(np.zeros(1), np.ones(1), "quantile", knots)


RNG = np.random.default_rng(0)
KINDS = {
    "bell-shaped scores 0..15": (np.clip(np.rint(RNG.normal(7, 2.5, (900, 9))), 0, 15), "standard"),
    "grey photographs": (RNG.integers(0, 256, (200, 50)), "range"),
    "photographs": (np.clip(RNG.normal(120, 60, (900, 50)), 0, 255).astype(np.uint8), "range"),
    "ink": (np.where(RNG.uniform(size=(300, 20)) < 0.2, 16, 0), "range"),
    "indicators": (RNG.uniform(size=(300, 20)) < 0.1, "none"),
    "normalised columns": (RNG.uniform(-1, 1, (300, 20)), "none"),
    "unit columns": (RNG.beta(5, 5, (900, 20)) * 0.99, "none"),
    "small proportions": (RNG.uniform(0, 0.1, (300, 20)), "standard"),
    "one column of many in units": (RNG.normal(size=(300, 5)) * [1, 1, 1, 1, 1e3], "standard"),
    "constant": (np.full((10, 3), 255), "standard"),
    "toy": (toy(300, 0)[0], "standard"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_auto_on_samples(kind):
    X, expected = KINDS[kind]
    assert choose("auto", X).name == expected


EXPECTED = {
    "mnist": ("range", 255),
    "digits": ("range", 16),
    **dict.fromkeys(["isolet", "usps", "dna"], ("none", 1)),
    **dict.fromkeys(["satimage", "letter", "thyroid", "glass"], ("standard", None)),
    **dict.fromkeys(["segment", "waveform", "pima", "crabs"], ("standard", None)),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_auto_on_real_data(name, request):
    folder = None if name == "digits" else request.getfixturevalue("real_data")
    table = open_dataset(name if folder is None else folder / f"{name}.npz").train
    scaling = SCALINGS["auto"](summarise(table), lambda: table.X)
    kind, bound = EXPECTED[name]
    assert scaling.name == kind
    if bound is not None:
        np.testing.assert_array_equal(scaling.factor, 1 / bound)
        np.testing.assert_array_equal(scaling.shift, 0)


def test_columns_are_mixed_after_they_are_scaled():
    """In tiles, so that the rows that come along change no bit."""
    rng = np.random.default_rng(5)
    X, mixing = rng.normal(size=(700, 3)), rng.normal(size=(3, 3))
    plain = choose("standard", X)
    scaling = dataclasses.replace(plain, mixing=mixing)
    scaled = scaling.apply(X)
    np.testing.assert_allclose(scaled, plain.apply(X) @ mixing, rtol=1e-12, atol=1e-14)
    for rows in (slice(256), slice(256, 512), slice(512, 600), slice(512, 700)):
        np.testing.assert_array_equal(scaling.apply(X[rows]), scaled[rows])
    np.testing.assert_array_equal(from_arrays(Scaling, to_arrays(scaling)).apply(X), scaled)
    for wrong in (mixing[:2], np.full((3, 3), np.nan)):
        with pytest.raises(DataError, match="mixing of a scaling must be"):
            dataclasses.replace(plain, mixing=wrong)
