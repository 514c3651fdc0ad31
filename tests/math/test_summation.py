"""Exact sums: the same to the last bit in any order, by a quantum or by levels; hashes of rows."""

import math

import numpy as np
import pytest

from sparsegp.math.hashing import PIECE, hashes_of_rows
from sparsegp.math.summation import STEP, LevelSum, quantum, snap


def test_sums_do_not_depend_on_the_order():
    rng = np.random.default_rng(0)
    values = rng.normal(size=100_000).astype(np.float32) * 3.0
    unit = quantum(1e6)
    snapped = snap(values, unit)
    total = snapped.sum()
    for _ in range(5):
        rng.shuffle(snapped)
        assert snapped.sum() == total
        parts = np.split(snapped, [10, 777, 50_000])
        assert sum(part.sum() for part in parts) == total
    assert abs(total - values.astype(np.float64).sum()) < len(values) * unit
    # the quantum is a power of two that leaves room
    for bound in (0.3, 1.0, 1e6, 1e12):
        unit = quantum(bound)
        assert np.log2(unit) == np.rint(np.log2(unit))
        assert bound / unit <= 2.0**52
        assert snap(np.array([bound]), unit)[0] >= bound * (1.0 - 1e-12)


def summed(*parts):
    sums = [LevelSum(part.shape[1:], 10) for part in parts]
    for total, terms in zip(sums, parts, strict=True):
        for term in terms:
            total.add(term)
    return LevelSum.total(sums)


@pytest.mark.parametrize("spread", [0.0, 40.0])
def test_sums_by_levels_do_not_depend_on_order_or_on_parts(spread):
    rng = np.random.default_rng(1)
    terms = rng.normal(size=(1000, 3, 2)) * np.exp(spread * rng.normal(size=(1000, 1, 1)))
    whole = summed(terms)
    for cut in (1, 500, 999):
        rng.shuffle(terms)
        np.testing.assert_array_equal(summed(terms[:cut], terms[cut:]), whole)
    exact = np.array([[math.fsum(terms[:, i, j]) for j in range(2)] for i in range(3)])
    sizes = np.abs(terms).max(axis=(1, 2)).sum()
    np.testing.assert_allclose(whole, exact, rtol=0, atol=sizes * 2.0 ** -(53 - STEP - 10))


def test_levels_at_their_limits_and_at_the_ends_of_the_range():
    terms = np.full((1024, 1), np.nextafter(16.0, 0.0))  # the largest number of a level
    total = summed(terms)
    assert total[0] == 1024 * np.rint(terms[0, 0] * 2.0**39) / 2.0**39
    assert summed(np.empty((0, 2))).tolist() == [0.0, 0.0]
    assert summed(np.zeros((3, 2))).tolist() == [0.0, 0.0]
    assert summed(np.array([[1e-290], [2e-290]]))[0] == 0.0  # below all levels
    assert summed(np.array([[1e-250], [2e-250]]))[0] == pytest.approx(3e-250, rel=1e-9)
    assert summed(np.array([[1e307], [2e307]]))[0] == pytest.approx(3e307, rel=1e-9)
    assert np.isnan(summed(np.array([[1.0], [np.inf], [2.0]]))).all()
    assert np.isnan(summed(np.array([[np.nan], [1.0]]))).all()


def test_equal_rows_and_no_others_have_equal_hashes():
    rng = np.random.default_rng(0)
    X = rng.integers(-3, 4, (PIECE, 5)) * 0.5
    _, family = np.unique(X, axis=0, return_inverse=True)
    for rows in (X, X.astype(np.float32), np.where(X == 0.0, -0.0, X), np.asfortranarray(X)):
        hashes = hashes_of_rows(rows)
        np.testing.assert_array_equal(hashes, hashes_of_rows(X))
        _, found = np.unique(hashes, return_inverse=True)
        pairs = np.unique(np.stack([family.ravel(), found]), axis=1)
        assert pairs.shape[1] == len(np.unique(family)) == len(np.unique(found))
    turned = hashes_of_rows(X[:, ::-1])
    assert ((turned == hashes_of_rows(X)) == (X[:, ::-1] == X).all(axis=1)).all()
