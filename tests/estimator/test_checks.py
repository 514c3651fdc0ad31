"""The checks that scikit-learn makes of every estimator; none is expected to fail."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsegp import DenseGPClassifier, DenseGPRegressor, SparseGPClassifier, SparseGPRegressor


@parametrize_with_checks([SparseGPClassifier(n_jobs=1)])
def test_check(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([SparseGPClassifier()])
def test_check_with_a_search(estimator, check, searching):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        SparseGPClassifier(n_active=40, likelihood="logistic", n_jobs=1),
        SparseGPClassifier(n_active=60, settings={"active_per_class": True}, n_jobs=1),
        DenseGPClassifier(n_jobs=1),
        DenseGPClassifier(method="ep", n_jobs=1),
        DenseGPRegressor(n_jobs=1),
        SparseGPRegressor(n_active=50, major_steps=1, n_jobs=1),
    ]
)
def test_check_of_others(estimator, check):
    check(estimator)
