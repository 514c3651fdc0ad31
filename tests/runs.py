"""Kinds of runs, data for them, when two models are the same, and what memory is used."""

import signal
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.stats import norm

import sparsegp
from sparsegp.data import Table, table_from_arrays
from sparsegp.fit import Training
from sparsegp.model import SparseModel
from sparsegp.progress import Progress
from sparsegp.runtime import open_runtime
from sparsegp.settings import TrainSettings

PLAIN: dict[str, Any] = {"posterior": "adf", "kernel": "10*rbf", "n_active": 24}
BOUND: dict[str, Any] = {"n_active": 32, "stub_entries": 12_800, "shrink_every": 8}
LEARN: dict[str, Any] = {"learn": "evidence", "major_steps": 2, "minor_steps": 2}
PRIOR: dict[str, Any] = {
    "hyperprior": "v: lognormal(-1, 1); bias: normal(0, 25)",
    "n_active": 20,
    **LEARN,
}
LOGISTIC: dict[str, Any] = {"likelihood": "logistic", "n_active": 40, "panel": 8}
REGRESSION: dict[str, Any] = {
    "task": "regression",
    "posterior": "adf",
    "learn": "none",
    "n_active": 24,
    "kernel": "rbf",
}
PAIRS: dict[str, Any] = {"active_per_class": True, "n_active": 24}
EACH: dict[str, Any] = {"kernel_per_class": True, "kernel": "1*rbf; 2*rbf; 3*rbf"}
PER_CLASS: dict[str, Any] = {"sites": "moments", "kernel_per_class": True, "n_active": 25}

KINDS: dict[str, dict[str, Any]] = {
    "one by one": {**PLAIN, "lookahead": 1},
    "random": {**PLAIN, "criterion": "random"},
    "kernel per class": {**PLAIN, "kernel_per_class": True, "lookahead": 8},
    "active": {**PLAIN, "posterior": "active"},
    "all": {"n_active": 24, "panel": 8},
    "all, per class": {"n_active": 24, "kernel_per_class": True, "kernel": "10*rbf", "panel": 16},
    "weights": {"n_active": 24, "panel": 16, "class_weight": "0=2,1=1,2=0.5"},
    "metric": {"n_active": 24, "kernel": "50*matern52", "metric": "full(rounds=1)"},
    "quantile": {"n_active": 24, "kernel": "100*laplace", "scaling": "quantile"},
    "probit": {"likelihood": "probit", "n_active": 24},
    "logistic": {**LOGISTIC, "criterion": "predictive"},
    "ordered": {"likelihood": "ordered_probit", "n_active": 24},
    "regression": REGRESSION,
    "regression, all": {**REGRESSION, "posterior": "all", "likelihood": "gaussian", "panel": 8},
    "pairs": PAIRS,
    "softmax": {"likelihood": "softmax", **PAIRS},
    "sites per class": PER_CLASS,
    "bound": {**PLAIN, **BOUND},
    "bound, active": {**PLAIN, **BOUND, "posterior": "active", "panel": 8},
    "bound, calibrated": {**BOUND, **LOGISTIC, "criterion": "entropy", "stub_entries": 16_000},
    "bound, per class": {**PER_CLASS, **BOUND, "stub_entries": 38_400, "panel": 8},
    "bound, pairs": {**PAIRS, **BOUND, "kernel": "10*rbf", "calibration": "none"},
    "bound, regression": {**REGRESSION, **BOUND, "criterion": "random"},
    "learnt, probit": {"likelihood": "probit", **PRIOR, "n_active": 24},
    "learnt, regression": {**REGRESSION, "kernel": "1*ard", **LEARN, "strategy": "exact"},
    "learnt, pairs": {**PAIRS, **PRIOR},
    "learnt, per class": {**PER_CLASS, "kernel": "3*rbf; 2*matern52; 1*ard", **PRIOR},
    "learnt, bound": {"likelihood": "probit", **BOUND, **LEARN},
    "laplace": {"method": "laplace", "learn": "evidence", "steps": 4},
    "ep": {"method": "ep", "learn": "evidence", "steps": 4},
    "exact": {"method": "exact", "task": "regression", "learn": "evidence", "steps": 4},
    "softmax_ep": {"method": "softmax_ep(moments='laplace')", **EACH},
    "online": {"method": "online", **EACH},
    "variational": {"method": "variational(importance=16, rounds=5, rise=-1.0)", **EACH},
    "gibbs": {"method": "gibbs(chains=2, samples=10, thin=30, burn_in=210, particles=0)"},
}
LONG = {"random", "all, per class", "sites per class", "softmax", "softmax_ep", "variational"}
LONG |= {"bound, active", "bound, calibrated", "bound, pairs", "bound, per class"}
LONG |= {"bound, regression", "learnt, probit", "learnt, pairs", "learnt, per class"}
LONG |= {"learnt, bound", "learnt, regression", "kernel per class", "ordered", "quantile"}
LONG |= {"gibbs", "online", "ep", "ep, parallel", "logistic", "active"}
"""Kinds that take seconds and have much in common with others, or are of one file alone."""
BINARY = {"ep", "probit", "logistic", "bound, calibrated", "learnt, probit", "learnt, bound"}


