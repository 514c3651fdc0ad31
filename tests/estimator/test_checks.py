"""The checks that scikit-learn makes of every estimator, none of which fails, and its searches."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsegp import DenseGPClassifier, DenseGPRegressor, SparseGPClassifier, SparseGPRegressor


@parametrize_with_checks([SparseGPClassifier(n_active=20, n_jobs=1)])
def test_check(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([SparseGPClassifier()])
def test_check_with_a_search(estimator, check, searching):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        SparseGPClassifier(n_active=20, likelihood="logistic", n_jobs=1),
        SparseGPClassifier(n_active=30, settings={"active_per_class": True}, n_jobs=1),
        DenseGPClassifier(n_jobs=1),
        DenseGPClassifier(method="ep", n_jobs=1),
        DenseGPRegressor(n_jobs=1),
        SparseGPRegressor(n_active=30, major_steps=1, n_jobs=1),
    ]
)
def test_check_of_others(estimator, check):
    check(estimator)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_grid_search(iris, n_jobs):
    grid = {"kernel": ["10*rbf", "rbf(1)"], "n_active": np.array([5, 20])}
    search = GridSearchCV(SparseGPClassifier(), grid, cv=2, scoring="neg_log_loss", n_jobs=n_jobs)
    with parallel_config(backend="threading"):
        search.fit(*(each[:70] for each in iris))
    assert search.best_params_["n_active"] == 20
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(search.best_estimator_.active_indices_) == 20


def test_one_against_the_rest(iris, words):
    X, X_test = iris[0][:100], iris[0][100:]
    how = {"likelihood": "probit", "sites": "moments", "posterior": "adf", "n_active": 30}
    binary = SparseGPClassifier(criterion="information", kernel="10*rbf", **how)
    joint = OneVsRestClassifier(binary).fit(X, words[:100])
    assert joint.score(X_test, words[100:]) > 0.9
    np.testing.assert_allclose(joint.predict_proba(X_test).sum(axis=1), 1.0)
