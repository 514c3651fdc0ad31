"""Length scales a column: relevant columns are found, whatever their order, the same each time."""

import logging
import re
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegp.errors import DataError, NumericalError, SettingsError
from sparsegp.kernels import ARD, Constant, Kernel, Product, parse
from sparsegp.likelihoods.multinomial_probit import MultinomialProbit
from sparsegp.posterior.sensitivity import CrossFit, HeldOut
from sparsegp.tuning.ard import FOLDS, Best, ard_form, climb, refine_ard, rounded
from sparsegp.types import Doubles, Integers

N, M, P, K = 600, 400, 10, 3
RELEVANT = [1, 4, 8]
START = "20*rbf(3)"
Sample = tuple[Doubles, Integers, Doubles, Integers]


@pytest.fixture(scope="module")
def sample() -> Sample:
    """Three classes by smooth functions of three of ten columns, and rows held out."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N + M, P))
    a, b, c = X[:, RELEVANT].T
    latent = np.stack([np.sin(2.0 * a) + b, c - np.sin(2.0 * a), np.cos(2.0 * c) - b], axis=1)
    target = (latent + 0.1 * rng.normal(size=latent.shape)).argmax(axis=1)
    return X[:N], target[:N], X[N:], target[N:]


@pytest.fixture(scope="module")
def refined(sample: Sample) -> tuple[str, float]:
    return refine_ard(*sample, START, K, 100, seed=0, max_steps=24)


def parts_of(kernel: Kernel) -> tuple[float, Doubles]:
    assert isinstance(kernel, Product)
    factor, ard = kernel.parts
    assert isinstance(factor, Constant)
    assert isinstance(ard, ARD)
    return factor.value, np.array(ard.length_scales)


def dense_nlpp(sample: Sample, kernel: Kernel) -> float:
    """Held-out nlpp with every training row active, by iteration of GR eq. 4.6."""
    X, target, X_held, target_held = sample
    likelihood = MultinomialProbit()
    smoother = np.linalg.solve(kernel(X, X) + np.eye(N), kernel(X, X))
    mean, zero = np.zeros((N, K)), np.zeros((N, 1))
    for _ in range(300):
        site = mean + likelihood.gradient(mean, zero, target)[1]
        mean = smoother @ site
    held = kernel(X_held, X) @ np.linalg.solve(kernel(X, X) + np.eye(N), site)
    return -float(likelihood.log_z(held, np.zeros((M, 1)), target_held).mean())


def test_relevant_columns_have_short_length_scales(refined: tuple[str, float]) -> None:
    variance, scales = parts_of(parse(refined[0]))
    others = np.delete(scales, RELEVANT)
    assert scales[RELEVANT].max() < 0.6 * others.min()
    assert variance != 20.0


def test_held_out_probability_is_better_than_at_the_start(
    sample: Sample, refined: tuple[str, float]
) -> None:
    before = refine_ard(*sample, START, K, 100, seed=0, max_steps=1)[1]
    assert refined[1] < 0.7 * before
    assert dense_nlpp(sample, parse(refined[0])) < 0.7 * dense_nlpp(sample, parse(START))


def test_the_same_each_time(sample: Sample) -> None:
    X, target, X_held, target_held = sample
    first, second = (
        refine_ard(X[:200], target[:200], X_held, target_held, START, K, 30, 4, 6) for _ in "ab"
    )
    assert first == second
    other = refine_ard(X[:200], target[:200], X_held, target_held, START, K, 30, 5, 6)
    assert other[0] != first[0]  # other folds


def test_permuted_columns_have_permuted_length_scales(
    sample: Sample, refined: tuple[str, float]
) -> None:
    X, target, X_held, target_held = sample
    order = np.random.default_rng(2).permutation(P)
    text, nlpp = refine_ard(
        X[:, order], target, X_held[:, order], target_held, START, K, 100, seed=0, max_steps=24
    )
    (variance, scales), permuted = parts_of(parse(refined[0])), parts_of(parse(text))
    assert_allclose(permuted[0], variance, rtol=0.02)
    assert_allclose(permuted[1], scales[order], rtol=0.02)
    assert_allclose(nlpp, refined[1], rtol=0.01)


class Breaking(CrossFit):
    """Breaks down wherever the climb goes."""

    def judge(self, kernel: Kernel, temperature: float, start: Sequence[Doubles]) -> HeldOut:
        raise NumericalError("not positive definite")


def test_a_breakdown_on_the_way_keeps_what_was_reached(
    sample: Sample, caplog: pytest.LogCaptureFixture
) -> None:
    X, target, X_held, target_held = sample
    start = ard_form(parse(START), P)
    best = Best(X_held, target_held, start)
    fit = Breaking(X, target, K, np.arange(N) % 2, X[:20], best.likelihood)
    with caplog.at_level(logging.WARNING, "sparsegp"):
        climb(fit, start, best, 5)
    assert best.kernel == start
    assert best.nlpp < np.log(K)
    assert "length scales: stopped early at 20.0*ard(3.0" in caplog.text


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


def test_numbers_are_rounded_and_names_are_not() -> None:
    kernel = parse("123456*ard(1.23456, 0.000012345) + 2.00004*matern52(1e-7)")
    assert str(rounded(kernel)) == "123500.0*ard(1.235, 1.234e-05) + 2.0*matern52(1e-07)"


def test_length_scales_left_out_are_filled(sample: Sample) -> None:
    X, target, X_held, target_held = sample
    text, nlpp = refine_ard(X[:80], target[:80], X_held, target_held, "10*rbf", K, 10, 0, 1)
    assert re.fullmatch(r"[\d.]+\*ard\([\d., ]+\)", text)
    assert 0.0 < nlpp < 2.0


def test_what_does_not_fit_is_refused(sample: Sample) -> None:
    X, target, X_held, target_held = sample
    with pytest.raises(SettingsError, match=r"must have an rbf or ard .* got '10.0\*matern52\(2"):
        refine_ard(*sample, "10*matern52(2)", K, 10, 0, 5)
    with pytest.raises(SettingsError, match="n_active must be from 1 to the 600 rows, got 601"):
        refine_ard(*sample, START, K, N + 1, 0, 5)
    with pytest.raises(SettingsError, match="max_steps must be at least 1, got 0"):
        refine_ard(*sample, START, K, 10, 0, 0)
    with pytest.raises(SettingsError, match="ard has 2 length scales but the inputs have 10"):
        refine_ard(*sample, "ard(1, 2)", K, 10, 0, 5)
    with pytest.raises(DataError, match="class codes must be from 0 to 1, got 0 to 2"):
        refine_ard(*sample, START, 2, 10, 0, 5)
    with pytest.raises(DataError, match=r"class code a row, got \(400, 10\) and \(600,\)"):
        refine_ard(X, target, X_held, target, START, K, 10, 0, 5)
    with pytest.raises(DataError, match=rf"learnt from at least {FOLDS} rows, got 1"):
        refine_ard(X[:1], target[:1], X_held, target_held, START, K, 1, 0, 5)
