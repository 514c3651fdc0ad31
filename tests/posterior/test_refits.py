"""Criteria that follow the all-data posterior: when it is fitted, and how rows are scored."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

from sparsegp.ivm.active_set import ActiveSet
from sparsegp.ivm.block import RowBlock
from sparsegp.ivm.criteria import CRITERIA
from sparsegp.ivm.greedy import Order, Selection
from sparsegp.ivm.rows import TILE, BlockSettings
from sparsegp.kernels import parse
from sparsegp.likelihoods.multinomial_probit import MultinomialProbit
from sparsegp.likelihoods.sites import SiteRule
from sparsegp.posterior import refits
from sparsegp.posterior.refits import keep_up
from sparsegp.types import Doubles

N, PANEL = 600, 8
KERNELS = {"shared": ["8*rbf(1.2)"], "per class": ["8*rbf(1.2)", "4*matern32(1)", "6*rbf(2)"]}
kinds = pytest.mark.parametrize("texts", KERNELS.values(), ids=KERNELS)


def rows_of(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three overlapping clusters."""
    rng = np.random.default_rng(seed)
    target = rng.integers(3, size=N)
    centers = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])
    return centers[target] + 0.8 * rng.normal(size=(N, 2)), target


@dataclass
class Run:
    """Two blocks in a list, which are runtime and rows at once."""

    texts: list[str]
    criterion: str = "residual"
    target: np.ndarray | None = None
    validation: np.ndarray | None = None
    capacity: int = 80

    n_rows = N
    precision = np.dtype(np.float64)

    def __post_init__(self) -> None:
        self.X, drawn = rows_of()
        self.y = drawn if self.target is None else self.target
        self.likelihood = MultinomialProbit()
        self.settings = BlockSettings(
            [parse(text) for text in self.texts],
            SiteRule(self.likelihood),
            CRITERIA[self.criterion](),
            3,
            self.capacity,
        )
        self.active = ActiveSet()
        self.told: list[tuple[str, tuple[Any, ...]]] = []
        self.build()
        self.selection = Selection(self, self.settings, Order(panel=PANEL), self.active)
        self.coefficients: Doubles | None = None

    def build(self) -> None:
        cuts = [slice(0, TILE), slice(TILE, N)]
        validation = np.zeros(N, dtype=bool) if self.validation is None else self.validation
        self.blocks = [
            RowBlock(self.settings, self.X[cut], self.y[cut], cut.start, validation=validation[cut])
            for cut in cuts
        ]

    def map_blocks(self, method: str, *args: Any) -> list[Any]:
        self.told.append((method, args))
        return [getattr(block, method)(*args) for block in self.blocks]

    def sum_blocks(self, method: str, *args: Any) -> Any:
        return sum(self.map_blocks(method, *args))

    def select(self, stop: int) -> "Run":
        while len(self.active) < stop:
            self.keep_up()
            self.selection.round(stop)
        return self

    def keep_up(self) -> None:
        self.coefficients = keep_up(self.selection, self, self.coefficients)  # type: ignore[arg-type]

    def best(self) -> list[Any]:
        return self.map_blocks("advance", None, len(self.active), N)


def test_fits_come_whenever_the_active_set_has_grown_by_the_factor() -> None:
    run = Run(KERNELS["shared"]).select(80)
    sizes = [args[0].shape for method, args in run.told if method == "rescore"]
    assert sizes == [(1, size, 3) for size in (8, 16, 32, 64)]
    assert run.coefficients is not None
    assert run.coefficients.shape == (1, 64, 3)


@pytest.mark.parametrize("criterion", ["predictive", "random"])
def test_other_criteria_ask_for_no_fit(criterion: str) -> None:
    run = Run(KERNELS["shared"], criterion).select(40)
    assert {method for method, _ in run.told} == {"advance", "gather"}
    assert run.coefficients is None


