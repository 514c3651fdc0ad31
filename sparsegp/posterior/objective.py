"""The objective of the all-data posterior, its gradient and its metric, as sums over row blocks.

The equations are in posterior/all_data.py, and in posterior/past.py for rows that are gone.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import cho_solve

from sparsegp.math.lbfgs import Ascent
from sparsegp.math.linalg import jittered_cholesky
from sparsegp.math.products import TILE
from sparsegp.math.summation import quantum
from sparsegp.posterior.base import ActiveRows, Calibration, PosteriorWeights, Rows
from sparsegp.posterior.predict import reduction
from sparsegp.types import Doubles

SAFE_VARIANCE_RANGE = 1024.0
"""By how much a latent variance may exceed those of the active rows before sums over rows may
depend, in the last bit, on their partition into blocks."""


class Problem:
    """The objective and its metric, as sums over row blocks.

    Parameters
    ----------
    active : ActiveRows
    rows : Rows
    joined : bool
        Whether the validation rows count.

    Attributes
    ----------
    validation : Doubles (a,)
        Unless they count: their log predictive probabilities where the objective was last
        evaluated, times their weights over the mean of these.
    metric_jitters : list of float
        What was added to the diagonals of B at this scale, relative to their means.
    tilt : Doubles (C, d, R), optional
        Its product with the coefficients is taken off the objective.
    """

    def __init__(self, active: ActiveRows, rows: Rows, joined: bool = False) -> None:
        self.active, self.rows, self.joined = active, rows, joined
        self.validation = np.empty(0)
        self.tilt: Doubles | None = None
        x = np.asarray(active.x, dtype=np.float64)
        largest = max(float(kernel.diag(x).max()) for kernel in active.kernels)
        self.quanta = {
            "gram": quantum(rows.total * largest * SAFE_VARIANCE_RANGE),
            "slope": quantum(rows.total * np.sqrt(largest * SAFE_VARIANCE_RANGE) * 32.0),
            "value": quantum(rows.total * 1024.0),
        }
        self.resolution = 4.0 * self.quanta["value"]
        factors = self.factors = active.factors()
        self.whole = active.penalties(factors)  # P at the kernels' own scale
        self.gram: Doubles = rows.sum_blocks("gram", len(x), self.quanta["gram"])
        self.anchor: list[Any] = [0.0] * len(factors)  # of rows that are gone, as is the force
        self.force: Any = 0.0
        self.scale, self.columns, scale = 0.0, TILE, 1.0
        if rows.past is not None:
            grams, forces = rows.past.seen_by(active, factors)
            self.gram = self.gram + grams
            self.anchor = [rows.past.curvature * gram for gram in grams]
            self.force = np.stack(forces)
            scale = rows.past.weights.calibration.prior_scale
        self.set_scale(scale)

    def set_scale(self, scale: float, columns: int = TILE) -> None:
        """Take the prior variance times `scale`: another penalty, another metric.

        Only the first `columns` rows of a tile count then, for which the metric is that of all rows
        by their share.
        """
        if (scale, columns) == (self.scale, self.columns):
            return
        self.scale, self.columns, self.metric = scale, columns, list[Doubles]()
        self.metric_jitters: list[float] = []
        self.reduced: list[tuple[Doubles, float]] = []
        self.penalty = [P / scale + Q for P, Q in zip(self.whole, self.anchor, strict=True)]
        for B in self._curvatures():
            least = float(np.finfo(self.rows.precision).eps)
            factor, jitter = jittered_cholesky(B, "the metric of the all-data posterior", least)
            self.metric.append(factor)
            self.metric_jitters.append(jitter)

    def _curvatures(self) -> Iterator[Doubles]:
        """Yield B of every kernel."""
        bound = self.active.likelihood.metric_curvature * self.columns / TILE
        for whole, gram in zip(self.whole, self.gram, strict=True):
            yield whole / self.scale + bound * gram

    def start(self) -> Doubles:
        """Return the coefficients (C, d, R) without any row but those that are gone, if any are."""
        if self.rows.past is None:
            return self.zero()
        least = float(np.finfo(np.float32).eps)  # as precise as G
        factors = (jittered_cholesky(Q, "what is left of old rows", least) for Q in self.penalty)
        pairs = zip(factors, self.force, strict=True)
        return np.stack([cho_solve((factor, True), force) for (factor, _), force in pairs])

    def zero(self) -> Doubles:
        """Return coefficients of zero, (C, d, R)."""
        n_kernels, (d, n_classes) = len(self.active.kernels), self.active.site.shape
        return np.zeros((n_kernels, d, n_classes // n_kernels))

    def begin(self, point: Doubles | None = None) -> Ascent:
        """Return an ascent from a point, or from `start`."""
        return Ascent.at(self.start() if point is None else point, self.value_and_gradient)

    def carry(self, ascent: Ascent, scale: float) -> Ascent:
        """Return the state of an ascent that was for another prior scale."""
        weight = 1.0 / self.scale - 1.0 / scale

        def pull(c: Doubles) -> Doubles:
            return np.stack([weight * (p @ part) for p, part in zip(self.whole, c, strict=True)])

        return ascent.less_quadratic(pull)

    def value_and_gradient(self, c: Doubles) -> tuple[float, Doubles]:
        """Return the objective and its gradient at coefficients (C, d, R)."""
        value, gradient = self.fit(c)
        pull = np.stack([p @ part for p, part in zip(self.penalty, c, strict=True)])
        if self.tilt is not None:
            gradient, value = gradient - self.tilt, value - float(np.vdot(c, self.tilt))
        value += float(np.vdot(c, self.force - 0.5 * pull))
        return value, gradient + self.force - pull

    def fit(self, c: Doubles) -> tuple[float, Doubles]:
        """Return the sum of log Z, by weight, over the rows that count, and its gradient."""
        which, quanta = (self.joined, self.columns), (self.quanta["value"], self.quanta["slope"])
        answers = self.rows.map_blocks("slope", c.shape[1], c, *which, *quanta)
        values, gradients, validation = zip(*answers, strict=True)
        self.validation = np.concatenate(validation)
        if len(self.validation):  # not joined
            self.validation *= self.rows.validation_weights
        return float(sum(values)), np.asarray(np.sum(gradients, axis=0))

    def solve(self, right: Doubles) -> Doubles:
        """Return B^-1 applied to (C, d, R)."""
        pairs = zip(self.metric, right, strict=True)
        return np.stack([cho_solve((factor, True), part) for factor, part in pairs])

    def weights(
        self, c: Doubles, calibration: Calibration, report: dict[str, Any]
    ) -> PosteriorWeights:
        """Return the posterior with coefficients (C, d, R); a model keeps float32."""
        if not self.reduced:  # the same for all coefficients
            self.reduced = list(self._reductions())
        gain, taken = (
            [triangle.astype(np.float32).astype(np.float64) for triangle in triangles]
            for triangles in (self.metric, [W for W, _ in self.reduced])
        )
        report |= {"jitter": max(jitter for _, jitter in self.reduced)}
        return PosteriorWeights(list(c), gain, taken, calibration, report)

    def _reductions(self) -> Iterator[tuple[Doubles, float]]:
        """Yield W of every kernel, and the jitter that it took; see `reduction`."""
        active, x = self.active, np.asarray(self.active.x, dtype=np.float64)
        kernels = zip(active.kernels, active.precision.T, self.factors, strict=True)
        curvatures = zip(self._curvatures(), self.metric_jitters, strict=True)
        for (kernel, pi, L), (B, jitter) in zip(kernels, curvatures, strict=True):
            B[np.diag_indices_from(B)] += jitter * float(B.diagonal().mean())
            yield reduction(kernel, (x, pi), L, B, self.scale)
