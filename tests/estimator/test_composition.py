"""Inside the meta-estimators of scikit-learn."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier

from sparsegp import SparseGPClassifier


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_grid_search(iris, n_jobs):
    grid = {"kernel": ["10*rbf", "rbf(1)"], "n_active": np.array([5, 20])}
    search = GridSearchCV(SparseGPClassifier(), grid, cv=2, scoring="neg_log_loss", n_jobs=n_jobs)
    with parallel_config(backend="threading"):
        search.fit(*iris)
    assert search.best_params_["n_active"] == 20
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(search.best_estimator_.active_indices_) == 20


@pytest.mark.parametrize("method", ["sigmoid", "temperature"])
def test_calibration(iris, method):
    if method == "temperature":
        pytest.importorskip("sklearn", minversion="1.8")
    calibrated = CalibratedClassifierCV(SparseGPClassifier(n_active=20), method=method, cv=2)
    proba = calibrated.fit(*iris).predict_proba(iris[0])
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert calibrated.score(*iris) > 0.9


def test_one_against_the_rest(iris, words):
    """A binary likelihood serves more classes, one against the rest."""
    X, X_test = iris[0][:100], iris[0][100:]
    binary = SparseGPClassifier(
        likelihood="probit",
        sites="moments",
        posterior="adf",
        criterion="information",
        kernel="10*rbf",
        n_active=30,
    )
    joint = OneVsRestClassifier(binary).fit(X, words[:100])
    assert joint.score(X_test, words[100:]) > 0.9
    np.testing.assert_allclose(joint.predict_proba(X_test).sum(axis=1), 1.0)
