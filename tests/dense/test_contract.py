"""What every dense method must do, whichever likelihood it is for; kernels learnt by evidence."""

import pickle
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sparsegp.dense import METHODS, Fit, Mixture, Problem, Session, likelihood_for, parse_method
from sparsegp.dense.learning import maximise
from sparsegp.dense.sampling import Schedule, Target, kernel_prior
from sparsegp.errors import NumericalError, SettingsError
from sparsegp.kernels import RBF
from sparsegp.learning.hyperpriors import Hyperprior
from sparsegp.likelihoods import Gaussian, OrderedProbit
from sparsegp.state import to_arrays
from tests.dense import references
from tests.differences import central

QUICK = {
    "gibbs": "gibbs(chains=2, samples=60, burn_in=100, thin=3, particles=50)",
    "online": "online(novelty=1e-9)",
    "softmax_ep": "softmax_ep(n_nodes=11)",
}
"""Texts of methods whose defaults take long, depend on the order of rows, or integrate coarsely."""
OTHERS = [
    ("ep(schedule='parallel', damping=0.8)", "probit"),
    ("gibbs(chains=1, samples=25, burn_in=190, thin=1, metropolis=True)", "multinomial_probit"),
    ("softmax_ep(moments='laplace')", "softmax"),
    ("variational(importance=40, rounds=6, rise=-1.0)", "multinomial_probit"),
    ("variational(importance=24, updates=2, rounds=4, rise=-1.0)", "probit"),
]
"""Methods with options that make other states of them."""

PAIRS = [(name, likelihood) for name in METHODS for likelihood in METHODS[name].likelihoods]


def problem(likelihood, method, n=24, each=False):
    """Rows of two or three classes, or with numbers.

    If `each` is set every latent value has a kernel of its own, and a bias.
    """
    several = likelihood in {"softmax", "multinomial_probit"}
    chosen = likelihood_for(METHODS[method], 3 if several else 2, likelihood)
    kernels = [2.0 * RBF(1.3)]
    if each:
        kernels = [v * RBF(1.0 + 0.1 * v) for v in (2.0, 1.0, 3.0)[: 3 if several else 1]]
        biases = np.array([0.3, -0.2, 0.1])[: len(kernels)]
        chosen = type(chosen)(biases=tuple(biases)) if several else chosen.with_parameters(biases)
    return references.problem(chosen, n, kernels, 3 if several else 2, seed=3)


def fit(method, some, session=None):
    return parse_method(QUICK.get(method, method)).fit(some, session)


def grid():
    axis = np.linspace(-2.5, 2.5, 4)
    return np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)


def predictions(found, some):
    """Return log probabilities of the classes, or the mean of a regression, on a grid."""
    mixture = Mixture(found.components, some.x)
    if some.likelihood.numeric:
        return mixture.latent(grid())[0]
    return mixture.log_probabilities(grid(), max(2, some.n_latent))


@cache
def fitted(method, likelihood):
    """Return a problem, its fit and their predictions."""
    some = problem(likelihood, method, each=likelihood == "softmax")
    found = fit(method, some)
    return some, found, predictions(found, some)


@pytest.mark.parametrize(("method", "likelihood"), PAIRS)
def test_probabilities_and_variances(method, likelihood):
    some, found, log_p = fitted(method, likelihood)
    mixture = Mixture(found.components, some.x)
    mean, variance = mixture.latent(grid())
    assert mean.shape == variance.shape == (16, some.n_latent)
    prior = np.stack([kernel.diag(grid()) for kernel in some.kernels], axis=1)
    assert (variance > 0).all()
    if len(found.components) == 1 and len(found.components[0].coefficients) == 1:
        assert (variance <= prior + 1e-9).all()
    if not some.likelihood.numeric:
        assert_allclose(np.exp(log_p).sum(axis=1), 1.0, atol=1e-12)
        own = mixture.log_probabilities(some.x, log_p.shape[1]).argmax(axis=1)
        assert np.mean(own == some.target) > 0.75


@cache
def integrated(likelihood):
    """Probabilities of the classes on the grid of a few rows, by integration."""
    some = problem(likelihood, next(m for m, each in PAIRS if each == likelihood), n=9)
    return references.integrated(some, grid(), max(2, some.n_latent))[1]


@pytest.mark.parametrize(("method", "likelihood"), [p for p in PAIRS if p[1] != "gaussian"])
def test_probabilities_are_near_those_by_integration(method, likelihood):
    some, expected = problem(likelihood, method, n=9), integrated(likelihood)
    found = np.exp(predictions(fit(method, some), some))
    assert_allclose(found, expected, atol=0.08)
    assert np.abs(found - expected).mean() < 0.02


