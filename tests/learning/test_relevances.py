"""Length scales a column: relevant columns are found, whatever their order, the same each time."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegp.errors import SettingsError
from sparsegp.kernels import ARD, Constant, Kernel, Product, parse
from sparsegp.learning.relevances import Sample, ard_form, refine
from sparsegp.likelihoods.multinomial_probit import MultinomialProbit
from sparsegp.types import Doubles

N, M, P, K = 240, 200, 6, 3
RELEVANT = [1, 3, 4]
START = "20*rbf(3)"


@pytest.fixture(scope="module")
def sample() -> Sample:
    """Three classes by smooth functions of three of six columns, and rows held out."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N + M, P))
    a, b, c = X[:, RELEVANT].T
    latent = np.stack([np.sin(2.0 * a) + b, c - np.sin(2.0 * a), np.cos(2.0 * c) - b], axis=1)
    target = (latent + 0.1 * rng.normal(size=latent.shape)).argmax(axis=1)
    return Sample(X[:N], target[:N], X[N:], target[N:], K)


@pytest.fixture(scope="module")
def refined(sample: Sample) -> str:
    return refine(sample, START, 40, seed=0, max_steps=12)


def parts_of(kernel: Kernel) -> tuple[float, Doubles]:
    assert isinstance(kernel, Product)
    factor, ard = kernel.parts
    assert isinstance(factor, Constant)
    assert isinstance(ard, ARD)
    return factor.value, np.array(ard.length_scales)


def dense_nlpp(sample: Sample, kernel: Kernel) -> float:
    """Held-out nlpp with every training row active, by iteration of GR eq. 4.6."""
    X, likelihood = sample.X, MultinomialProbit()
    smoother = np.linalg.solve(kernel(X, X) + np.eye(N), kernel(X, X))
    mean, zero = np.zeros((N, K)), np.zeros((N, 1))
    for _ in range(300):
        site = mean + likelihood.gradient(mean, zero, sample.target)[1]
        mean = smoother @ site
    held = kernel(sample.X_held, X) @ np.linalg.solve(kernel(X, X) + np.eye(N), site)
    return -float(likelihood.log_z(held, np.zeros((M, 1)), sample.target_held).mean())


def test_relevant_columns_have_short_length_scales(refined: str) -> None:
    variance, scales = parts_of(parse(refined))
    others = np.delete(scales, RELEVANT)
    assert scales[RELEVANT].max() < 0.6 * others.min()
    assert variance != 20.0


def test_held_out_probability_is_better_than_at_the_start(sample: Sample, refined: str) -> None:
    assert dense_nlpp(sample, parse(refined)) < 0.8 * dense_nlpp(sample, parse(START))


def test_permuted_columns_have_permuted_length_scales(sample: Sample, refined: str) -> None:
    order = np.random.default_rng(2).permutation(P)
    other = replace(sample, X=sample.X[:, order], X_held=sample.X_held[:, order])
    text = refine(other, START, 40, seed=0, max_steps=12)
    (variance, scales), permuted = parts_of(parse(refined)), parts_of(parse(text))
    assert_allclose(permuted[0], variance, rtol=0.02)
    assert_allclose(permuted[1], scales[order], rtol=0.02)


@pytest.mark.parametrize(
    ("text", "wide"),
    [
        ("rbf(2)", "1.0*ard(2.0, 2.0, 2.0)"),
        ("3*rbf(2)", "3.0*ard(2.0, 2.0, 2.0)"),
        ("ard(1, 2, 3)", "1.0*ard(1.0, 2.0, 3.0)"),
        ("3*rbf(2) + linear + 0.5", "3.0*ard(2.0, 2.0, 2.0) + linear + 0.5"),
        ("rbf(2) + matern32(1)", "1.0*ard(2.0, 2.0, 2.0) + 1.0*matern32(1.0)"),
    ],
)
def test_every_rbf_is_widened_and_every_term_has_a_factor(text: str, wide: str) -> None:
    assert str(ard_form(parse(text), 3)) == wide


def test_kernels_that_cannot_be_refined_are_refused(sample: Sample) -> None:
    for kernel, message in (
        ("10*matern52(2)", r"must have an rbf or ard .* got '10.0\*matern52\(2"),
        ("ard(1, 2)", "ard has 2 length scales but the inputs have 6"),
    ):
        with pytest.raises(SettingsError, match=message):
            refine(sample, kernel, 10, seed=0, max_steps=5)
