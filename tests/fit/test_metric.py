"""Runs with a metric: what it finds, and what it does not depend on."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sparsegp
from sparsegp.errors import Interrupted, SettingsError
from sparsegp.fit import training
from tests.runs import Stopper

P = 6
HOW = {"kernel": "50*rbf", "n_active": 40, "runtime": "threads=1"}
rng = np.random.default_rng(3)
X = rng.normal(size=(900, P))
Y = (np.sin(2.0 * (X[:, 0] + X[:, 1])) + 0.2 * rng.normal(size=900) > 0).astype(int)


@pytest.mark.slow
def test_the_direction_that_matters_is_found():
    X_new = np.random.default_rng(4).normal(size=(1000, P))
    y_new = (np.sin(2.0 * (X_new[:, 0] + X_new[:, 1])) > 0).astype(int)
    rows = X[:600], Y[:600]
    plain, model = (sparsegp.train(*rows, **HOW, metric=text) for text in ("none", "full"))
    mixing = model.scaling.mixing
    leading = np.linalg.eigh(mixing)[1][:, -1]
    assert_allclose(np.abs(leading[:2]), np.sqrt(0.5), atol=0.05)
    errors = [np.mean(each.predict(X_new) != y_new) for each in (plain, model)]
    assert errors[1] < 0.7 * errors[0]
    assert plain.relevances is None
    assert model.relevances[:2].min() > 1.5 * model.relevances[2:].max()
    assert model.relevances.sum() == pytest.approx(1.0)
    assert model.holds(X[np.unique(model.rows)])


def test_the_metric_does_not_depend_on_the_number_of_active_rows():
    """Gradients of a model with few of them are noise."""
    how = {**HOW, "metric": "full(1)"}
    rows = X[:250], Y[:250]
    one, other = (sparsegp.train(*rows, **{**how, "n_active": d}) for d in (20, 40))
    assert_array_equal(one.scaling.mixing, other.scaling.mixing)


@pytest.mark.slow
def test_rotated_inputs_give_the_same_predictions():
    Q = np.linalg.qr(np.random.default_rng(1).normal(size=(P, P)))[0]
    how = {**HOW, "metric": "full", "scaling": "none", "precision": "float64"}
    one, other = (sparsegp.train(some[:250], Y[:250], **how) for some in (X, X @ Q))
    assert_array_equal(one.rows, other.rows)
    assert_allclose(one.predict_proba(X), other.predict_proba(X @ Q), atol=1e-6)


@pytest.mark.parametrize(
    "more",
    [
        {"task": "regression", "learn": "none", "kernel": "rbf"},
        {"likelihood": "probit", "kernel": "10*rbf"},
        {"kernel": "10*rbf; 20*matern52", "kernel_per_class": True, "posterior": "active"},
    ],
)
def test_other_models_can_have_one(more):
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    model = sparsegp.train(X[:250], y[:250], **{**HOW, "metric": "full(1)", **more})
    assert set(np.argsort(-model.relevances)[:2]) == {0, 1}


def test_a_resumed_run_has_the_matrix_of_its_checkpoint(tmp_path, monkeypatch):
    """On another processor it could have other bits."""
    how = {**HOW, "metric": "full(1)", "out": tmp_path, "checkpoint_every": 16}
    with pytest.raises(Interrupted):
        sparsegp.train(X[:250], Y[:250], **how, progress=Stopper(3))
    monkeypatch.setattr(training, "learn_metric", None)
    mixing = sparsegp.train(X[:250], Y[:250], **how, resume=True).scaling.mixing
    assert mixing is not None
    assert_array_equal(mixing, sparsegp.load(tmp_path).scaling.mixing)


@pytest.mark.slow
def test_a_search_takes_a_metric_where_directions_matter():
    rng = np.random.default_rng(3)
    Q = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    Z, Z_new = rng.normal(size=(600, 8)), rng.normal(size=(1000, 8))
    y, y_new = (z[:, 0] * z[:, 1] > 0 for z in (Z, Z_new))
    how = {"n_active": 150, "runtime": "threads=1"}
    plain = sparsegp.train(Z @ Q, y, kernel="50*rbf + 50*matern52", **how)
    model = sparsegp.train(Z @ Q, y, kernel="auto", **how)
    assert model.settings["metric"] == "full"
    errors = [np.mean(each.predict(Z_new @ Q) != y_new) for each in (plain, model)]
    assert errors[1] < 0.5 * errors[0]


def test_many_columns_are_refused():
    X = np.random.default_rng(1).normal(size=(20, 257))
    with pytest.raises(SettingsError, match="metric=full is for at most 256 columns, found 257"):
        sparsegp.train(X, np.arange(20) % 2, metric="full", kernel="10*rbf")
