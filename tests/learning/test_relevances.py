"""Length scales by column: relevant columns are found, whatever their order."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegp.data import Scaling
from sparsegp.fit.trial import Sample, run_trial
from sparsegp.kernels import ARD, RBF, Additive, Laplace, parse
from sparsegp.learning.relevances import averaged, mean_squared_slopes, with_relevances
from sparsegp.learning.search import Outcome, Trial
from sparsegp.settings import TrainSettings
from sparsegp.types import Doubles

N, M, P = 400, 400, 12
RELEVANT = [1, 3, 4]


@pytest.fixture(scope="module")
def sample() -> Sample:
    """Three classes by smooth functions of three of six columns, and rows held out."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N + M, P))
    a, b, c = X[:, RELEVANT].T
    latent = np.stack([np.sin(2.0 * a) + b, c - np.sin(2.0 * a), np.cos(2.0 * c) - b], axis=1)
    target = (latent + 0.1 * rng.normal(size=latent.shape)).argmax(axis=1)
    return Sample(X, target, 3, scalings={"none": Scaling(np.zeros(P), np.ones(P), "none")})


def found_by(sample: Sample, kernel: str, steps: int = 3) -> Outcome:
    return run_trial(TrainSettings(), sample, Trial(0, kernel, "none", 0, N, 120, steps))


def scales_of(text: str) -> Doubles:
    _, kernel = parse(text).parts  # type: ignore[attr-defined]
    return np.array(kernel.length_scales)


@pytest.mark.parametrize("kernel", ["20.0*rbf(2.5)", "20.0*laplace(10.0)"])
def test_relevant_columns_have_short_length_scales(kernel: str, sample: Sample) -> None:
    outcome = found_by(sample, kernel)
    scales = scales_of(outcome.kernel)
    assert scales[RELEVANT].max() < 0.7 * np.delete(scales, RELEVANT).min()
    before = found_by(sample, kernel, 0)
    assert outcome.leads(before, 2.0)
    assert outcome.nlpp is not None
    assert before.nlpp is not None
    assert outcome.nlpp < 0.85 * before.nlpp


def test_permuted_columns_have_permuted_length_scales(sample: Sample) -> None:
    order = np.random.default_rng(2).permutation(P)
    other = replace(sample, X=sample.X[:, order])
    first, permuted = (scales_of(found_by(each, "20*rbf(2.5)").kernel) for each in (sample, other))
    assert_allclose(permuted, first[order], rtol=0.02)


def test_slopes_of_a_linear_function() -> None:
    """Of two classes, centred: half of the difference of their slopes, the same everywhere."""
    rng = np.random.default_rng(1)
    X, U, weights = rng.normal(size=(7, 3)), rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    slopes = U.T @ (weights[:, 0] - weights[:, 1]) / 2.0
    found = mean_squared_slopes(parse("linear"), X, U, weights)
    assert_allclose(found, slopes**2, rtol=1e-12)


def test_length_scales_follow_slopes_and_keep_the_variance_in_their_units() -> None:
    variances = np.array([1.0, 4.0, 9.0])
    for kernel in (RBF(2.0), ARD((2.0, 2.0, 2.0)), Laplace((2.0,)), Additive((2.0,))):
        wide = with_relevances(kernel, np.array([4.0, 1.0, 0.0]), variances)
        scales = np.array(wide.length_scales)  # type: ignore[attr-defined]
        assert scales[0] < scales[1] < scales[2] < np.inf
        assert (variances / scales**2).sum() == pytest.approx(variances.sum() / 4.0, rel=1e-3)
        assert with_relevances(kernel, np.zeros(3), variances)(X := np.eye(3), X) == pytest.approx(
            kernel(X, X)
        )
    tree = with_relevances(parse("2*rbf(2) + linear*matern32(1)"), np.ones(2), np.ones(2))
    assert str(tree) == "2.0*ard(2.0, 2.0) + linear*matern32(1.0)"


def test_the_average_of_kernels_is_geometric() -> None:
    kernels = [parse("2*ard(1, 8) + linear"), parse("2*ard(4, 2) + linear")]
    assert averaged(kernels).parameters() == pytest.approx(
        parse("2*ard(2, 4) + linear").parameters()
    )
    assert averaged([kernels[0], kernels[0]]) == kernels[0]
