"""Choice of the prior variance factor of the all-data posterior, and of the number of iterations.

With enough rows, validation rows choose both. The maximum of the all-data objective
(posterior/all_data.py) predicts less well than points on the way to it: an ascent from zero first
fits what many rows have in common, and only later what few rows require. Each ascent is therefore
stopped where the validation rows are predicted best, and ascents are compared for several prior
variance factors, spaced by the square root of ten.

The first half of an ascent hardly depends on the factor. An ascent at another factor therefore
starts halfway to the best iteration of the best ascent so far. The objectives differ by a
quadratic, so the memory of the quasi-Newton method at that point can be converted exactly.

With many rows, some of them are enough to choose the factor. The number of iterations then comes
from one more ascent with all rows, which starts halfway to the best iteration for the part.

With too few rows for that, the factor is chosen by cross-validation. The rows are divided into
folds. There is one objective for each fold, over the rows outside it, and one over all rows. Their
sum is concave in all coefficients together, so a single ascent maximises all of them. It continues
to the maximum for one prior variance factor after another, up from 1 or else down from it, as long
as the predictions for left-out rows improve.

If a few rows are all predicted well, their NLPP alone would favour ever larger factors. A
pseudo-row is therefore added, in the manner of Platt (1999, "Probabilistic outputs for support
vector machines", section 2.2): it is spread evenly over the n rows and over all classes, and is
predicted from all rows. This prevents overconfidence. Its weight is small unless there are very few
rows, because in many tables all new rows are predicted well, too.

Leave-one-out approximations by the true curvature of the likelihood (Rasmussen & Williams 2006,
section 5.4.2; Vehtari et al. 2016) lead to almost the same choices, but need a factorisation over
all latent values of all rows. Temperature, variance weight and early stopping add nothing here.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sparsegp.math.lbfgs import Ascent
from sparsegp.math.linalg import solve_lower
from sparsegp.math.quantiles import Quantiles
from sparsegp.math.subnormals import rounded
from sparsegp.posterior.limits import conformal_scores
from sparsegp.posterior.objective import SpanObjective
from sparsegp.types import Doubles

STEP = np.sqrt(10.0)
"""Ratio of successive prior variance factors."""
MAX_STEPS = 6
"""Maximum number of steps from the kernel's own variance, up or down."""
PATIENCE, PATIENCE_MANY_ROWS = 8, 3
"""Iterations without a lower NLPP after which an ascent ends; fewer with many rows, where they are
slow. On splits of the training rows of sixteen tables, 8 gives 0.98 times the NLPP of 3."""
LEAD = 0.01
"""Fraction by which a larger prior variance must lower the NLPP to be worth another ascent."""
MAX_ROUNDS = 200
"""Maximum number of iterations for one prior variance factor in cross-validation."""
PSEUDO_WEIGHT, FEW_ROWS = 0.1, 5.0
"""Minimum weight of the pseudo-row (docs/benchmarks/studies.md), and rows up to which it is 1."""


def scale_of(step: int) -> float:
    """Return the prior variance factor at a number of steps from the kernel's own variance."""
    return float(STEP**step)


def step_of(scale: float) -> int:
    """Return the number of steps whose factor is nearest, on a log scale."""
    return round(math.log(scale, STEP))


@dataclass(frozen=True)
class Peak:
    """Best iteration of an ascent."""

    step: int  # steps of the prior variance from the kernel's own
    rounds: int  # number of iterations
    log_z: Doubles  # log predictive probabilities of the validation rows (a,)
    ascent: Ascent  # its state

    @property
    def nlpp(self) -> float:
        """NLPP of the validation rows, in nats."""
        return -float(self.log_z.mean())

    def is_better_than(self, other: "Peak") -> bool:
        """Return whether its NLPP is lower, by `LEAD` if its prior variance is larger."""
        least = LEAD * other.nlpp if self.step > other.step else 0.0
        return other.nlpp - self.nlpp > least


