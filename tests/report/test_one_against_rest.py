"""Probabilities of single classes, combined."""

import numpy as np
import pytest

from sparsegp.errors import DataError
from sparsegp.report.one_against_rest import combine


def test_probabilities_are_normalised() -> None:
    p = np.array([[0.9, 0.3, 0.3], [0.001, 0.0005, 0.0005], [0.0, 0.5, 0.5]])
    with np.errstate(divide="ignore"):
        found = combine(np.log(p))
    np.testing.assert_allclose(np.exp(found), [[0.6, 0.2, 0.2], [0.5, 0.25, 0.25], [0, 0.5, 0.5]])


def test_far_tails_do_not_vanish() -> None:
    """Probabilities that no double can hold are still compared by their logarithms."""
    found = combine([[-1000.0, -1001.0]])
    less = np.log1p(np.exp(-1.0))
    np.testing.assert_allclose(found, [[-less, -1.0 - less]], rtol=1e-12)


@pytest.mark.parametrize(
    ("logs", "message"),
    [
        ([-1.0, -2.0], r"must be \(n, K\).*their shape is \(2,\)"),
        ([[-1.0]], r"their shape is \(1, 1\)"),
        ([[-1.0, -2.0], [-1.0, 0.5]], r"row 1 has \[-1.0, 0.5\]"),
        ([[-1.0, np.nan]], "row 0 has"),
        ([[-np.inf, -np.inf]], "nor be -inf throughout; row 0"),
    ],
)
def test_what_is_no_log_probability_is_refused(logs: list[object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        combine(logs)  # type: ignore[arg-type]