@pytest.mark.parametrize(
    ("method", "likelihood"),
    [pair for pair in PAIRS if pair[0] != "gibbs"],  # which is by chance
)
def test_order_of_rows_and_classes_changes_nothing(method, likelihood):
    some, first, expected = fitted(method, likelihood)
    order, count = np.random.default_rng(0).permutation(len(some.x)), max(2, some.n_latent)
    codes = np.arange(1) if some.likelihood.numeric else np.roll(np.arange(count), 1)
    target = some.target if some.likelihood.numeric else codes[some.target]
    kernels, chosen = some.kernels, some.likelihood
    if len(kernels) > 1:
        back = np.argsort(codes)
        kernels, biases = [kernels[k] for k in back], chosen.parameters()[back]
        chosen = chosen.with_parameters(biases)
    other = Problem(some.x[order], target[order], kernels, chosen, some.n_latent, some.seed)
    second = fit(method, other)
    assert_allclose(predictions(second, other)[:, codes], expected, atol=2e-3)
    assert first.log_evidence == pytest.approx(second.log_evidence, abs=2e-2, nan_ok=True)


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize(("method", "likelihood"), [*PAIRS, OTHERS[0], ("ep", "ordered_probit")])
def test_gradient_of_the_evidence(method, likelihood, each):
    chosen = parse_method(QUICK.get(method, method))
    if likelihood == "ordered_probit":  # any likelihood will do for EP
        base = problem("probit", method, n=12)
        ordered = OrderedProbit((-0.7, 0.5))
        some = Problem(base.x, np.arange(12) % 3, base.kernels, ordered, 1)
    else:
        some = problem(likelihood, method.partition("(")[0], n=9, each=each)
    if not chosen.has_evidence:
        with pytest.raises(SettingsError, match="has no gradient"):
            chosen.evidence(some)
        return
    some = replace(some, learns_likelihood=some.likelihood.numeric)  # its noise variance
    found, given = chosen.evidence(some), some.parameters()
    assert found.value == pytest.approx(chosen.fit(some).log_evidence, abs=1e-4)

    def value(at):
        return chosen.evidence(some.with_parameters(at), found.near).value

    expected = central(value, given, step=1e-3)
    close = 2e-3 if method == "softmax_ep" else 2e-4
    assert found.gradient == pytest.approx(expected, rel=close, abs=close)


@pytest.mark.parametrize(
    ("method", "limit", "likelihood"),
    [
        ("laplace", "max_steps=3", "probit"),
        ("laplace", "max_steps=3", "softmax"),
        ("ep", "max_sweeps=5", "probit"),
    ],
)
def test_a_start_changes_the_way_not_the_end(method, limit, likelihood):
    base, full, few = problem(likelihood, method, n=30), METHODS[method](), f"{method}({limit})"
    some = base.with_parameters(base.parameters() + 3.0)  # far from the prior
    near = some.with_parameters(some.parameters() + 0.01)
    cold = full.evidence(near)
    warm = parse_method(few).evidence(near, full.evidence(some).near)
    assert warm.value == pytest.approx(cold.value, abs=1e-6)
    assert_allclose(warm.gradient, cold.gradient, atol=1e-5)
    with pytest.raises(NumericalError, match=limit):
        parse_method(few).evidence(near)


class StoppedError(Exception):
    """Raised in a session that ends a fit."""


class Watched(Session):
    """Keeps the states that a checkpoint would hold, and ends after so many of them."""

    def __init__(self, former=None, last=10**9):
        object.__setattr__(self, "states", [])

        def report(status, state):
            assert not 0 < status.total < status.done  # zero is not known
            assert all(np.isfinite(value) for value in status.figures.values())
            if not status.finished:
                saved = {name: array.copy() for name, array in to_arrays(state).items()}
                self.states.append(saved)
                if len(self.states) >= last:
                    raise StoppedError

        super().__init__(former or {}, report, last_first)


def last_first(function, shared, tasks):
    """Run tasks, the last one first, with what has been sent as bytes."""
    found = [function(*pickle.loads(pickle.dumps((shared, task)))) for task in reversed(tasks)]
    return found[::-1]


def assert_same(one, other):
    if isinstance(one, Fit):
        assert one.trace == other.trace
        assert one.report == other.report
        assert_array_equal(one.log_evidence, other.log_evidence)
        for first, second in zip(one.components, other.components, strict=True):
            assert_array_equal(first.coefficients, second.coefficients)
            assert_array_equal(first.precision, second.precision)
            assert first.kernels == second.kernels
    else:
        assert str(one) == str(other)


def check_resumed(run, least):
    """Compare a run in one go with others: in other processes, and stopped and resumed."""
    whole, watched = run(None), Watched()
    assert_same(whole, run(watched))
    count = len(watched.states)
    assert count >= least
    for last in {1 + count // 2, count} if count else set():
        stopped = Watched(last=min(last, count))
        with pytest.raises(StoppedError):
            run(stopped)
        assert_same(whole, run(Watched(stopped.states[-1])))


@pytest.mark.parametrize(("method", "likelihood"), PAIRS + OTHERS)
def test_goes_on_where_it_was_stopped_with_the_same_bits(method, likelihood):
    some = problem(likelihood, method.partition("(")[0], n=12)
    least = 0 if method in {"exact", "variational"} else 1
    check_resumed(lambda session: fit(method, some, session), least)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["exact", "laplace"])