@dataclass
class ScaleSearch:
    """Ascents for one prior variance factor after another: up from 1, else down from it."""

    # steps of the completed ascents, and the NLPP of their best iterations
    tried: list[tuple[int, float]] = field(default_factory=list)
    best: Peak | None = None  # best iteration of the best completed ascent
    halfway: Ascent | None = None  # state of that ascent halfway to the best iteration
    halfway_rounds: int = 0  # number of iterations until then
    step: int = 0  # step of the current ascent
    rounds: int = 0  # number of its iterations so far
    ascent: Ascent | None = None  # its state; None before it has started
    leader: Peak | None = None  # its best iteration so far
    least: float = math.inf  # lowest NLPP of its iterations
    waited: int = 0  # number of iterations since the lowest NLPP
    over: bool = False  # whether all ascents are done
    alone: bool = False  # whether the first ascent is the only one
    part: bool = False  # whether the ascents still use a part of the rows
    patience: int = PATIENCE  # iterations without a lower NLPP after which an ascent ends

    def current_ascent(self, problem: SpanObjective) -> Ascent:
        """Return the current ascent, starting it if necessary."""
        if self.ascent is not None:
            return self.ascent
        self.rounds = self.halfway_rounds
        if self.best is None or self.halfway is None:
            self.ascent = problem.begin(None if self.halfway is None else self.halfway.point)
        else:
            self.ascent = problem.carry(self.halfway, scale_of(self.best.step))
        return self.ascent

    def record_iteration(self, log_z: Doubles, ascent: Ascent, rising: bool) -> None:
        """Record an iteration; if it is the last of its ascent, prepare the next ascent.

        Parameters
        ----------
        log_z : Doubles (a,)
            Log predictive probabilities of the validation rows after the iteration.
        ascent : Ascent
            State after the iteration.
        rising : bool
            Whether the ascent has not converged yet.
        """
        self.rounds += 1
        peak, leader = Peak(self.step, self.rounds, log_z, ascent.rewind(0)), self.leader
        if leader is None or peak.is_better_than(leader):
            self.leader = leader = peak
        self.waited = 0 if peak.nlpp < self.least else self.waited + 1
        self.least = min(peak.nlpp, self.least)
        if rising and self.waited < self.patience:
            return
        self.tried.append((self.step, leader.nlpp))
        if self.best is None or leader.is_better_than(self.best):
            assert self.ascent is not None  # the leader is one of its iterations
            back = min(self.rounds - leader.rounds // 2, len(self.ascent.steps))
            self.best, self.halfway = leader, self.ascent.rewind(back)
            self.halfway_rounds = self.rounds - back
        self.ascent, self.leader, self.least, self.waited = None, None, math.inf, 0
        self._choose_next_step(self.best.step)

    def _choose_next_step(self, best: int) -> None:
        """Choose the next step, adjacent to the best one, upwards first; or finish."""
        for step, open_ in ((best + 1, best >= 0), (best - 1, best <= 0)):
            if open_ and not self.alone and step not in dict(self.tried) and abs(step) <= MAX_STEPS:
                self.step = step
                return
        if self.part:
            self.step, self.best, self.part = best, None, False
        else:
            self.over = True


class Folds(SpanObjective):
    """Objectives for all folds, each without the rows of its fold, and last that for all rows.

    Coefficients are (C, d, F R) for F objectives, the R of one objective side by side. As rows are
    few, everything is computed here, not in the row blocks. `whole` is the problem of all rows.
    """

    def __init__(self, whole: SpanObjective) -> None:
        vars(self).update(vars(whole))  # the same factors and sums over rows
        active, rows = whole.active, whole.rows
        inputs, targets = zip(*rows.map_blocks("labelled_rows"), strict=True)
        x, self.target = np.concatenate(inputs, dtype=np.float64), np.concatenate(targets)
        own = np.asarray(active.x, dtype=np.float64)
        self.features = [
            rounded(solve_lower(factor, np.asarray(kernel(own, x), np.float64)), rows.precision)
            for kernel, factor in zip(active.kernels, self.factors, strict=True)
        ]
        self.folds, self.n_sets = rows.folds, int(rows.folds.max()) + 2
        self.counts = (rows.folds[:, np.newaxis] != np.arange(self.n_sets)).reshape(-1)
        self.each = None if rows.weights is None else rows.weights.repeat(self.n_sets)

    def start(self) -> Doubles:
        """Return coefficients of zero, (C, d, F R)."""
        return np.tile(super().start(), self.n_sets)

    def means(self, c: Doubles) -> Doubles:
        """Return the latent means of all rows under all objectives, (n, F, K)."""
        shape = (len(self.target), self.n_sets, -1)
        pairs = zip(self.features, c, strict=True)
        parts = [(w.T @ part.astype(w.dtype)).reshape(shape) for w, part in pairs]
        return np.concatenate(parts, axis=2)

    def fit(self, c: Doubles) -> tuple[float, Doubles]:
        """Return the sum of log Z over the rows that count, and its gradient."""
        mean = self.means(c)
        target, counts = np.repeat(self.target, self.n_sets), self.counts
        log_z, p = self.active.likelihood.mean_gradient(mean.reshape(len(target), -1), target)
        if self.each is not None:
            log_z, p = log_z * self.each, p * self.each[:, np.newaxis]
        p = np.where(counts[:, np.newaxis], p, 0.0).reshape(mean.shape)
        parts = [p[:, :, columns].reshape(len(mean), -1) for columns in self.active.columns()]
        pairs = zip(self.features, parts, strict=True)
        gradient = np.stack([w @ part.astype(w.dtype) for w, part in pairs], dtype=np.float64)
        return float(log_z[counts].sum(dtype=np.float64)), gradient

    def evaluate_left_out(self, c: Doubles) -> tuple[float, float, Doubles]:
        """Return the NLPP of left-out rows, the same with the pseudo-row, and their latent means.

        The means are (n, K). With weights w the number of rows is taken as
        (sum sqrt w)^2 / sum w: a large weight does not turn one row into many, nor the others into
        few, and rows of tiny weight hardly count.
        """
        mean, none, w = self.means(c), np.zeros((len(self.target), 1)), self.rows.weights
        count = len(self.target) if w is None else float(np.sqrt(w).sum() ** 2 / w.sum())
        left_out = mean[np.arange(len(self.target)), self.folds]
        log_z = self.active.likelihood.log_z(left_out, none, self.target)
        each = self.active.likelihood.log_probabilities(mean[:, -1], none).mean(axis=1)
        nlpp = -float(np.average(log_z, weights=w))
        pseudo_row_log_p = float(np.average(each, weights=w))
        weight = max(PSEUDO_WEIGHT, min(1.0, FEW_ROWS / count))
        total = count * nlpp - weight * pseudo_row_log_p
        return nlpp, total / (count + weight), left_out


def best_scale(
    whole: SpanObjective, report: Callable[[float], None]
) -> tuple[float, Doubles, dict[str, float], Quantiles]:
    """Choose the prior variance factor; return it with the coefficients (C, d, R) for all rows.

    The third result is the NLPP of left-out rows for each factor tried, the fourth the quantiles of
    the conformal scores of left-out rows with the chosen factor (posterior/limits.py).

    Parameters
    ----------
    whole : SpanObjective
    report : callable
        Called after each factor with that NLPP; may raise Interrupted.
    """
    problem, tried, losses = Folds(whole), dict[str, float](), dict[int, float]()
    ascent, left_out, point, step, best = None, np.empty(0), np.empty(0), 0, 0
    rows, likelihood = whole.rows, whole.active.likelihood
    small = rows.tolerance * problem.n_sets
    while step not in losses and abs(step) <= MAX_STEPS:
        before, scale = problem.scale, scale_of(step)
        problem.set_scale(scale)
        ascent = problem.begin() if ascent is None else problem.carry(ascent, before)
        for _ in range(MAX_ROUNDS):
            if ascent.step(problem.value_and_gradient, problem.solve, problem.resolution) <= small:
                break
        tried[f"{scale:.4g}"], losses[step], mean = problem.evaluate_left_out(ascent.point)
        report(tried[f"{scale:.4g}"])
        best = min(losses, key=losses.__getitem__)
        if best == step:
            left_out, point = mean, np.split(ascent.point, problem.n_sets, axis=2)[-1]
        step = best - 1 if best + 1 in losses else best + 1
    logs = likelihood.log_probabilities(left_out, np.zeros((len(left_out), 1)))
    of_rows = 1.0 if rows.weights is None else rows.weights
    return scale_of(best), point, tried, conformal_scores(logs, problem.target, of_rows)
