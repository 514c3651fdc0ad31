"""The metric: gradients by finite differences, and what the matrix of a round keeps."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import fractional_matrix_power

from sparsegp.errors import SettingsError
from sparsegp.kernels import parse
from sparsegp.learning.metric import SHRINKAGE, Metric, average_outer_product, is_per_column
from sparsegp.settings import TrainSettings
from tests.differences import central

P = 4


def spd(seed):
    root = np.random.default_rng(seed).normal(size=(P, P))
    return root @ root.T


@pytest.mark.parametrize("text", ["2*rbf(1.5) + matern32(2)", "matern52(2) * linear", "rbf(2)"])
def test_outer_products_by_finite_differences(text):
    """Of five latent values of two processes, centred."""
    rng = np.random.default_rng(5)
    kernel, X, sizes = parse(text), rng.normal(size=(9, P)), ((6, 3), (4, 2))
    parts = [(kernel, rng.normal(size=(d, P)), rng.normal(size=(d, R))) for d, R in sizes]

    def means(move):
        f = np.concatenate([k(X + move, U) @ weights for k, U, weights in parts], axis=1)
        return f - f.mean(axis=1, keepdims=True)

    slopes = central(means, np.zeros(P))
    expected = np.einsum("inc,jnc->ij", slopes, slopes) / slopes[0].size
    found = average_outer_product(parts, X)
    assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def test_the_matrix_is_the_shrunk_power_and_keeps_the_variance():
    slopes, covariance, mixing = map(spd, range(3))
    found = Metric(power=0.4).next(mixing, slopes, covariance)
    G = mixing @ slopes @ mixing
    shrunk = (1 - SHRINKAGE) * G + SHRINKAGE * np.trace(G) / P * np.eye(P)
    expected = fractional_matrix_power(shrunk, 0.4)
    assert_allclose(found / found[0, 0], expected / expected[0, 0], rtol=1e-9)
    assert np.trace(found @ covariance @ found) == pytest.approx(np.trace(covariance))
    assert_allclose(Metric(power=0).next(mixing, slopes, covariance), np.eye(P), atol=1e-12)
    assert Metric().next(mixing, np.zeros((P, P)), covariance) is mixing


def test_texts():
    assert Metric.of("none") is None
    assert Metric.of("full") == Metric.of("full()") == Metric()
    assert Metric.of("full(3, power=0.5)") == Metric(3, 0.5)
    for text, reason in {
        "": "the text is empty; write for example 'full",
        "diagonal": "unknown metric 'diagonal'; known: none, full",
        "full(rounds=0)": "rounds must be at least 1",
        "full(power='a')": "power must be a number",
    }.items():
        with pytest.raises(SettingsError, match=reason):
            Metric.of(text)


def test_kernels_of_columns_and_searches_are_refused():
    assert is_per_column(parse("rbf(1) + 2 * (linear * ard(1, 2))"))
    assert not is_per_column(parse("rbf(1) + 2 * linear"))
    with pytest.raises(SettingsError, match="metric=full is for kernels of the distance"):
        TrainSettings(kernel="10*laplace", metric="full")
    with pytest.raises(SettingsError, match="chooses the metric too"):
        TrainSettings(kernel="auto", metric="full")
