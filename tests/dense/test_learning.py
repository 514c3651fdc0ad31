"""Learning kernels by the evidence of dense methods."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegp.dense import EP, Exact, Laplace, Problem
from sparsegp.dense.learning import maximise
from sparsegp.dense.sampling import kernel_prior
from sparsegp.errors import NumericalError
from sparsegp.learning.hyperpriors import Hyperprior
from sparsegp.likelihoods import Gaussian
from tests.dense import test_contract as contract
from tests.dense.sessions import StoppedError, Watched


def problem(several=False):
    return contract.problem("softmax" if several else "probit", "laplace", 16, each=several)


@pytest.mark.parametrize(
    ("method", "several"), [(Laplace(), False), (Laplace(), True), (EP(schedule="parallel"), False)]
)
def test_most_probable_kernels(method, several):
    some = problem(several)
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


def test_bounds(monkeypatch):
    some = problem()
    monkeypatch.setattr("sparsegp.dense.learning.REACH", 0.1)
    found, _ = maximise(Laplace(), some, Hyperprior())
    assert np.abs(found.parameters() - some.parameters()).max() == pytest.approx(0.1)


def test_records_of_another_search_are_not_used():
    some, watched = problem(), Watched(last=2)
    with pytest.raises(StoppedError):
        maximise(Laplace(), some, Hyperprior(), watched)
    moved = some.with_parameters(some.parameters() + 0.1)
    expected = maximise(Laplace(), moved, Hyperprior())
    found = maximise(Laplace(), moved, Hyperprior(), Watched(watched.states[-1]))
    assert found[1] == expected[1]


def test_evidence_that_is_not_finite():
    some = problem()
    broken = Problem(some.x, np.full(16, np.nan), some.kernels, Gaussian(0.1), 1)
    with pytest.raises(NumericalError, match="log evidence and its gradient must be finite"):
        maximise(Exact(), broken, Hyperprior())
