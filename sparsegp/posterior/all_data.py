"""The all-data posterior: every row's likelihood shapes the span of the active rows.

On the active rows I + C = L L^T, C = K_uu. The features of a row are w = L^-1 k_u, its stub column,
and a latent function of the span is m = M^T c. Its prior penalty is c^T P c / 2 with

    P = L^-1 C L^-T = I - L^-1 L^-T

so the coefficients maximise the concave  sum_n log Z_n(M^T c) - tr(c^T P c) / 2, whose gradient is
M p - P c. No inverse of C is needed, and no matrix besides the stub. Since -d2 log Z <= I,

    B = P + M M^T

bounds the curvature: c <- c + B^-1 (M p - P c) is the variational iteration of GR eq. 4.6 in the
span, and with all rows active its fixed point is that of eq. 4.6 itself. Here B is the metric of a
quasi-Newton ascent (math/lbfgs.py), which needs a quarter of the rounds or fewer.

The variance is that of the variational posterior, k** - k_*u C^-1 k_u* + w^T B^-1 w. As it stands
it makes probabilities far too soft; a weight for it and a temperature for the means are learnt from
rows that are kept aside, which join the fit afterwards.
"""

import logging
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import cho_solve
from scipy.optimize import minimize

from sparsegp.math.lbfgs import Ascent
from sparsegp.math.linalg import jittered_cholesky, solve_lower
from sparsegp.math.summation import quantum
from sparsegp.posterior.base import ActiveRows, Calibration, Rows, Span, posterior
from sparsegp.posterior.predict import Posterior
from sparsegp.types import Doubles

logger = logging.getLogger(__name__)

MAX_ROUNDS = 500
MEAN_ONLY = Calibration(temperature=1.0, variance_weight=0.0)
"""Without calibration the latent variance is left out: all of it is far too much."""
PRIOR = np.log([1.1, 0.01]), np.array([0.3, 2.0])
"""Means and standard deviations of the logarithms of temperature and variance weight."""
SAFE_VARIANCE_RANGE = 1024.0
"""By how much a latent variance may exceed those of the active rows before sums over rows may
depend, in the last bit, on how rows are dealt to blocks."""


@posterior("all", listens=True)
def all_data(active: ActiveRows, rows: Rows) -> Span:
    """Return the all-data posterior, calibrated if `rows.calibrate`.

    Stops when a round raises the objective by `rows.tolerance` nats a row or less, in fact and by
    the promise of its gradient.
    """
    problem = Problem(active, rows)
    former = dict(rows.former)
    calibration, rounds = MEAN_ONLY, [0, 0]
    if rows.calibrate and not former.pop("joined", False):
        ascent, rounds[0] = _climb(problem, rows, former, joined=False)
        calibration = calibrate(problem, ascent.point)
        former = {"point": ascent.point}
    elif rows.calibrate:
        calibration = Calibration(*former["calibration"].tolist())
    problem.calibration = calibration
    ascent, rounds[1] = _climb(problem, rows, former, joined=True)
    report = {
        "objective": ascent.value,
        "rounds": rounds,
        "jitter_of_metric": problem.metric_jitter,
        "temperature": calibration.temperature,
        "variance_weight": calibration.variance_weight,
    }
    logger.info("posterior all: %s", report)
    return problem.span(ascent.point, calibration, report)


def _climb(
    problem: "Problem", rows: Rows, former: dict[str, Any], joined: bool
) -> tuple[Ascent, int]:
    """Ascend to the stopping criterion, from a saved state or point if there is one."""
    problem.joined = joined
    if "gradient" in former:
        ascent = Ascent.from_arrays(former)
    else:
        ascent = Ascent.at(former.get("point", problem.start()), problem.value_and_gradient)
    small = rows.tolerance * rows.n_rows
    for round_ in range(1, MAX_ROUNDS + 1):
        gain = ascent.step(problem.value_and_gradient, problem.solve, problem.resolution)
        rows.say(lambda: problem.state(ascent), objective=ascent.value, gain=gain)
        if gain <= small:
            return ascent, round_
    logger.warning("posterior all: stopped after %d rounds, gain %.3g nats", MAX_ROUNDS, gain)
    return ascent, MAX_ROUNDS


