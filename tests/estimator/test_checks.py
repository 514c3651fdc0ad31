"""The checks that scikit-learn makes of every estimator; none is expected to fail."""

from collections.abc import Callable
from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsegp import SparseGPClassifier


@parametrize_with_checks(
    [
        SparseGPClassifier(),
        SparseGPClassifier(n_active=20, posterior="all", panel=8),
        SparseGPClassifier(
            n_active=60, kernel_per_class=True, posterior="adf", precision="float64", n_jobs=1
        ),
    ]
)
def test_check(estimator: SparseGPClassifier, check: Callable[[Any], None]) -> None:
    check(estimator)
