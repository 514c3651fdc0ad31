"""The all-data posterior: every row's likelihood shapes the span of the active rows.

On the active rows I + C = L L^T, C = K_uu. The features of a row are w = L^-1 k_u, its stub column,
and a latent function of the span is m = M^T c. Its prior penalty is c^T P c / 2 with

    P = L^-1 C L^-T = I - L^-1 L^-T

so the coefficients maximise the concave  sum_n log Z_n(M^T c) - tr(c^T P c) / 2, whose gradient is
M p - P c. No inverse of C is needed, and no matrix besides the stub. Since -d2 log Z <= b I, where
b is one for the multinomial probit and 1/2 for the softmax, with I / b + C = L L^T and P by b,

    B = P + b M M^T

bounds the curvature: c <- c + B^-1 (M p - P c) is the variational iteration of GR eq. 4.6 in the
span, and with all rows active its fixed point is that of eq. 4.6 itself. Here B is the metric of a
quasi-Newton ascent (math/lbfgs.py), which needs a quarter of the rounds or fewer. A prior variance
s times as large makes it P / s, for the same span.

With weights w_n of the rows the sum is that of w_n log Z_n, with p of row n times w_n, and
b M W M^T bounds its curvature. The sites of the active rows have precisions b w, so that
(b W_u)^-1 + C = L L^T and P = I - L^-1 (b W_u)^-1 L^-T.

The variance is that of the variational posterior, s (k** - k_*u C^-1 k_u*) + w^T B^-1 w; what is
taken off s k** there is |W k_u*|^2 with a triangle W (posterior/predict.py). As it
stands it makes probabilities far too soft. From validation rows are learnt: the scale s,
the number of rounds (posterior/early_stopping.py), a weight for the variance and a temperature for
the means. Then these rows join: the ascent goes on from the best point, with all rows, for the
objective less g.c, where g is the gradient that was left there. That point is the maximum without
the validation rows, so it is they alone that move it. Where rows are too few for all this the scale
alone is learnt (posterior/folds.py), and the variance is left out.
"""

import functools
import logging
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from sparsegp.likelihoods import Likelihood
from sparsegp.math.lbfgs import Ascent
from sparsegp.math.products import TILE
from sparsegp.math.quantiles import Quantiles
from sparsegp.posterior.base import ActiveRows, Calibration, PosteriorWeights, Rows
from sparsegp.posterior.calibration import fit_by_slopes, latent_validation
from sparsegp.posterior.early_stopping import FEW_ROUNDS, PATIENCE, Search, scale_of, step_of
from sparsegp.posterior.folds import best_scale
from sparsegp.posterior.limits import conformal_scores
from sparsegp.posterior.numbers import least_squares
from sparsegp.posterior.objective import Problem
from sparsegp.state import from_arrays, require_shapes
from sparsegp.types import Doubles

logger = logging.getLogger(__name__)

PART_ROWS = 10_000
"""Rows, about, that are enough to find the prior scale. Where there are fewer than `MANY` times as
many, the rounds that all of them make in addition cost as much as is saved."""
MANY = 4
MAX_ROUNDS = 500
JOINED_ROUNDS = 8
"""Of the ascent after the validation rows have joined, at most."""
MEAN_ONLY = Calibration(temperature=1.0, variance_weight=0.0)
"""Without calibration the latent variance is left out: all of it is far too much."""
PRIOR = np.log([1.0, 0.01]), np.array([0.1, 2.0])
"""Means and standard deviations of the logarithms of temperature and variance weight. The first is
narrow: validation rows are drawn like those that were learnt from, and new rows seldom are."""


