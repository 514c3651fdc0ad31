"""Multinomial probit: the class of a row is the largest of K noisy latent values.

y_k ~ N(m_k, v_k^2) with v_k^2 = 1 + s_k, and

    Z_i = P(y_i > y_j for all j != i) = E_u[prod_{j != i} Phi((v_i u + m_i - m_j) / v_j)]

(Girolami & Rogers 2006, eq. 3.1, 5.5 and appendix B). With s = 0 the gradient of log Z_i is the p
of their eq. 4.3 and 4.4. All that is needed are integrals over one dimension.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sparsegp.math.normal import log_cdf_and_hazard
from sparsegp.math.quadrature import (
    ProductTerms,
    log_sum_exp,
    ordered_sum,
    product_terms,
    stepped_terms,
)
from sparsegp.types import Doubles, Floats, Integers

CHUNK_TERMS = 1 << 15
"""Upper bound on the elements of one temporary array, so that it stays in cache."""

REACH = 8.0
"""Lead, in latent units, from which a class is no rival any more."""


@dataclass(frozen=True)
class MultinomialProbit:
    """Probability that latent value i exceeds the others, its logarithm and gradient.

    Rows do not influence each other: what one row gets is the same, to the bit, whichever rows it
    is evaluated with.

    Parameters
    ----------
    n_nodes : int
        Quadrature nodes where the classes share the variance; otherwise each row has more, as its
        variances ask for.
    """

    n_nodes: int = 12

    def log_z(self, mean: Doubles, variance: Doubles, target: Integers) -> Doubles:
        """Return log Z of the target class, (n,).

        Parameters
        ----------
        mean : Doubles (n, K)
        variance : Doubles (n, 1) or (n, K)
            Latent variances s; one column if the classes share it.
        target : Integers (n,)
            Class codes.
        """
        out = np.empty(len(target))
        for rows in self._chunks(*mean.shape):
            gap, ratio = _gaps(mean[rows], variance[rows], target[rows])
            for some, terms in self._terms(gap, ratio, variance.shape[1] == 1):
                out[rows][some] = log_sum_exp(terms.log_terms)
        return out

    def gradient(
        self, mean: Doubles, variance: Doubles, target: Integers
    ) -> tuple[Doubles, Doubles]:
        """Return log Z (n,) and its gradient with respect to the means (n, K).

        The gradient sums to zero over the classes, because Z depends on differences only.
        """
        log_z, gradient = np.empty(len(target)), np.empty(mean.shape)
        for rows in self._chunks(*mean.shape):
            gap, ratio = _gaps(mean[rows], variance[rows], target[rows])
            others = np.empty(gap.shape)
            for some, terms in self._terms(gap, ratio, variance.shape[1] == 1):
                log_z[rows][some] = log_sum_exp(terms.log_terms)
                weight = np.exp(terms.log_terms - log_z[rows][some])
                others[:, some] = -ordered_sum(weight * terms.hazard, axis=1)
            gradient[rows] = _spread(others, np.sqrt(1.0 + variance[rows]), target[rows])
        return log_z, gradient

    def mean_gradient(self, mean: Floats, target: Integers) -> tuple[Doubles, Floats]:
        """Return log Z (n,) and its gradient (n, K) without latent variance, for many rows.

        Classes that trail the target by more than `REACH` are left out: they change log Z by less
        than 1e-8, the gradient by less than 1e-7. Most rows of a fitted model are left with one or
        two rivals; for one there is a closed form. The precision is that of the means.
        """
        every = np.arange(len(target))
        gap = mean[every, target][:, np.newaxis] - mean
        near = gap < REACH
        near[every, target] = False
        rivals = near.sum(axis=1)
        log_z, gradient = np.zeros(len(target)), np.zeros_like(mean)
        for count in np.unique(rivals[rivals > 0]).tolist():
            rows = np.flatnonzero(rivals == count)
            columns = np.nonzero(near[rows])[1].reshape(-1, count)
            for some in self._chunks(len(rows), count):
                index = rows[some][:, np.newaxis]
                log_z[rows[some]], pull = self._rivals(gap[index, columns[some]].T)
                gradient[index, columns[some]] = pull.T
        total = np.zeros_like(mean[:, 0])
        for column in gradient.T:
            total -= column
        gradient[every, target] = total
        return log_z, gradient

    def _rivals(self, gap: Floats) -> tuple[Doubles, Floats]:
        """Return log Z (n,) and its gradient for the rivals, both from gaps (j, n)."""
        if len(gap) == 1:
            shrink = gap.dtype.type(np.sqrt(0.5))
            log_phi, h = log_cdf_and_hazard(shrink * gap)
            return log_phi[0].astype(np.float64), -shrink * h
        ratio = np.ones((len(gap), 1), dtype=gap.dtype)
        terms = product_terms(np.ascontiguousarray(gap), ratio, self.n_nodes)
        log_z = log_sum_exp(terms.log_terms)
        pull = -ordered_sum(np.exp(terms.log_terms - log_z) * terms.hazard, axis=1)
        return log_z.astype(np.float64), pull

    def log_probabilities(self, mean: Doubles, variance: Doubles) -> Doubles:
        """Return the log probability of every class, (n, K).

        Each class has its own quadrature, so that small probabilities are as accurate as large
        ones; the K values are then normalised to sum to one exactly.
        """
        n, n_classes = mean.shape
        log_p = np.empty((n_classes, n))
        for k in range(n_classes):
            log_p[k] = self.log_z(mean, variance, np.full(n, k))
        return np.asarray((log_p - log_sum_exp(log_p)).T)

    def _terms(
        self, gap: Doubles, ratio: Doubles, shared: bool
    ) -> Iterator[tuple[Integers | slice, ProductTerms]]:
        """Yield columns and their terms; with shared variances all at once."""
        if shared:
            yield slice(None), product_terms(gap, ratio, self.n_nodes)
        else:
            yield from stepped_terms(gap, ratio, self.n_nodes)

    def _chunks(self, n: int, n_classes: int) -> Iterator[slice]:
        size = max(16, CHUNK_TERMS // (self.n_nodes * n_classes))
        for start in range(0, n, size):
            yield slice(start, min(start + size, n))


def _other_classes(target: Integers, n_classes: int) -> Integers:
    """Return the classes that are not the target, (n, K - 1)."""
    columns = np.arange(n_classes - 1)
    return np.asarray(columns + (columns >= target[:, np.newaxis]))


def _spread(others: Floats, scale: Doubles, target: Integers) -> Doubles:
    """Return the gradient (n, K) from that of the classes j != i (K - 1, n), times v_j."""
    n_classes = len(others) + 1
    columns = _other_classes(target, n_classes)
    scale = np.broadcast_to(scale, (len(target), n_classes))
    others = others / np.take_along_axis(scale, columns, axis=1).T
    gradient = np.empty(scale.shape)
    np.put_along_axis(gradient, columns, others.T, axis=1)
    np.put_along_axis(gradient, target[:, np.newaxis], -ordered_sum(others)[:, np.newaxis], axis=1)
    return gradient


def _gaps(mean: Doubles, variance: Doubles, target: Integers) -> tuple[Doubles, Doubles]:
    """Return (m_i - m_j) / v_j (K - 1, n) and v_i / v_j (K - 1, n or 1) for j != i."""
    columns = _other_classes(target, mean.shape[1])
    own = target[:, np.newaxis]
    gap = np.take_along_axis(mean, own, axis=1) - np.take_along_axis(mean, columns, axis=1)
    scale = np.sqrt(1 + variance)
    if scale.shape[1] == 1:
        return np.ascontiguousarray((gap / scale).T), np.ones((gap.shape[1], 1), dtype=gap.dtype)
    others = np.take_along_axis(scale, columns, axis=1)
    ratio = np.take_along_axis(scale, own, axis=1) / others
    return np.ascontiguousarray((gap / others).T), np.ascontiguousarray(ratio.T)
