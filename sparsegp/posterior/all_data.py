"""The all-data posterior: functions in the span of the active rows, fitted to all rows.

On the active rows I / b + C = L L^T with C = K_uu, where b bounds the curvature, -d2 log Z <= b I:
one for the multinomial probit, 1/2 for the softmax. The features of a row are its stub column,
w = L^-1 k_u, and a latent function in the span is m = M^T c. Its prior penalty is c^T P c / 2 with

    P = L^-1 C L^-T = I - L^-1 L^-T / b

so the coefficients maximise the concave  sum_n log Z_n(M^T c) - tr(c^T P c) / 2, whose gradient is
M p - P c. No inverse of C is needed, and no large matrix besides the stub. The curvature is at most

    B = P + b M M^T

and c <- c + B^-1 (M p - P c) is the variational iteration of GR eq. 4.6 in the span; with all rows
active its fixed point is that of eq. 4.6 itself. Here B is the metric of a quasi-Newton ascent
(math/lbfgs.py), which needs a quarter of the iterations or fewer; for the softmax this metric has
b = 1/4. With s times the prior variance, P becomes P / s for the same span.

With row weights w_n the sum is over w_n log Z_n, p of row n is multiplied by w_n, and b M W M^T
bounds the curvature. The sites of the active rows have precisions b w, so that
(b W_u)^-1 + C = L L^T and P = I - L^-1 (b W_u)^-1 L^-T.

The variance is that of the variational posterior, s (k** - k_*u C^-1 k_u*) + w^T B^-1 w, computed
as s k** - |W k_u*|^2 with a triangle W (posterior/predict.py). Used in full it would make the
predictions severely underconfident. Validation rows choose the prior variance factor s, the number
of iterations (posterior/prior_variance.py), a weight of the variance and a temperature of the
means. Then they are added to the training rows: the ascent continues from the best point with all
rows, for the objective minus g.c, where g is the gradient remaining at that point. For the training
rows alone the point then is the maximum, so only the validation rows move it. With too few rows for
this, s alone is chosen, by cross-validation, and the variance is ignored.
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
from sparsegp.posterior.limits import conformal_scores
from sparsegp.posterior.objective import SpanObjective
from sparsegp.posterior.prior_variance import (
    PATIENCE,
    PATIENCE_MANY_ROWS,
    ScaleSearch,
    best_scale,
    scale_of,
    step_of,
)
from sparsegp.posterior.regression import least_squares
from sparsegp.state import from_arrays, require_shapes
from sparsegp.types import Doubles

logger = logging.getLogger(__name__)

PART_ROWS = 10_000
"""Approximate number of rows that suffice to choose the prior variance factor. With fewer than
`MIN_PARTS` times as many rows, the additional ascent with all rows would use up the time saved."""
MIN_PARTS = 4
MAX_ROUNDS = 500
MAX_JOINED_ITERATIONS = 8
"""Maximum number of iterations after the validation rows have been added."""
MEAN_ONLY = Calibration(temperature=1.0, variance_weight=0.0)
"""Calibration that ignores the latent variance, which is far too large."""
PRIOR = np.log([1.0, 0.01]), np.array([0.1, 2.0])
"""Prior means and standard deviations of the log temperature and the log variance weight; narrow
for the temperature, as validation rows resemble the training rows more than new rows do."""


def all_data(active: ActiveRows, rows: Rows) -> PosteriorWeights:
    """Return the all-data posterior, calibrated if `rows.calibrate`.

    For regression it has a closed form (posterior/regression.py).

    The ascent with all rows stops when both the gain of an iteration and the gain predicted from
    its gradient are at most `rows.tolerance` nats.
    """
    if active.likelihood.numeric:
        return least_squares(active, rows)
    problem = SpanObjective(active, rows)
    state = from_arrays(Ascents, rows.former) if rows.former else Ascents(first_search(rows))
    state.require(problem.start().shape)
    if state.plan is None:
        state.plan = _learn(problem, rows, state) if rows.calibrate else first_plan(rows)
    plan = state.plan
    problem.set_scale(plan.calibration.prior_scale)
    ascent = _maximise(problem, rows, state)
    report = {
        "objective": ascent.value,
        "rounds": state.rounds + (state.search.best.rounds if state.search.best else 0),
        "jitter_of_penalty": problem.jitter,
        "jitter_of_metric": max(jitter for _, jitter in problem.metric()),
        **asdict(plan.calibration),
        "validation_nlpp": plan.validation_nlpp,
    }
    logger.info("posterior all: %s", report)
    weights = problem.weights(ascent.point, plan.calibration)
    report |= weights.report
    return replace(weights, gain=problem.gain(), report=report, scores=plan.scores)


@dataclass(frozen=True)
class Plan:
    """Calibration for the final ascent, and results of the search for validation or left-out rows.

    These results are their NLPP for each prior variance factor, and quantiles of their conformal
    scores in fits without them (posterior/limits.py).
    """

    calibration: Calibration = MEAN_ONLY
    validation_nlpp: dict[str, float] = field(default_factory=dict)
    scores: Quantiles | None = None


@dataclass
class Ascents:
    """State of the computation, from which it can be resumed."""

    search: ScaleSearch = field(default_factory=ScaleSearch)  # judged by the validation rows
    searched: int = 0  # iterations of the search, or factors tried in cross-validation
    plan: Plan | None = None  # result of the search
    ascent: Ascent | None = None  # final ascent, with all rows
    rounds: int = 0  # number of its iterations
    over: bool = False  # whether it has converged

    def require(self, shape: tuple[int, ...]) -> None:
        """Raise a `StoreError` unless all points have this shape."""
        search = self.search
        peaks = [each.ascent for each in (search.best, search.leader) if each is not None]
        for each in (*peaks, search.halfway, search.ascent, self.ascent):
            if each is not None:
                require_shapes({"point": each.point}, {"point": shape})


def first_plan(rows: Rows) -> Plan:
    """Return the plan if there are no validation rows: a former posterior's calibration, if any."""
    if rows.past is None:
        return Plan()
    return Plan(rows.past.weights.calibration, scores=rows.past.weights.scores)