def test_chains_over_kernels_go_on_with_the_same_bits(method):
    some = problem(METHODS[method].likelihoods[0], method, n=8)
    prior = kernel_prior("v: lognormal(0, 1); l: lognormal(0, 0.3)", some)
    plan = Schedule(chains=3, burn_in=12, draws=13, kept=7, leapfrogs=3)
    check_resumed(lambda session: plan.fit(Target(METHODS[method](), some, prior), session), 2)


@pytest.mark.parametrize(
    ("text", "likelihood"),
    [("laplace", "probit"), ("laplace", "softmax"), ("ep(schedule='parallel')", "probit")],
)
def test_most_probable_kernels(text, likelihood):
    method, some = parse_method(text), problem(likelihood, "laplace", 16, likelihood == "softmax")
    hyperprior = kernel_prior("v: lognormal(1, 1); l: gamma(1, 4)", some)
    found, trace = maximise(method, some, hyperprior)

    def criterion(parameters):
        return hyperprior(parameters)[0] - method.evidence(some.with_parameters(parameters)).value

    end = found.parameters()
    least = criterion(end)
    assert least < criterion(some.parameters()) - 0.1
    for unit in np.eye(len(end)):
        assert least <= min(criterion(end + s * 0.02 * unit) for s in (1, -1))
    best = max(trace, key=lambda row: row["log_posterior"])
    assert_allclose(best["parameters"], end, rtol=1e-12)
    assert best["log_posterior"] == pytest.approx(-least, abs=1e-6)
    assert best["log_evidence"] == pytest.approx(method.evidence(found).value, abs=1e-6)


def test_bounds_of_learnt_kernels(monkeypatch):
    some = problem("probit", "laplace", 16)
    monkeypatch.setattr("sparsegp.dense.learning.REACH", 0.1)
    found, _ = maximise(METHODS["laplace"](), some, Hyperprior())
    assert np.abs(found.parameters() - some.parameters()).max() == pytest.approx(0.1)


def test_records_of_another_search_are_not_used():
    some, watched = problem("probit", "laplace", 16), Watched(last=2)
    with pytest.raises(StoppedError):
        maximise(METHODS["laplace"](), some, Hyperprior(), watched)
    moved = some.with_parameters(some.parameters() + 0.1)
    expected = maximise(METHODS["laplace"](), moved, Hyperprior())
    found = maximise(METHODS["laplace"](), moved, Hyperprior(), Watched(watched.states[-1]))
    assert found[1] == expected[1]


def test_evidence_that_is_not_finite():
    some = problem("probit", "laplace", 16)
    broken = Problem(some.x, np.full(16, np.nan), some.kernels, Gaussian(0.1), 1)
    with pytest.raises(NumericalError, match="log evidence and its gradient must be finite"):
        maximise(METHODS["exact"](), broken, Hyperprior())


@pytest.mark.parametrize("method", list(METHODS))
def test_texts(method):
    plain = METHODS[method]()
    assert (parse_method(f" {method} "), str(plain)) == (plain, method)
    with pytest.raises(SettingsError, match=rf"cannot read method '{method}\(1, .* takes at most"):
        parse_method(f"{method}({'1, ' * 12})")
    assert str(parse_method("ep( damping=0.5)")) == "ep(damping=0.5)"
    expected = METHODS["ep"](schedule="parallel", damping=0.5)
    assert parse_method("ep('parallel', damping=0.5)") == expected


OUT_OF_RANGE = """
    ep(schedule='random') ep(damping=2) ep(damping='much') ep(tolerance=0) laplace(max_steps=0)
    laplace(max_steps=1.5) softmax_ep(moments='exact') softmax_ep(n_nodes=2) online(novelty=0.0)
    gibbs(chains=0) gibbs(burn_in=-1) variational(importance=-1)
"""


@pytest.mark.parametrize("text", OUT_OF_RANGE.split())
def test_options_out_of_range(text):
    name = text.partition("(")[2].partition("=")[0]
    with pytest.raises(SettingsError, match=f"{name} must be|unknown {name}"):
        parse_method(text)


@pytest.mark.parametrize(
    ("method", "wanted", "what"),
    [
        ("ep", "", "method"),
        ("ep", "probit", "method"),
        ("laplace", "probit", "likelihood"),
        ("gibbs", "probit", "likelihood"),
    ],
)
def test_advice_for_three_classes_can_be_followed(method, wanted, what):
    message = f"likelihood=probit needs exactly 2 classes, got 3.*; use {what}=.*$"
    with pytest.raises(SettingsError, match=message) as caught:
        likelihood_for(METHODS[method], 3, wanted)
    names = str(caught.value).rpartition("=")[2].split(" or ")
    assert ("variational" in names) == (what == "method")
    for name in names:
        advised = (METHODS[name], 3) if what == "method" else (METHODS[method], 3, name)
        likelihood_for(*advised)
