"""The objective of the all-data posterior, its gradient and its metric, as sums over row blocks.

The equations are in posterior/all_data.py, and in posterior/past.py for a former posterior.
"""

import functools
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from sparsegp.math import linalg
from sparsegp.math.lbfgs import Ascent
from sparsegp.math.products import TILE
from sparsegp.math.subnormals import rounded
from sparsegp.math.summation import quantum
from sparsegp.posterior.base import ActiveRows, Calibration, PosteriorWeights, Rows, penalty_jitter
from sparsegp.posterior.past import JITTER
from sparsegp.posterior.predict import reduction
from sparsegp.types import Doubles

METRIC = "the metric of the all-data posterior"
SAFE_VARIANCE_RANGE = 1024.0
"""Factor by which prior variances may exceed those of the active rows; beyond it sums over rows may
depend, in the last bit, on the partition into blocks."""


class SpanObjective:
    """The objective and its metric, as sums over row blocks.

    Unless the validation rows are `joined`, that is, count, `validation` (a,) holds their log
    predictive probabilities at the last evaluation, times their weights over the mean weight.
    """

    def __init__(self, active: ActiveRows, rows: Rows) -> None:
        self.active, self.rows = active, rows
        self.joined, self.validation = False, np.empty(0)
        self.tilt: Doubles | None = None  # (C, d, R); the objective is reduced by tilt . c
        x = np.asarray(active.x, dtype=np.float64)
        variances = np.stack([kernel.diag(x) for kernel in active.kernels])
        largest, mean = float(variances.max()), float(variances.mean(axis=1).max())
        self.quanta = {
            "gram": quantum(rows.total * largest * SAFE_VARIANCE_RANGE),
            "slope": quantum(rows.total * np.sqrt(largest * SAFE_VARIANCE_RANGE) * 32.0),
            "value": quantum(rows.total * 1024.0),
        }
        self.resolution = 4.0 * self.quanta["value"]
        factors = self.factors = active.factors()
        self.jitter = penalty_jitter(mean, len(x), rows.precision)  # of C in P
        if rows.past is not None:
            self.jitter = max(self.jitter, JITTER * mean)
        self.whole = active.penalties(factors, self.jitter)  # P at the kernels' own variance
        self.gram: Doubles = rows.sum_blocks("gram", len(x), self.quanta["gram"])
        self.anchor: list[Any] = []  # anchor and force come from a former posterior
        self.force: Any = 0.0
        self.scale, self.columns, scale = 0.0, TILE, 1.0
        if rows.past is not None:
            grams, forces = rows.past.projected_onto(active, factors)
            self.gram = self.gram + grams
            self.anchor = [rows.past.curvature * gram for gram in grams]
            self.force = np.stack(forces)
            scale = rows.past.weights.calibration.prior_scale
        self.set_scale(scale)

    def set_scale(self, scale: float, columns: int = TILE) -> None:
        """Set the prior variance factor, which changes the penalty and the metric.

        From then on only the first `columns` rows of each tile count; their metric is that of all
        rows times their fraction.
        """
        if (scale, columns) == (self.scale, self.columns):
            return
        self.scale, self.columns = scale, columns
        self._metric: dict[str, list[tuple[Any, float]]] = {}  # by precision, computed on demand
        self._reduced: list[tuple[Doubles, float]] = []

    def metric(self, precision: DTypeLike = np.float64) -> list[tuple[Any, float]]:
        """Return the lower factor of B of each kernel, and its jitter, over the mean diagonal."""
        if (name := np.dtype(precision).name) not in self._metric:
            least = float(np.finfo(self.rows.precision).eps)
            kernels = range(len(self.whole))
            make = [functools.partial(self._curvature, k, precision) for k in kernels]
            self._metric[name] = [linalg.jittered_cholesky(B, METRIC, least) for B in make]
        return self._metric[name]

    @property
    def penalty(self) -> list[Doubles]:
        """P / s of each kernel, plus the term of a former posterior."""
        anchors = self.anchor or [0.0] * len(self.whole)
        return [P / self.scale + Q for P, Q in zip(self.whole, anchors, strict=True)]

    def _curvature(self, k: int, precision: DTypeLike = np.float64) -> Any:
        """Return B of kernel k."""
        B = np.empty_like(self.whole[k], dtype=precision)
        weight = self.active.likelihood.metric_curvature * self.columns / TILE
        diagonal = float(np.trace(self.whole[k]) / self.scale + np.trace(self.gram[k]) * weight)
        diagonal /= len(B)
        for start in range(0, len(B), linalg.BLOCK):  # keeps temporaries small
            some = slice(start, start + linalg.BLOCK)
            whole = self.whole[k][some] / self.scale + self.gram[k][some] * weight
            B[some] = rounded(whole, precision, diagonal)
        return B

    def start(self) -> Doubles:
        """Return initial coefficients (C, d, R): optimal for a former posterior alone, or zero."""
        if self.rows.past is None:
            n_kernels, (d, n_latent) = len(self.active.kernels), self.active.site.shape
            return np.zeros((n_kernels, d, n_latent // n_kernels))
        least = float(np.finfo(np.float32).eps)  # as precise as G
        found = []
        for Q, force in zip(self.penalty, self.force, strict=True):
            factor, _ = linalg.jittered_cholesky(Q, "what is left of old rows", least)
            found.append(linalg.solve_factored(factor, force))
        return np.stack(found)

    def begin(self, point: Doubles | None = None) -> Ascent:
        """Return an ascent from a point, by default from `start`."""
        return Ascent.at(self.start() if point is None else point, self.value_and_gradient)

    def carry(self, ascent: Ascent, scale: float) -> Ascent:
        """Convert the state of an ascent from prior variance factor `scale` to the current one."""
        weight = 1.0 / self.scale - 1.0 / scale

        def pull(c: Doubles) -> Doubles:
            return np.stack([weight * (p @ part) for p, part in zip(self.whole, c, strict=True)])

        return ascent.minus_quadratic(pull)

    def value_and_gradient(self, c: Doubles) -> tuple[float, Doubles]:
        """Return the objective and its gradient at coefficients (C, d, R)."""
        value, gradient = self.fit(c)
        pull = np.stack([P @ part for P, part in zip(self.whole, c, strict=True)]) / self.scale
        if self.anchor:
            pull += np.stack([Q @ part for Q, part in zip(self.anchor, c, strict=True)])
        if self.tilt is not None:
            gradient, value = gradient - self.tilt, value - float(np.vdot(c, self.tilt))
        value += float(np.vdot(c, self.force - 0.5 * pull))
        return value, gradient + self.force - pull

    def fit(self, c: Doubles) -> tuple[float, Doubles]:
        """Return the weighted sum of log Z over the rows that count, and its gradient."""
        which, quanta = (self.joined, self.columns), (self.quanta["value"], self.quanta["slope"])
        answers = self.rows.map_blocks("slope", c.shape[1], c, *which, *quanta)
        values, gradients, validation = zip(*answers, strict=True)
        self.validation = np.concatenate(validation)
        if len(self.validation):  # not joined
            self.validation *= self.rows.validation_weights
        return float(sum(values)), np.asarray(np.sum(gradients, axis=0))

    def solve(self, right: Doubles) -> Doubles:
        """Return B^-1 applied to (C, d, R), in the precision of the stub matrices.

        A search direction needs no more, and single precision halves the time of factorisations.
        """
        precision = self.rows.precision
        pairs = zip(self.metric(precision), right.astype(precision), strict=True)
        found = np.stack([linalg.solve_factored(factor, part) for (factor, _), part in pairs])
        return np.asarray(found, dtype=np.float64)

    def weights(self, c: Doubles, calibration: Calibration) -> PosteriorWeights:
        """Return the posterior with coefficients (C, d, R), but without the gain."""
        pairs = zip(self.factors, c, strict=True)
        whitened = [linalg.solve_lower(factor, part, transposed=True) for factor, part in pairs]
        reduction, jitters = zip(*self.reductions(), strict=True)
        report = {"jitter": max(jitters)}
        return PosteriorWeights(list(c), None, reduction, calibration, report, whitened=whitened)

    def gain(self) -> list[Doubles]:
        """Return the factors of B, rounded in place as a model stores them; call this last."""
        return [_rounded(factor) for factor, _ in self.metric()]

    def reductions(self) -> list[tuple[Doubles, float]]:
        """Return W of each kernel, rounded as a model stores it, and its jitter."""
        if self._reduced:  # the same for all coefficients
            return self._reduced
        active, x, found = self.active, np.asarray(self.active.x, dtype=np.float64), []
        kernels = zip(active.kernels, active.precision.T, self.factors, strict=True)
        for k, (kernel, pi, L) in enumerate(kernels):
            metric = functools.partial(self._with_min_jitter, k)
            W, jitter = reduction(kernel, (x, pi), L, metric, self.scale)
            found.append((_rounded(W), jitter))
        self._reduced = found
        return found

    def _with_min_jitter(self, k: int, least: float) -> Doubles:
        """Return the lower factor of B of kernel k with at least `least` added to its diagonal."""
        (factor, jitter), n = self.metric()[k], len(self.whole[k])
        added = jitter / (1.0 + jitter) * float(np.vdot(factor, factor)) / n
        if added >= least:
            return np.asarray(factor)
        B = self._curvature(k)
        B[np.diag_indices_from(B)] += added + least
        return linalg.lower_cholesky(B, METRIC, in_place=True)


def _rounded(triangle: Doubles) -> Doubles:
    """Round a triangle in place to float32, as a model stores it."""
    for row in triangle:
        row[:] = row.astype(np.float32)
    return triangle
