"""Novelty and label sets of fitted models."""

from dataclasses import replace

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import sparsegp
from sparsegp.errors import SettingsError
from sparsegp.model import SparseModel
from tests.runs import KINDS


def rows(n, seed, n_classes=4):
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    return np.random.default_rng(9).standard_normal((n_classes, 3))[y] + rng.normal(size=(n, 3)), y


@pytest.fixture(scope="module")
def model():
    found = sparsegp.train(*rows(2000, 0), n_active=60)
    assert isinstance(found, SparseModel)
    return found


def test_usual_rows_are_as_new_as_validation_rows(model):
    usual = model.novelty(rows(4000, 1)[0])
    for share in (0.5, 0.9, 0.99):
        assert np.mean(usual >= share) == pytest.approx(1.0 - share, abs=0.06)
    assert_array_equal(model.novelty(np.full((5, 3), 30.0)), 1.0)


@pytest.mark.parametrize("n", [60, 250])
def test_without_validation_rows_those_of_training_are_judged_without_themselves(n):
    model = sparsegp.train(*rows(n, 0))
    assert len(model.rows) > 0.9 * n
    X, y = rows(2000, 1)
    assert np.mean(model.novelty(X) >= 0.9) == pytest.approx(0.1, abs=0.1)
    if n == 250:  # sets are by cross-validation, for which 60 rows are too few to be near 0.9
        held = model.predict_set(X, 0.9)[np.arange(2000), y]
        assert held.mean() == pytest.approx(0.9, abs=0.07)


def test_rows_are_no_less_new_where_labels_are_noise():
    """Active rows are compared with those of the class that is predicted, as new rows are."""
    shares = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, new = rng.standard_normal((150, 4)), rng.standard_normal((4000, 4))
        y = np.digitize(np.sin(2.0 * X[:, 0]) + X[:, 1] + 2.0 * rng.normal(size=150), [-1, 0, 1])
        model = sparsegp.train(X, y, kernel="10*rbf", n_active=150)
        shares.append([np.mean(model.novelty(new) >= share) for share in (0.5, 0.9, 0.95)])
    np.testing.assert_allclose(np.mean(shares, axis=0), [0.5, 0.1, 0.05], rtol=0.3)


@pytest.mark.parametrize("coverage", [0.8, 0.95])
def test_sets_hold_the_true_class_as_often_as_asked(model, coverage):
    X, y = rows(4000, 1)
    sets = model.predict_set(X, coverage)
    held = sets[np.arange(len(y)), y]
    assert held.mean() == pytest.approx(coverage, abs=0.05)
    assert sets.dtype == np.bool_
    assert_array_equal(sets[np.arange(len(y)), model.predict_proba(X).argmax(axis=1)], True)
    assert sets.sum() < model.predict_set(X, 0.99).sum()


def test_dask_arrays_change_nothing(model):
    X, _ = rows(600, 2)
    lazy = da.from_array(X, chunks=(256, 3))
    assert_array_equal(model.novelty(lazy).compute(), model.novelty(X))
    assert_array_equal(model.predict_set(lazy, 0.9).compute(), model.predict_set(X, 0.9))


def test_what_is_not_known_is_said(model):
    X, _ = rows(60, 0)
    with pytest.raises(SettingsError, match="older version"):
        replace(model, shares=None).novelty(X)
    with pytest.raises(SettingsError, match="need 999 validation rows, the model had"):
        model.predict_set(X, 0.999)
    for wrong in ("0.9", 1.5, 1.0, 0, None):
        with pytest.raises(SettingsError, match="coverage must be"):
            model.predict_set(X, wrong)


@pytest.mark.parametrize("kind", ["kernel per class", "pairs", "softmax", "ordered", "regression"])
def test_novelty_of_every_kind(kind):
    X, y = rows(150, 0)
    model = sparsegp.train(X, y, **KINDS[kind])
    assert 0.0 <= model.novelty(X).min() < 0.2
    alone = np.mean(model.shares.knots == 1.0)  # rows that are the only ones of their class
    assert_array_equal(model.novelty(np.full((2, 3), 40.0)), 1.0 - alone)
