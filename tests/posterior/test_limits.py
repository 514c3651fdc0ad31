"""What novelty and label sets are made of."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sparsegp.errors import DataError
from sparsegp.kernels import parse
from sparsegp.likelihoods.multinomial_probit import MultinomialProbit
from sparsegp.math.quantiles import Quantiles
from sparsegp.posterior import ActiveRows
from sparsegp.posterior.limits import conformal_scores, prediction_sets, prior_shares, spans_of


@pytest.mark.parametrize("n", [1, 7, 500, 501, 3999])
def test_quantiles(n):
    values = np.random.default_rng(n).random(n)
    found, ranked = Quantiles.of(values), np.sort(values)
    assert len(found.knots) <= 500
    for rank in {1, n // 3 + 1, n}:
        assert ranked[rank - 1] <= found.at(rank) <= ranked[min(rank - 1 + n // 500 + 1, n) - 1]
    assert found.at(n) == ranked[-1]
    assert_array_equal(found.below(np.array([-1.0, ranked[0], 2.0])), [0.0, 0.0, 1.0])
    assert found.below(np.array([0.5]))[0] == pytest.approx(np.mean(values < 0.5), abs=0.004)
    with pytest.raises(DataError, match="rising"):  # as of a damaged file
        Quantiles(np.array([1.0, 0.0]), 2)


def test_whole_weights_are_repetition():
    rng = np.random.default_rng(3)
    values, weights = rng.random(900), rng.integers(3, size=900).astype(float)
    found, repeated = Quantiles.of(values, weights), np.repeat(values, weights.astype(int))
    assert 500 < found.n < len(repeated)
    expected = np.quantile(repeated, np.arange(1, 501) / 500, method="inverted_cdf")
    assert_array_equal(found.knots, expected)


def test_left_out_shares_are_those_of_the_other_rows():
    rng = np.random.default_rng(0)
    x, target = rng.normal(size=(12, 2)), np.arange(12) % 3
    kernels, precision = [parse("4*rbf(1)")], rng.random((12, 1)) + 0.5

    def active(rows):
        likelihood, site = MultinomialProbit(12), np.zeros((len(rows), 3))
        return ActiveRows(kernels, likelihood, x[rows], target[rows], site, precision[rows])

    spans = spans_of(active(np.arange(12)), 3)
    for code, span in enumerate(spans):
        for place, share in zip(span.places, span.left_out_shares(), strict=True):
            others = spans_of(active(np.delete(np.arange(12), place)), 3)
            expected = prior_shares(others, x[[place]], np.array([code]))
            assert_allclose(share, expected[0], rtol=1e-9)


def test_label_sets():
    p = np.array([[0.6, 0.3, 0.1], [0.4, 0.4, 0.2], [0.0, 0.1, 0.9]])
    scores = conformal_scores(np.log(p + 1e-300), np.array([0, 1, 1]), 1.0)
    assert_allclose(scores.knots, [0.0, 0.0, 0.9])
    assert_array_equal(prediction_sets(p, scores, 0.5), [[1, 0, 0], [1, 1, 0], [0, 0, 1]])
    assert_array_equal(prediction_sets(p, scores, 0.75), [[1, 1, 1], [1, 1, 1], [0, 1, 1]])