def params(kinds: Iterable[str]) -> list[Any]:
    """Parameters of tests of these kinds of runs, those of `LONG` among the long tests."""
    return [pytest.param(kind, marks=pytest.mark.slow if kind in LONG else ()) for kind in kinds]


def data_for(kind: str, n: int = 800) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of three noisy stripes, sorted by class; their numbers, or whether they are in one."""
    n = 30 if "method" in KINDS[kind] else n
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n + 100, 4))
    y: Any = np.digitize(X[:, 0] + 0.1 * rng.normal(size=len(X)), [-0.5, 0.5])
    if KINDS[kind].get("task") == "regression":
        y = 20.0 + 5.0 * np.sin(2.0 * X[:, 0]) + 0.5 * rng.normal(size=len(X))
    elif kind in BINARY:
        y = np.array(["other", "middle"])[(y == 1).astype(int)]
    order = np.argsort(y[:n], kind="stable")
    return X[:n][order], y[:n][order], X[n:]


def train(kind: str, X: Any, y: np.ndarray, **how: Any) -> sparsegp.Model:
    settings = {} if "method" in KINDS[kind] else {"report_every": 10}
    return sparsegp.train(X, y, **{**KINDS[kind], **settings, **how})


@contextmanager
def selected(rows: Any, settings: TrainSettings, **how: Any) -> Iterator[Training]:
    """Yield a run on a table, or arrays X and y, whose active rows are chosen."""
    table = rows if isinstance(rows, Table) else table_from_arrays(*rows)
    with (
        open_runtime("threads=2") as runtime,
        Training(table, settings, runtime=runtime, **how) as run,
    ):
        run.build()
        run.select()
        yield run


def assert_same(model: sparsegp.Model, expected: sparsegp.Model, X: np.ndarray) -> None:
    """Compare rows, kernels and all predictions, to the bit."""
    assert_array_equal(model.rows, expected.rows)
    assert list(map(str, model.kernels)) == list(map(str, expected.kernels))
    latent = (each.latent_mean_and_variance(X) for each in (model, expected))
    assert_array_equal(*latent)
    assert_array_equal(model.predict(X), expected.predict(X))
    if not model.is_regression:
        assert_array_equal(model.predict_log_proba(X), expected.predict_log_proba(X))
    if isinstance(model, SparseModel):
        assert_array_equal(model.novelty(X), expected.novelty(X))
        assert (model.scores is None) == (expected.scores is None)
        if model.scores is not None:
            assert_array_equal(model.scores.knots, expected.scores.knots)


def nlpp(model: sparsegp.Model, X: np.ndarray, y: np.ndarray) -> float:
    """Return the mean negative log probability, or log density, of the labels."""
    if model.is_regression:
        mean, variance = model.predictive_mean_and_variance(X)
        return float(-norm(mean, np.sqrt(variance)).logpdf(y).mean())
    codes = np.searchsorted(model.classes, y)
    return float(-model.predict_log_proba(X)[np.arange(len(codes)), codes].mean())


class Stopper(Progress):
    """Asks the run to stop, as a queueing system does, at a report; of a stage if it is named.

    Or does something else, once.
    """

    def __init__(
        self, reports: int, stage: str | None = None, do: Callable[[], Any] | None = None
    ) -> None:
        self.reports, self.stage, self.counts = reports, stage, stage is None
        self.do = do or partial(signal.raise_signal, signal.SIGTERM)

    def start(self, total: int, unit: str, description: str) -> None:
        self.counts = self.stage in (None, description)

    def update(self, done: int, **figures: float | str) -> None:
        self.reports -= self.counts
        if self.counts and self.reports == 0:
            self.do()


@contextmanager
def peak_memory() -> Iterator[Callable[[], int]]:
    """Yield a function that returns the most bytes that Python and numpy have held since."""
    was_on = tracemalloc.is_tracing()
    if not was_on:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        yield lambda: tracemalloc.get_traced_memory()[1] - before
    finally:
        if not was_on:
            tracemalloc.stop()
