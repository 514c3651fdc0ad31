"""How strong the prior is where rows are too few for validation rows: by cross-validation.

The rows are divided into folds, and for each fold the objective is that of the other rows. To these
comes the objective of all rows. The sum is concave in the coefficients of all side by side, so one
ascent serves all of them. It goes on to the maximum, for one scale of the prior variance after the
other, up from the kernel's own or else down from it, as long as the rows left out are predicted
better.

Few rows that are all predicted well do not show that others always will be, and no scale would be
large enough for them. So one more row is thought of, in the manner of Platt (1999, "Probabilistic
outputs for support vector machines", section 2.2): it lies where the n rows are, an nth part at
each, is of every class in equal parts, and is predicted from all rows. That keeps a few rows from
being sure of themselves.

Left-out rows by the true curvature of the likelihood (Rasmussen & Williams 2006, section 5.4.2;
Vehtari et al. 2016) choose hardly otherwise, and cost a factor of all latent values of all rows. A
temperature, a weight for the variance, or stopping early add nothing to the scale here.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from sparsegp.math.linalg import solve_lower
from sparsegp.math.quantiles import Quantiles
from sparsegp.posterior.early_stopping import FARTHEST, scale_of
from sparsegp.posterior.limits import conformal_scores
from sparsegp.posterior.objective import Problem
from sparsegp.types import Doubles

MAX_ROUNDS = 200
"""Of the ascent at one scale."""


class Folds(Problem):
    """The objectives of all folds, each without its own rows, and last that of all rows.

    Coefficients are (C, d, F R) for F objectives, those of one latent value side by side. The rows
    are few: all is done here, and not in their blocks.

    Parameters
    ----------
    whole : Problem
        That of all rows.
    """

    def __init__(self, whole: Problem) -> None:
        vars(self).update(vars(whole))  # the same factors and sums over rows
        active, rows = whole.active, whole.rows
        inputs, targets = zip(*rows.map_blocks("labelled_rows"), strict=True)
        x, self.target = np.concatenate(inputs, dtype=np.float64), np.concatenate(targets)
        own = np.asarray(active.x, dtype=np.float64)
        self.features = [
            solve_lower(factor, np.asarray(kernel(own, x), np.float64)).astype(rows.precision)
            for kernel, factor in zip(active.kernels, self.factors, strict=True)
        ]
        self.folds, self.n_sets = rows.folds, int(rows.folds.max()) + 2
        self.counts = (rows.folds[:, np.newaxis] != np.arange(self.n_sets)).reshape(-1)
        self.each = None if rows.weights is None else rows.weights.repeat(self.n_sets)

    def start(self) -> Doubles:
        """Return coefficients of zero, (C, d, F R)."""
        return np.tile(super().start(), self.n_sets)

    def means(self, c: Doubles) -> Doubles:
        """Return the latent means of all rows by all objectives, (n, F, K)."""
        shape = (len(self.target), self.n_sets, -1)
        pairs = zip(self.features, c, strict=True)
        parts = [(w.T @ part.astype(w.dtype)).reshape(shape) for w, part in pairs]
        return np.concatenate(parts, axis=2)

    def fit(self, c: Doubles) -> tuple[float, Doubles]:
        """Return the sum of log Z over the rows that count, and its gradient; see `Problem`."""
        mean = self.means(c)
        target, counts = np.repeat(self.target, self.n_sets), self.counts
        likelihood: Any = self.active.likelihood  # of variational sites
        log_z, p = likelihood.mean_gradient(mean.reshape(len(target), -1), target)
        if self.each is not None:
            log_z, p = log_z * self.each, p * self.each[:, np.newaxis]
        p = np.where(counts[:, np.newaxis], p, 0.0).reshape(mean.shape)
        parts = [p[:, :, columns].reshape(len(mean), -1) for columns in self.active.columns()]
        pairs = zip(self.features, parts, strict=True)
        gradient = np.stack([w @ part.astype(w.dtype) for w, part in pairs], dtype=np.float64)
        return float(log_z[counts].sum(dtype=np.float64)), gradient

    def judge(self, c: Doubles) -> tuple[float, float, Doubles]:
        """Return the nlpp of the rows by the folds without them, and with the row thought of.

        Third come these latent means of the rows, (n, K). Rows of weights w count as
        (sum w)^2 / sum w^2 rows: a large weight does not make one row many.
        """
        mean, none, w = self.means(c), np.zeros((len(self.target), 1)), self.rows.weights
        count = len(self.target) if w is None else float(w.sum() ** 2 / (w @ w))
        left_out = mean[np.arange(len(self.target)), self.folds]
        log_z = self.active.likelihood.log_z(left_out, none, self.target)
        each = self.active.likelihood.log_probabilities(mean[:, -1], none).mean(axis=1)
        nlpp = -float(np.average(log_z, weights=w))
        thought_of = float(np.average(each, weights=w))
        return nlpp, (count * nlpp - thought_of) / (count + 1.0), left_out


def best_scale(
    whole: Problem, report: Callable[[float], None]
) -> tuple[float, Doubles, dict[str, float], Quantiles]:
    """Return the factor of the prior variance, and the coefficients (C, d, R) of all rows with it.

    Third comes the nlpp of left-out rows for each factor that was tried, and last the quantiles of
    the scores of left-out rows with this one (posterior/limits.py).

    Parameters
    ----------
    whole : Problem
    report : callable
        Called after each scale with that nlpp; may raise Interrupted.
    """
    problem, tried, losses = Folds(whole), dict[str, float](), dict[int, float]()
    ascent, left_out, point, step, best = None, np.empty(0), np.empty(0), 0, 0
    rows, likelihood = whole.rows, whole.active.likelihood
    small = rows.tolerance * rows.total * problem.n_sets
    while step not in losses and abs(step) <= FARTHEST:
        before, scale = problem.scale, scale_of(step)
        problem.set_scale(scale)
        ascent = problem.begin() if ascent is None else problem.carry(ascent, before)
        for _ in range(MAX_ROUNDS):
            if ascent.step(problem.value_and_gradient, problem.solve, problem.resolution) <= small:
                break
        tried[f"{scale:.4g}"], losses[step], mean = problem.judge(ascent.point)
        report(tried[f"{scale:.4g}"])
        best = min(losses, key=losses.__getitem__)
        if best == step:
            left_out, point = mean, np.split(ascent.point, problem.n_sets, axis=2)[-1]
        step = best - 1 if best + 1 in losses else best + 1
    logs = likelihood.log_probabilities(left_out, np.zeros((len(left_out), 1)))
    of_rows = 1.0 if rows.weights is None else rows.weights
    return scale_of(best), point, tried, conformal_scores(logs, problem.target, of_rows)
