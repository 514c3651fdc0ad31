"""A temperature divides latent values and whatever is added to them."""

import numpy as np
import pytest
from scipy.special import log_expit, log_ndtr, log_softmax, ndtr

from sparsegp.likelihoods import Logistic, MultinomialProbit, OrderedProbit, Probit, Softmax
from tests.likelihoods.references import BIASES, THRESHOLDS

every_temperature = pytest.mark.parametrize("temperature", [0.6, 3.0])


@every_temperature
@pytest.mark.parametrize("biased", [Probit(1.3), Logistic(-2.0)], ids=str)
def test_two_classes(biased, temperature):
    u = np.linspace(-6.0, 6.0, 25)
    log_p = {"probit": log_ndtr, "logistic": log_expit}[biased.name]
    found = biased.tempered(temperature).log_density(u[:, np.newaxis] / temperature, np.ones(25))
    np.testing.assert_allclose(found, log_p((u + biased.bias) / temperature), atol=1e-12)


@every_temperature
@pytest.mark.parametrize("biased", [MultinomialProbit(20, BIASES), Softmax(3, BIASES)], ids=str)
def test_several_classes(biased, temperature):
    u = np.random.default_rng(0).normal(size=(30, 3))
    target = np.arange(30) % 3
    found = biased.tempered(temperature).log_density(u / temperature, target)
    whole = (u + BIASES) / temperature
    if biased.name == "softmax":
        expected = log_softmax(whole, axis=1)[np.arange(30), target]
    else:
        expected = MultinomialProbit(20).log_density(whole, target)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@every_temperature
def test_ordered_classes(temperature):
    u = np.linspace(-3.0, 3.0, 25)
    edges = np.array([-np.inf, *THRESHOLDS, np.inf])
    for code in range(4):
        found = (
            OrderedProbit(THRESHOLDS)
            .tempered(temperature)
            .log_density(u[:, np.newaxis] / temperature, np.full(25, code))
        )
        high, low = ((edges[code + side] - u) / temperature for side in (1, 0))
        np.testing.assert_allclose(np.exp(found), ndtr(high) - ndtr(low), atol=1e-13)
