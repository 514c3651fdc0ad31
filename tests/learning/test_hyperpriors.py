"""Hyperpriors against the densities of scipy, and their texts."""

import math

import numpy as np
import pytest
from scipy import stats

from sparsegp.errors import SettingsError
from sparsegp.kernels import ARD, RBF, Linear
from sparsegp.learning.hyperpriors import parse
from sparsegp.learning.objective import parameter_names
from sparsegp.likelihoods.gaussian import Gaussian
from sparsegp.likelihoods.probit import Probit
from tests.differences import central

KERNEL = 10.0 * RBF(2.0) + 0.5 * ARD((1.0, 3.0)) + 0.3 * Linear(0.7)
PROBIT = parameter_names([KERNEL], Probit(0.4))
P = 2


def log_gamma(value, mean, freedom):
    """The density of log z, where z is gamma: that of z, times z."""
    scale = 2.0 * mean / freedom
    return stats.gamma(freedom / 2.0, scale=scale).logpdf(value) + np.log(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0.0),
        ("v: lognormal(-1, 4)", stats.norm(-1, 2).logpdf(np.log([10.0, 0.5, 0.3, 0.7])).sum()),
        ("1/v: lognormal(1, 4)", stats.norm(-1, 2).logpdf(np.log([10.0, 0.5, 0.3, 0.7])).sum()),
        ("l: gamma(3, 5)", log_gamma(np.array([2.0, 1.0, 3.0]), 3.0, 5.0).sum()),
        # w = p / l^2 of rbf, 1 / l_j^2 of ard
        ("w: gamma(1, 1)", log_gamma(np.array([P / 4.0, 1.0, 1.0 / 9.0]), 1.0, 1.0).sum()),
        ("1 / w : gamma( 1,1 )", log_gamma(np.array([4.0 / P, 1.0, 9.0]), 1.0, 1.0).sum()),
        ("noise: gamma(0.1, 3)", log_gamma(0.2, 0.1, 3.0)),
        ("bias: normal(0, 25)", stats.norm(0, 5).logpdf(0.4)),
        (
            "bias:normal(1,2);l:lognormal(0,1);",
            stats.norm(1, math.sqrt(2)).logpdf(0.4)
            + stats.norm(0, 1).logpdf(np.log([2.0, 1.0, 3.0])).sum(),
        ),
    ],
)
def test_values_and_gradients(text, expected):
    likelihood = Gaussian(0.2) if "noise" in text else Probit(0.4)
    start = np.concatenate([KERNEL.parameters(), likelihood.parameters()])
    hyperprior = parse(text, parameter_names([KERNEL], likelihood), P)
    value, gradient = hyperprior(start)
    assert value == pytest.approx(-expected, rel=1e-12)
    by_steps = central(lambda t: hyperprior(t)[0], start)
    np.testing.assert_allclose(gradient, by_steps, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("v lognormal(-1, 1)", r"quantity \(v, l, w, noise, bias\), .* got 'v lognormal\(-1, 1\)'"),
        ("2/w: gamma(1, 1)", "got '2/w: gamma"),
        ("v: lognormal(-1)", "takes two numbers, got 'v: lognormal"),
        ("v: lognormal(-1, 0)", "finite, the second one positive"),
        ("v: lognormal(inf, 1)", "finite, the second one positive"),
        ("w: gamma(-1, 1)", "mean of gamma must be positive, got -1.0"),
        ("w: beta(1, 1)", "unknown density 'beta'; known: gamma, lognormal, normal"),
        ("v: normal(0, 1)", "got normal of v; v is positive, and takes lognormal or gamma"),
        ("bias: gamma(1, 1)", "got gamma of bias; bias is not positive"),
        ("1/bias: normal(1, 1)", "got normal of 1/bias"),
        ("noise: gamma(1, 1)", r"of a parameter that is learnt, got .*, probit.bias; leave it out"),
    ],
)
def test_texts_that_are_refused(text, message):
    with pytest.raises(SettingsError, match=message):
        parse(text, PROBIT, P)
