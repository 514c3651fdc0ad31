"""What every posterior promises: with all rows active, probabilities near those by integration."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sparsegp
from sparsegp.kernels import parse
from sparsegp.likelihoods import Probit, Softmax
from sparsegp.posterior import POSTERIORS
from tests.dense import references

KERNEL, N = "2*rbf(1.3)", 14
NEW = np.random.default_rng(0).normal(size=(20, 2)) * 2.0
CASES = [
    *((name, {"likelihood": "softmax"}) for name in POSTERIORS),
    *((name, {"likelihood": "probit"}) for name in POSTERIORS),
    ("adf", {"likelihood": "probit", "sites": "moments"}),
]
NAMES = ["-".join((name, *how.values())) for name, how in CASES]
cases = pytest.mark.parametrize(("name", "how"), CASES, ids=NAMES)


@cache
def rows(likelihood):
    """Rows, and the probabilities of new ones by integration over all latent values."""
    chosen, n = (Softmax.start(3), 3) if likelihood == "softmax" else (Probit(), 1)
    problem = references.problem(chosen, N, [parse(KERNEL)] * n, max(n, 2))
    return problem, references.integrated(problem, NEW, max(n, 2))[1]


def fit(name, how, x, y, **more):
    given = {"kernel": KERNEL, "scaling": "none", "calibration": "none", "runtime": "threads=1"}
    return sparsegp.train(x, y, posterior=name, n_active=N, **given, **how, **more)


@cases
def test_probabilities_are_near_those_by_integration(name, how):
    problem, expected = rows(how["likelihood"])
    found = fit(name, how, problem.x, problem.target).predict_proba(NEW)
    assert_allclose(found, expected, atol=0.15)
    assert np.abs(found - expected).mean() < 0.05


@cases
def test_the_order_of_rows_and_classes_changes_nothing(name, how):
    problem, _ = rows(how["likelihood"])
    expected = fit(name, how, problem.x, problem.target).predict_proba(NEW)
    order, codes = np.random.default_rng(1).permutation(N), np.roll(np.arange(expected.shape[1]), 1)
    model = fit(name, how, problem.x[order], codes[problem.target[order]])
    close = 0.1 if name == "adf" else 1e-3  # whose sites depend on the order of inclusion
    assert_allclose(model.predict_proba(NEW)[:, codes], expected, atol=close)


@cases
def test_models_come_back_from_their_files(name, how, tmp_path):
    problem, _ = rows(how["likelihood"])
    model = fit(name, how, problem.x, problem.target, out=tmp_path / "run")
    again = sparsegp.load(tmp_path / "run")
    assert_array_equal(again.predict_proba(NEW), model.predict_proba(NEW))
    assert again.report == model.report
