"""Choice of the prior variance factor by cross-validation, with too few rows for validation rows.

The rows are divided into folds. There is one objective for each fold, over the rows outside it, and
one over all rows. Their sum is concave in all coefficients together, so a single ascent maximises
all of them. It continues to the maximum for one prior variance factor after another, up from 1 or
else down from it, as long as the predictions for left-out rows improve.

If a few rows are all predicted well, their NLPP alone would favour ever larger factors. A
pseudo-row is therefore added, in the manner of Platt (1999, "Probabilistic outputs for support
vector machines", section 2.2): it is spread evenly over the n rows and over all classes, and is
predicted from all rows. This prevents overconfidence. Its weight is small unless there are very few
rows, because in many tables all new rows are predicted well, too.

Leave-one-out approximations by the true curvature of the likelihood (Rasmussen & Williams 2006,
section 5.4.2; Vehtari et al. 2016) lead to almost the same choices, but need a factorisation over
all latent values of all rows. Temperature, variance weight and early stopping add nothing here.
"""

from collections.abc import Callable

import numpy as np

from sparsegp.math.linalg import solve_lower
from sparsegp.math.quantiles import Quantiles
from sparsegp.math.subnormals import rounded
from sparsegp.posterior.early_stopping import MAX_STEPS, scale_of
from sparsegp.posterior.limits import conformal_scores
from sparsegp.posterior.objective import SpanObjective
from sparsegp.types import Doubles

MAX_ROUNDS = 200
"""Maximum number of iterations for one prior variance factor."""
PSEUDO_WEIGHT, FEW_ROWS = 0.1, 5.0
"""Minimum weight of the pseudo-row (docs/benchmarks/studies.md), and rows up to which it is 1."""


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
