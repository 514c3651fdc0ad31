"""Class probabilities averaged over Gaussian latent values, against other ways to them."""

import numpy as np
import pytest

from sparsegp.likelihoods import Likelihood, Logistic, MultinomialProbit, Probit, Softmax
from sparsegp.likelihoods.expectation import log_probabilities


@pytest.mark.parametrize(
    ("scale", "error"), [(0.5, 1e-9), (2.0, 1e-4), (3.0, 1e-3), (10.0, 2e-3), (100.0, 5e-3)]
)
@pytest.mark.parametrize("correlated", [False, True])
def test_softmax_of_two_classes(scale: float, error: float, correlated: bool) -> None:
    """Only the difference counts, for which the logistic likelihood has a rule of its own."""
    rng = np.random.default_rng(1)
    mean = scale * rng.normal(size=(40, 2))
    covariance = np.tile(scale**2 * np.array([[1.0, 0.6], [0.6, 0.8]]), (40, 1, 1))
    if not correlated:
        covariance = np.stack([np.diag(each) for each in np.diagonal(covariance, axis1=1, axis2=2)])
    spread = np.einsum("irs,r,s->i", covariance, [1.0, -1.0], [1.0, -1.0])[:, np.newaxis]
    expected = Logistic().log_probabilities(mean[:, 1:] - mean[:, :1], spread)
    given = covariance if correlated else np.diagonal(covariance, axis1=1, axis2=2)
    found = log_probabilities(Softmax(), mean, given, 2)
    np.testing.assert_allclose(np.exp(found), np.exp(expected), atol=error)


@pytest.mark.parametrize("likelihood", [Softmax(), MultinomialProbit()], ids=["softmax", "probit"])
@pytest.mark.parametrize(("n_classes", "scale"), [(3, 1.0), (5, 5.0)])
def test_correlated_values_by_random_points(
    likelihood: Likelihood, n_classes: int, scale: float
) -> None:
    rng = np.random.default_rng(2)
    mean = scale * rng.normal(size=(3, n_classes))
    half = scale * rng.normal(size=(3, n_classes, n_classes)) / np.sqrt(n_classes)
    covariance = half @ half.swapaxes(1, 2)
    found = log_probabilities(likelihood, mean, covariance, n_classes)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1.0, atol=1e-12)
    draws = mean + np.einsum("irs,qis->qir", half, rng.normal(size=(100_000, 3, n_classes)))
    if isinstance(likelihood, MultinomialProbit):
        noisy = draws + rng.normal(size=draws.shape)
        shares = np.eye(n_classes)[noisy.argmax(axis=2)].mean(axis=0)
    else:
        p = np.exp(draws - draws.max(axis=2, keepdims=True))
        shares = (p / p.sum(axis=2, keepdims=True)).mean(axis=0)
    np.testing.assert_allclose(np.exp(found), shares, atol=8e-3)


def test_what_a_row_gets_does_not_depend_on_its_company() -> None:
    rng = np.random.default_rng(3)
    mean, covariance = rng.normal(size=(6, 3)), np.tile(np.eye(3), (6, 1, 1))
    covariance[::2] *= 100.0
    both = log_probabilities(Softmax(), mean, covariance, 3)
    each = [
        log_probabilities(Softmax(), mean[i : i + 1], covariance[i : i + 1], 3) for i in range(6)
    ]
    np.testing.assert_allclose(both, np.concatenate(each), atol=1e-13)


def test_one_latent_value_is_left_to_the_likelihood() -> None:
    mean, variance = np.array([[0.3], [-2.0]]), np.array([[4.0], [0.5]])
    found = log_probabilities(Probit(0.2), mean, variance, 2)
    np.testing.assert_array_equal(found, Probit(0.2).log_probabilities(mean, variance, 2))
