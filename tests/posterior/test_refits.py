"""Criteria that follow the all-data posterior: when it is fitted, and how rows are scored."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

from sparsegp.ivm.criteria import CRITERIA
from sparsegp.posterior import refits
from sparsegp.posterior.refits import keep_up
from sparsegp.types import Doubles
from tests.ivm.problems import LocalBlocks, Problem, gather

N, PANEL = 600, 8
KERNELS = {"shared": ["8*rbf(1.2)"], "per class": ["8*rbf(1.2)", "4*matern32(1)", "6*rbf(2)"]}
kinds = pytest.mark.parametrize("texts", KERNELS.values(), ids=KERNELS)


@dataclass
class Rows(LocalBlocks):
    """Blocks in a list, which are runtime and training rows at once."""

    messages: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    total = N
    weights = None
    validation_weights = 1.0
    past = None
    precision = np.dtype(np.float64)

    def map_blocks(self, method: str, *args: Any) -> list[Any]:
        self.messages.append((method, args))
        return super().map_blocks(method, *args)

    def sum_blocks(self, method: str, *args: Any) -> Any:
        return sum(self.map_blocks(method, *args))


class Run:
    """A selection among three overlapping clusters, in panels, that is fitted as it goes."""

    def __init__(self, texts: list[str], criterion: str = "residual", **options: Any) -> None:
        rng = np.random.default_rng(0)
        target = rng.integers(3, size=N)
        centers = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])
        X = centers[target] + 0.8 * rng.normal(size=(N, 2))
        options = {"panel": PANEL, "n_blocks": 2, "runtime": Rows, "target": target, **options}
        chosen = CRITERIA[criterion]()
        self.problem = Problem(X, texts=texts, n_active=80, criterion=chosen, **options)
        self.selection = self.problem.begin()
        self.rows, self.active = self.selection.blocks, self.selection.active
        self.coefficients: Doubles | None = None

    def select(self, stop: int) -> "Run":
        while len(self.active) < stop:
            self.keep_up()
            self.selection.round(stop)
        return self

    def keep_up(self) -> None:
        self.coefficients = keep_up(self.selection, self.rows, self.coefficients)

    def scores(self, rows: Rows | None = None) -> dict[int, float]:
        answers = (rows or self.rows).map_blocks("advance", None, len(self.active), N)
        return {row: s for i, scores in answers for row, s in zip(i.tolist(), scores, strict=True)}


def test_fits_come_whenever_the_active_set_has_grown_by_the_factor() -> None:
    run = Run(KERNELS["shared"]).select(80)
    sizes = [args[0].shape for method, args in run.rows.messages if method == "rescore"]
    assert sizes == [(1, size, 3) for size in (8, 16, 32, 64)]
    assert run.coefficients is not None
    assert run.coefficients.shape == (1, 64, 3)


def test_other_criteria_ask_for_no_fit() -> None:
    run = Run(KERNELS["shared"], "predictive").select(40)
    assert {method for method, _ in run.rows.messages} == {"advance", "gather"}
    assert run.coefficients is None


@kinds
def test_rows_are_scored_at_the_maximum_of_the_objective(
    texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many rounds, the scores are those of scipy's maximum in the span of the active rows."""
    monkeypatch.setattr(refits, "ROUNDS", 60)
    run = Run(texts).select(8)
    run.keep_up()
    X, y, likelihood = run.problem.X, run.problem.target, run.problem.rule.likelihood
    x = run.active.x
    features, penalties = [], []
    for kernel in run.problem.kernels:  # whitened: f = G a with a standard normal prior
        values, vectors = np.linalg.eigh(kernel(x, x))
        features.append(kernel(X, x) @ (vectors / np.sqrt(values)))
        penalties.append(len(values))
    width = 3 // len(features)

    def means(flat: np.ndarray) -> np.ndarray:
        parts = flat.reshape(len(features), -1, width)
        return np.hstack([g @ a for g, a in zip(features, parts, strict=True)])

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        log_z, p = likelihood.gradient(means(flat), np.zeros((N, 1)), y)
        pulls = [g.T @ p[:, k * width : (k + 1) * width] for k, g in enumerate(features)]
        return flat @ flat / 2 - log_z.sum(), flat - np.stack(pulls).ravel()

    options = {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-15, "gtol": 1e-8}
    start = np.zeros(len(features) * 8 * width)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    expected = -likelihood.log_z(means(found.x), np.zeros((N, 1)), y)
    scores = run.scores()
    assert sorted(scores) == np.setdiff1d(np.arange(N), run.active.rows).tolist()
    nats = np.array(list(scores.values())) / 2.0**14
    assert_allclose(nats, expected[list(scores)], atol=2e-4)


def test_a_fit_goes_on_from_the_former_one(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(KERNELS["shared"]).select(16)
    former = run.coefficients
    assert former is not None
    stub = gather(run.selection, "stub")
    means = stub[:8].T @ former[0]
    monkeypatch.setattr(refits, "ROUNDS", 0)
    run.keep_up()
    assert run.coefficients is not None
    assert (former.shape, run.coefficients.shape) == ((1, 8, 3), (1, 16, 3))
    assert_allclose(stub.T @ run.coefficients[0], means, atol=1e-12)
    assert np.abs(means).max() > 1.0


def test_scores_stay_between_fits() -> None:
    run = Run(KERNELS["shared"]).select(40)
    before = run.scores()
    after = run.select(56).scores()
    assert len(after) == len(before) - 16
    assert all(before[row] == score for row, score in after.items())


def test_validation_rows_take_no_part() -> None:
    validation = np.random.default_rng(3).random(N) < 0.2
    run = Run(KERNELS["shared"], validation=validation)
    target = np.where(validation, (run.problem.target + 1) % 3, run.problem.target)
    other = Run(KERNELS["shared"], validation=validation, target=target)
    assert_array_equal(run.select(60).active.rows, other.select(60).active.rows)
    assert not validation[run.active.rows].any()