@kinds
def test_rows_are_scored_at_the_maximum_of_the_objective(
    texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many rounds, the scores are those of scipy's maximum in the span of the active rows."""
    monkeypatch.setattr(refits, "ROUNDS", 200)
    run = Run(texts).select(16)
    run.keep_up()
    x = run.active.x
    features, penalties = [], []
    for kernel in run.settings.kernels:  # whitened: f = G a with a standard normal prior
        values, vectors = np.linalg.eigh(kernel(x, x))
        features.append(kernel(run.X, x) @ (vectors / np.sqrt(values)))
        penalties.append(len(values))
    width = 3 // len(features)

    def means(flat: np.ndarray) -> np.ndarray:
        parts = flat.reshape(len(features), -1, width)
        return np.hstack([g @ a for g, a in zip(features, parts, strict=True)])

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        log_z, p = run.likelihood.gradient(means(flat), np.zeros((N, 1)), run.y)
        pulls = [g.T @ p[:, k * width : (k + 1) * width] for k, g in enumerate(features)]
        return flat @ flat / 2 - log_z.sum(), flat - np.stack(pulls).ravel()

    options = {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-15, "gtol": 1e-8}
    start = np.zeros(len(features) * 16 * width)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    expected = -run.likelihood.log_z(means(found.x), np.zeros((N, 1)), run.y)
    left = np.setdiff1d(np.arange(N), run.active.rows)
    answers = run.best()
    rows = np.concatenate([part[0] for part in answers])
    scores = np.concatenate([part[1] for part in answers])
    assert_array_equal(np.sort(rows), left)
    assert_allclose(scores / 2.0**14, expected[rows], atol=2e-4)


def test_a_fit_goes_on_from_the_former_one(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(KERNELS["shared"]).select(16)
    assert run.coefficients is not None
    former = run.coefficients
    means = np.hstack([block.array("stub") for block in run.blocks])[:8].T @ former[0]
    monkeypatch.setattr(refits, "ROUNDS", 0)
    run.keep_up()
    went_on = run.coefficients
    stub = np.hstack([block.array("stub") for block in run.blocks])
    assert (former.shape, went_on.shape) == ((1, 8, 3), (1, 16, 3))
    assert_allclose(stub.T @ went_on[0], means, atol=1e-12)
    assert np.abs(means).max() > 1.0


@kinds
def test_what_is_remembered_brings_new_blocks_to_the_present(texts: list[str]) -> None:
    run = Run(texts).select(44)  # past the fit with 32 rows
    answers = run.best()
    run.build()
    for method, args in [*run.active.recovery(), ("rescore", (run.coefficients,))]:
        run.map_blocks(method, *args)
    for one, other in zip(run.best(), answers, strict=True):
        assert_array_equal(one[0], other[0])
        assert_array_equal(one[1], other[1])
    with pytest.raises(RuntimeError, match="holds 44 inclusions, not 45"):
        run.map_blocks("rescore", np.zeros((len(texts), 45, 3 // len(texts))))


def test_scores_stay_between_fits() -> None:
    run = Run(KERNELS["shared"]).select(40)
    before = {row: s for part in run.best() for row, s in zip(part[0], part[1], strict=True)}
    run.select(56)
    after = {row: s for part in run.best() for row, s in zip(part[0], part[1], strict=True)}
    assert len(after) == len(before) - 16
    assert all(before[row] == score for row, score in after.items())


def test_rows_kept_for_validation_take_no_part() -> None:
    _, target = rows_of()
    validation = np.random.default_rng(3).random(N) < 0.2
    other = np.where(validation, (target + 1) % 3, target)
    runs = [
        Run(KERNELS["shared"], target=y, validation=validation).select(60) for y in (target, other)
    ]
    assert_array_equal(runs[0].active.rows, runs[1].active.rows)
    assert not validation[runs[0].active.rows].any()


def test_held_out_rows_are_not_scored() -> None:
    run = Run(KERNELS["shared"]).select(8)
    held = RowBlock(run.settings, run.X[:50], run.y[:50], 0, held_out=True)
    for batch in run.active.included:
        held.include(batch)
    held.rescore(np.ones((1, 8, 3)))
    assert held.scores.frozen is None
