"""Kernels of fewer directions than there are active rows, in single and double precision."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import sparsegp
from sparsegp.kernels import parse
from sparsegp.learning.approximate import ApproximateFit, choose_prior_variance


def test_rounding_errors_of_features_are_not_fitted():
    rng = np.random.default_rng(0)
    X = np.exp(1.5 * rng.normal(size=(1400, 12)))
    y = np.digitize(np.log(X) @ rng.normal(size=12) + 2 * rng.normal(size=1400), [-2, 2])
    found = {}
    for precision in ("float32", "float64"):
        settings = {"kernel": "100*rbf(200)", "scaling": "standard", "precision": precision}
        model = sparsegp.train(X[:900], y[:900], n_active=600, **settings)
        found[precision] = sparsegp.evaluate(model, X[900:], y[900:]).nlpp
        assert model.report["rounds"] < 100
        assert model.report["jitter_of_penalty"] < 1e-3
    assert found["float32"] == pytest.approx(found["float64"], abs=0.005)


@pytest.mark.parametrize("kernel", ["10 + 0.3*linear", "300*rbf(300)"])
def test_approximate_fits(kernel):
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    found = []
    for precision in (np.float32, np.float64):
        rows = X.astype(precision)
        fit = ApproximateFit(parse(kernel), rows[:400], y[:400], 2, 300, rows[400:])
        found.append(choose_prior_variance([fit], y[400:]))
    single, double = found
    assert single.nlpp == pytest.approx(double.nlpp, rel=0.2)