def all_data(active: ActiveRows, rows: Rows) -> PosteriorWeights:
    """Return the all-data posterior, calibrated if `rows.calibrate`.

    That of numbers has a closed form (posterior/numbers.py).

    Without calibration the ascent stops when a round raises the objective by `rows.tolerance` nats
    a row or less, in fact and by the promise of its gradient.
    """
    if active.likelihood.numeric:
        return least_squares(active, rows)
    problem = Problem(active, rows)
    state = from_arrays(Ascents, rows.former) if rows.former else Ascents(first_search(rows))
    state.require(problem.start().shape)
    if state.plan is None:
        state.plan = _learn(problem, rows, state) if rows.calibrate else first_plan(rows)
    plan = state.plan
    problem.set_scale(plan.calibration.prior_scale)
    ascent = _climb(problem, rows, state)
    report = {
        "objective": ascent.value,
        "rounds": state.rounds + (state.search.best.rounds if state.search.best else 0),
        "jitter_of_metric": max(jitter for _, jitter in problem.metric),
        **asdict(plan.calibration),
        "validation_nlpp": plan.validation_nlpp,
    }
    logger.info("posterior all: %s", report)
    weights = problem.weights(ascent.point, plan.calibration, report)
    return replace(weights, scores=plan.scores)


@dataclass(frozen=True)
class Plan:
    """What the last ascent needs to know.

    Attributes
    ----------
    calibration : Calibration
    validation_nlpp : dict
        Mean negative log predictive probability of the validation rows, for each prior scale.
    scores : Quantiles, optional
        Theirs, before they join (posterior/limits.py).
    """

    calibration: Calibration = MEAN_ONLY
    validation_nlpp: dict[str, float] = field(default_factory=dict)
    scores: Quantiles | None = None


@dataclass
class Ascents:
    """The state of the posterior: all that is needed to go on from there.

    Attributes
    ----------
    search : Search
        Ascents that are judged by the validation rows.
    searched : int
        Their rounds.
    plan : Plan, optional
        Their result.
    ascent : Ascent, optional
        With all rows.
    rounds : int
        Of that one.
    over : bool
        Whether it has converged.
    """

    search: Search = field(default_factory=Search)
    searched: int = 0
    plan: Plan | None = None
    ascent: Ascent | None = None
    rounds: int = 0
    over: bool = False

    def require(self, shape: tuple[int, ...]) -> None:
        """Raise a `StoreError` if a point is not one of coefficients of this shape."""
        search = self.search
        peaks = [each.ascent for each in (search.best, search.leader) if each is not None]
        for each in (*peaks, search.halfway, search.ascent, self.ascent):
            if each is not None:
                require_shapes({"point": each.point}, {"point": shape})


def first_plan(rows: Rows) -> Plan:
    """Return the plan where there are no validation rows: what is known of rows that are gone."""
    if rows.past is None:
        return Plan()
    return Plan(rows.past.weights.calibration, scores=rows.past.weights.scores)


def first_search(rows: Rows) -> Search:
    """Return a search that has not begun: where there are rows that are gone, at their scale."""
    if rows.past is None:
        part = columns_of_part(rows.n_rows) < TILE
        return Search(part=part, patience=FEW_ROUNDS if part else PATIENCE)
    return Search(step=step_of(rows.past.weights.calibration.prior_scale), alone=True)


