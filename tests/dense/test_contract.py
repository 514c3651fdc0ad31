"""What every dense method must do, whichever likelihood it is for."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from sparsegp.dense import METHODS, Alone, Fit, Mixture, Problem, likelihood_for, parse_method
from sparsegp.errors import SettingsError
from sparsegp.kernels import RBF, Kernel
from sparsegp.likelihoods import LIKELIHOODS
from sparsegp.types import Doubles

QUICK = {
    "gibbs": "gibbs(chains=2, samples=60, burn_in=20, thin=3)",
    "online": "online(novelty=1e-9)",
    "softmax_ep": "softmax_ep(n_nodes=11)",
}
"""Texts of methods whose defaults take long, depend on the order of rows, or integrate coarsely."""
SAMPLED = {"gibbs"}
"""Methods whose answers differ by chance when rows or classes are in another order."""

PAIRS = [(name, likelihood) for name in METHODS for likelihood in METHODS[name].likelihoods]


def problem(likelihood: str, method: str, n: int = 24) -> Problem:
    """Return rows in clusters, of two or three classes; or a smooth function with noise."""
    rng = np.random.default_rng(3)
    family = LIKELIHOODS[likelihood]
    several = likelihood in {"softmax", "multinomial_probit"}
    codes = np.arange(n) % (3 if several else 2)
    x = rng.normal(size=(n, 2)) + 1.2 * np.array([[0.0, 1.0], [1.5, -1.0], [-1.5, -1.0]])[codes]
    target: Any = np.sin(x[:, 0]) + 0.1 * rng.normal(size=n) if family.numeric else codes
    chosen = likelihood_for(METHODS[method], 3 if several else 2, likelihood)
    kernel: Kernel = 2.0 * RBF(1.3)
    return Problem(x, target, [kernel], chosen, 3 if several else 1, seed=5)


def fit(method: str, some: Problem, watch: Any = None) -> Fit:
    return parse_method(QUICK.get(method, method)).fit(some, watch or Alone())


def grid() -> Doubles:
    axis = np.linspace(-2.5, 2.5, 6)
    return np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)


def predictions(found: Fit, some: Problem) -> Doubles:
    """Return log probabilities of the classes, or the mean of a regression, on a grid."""
    mixture = Mixture(found.components, some.x)
    if some.likelihood.numeric:
        return mixture.latent(grid())[0]
    return mixture.log_probabilities(grid(), some.n_latent if some.n_latent > 1 else 2)


@pytest.mark.parametrize(("method", "likelihood"), PAIRS)
def test_probabilities_and_variances(method: str, likelihood: str) -> None:
    some = problem(likelihood, method)
    found = fit(method, some)
    mixture = Mixture(found.components, some.x)
    mean, variance = mixture.latent(grid())
    assert mean.shape == (36, some.n_latent)
    assert variance.shape == mean.shape
    prior = some.kernels[0].diag(grid())[:, np.newaxis]
    assert (variance > 0).all()
    if len(found.components) == 1 and len(found.components[0].coefficients) == 1:
        assert (variance <= prior + 1e-9).all()
    if not some.likelihood.numeric:
        log_p = predictions(found, some)
        assert_allclose(np.exp(log_p).sum(axis=1), 1.0, atol=1e-12)
        own = mixture.log_probabilities(some.x, log_p.shape[1]).argmax(axis=1)
        assert np.mean(own == some.target) > 0.75


@pytest.mark.parametrize(("method", "likelihood"), PAIRS)
def test_order_of_rows_changes_nothing(method: str, likelihood: str) -> None:
    if method in SAMPLED:
        pytest.skip("sampled")
    some = problem(likelihood, method)
    order = np.random.default_rng(0).permutation(len(some.x))
    other = Problem(
        some.x[order], some.target[order], some.kernels, some.likelihood, some.n_latent, some.seed
    )
    first, second = fit(method, some), fit(method, other)
    assert_allclose(predictions(first, some), predictions(second, other), atol=2e-3)
    assert first.log_evidence == pytest.approx(second.log_evidence, abs=2e-2, nan_ok=True)


@pytest.mark.parametrize(("method", "likelihood"), PAIRS)
def test_order_of_classes_changes_nothing(method: str, likelihood: str) -> None:
    if method in SAMPLED or LIKELIHOODS[likelihood].numeric:
        pytest.skip("sampled, or no classes")
    some = problem(likelihood, method)
    count = max(2, some.n_latent)
    codes = np.roll(np.arange(count), 1)
    other = Problem(
        some.x, codes[some.target], some.kernels, some.likelihood, some.n_latent, some.seed
    )
    first = predictions(fit(method, some), some)
    second = predictions(fit(method, other), other)
    assert_allclose(first, second[:, codes], atol=2e-3)


@pytest.mark.parametrize(("method", "likelihood"), PAIRS)
def test_gradient_of_the_evidence(method: str, likelihood: str) -> None:
    chosen = parse_method(QUICK.get(method, method))
    some = problem(likelihood, method, n=15)
    if not chosen.has_evidence:
        with pytest.raises(SettingsError, match="has no gradient"):
            chosen.evidence(some)
        return
    found = chosen.evidence(some)
    here = some.parameters()
    assert found.value == pytest.approx(chosen.fit(some, Alone()).log_evidence, abs=1e-4)
    for index, unit in enumerate(np.eye(len(here))):
        up, down = (
            chosen.evidence(some.with_parameters(here + step * unit), found.start).value
            for step in (1e-4, -1e-4)
        )
        assert found.gradient[index] == pytest.approx((up - down) / 2e-4, rel=2e-3, abs=2e-3)


class StoppedError(Exception):
    """Raised by a watch that ends a fit."""


class Watched(Alone):
    """A watch that remembers states, and ends the fit at a step."""

    def __init__(self, former: Mapping[str, NDArray[Any]] = {}, last: int = 10**9) -> None:
        self.former, self.last = former, last
        self.states: list[dict[str, NDArray[Any]]] = []

    def say(
        self, done: int, total: int, state: Callable[[], dict[str, NDArray[Any]]], **figures: float
    ) -> None:
        """Keep a copy, as a checkpoint would."""
        assert all(np.isfinite(value) for value in figures.values())
        self.states.append({name: np.array(array) for name, array in state().items()})
        if len(self.states) > self.last:
            raise StoppedError


@pytest.mark.parametrize(("method", "likelihood"), PAIRS)
def test_goes_on_where_it_was_stopped_with_the_same_bits(method: str, likelihood: str) -> None:
    some = problem(likelihood, method)
    watch = Watched()
    whole = fit(method, some, watch)
    for last in {len(watch.states) // 3, len(watch.states) // 2} - {len(watch.states)}:
        stopped = Watched(last=last)
        if not watch.states:
            break  # a method so quick that it says nothing
        with pytest.raises(StoppedError):
            fit(method, some, stopped)
        again = fit(method, some, Watched(stopped.states[-1]))
        for one, other in zip(whole.components, again.components, strict=True):
            assert_array_equal(one.coefficients, other.coefficients)
            assert_array_equal(one.precision, other.precision)
        assert_array_equal(whole.log_evidence, again.log_evidence)


@pytest.mark.parametrize("method", list(METHODS))
def test_texts(method: str) -> None:
    plain = METHODS[method]()
    assert parse_method(str(plain)) == plain
    assert str(plain) == method
    with pytest.raises(SettingsError, match="has no option nothing"):
        parse_method(f"{method}(nothing=1)")
    with pytest.raises(SettingsError, match="cannot read method"):
        parse_method(f"{method}(1)")


@pytest.mark.parametrize(
    ("method", "wanted", "advice"),
    [
        ("ep", "", "method=gibbs or laplace or online or softmax_ep or variational"),
        ("ep", "probit", "method=gibbs or laplace or online or softmax_ep or variational"),
        ("laplace", "probit", "likelihood=softmax or multinomial_probit"),
        ("gibbs", "probit", "likelihood=multinomial_probit"),
    ],
)
def test_advice_for_three_classes_can_be_followed(method: str, wanted: str, advice: str) -> None:
    with pytest.raises(SettingsError) as caught:
        likelihood_for(METHODS[method], 3, wanted)
    message = str(caught.value)
    assert "likelihood=probit needs exactly 2 classes, got 3" in message
    assert message.endswith(f"; use {advice}")
    what, _, names = advice.partition("=")
    for name in names.split(" or "):
        if what == "method":
            likelihood_for(METHODS[name], 3)
        else:
            likelihood_for(METHODS[method], 3, name)