def first_search(rows: Rows) -> ScaleSearch:
    """Return a new search; with a former posterior, at its prior variance factor alone."""
    if rows.past is None:
        part = columns_of_part(rows.n_rows) < TILE
        return ScaleSearch(part=part, patience=PATIENCE_MANY_ROWS if part else PATIENCE)
    return ScaleSearch(step=step_of(rows.past.weights.calibration.prior_scale), alone=True)


def columns_of_part(n_rows: int) -> int:
    """Return how many leading rows of each tile are used to choose the prior variance factor."""
    return max(TILE // (n_rows // PART_ROWS), 1) if n_rows >= MIN_PARTS * PART_ROWS else TILE


def _learn(problem: SpanObjective, rows: Rows, state: Ascents) -> Plan:
    """Choose the prior variance factor, iterations and calibration by the validation rows.

    If there are folds instead, choose the prior variance factor by cross-validation.
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
    search, small = state.search, rows.tolerance / TILE
    while not search.over:
        columns = columns_of_part(rows.n_rows) if search.part else TILE
        problem.set_scale(scale_of(search.step), columns)
        ascent = search.current_ascent(problem)
        gain = ascent.step(problem.value_and_gradient, problem.solve, problem.resolution)
        if len(problem.validation) == 0:
            return first_plan(rows)
        search.record_iteration(problem.validation, ascent, gain > small * columns)
        report(-float(problem.validation.mean()))
    best = search.best
    assert best is not None  # the search is over
    problem.set_scale(scale_of(best.step))
    calibration, scores = calibrate(problem, best.ascent.point)
    tried = {f"{scale_of(step):.4g}": nlpp for step, nlpp in search.tried}
    return Plan(calibration, tried, scores)


def _maximise(problem: SpanObjective, rows: Rows, state: Ascents) -> Ascent:
    """Run the final ascent with all rows, from the start or from the best point of the search."""
    problem.joined, small, most = True, rows.tolerance, MAX_ROUNDS
    best = state.search.best
    if best is not None:
        problem.tilt, most = best.ascent.gradient, MAX_JOINED_ITERATIONS
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


def calibrate(problem: SpanObjective, c: Doubles) -> tuple[Calibration, Quantiles | None]:
    """Fit temperature and variance weight to the validation rows, with the prior `PRIOR`.

    A former posterior's values replace the prior means. The second result holds the quantiles of
    the conformal scores of these rows, or is None if they are not wanted.
    """
    weights = problem.weights(c, Calibration(prior_scale=problem.scale))
    mean, variance, target = latent_validation(problem.active, problem.rows, weights)
    of_rows = problem.rows.validation_weights
    log_z = functools.partial(
        log_z_and_slopes, problem.active.likelihood, mean, variance, target, of_rows=of_rows
    )
    means, deviations = PRIOR
    if problem.rows.past is not None:
        before = problem.rows.past.weights.calibration
        known = np.array([before.temperature, before.variance_weight])
        means = np.where(known > 0.0, np.log(np.maximum(known, 1e-6)), means)
    calibration = Calibration(*fit_by_slopes(log_z, (means, deviations)), problem.scale)
    if not problem.rows.keeps_scores:
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
    """Return log Z (n,), and the gradient (2,) of its sum in log temperature and log weight.

    Log Z is multiplied by the row weights `of_rows`. If the classes share the variance, only the
    ratios of the means to one standard deviation matter, that of latent value and noise together.
    """
    widened = weight * variance
    if variance.shape[1] == mean.shape[1]:
        moments = likelihood.moments(mean / temperature, widened, target)
        along = of_rows * (moments.slope * mean).sum(axis=1) / temperature
        ratio = moments.slope**2 - moments.curvature  # Z'' / Z
        spread = 0.5 * of_rows * (widened * ratio).sum(axis=1)
        return of_rows * moments.log_z, np.array([-along.sum(), spread.sum()])
    widened = likelihood.noise_precision * widened
    ratio = (mean / (temperature * np.sqrt(1.0 + widened))).astype(np.float32)
    log_z, slope = likelihood.mean_gradient(ratio, target)
    along = of_rows * (slope * ratio).sum(axis=1, dtype=np.float64)
    spread = 0.5 * along * (widened / (1.0 + widened))[:, 0]
    return of_rows * log_z, np.array([-along.sum(), -spread.sum()])