@dataclass
class Problem:
    """The objective and its metric, as sums over row blocks.

    Attributes
    ----------
    joined : bool
        Whether the rows kept aside count.
    """

    active: ActiveRows
    rows: Rows
    joined: bool = False
    calibration: Calibration = field(default_factory=Calibration)
    metric_jitter: float = 0.0
    penalty: list[Doubles] = field(init=False)
    metric: list[Doubles] = field(init=False)

    def __post_init__(self) -> None:
        x = np.asarray(self.active.x, dtype=np.float64)
        self.factors = self.active.factors()
        largest = max(float(kernel.diag(x).max()) for kernel in self.active.kernels)
        n, spread = self.rows.n_rows, SAFE_VARIANCE_RANGE
        self.grains = {
            "gram": quantum(n * largest * spread),
            "slope": quantum(n * np.sqrt(largest * spread) * 32.0),
            "value": quantum(n * 1024.0),
        }
        self.resolution = 4.0 * self.grains["value"]
        self.penalty = []
        for factor in self.factors:
            inverse = solve_lower(factor, np.eye(len(factor)))
            self.penalty.append(np.eye(len(factor)) - inverse @ inverse.T)
        answers = self.rows.map_blocks("gram", len(x), self.grains["gram"])
        grams = np.sum(answers, axis=0)
        self.metric = []
        for penalty, gram in zip(self.penalty, grams, strict=True):
            factor, jitter = jittered_cholesky(
                penalty + gram,
                "the metric of the all-data posterior",
                least=float(np.finfo(self.rows.precision).eps),
            )
            self.metric.append(factor)
            self.metric_jitter = max(self.metric_jitter, jitter)

    def start(self) -> Doubles:
        """Return coefficients of zero, (C, d, R)."""
        n_kernels, (d, n_classes) = len(self.active.kernels), self.active.site.shape
        return np.zeros((n_kernels, d, n_classes // n_kernels))

    def value_and_gradient(self, c: Doubles) -> tuple[float, Doubles]:
        """Return the objective and its gradient at coefficients (C, d, R)."""
        answers = self.rows.map_blocks(
            "slope", c.shape[1], c, self.joined, self.grains["value"], self.grains["slope"]
        )
        pull = np.stack([p @ part for p, part in zip(self.penalty, c, strict=True)])
        value = sum(value for value, _ in answers) - 0.5 * float(np.vdot(c, pull))
        return value, np.sum([gradient for _, gradient in answers], axis=0) - pull

    def solve(self, right: Doubles) -> Doubles:
        """Return B^-1 applied to (C, d, R)."""
        pairs = zip(self.metric, right, strict=True)
        return np.stack([cho_solve((factor, True), part) for factor, part in pairs])

    def state(self, ascent: Ascent) -> dict[str, Any]:
        """Return what a resumed ascent needs."""
        pair = [self.calibration.temperature, self.calibration.variance_weight]
        return {
            **ascent.arrays(),
            "joined": np.array(self.joined),
            "calibration": np.array(pair),
        }

    def span(self, c: Doubles, calibration: Calibration, report: dict[str, Any]) -> Span:
        """Return the posterior with coefficients (C, d, R); the model keeps L_B in float32."""
        gain = [factor.astype(np.float32).astype(np.float64) for factor in self.metric]
        return Span(list(c), gain, calibration, report)


def calibrate(problem: Problem, c: Doubles) -> Calibration:
    """Return temperature and variance weight that suit the rows kept aside best.

    Maximises their predictive probability times a prior that is wide (`PRIOR`), which decides where
    the rows say nothing: with all of them right, any temperature would be too high.
    """
    answers = problem.rows.map_blocks("kept_aside")
    x = np.concatenate([part for part, _ in answers])
    target = np.concatenate([part for _, part in answers])
    if len(target) == 0:
        return MEAN_ONLY
    span = problem.span(c, Calibration(), {})
    mean, variance = Posterior.from_span(problem.active, span).latent(x)
    means, likelihood = mean.astype(np.float32), problem.active.likelihood

    def loss(logs: Doubles) -> float:
        temperature, weight = np.exp(logs)
        if variance.shape[1] == 1:
            shrink = 1.0 / (temperature * np.sqrt(1.0 + weight * variance))
            log_z, _ = likelihood.mean_gradient(means * shrink.astype(np.float32), target)
        else:
            log_z = likelihood.log_z(mean / temperature, weight * variance, target)
        return float(np.square((logs - PRIOR[0]) / PRIOR[1]).sum()) / 2.0 - float(log_z.sum())

    found = minimize(loss, PRIOR[0], method="Nelder-Mead", options={"xatol": 0.01, "fatol": 0.01})
    temperature, weight = np.exp(found.x)
    return Calibration(float(temperature), float(weight))