def columns_of_part(n_rows: int) -> int:
    """Return how many rows of every tile, the first, the prior scale is learnt from."""
    return max(TILE // (n_rows // PART_ROWS), 1) if n_rows >= MANY * PART_ROWS else TILE


def _learn(problem: Problem, rows: Rows, state: Ascents) -> Plan:
    """Return what is learnt from validation rows: prior scale, rounds and calibration.

    Where there are none, the prior scale by cross-validation.
    """

    def report(nlpp: float) -> None:
        state.searched += 1
        rows.report(state, state.searched, nlpp_of_this_round=nlpp)

    if len(rows.folds):
        scale, point, tried, left_out = best_scale(problem, report)
        problem.set_scale(scale)
        state.ascent = problem.begin(point)
        calibration = replace(MEAN_ONLY, prior_scale=scale)
        return Plan(calibration, validation_nlpp=tried, scores=left_out)
    search, small = state.search, rows.tolerance * rows.total / TILE
    problem.joined = False
    while not search.over:
        columns = columns_of_part(rows.n_rows) if search.part else TILE
        problem.set_scale(search.scale, columns)
        ascent = search.begun(problem.begin, problem.carry)
        gain = ascent.step(problem.value_and_gradient, problem.solve, problem.resolution)
        if len(problem.validation) == 0:
            return first_plan(rows)
        search.note(problem.validation, ascent, gain > small * columns)
        report(-float(problem.validation.mean()))
    best = search.best
    assert best is not None  # over
    problem.set_scale(best.scale)
    calibration, scores = calibrate(problem, best.ascent.point, best.scale)
    tried = {f"{scale_of(step):.4g}": nlpp for step, nlpp in search.tried}
    return Plan(calibration, tried, scores)


def _climb(problem: Problem, rows: Rows, state: Ascents) -> Ascent:
    """Ascend with all rows: from zero, or from where the validation rows join."""
    problem.joined, small, most = True, rows.tolerance * rows.total, MAX_ROUNDS
    best = state.search.best
    if best is not None:
        problem.tilt, most = best.ascent.gradient, JOINED_ROUNDS
    if state.ascent is None and best is not None:
        value, gradient = problem.value_and_gradient(best.ascent.point)
        state.ascent = replace(best.ascent, value=value, gradient=gradient)
    elif state.ascent is None:
        state.ascent = problem.begin()
    ascent, gain = state.ascent, np.inf
    while not state.over and state.rounds < most:
        gain = ascent.step(problem.value_and_gradient, problem.solve, problem.resolution)
        state.rounds, state.over = state.rounds + 1, bool(gain <= small)
        rows.report(state, state.searched + state.rounds)
    if not state.over and most == MAX_ROUNDS:
        logger.warning("posterior all: stopped after %d rounds, gain %.3g", MAX_ROUNDS, gain)
    return ascent


def calibrate(problem: Problem, c: Doubles, scale: float) -> tuple[Calibration, Quantiles | None]:
    """Return temperature and variance weight that suit the validation rows best, given `PRIOR`.

    Its means are those of rows that are gone, if there are any. With them come the quantiles of the
    scores of these rows, so calibrated, if they are kept.
    """
    reduction = [W for W, _ in problem.reductions()]
    weights = PosteriorWeights(
        list(c), reduction=reduction, calibration=Calibration(prior_scale=scale)
    )
    of_weights = problem.active, problem.rows, weights, problem.factors
    mean, variance, target = latent_validation(*of_weights)
    of_rows = problem.rows.validation_weights
    log_z = functools.partial(
        log_z_and_slopes, problem.active.likelihood, mean, variance, target, of_rows=of_rows
    )
    means, deviations = PRIOR
    if problem.rows.past is not None:
        before = problem.rows.past.weights.calibration
        known = np.array([before.temperature, before.variance_weight])
        means = np.where(known > 0.0, np.log(np.maximum(known, 1e-6)), means)
    calibration = Calibration(*fit_by_slopes(log_z, (means, deviations)), scale)
    if not problem.rows.knows_limits:
        return calibration, None
    logs = calibration.log_probabilities(problem.active.likelihood, mean, variance)
    return calibration, conformal_scores(logs, target, of_rows)


def log_z_and_slopes(
    likelihood: Likelihood,
    mean: Doubles,
    variance: Doubles,
    target: Any,
    temperature: float,
    weight: float,
    of_rows: Doubles | float = 1.0,
) -> tuple[Doubles, Doubles]:
    """Return log Z of rows (n,), and the slopes of its sum in the logarithms of both numbers, (2,).

    Log Z of a row is multiplied by its weight. Where the classes share the variance only the ratio
    of means and standard deviation matters.
    """
    widened = weight * variance
    if variance.shape[1] == mean.shape[1]:
        moments = likelihood.moments(mean / temperature, widened, target)
        along = of_rows * (moments.slope * mean).sum(axis=1) / temperature
        bend = moments.slope**2 - moments.curvature
        spread = 0.5 * of_rows * (widened * bend).sum(axis=1)
        return of_rows * moments.log_z, np.array([-along.sum(), spread.sum()])
    widened = likelihood.noise_precision * widened
    ratio = (mean / (temperature * np.sqrt(1.0 + widened))).astype(np.float32)
    log_z, slope = likelihood.mean_gradient(ratio, target)
    along = of_rows * (slope * ratio).sum(axis=1, dtype=np.float64)
    spread = 0.5 * along * (widened / (1.0 + widened))[:, 0]
    return of_rows * log_z, np.array([-along.sum(), -spread.sum()])
