"""A pool of candidates on the driver, from which a batch of inclusions is chosen.

The pool holds the residual covariance of its rows, kernel minus stub product, so it can include
rows one after another, each with a site at the updated marginals, without messages to the row
blocks.
"""

from dataclasses import dataclass, replace

import numpy as np

from sparsegp.errors import NumericalError
from sparsegp.ivm.active_set import Inclusions, OfferedRows
from sparsegp.ivm.rows import BlockSettings
from sparsegp.ivm.scores import Scores, are_lost, rounding_error


@dataclass(eq=False)
class Pool:
    """Candidates with their marginals and residual covariance."""

    candidates: OfferedRows  # best first
    settings: BlockSettings
    slots: int  # maximum number of rows in a batch

    def __post_init__(self) -> None:
        settings, slots = self.settings, self.slots
        x, of, kernels = self.candidates.x, self.candidates.marginals, settings.kernels
        self.now = replace(of, mean=of.mean.copy(), variance=of.variance.copy())
        self.covariance = np.empty((len(kernels), len(x), len(x)))
        for c, kernel in enumerate(kernels):
            stub = self.candidates.stub[c]
            self.covariance[c] = kernel(x, x) - stub @ stub.T
            np.fill_diagonal(self.covariance[c], of.variance[:, c])
        prior = np.stack([kernel.diag(x) for kernel in kernels], axis=1)
        self.rounding = rounding_error(prior)
        self.rule, n_latent, lazy = settings.rule, settings.n_latent, len(kernels) == 1
        self.scores = Scores(
            settings.criterion, self.rule, of.target, n_latent, self.rounding, lazy
        )
        self.columns = np.zeros((len(kernels), slots, len(x)))
        self.length = np.empty((len(kernels), slots))
        self.step = np.empty((len(kernels), slots, n_latent // len(kernels)))
        self.site, self.precision = np.empty((slots, n_latent)), np.empty((slots, len(kernels)))
        self.picked: list[int] = []
        self.score: list[float] = []

    def take_best(self, count: int) -> Inclusions:
        """Return a batch in one-by-one greedy order.

        It ends early when the best remaining score falls below the lowest initial score of the
        pool: a row outside the pool is then likely to be better.
        """
        open_ = np.ones(len(self.now.rows), dtype=bool)
        limit = self.candidates.score.min(initial=np.inf)
        for _ in range(min(count, len(open_))):
            index, score = self.scores.top(self.now, open_, 1)
            if len(index) == 0 or (self.picked and score[0] < limit):
                break
            self._include(int(index[0]), float(score[0]))
            open_[index] = False
        return self._batch()

    def take_diverse(self, count: int) -> Inclusions:
        """Return a batch of the most diverse rows, by pivoted Cholesky of their covariance.

        Rows whose sites become silent once others of the batch are included are left out.
        """
        residual = self.covariance.sum(axis=0)
        open_ = np.ones(len(residual), dtype=bool)
        diagonal = residual.diagonal().copy()
        factor = np.zeros((min(count, len(residual)), len(residual)))
        for j in range(len(factor)):
            pivot = int(np.where(open_, diagonal, -np.inf).argmax())
            open_[pivot] = False
            if diagonal[pivot] > 0.0:
                factor[j] = residual[pivot] - factor[:j, pivot] @ factor[:j]
                factor[j] /= np.sqrt(diagonal[pivot])
                diagonal -= factor[j] ** 2
            self._include(pivot, float(self.candidates.score[pivot]))
        return self._batch()

    def take_all(self) -> Inclusions:
        """Return a batch of all candidates in order, except those whose sites are silent."""
        for index, score in enumerate(self.candidates.score.tolist()):
            self._include(index, score)
        return self._batch()

    def _include(self, i: int, score: float) -> None:
        """Include candidate i (GR eq. 5.1-5.4, SLH appendix C.1, on the rows of the pool)."""
        j, own = len(self.picked), self.now.take(np.array([i]))
        sites = own.sites(self.rule)
        if are_lost(self.rule, own, self.rounding[[i]])[0] or self.rule.is_silent(sites)[0]:
            return
        precision, length, step = sites.precision[0], sites.length[0], sites.step[0]
        if not (np.isfinite(step).all() and (length > 0.0).all()):
            raise NumericalError(
                f"row {own.rows[0]} has latent variance {own.variance.min():.3g} after rounding; "
                "use precision=float64, a kernel of smaller variance, or row weights that differ "
                "less"
            )
        self.site[j], self.precision[j] = sites.mean[0], precision
        width = self.step.shape[2]
        for c in range(len(self.covariance)):
            past, part = self.columns[c, :j], slice(c * width, (c + 1) * width)
            column = (self.covariance[c, i] - past[:, i] @ past) / length[c]
            self.columns[c, j], self.length[c, j], self.step[c, j] = column, length[c], step[part]
            self.now.variance[:, c] -= column**2
            self.now.mean[:, part] += np.outer(column, step[part])
        self.picked.append(i)
        self.score.append(score)

    def _batch(self) -> Inclusions:
        offered, start, count = self.candidates, self.candidates.stub.shape[2], len(self.picked)
        picked = np.array(self.picked, dtype=np.int64)
        within = self.columns[:, :count, picked].swapaxes(1, 2)  # [c, j, s]: column s at row j
        factor = np.concatenate([offered.stub[:, picked], np.tril(within, -1)], axis=2)
        factor[:, np.arange(count), start + np.arange(count)] = self.length[:, :count]
        return Inclusions(
            start=start,
            slots=self.slots,
            factor=factor,
            step=self.step[:, :count],
            rows=self.now.rows[picked],
            target=self.now.target[picked],
            x=offered.x[picked],
            site=self.site[:count],
            precision=self.precision[:count],
            score=np.array(self.score),
        )
