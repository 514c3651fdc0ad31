"""Multinomial probit: the class of a row is the largest of K noisy latent values.

y_k ~ N(m_k, v_k^2) with v_k^2 = 1 + s_k, and

    Z_i = P(y_i > y_j for all j != i) = E_u[prod_{j != i} Phi((v_i u + m_i - m_j) / v_j)]

(Girolami & Rogers 2006, eq. 3.1, 5.5 and appendix B). With s = 0 the gradient of log Z_i is p in
their eq. 4.3 and 4.4. Only one-dimensional integrals are needed. Biases, one per class, are added
to the means (Seeger, Lawrence & Herbrich 2006, eq. 8 and appendix D).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from sparsegp.fields import setting
from sparsegp.likelihoods.base import Moments
from sparsegp.likelihoods.biased import Biased
from sparsegp.likelihoods.softmax_sites import contrasts
from sparsegp.math.normal import log_cdf_and_hazard
from sparsegp.math.quadrature import (
    MAX_DISTANCE,
    ProductTerms,
    log_win_probabilities,
    ordered_sum,
    pieces,
    product_terms,
    stepped_terms,
)
from sparsegp.types import Booleans, Doubles, Floats, Integers

CHUNK_VALUES = 1 << 15
"""Latent values processed at a time, so that temporaries stay in cache."""
STEEPEST = 1e4
"""Maximum ratio of standard deviations, as the number of nodes grows with it: steeper steps of the
integrand are made as steep as this, which changes probabilities by at most 4e-5."""
MAX_NODES = 500
"""Maximum `n_nodes`; more than a few dozen make no difference."""
COARSE = 12
"""Number of nodes up to which the quadrature error is at least that of single precision."""
RANGE = 4.8
"""Length on which `log_probabilities` places `n_nodes` nodes, in standard deviations."""
REACH = 6.5
"""Lead of the target, in latent units, beyond which `mean_gradient` leaves a class out."""


@dataclass(frozen=True)
class MultinomialProbit(Biased, name="multinomial_probit"):
    """p(y|u) = P(u_y + e_y > u_j + e_j for all other j), with e ~ N(0, I).

    Parameters
    ----------
    n_nodes : int
        Quadrature nodes if the classes share the variance; otherwise each row has more, as many as
        its variances require.
    biases : tuple of float
        One per class; an empty tuple means zeros. `mean_gradient` ignores them.

    Raises
    ------
    SettingsError
        If there are too few or too many nodes, or a bias is not finite.
    """

    curvature_bound: ClassVar[float] = 1.0
    curvature_form: ClassVar[str] = "full"

    n_nodes: int = setting(12, least=2, most=MAX_NODES)
    biases: tuple[float, ...] = ()

    @classmethod
    def start(cls, n_classes: int, n_nodes: int = 12) -> Self:
        """Return the likelihood with `n_nodes` nodes and biases of zero; see `Biased`."""
        return replace(super().start(n_classes), n_nodes=n_nodes)

    def log_density(self, latent: Doubles, target: Any) -> Doubles:
        """Return log p(y|u) = log Z without latent variance; see `Likelihood`."""
        codes = np.broadcast_to(target, latent.shape[:-1])
        u = latent.reshape(-1, latent.shape[-1])
        return self.log_z(u, np.zeros_like(u), codes.reshape(-1)).reshape(codes.shape)

    def moments(self, mean: Doubles, variance: Doubles, target: Integers) -> Moments:
        """Return log Z and its derivatives for all K classes, with one quadrature per row.

        This is the rule for unequal variances, even if the variance is (n, 1); see `Likelihood`.
        """
        mean, variance = self._biased(mean), np.broadcast_to(variance, mean.shape)
        n, n_classes = mean.shape
        log_z, own, (pull, rival) = np.empty(n), np.empty(n), np.empty((2, n_classes - 1, n))
        for rows, _, ratio, terms in self._quadrature(mean, variance, target):
            log_z[rows] = terms.log_z
            pull[:, rows], rival[:, rows], own[rows] = _curvatures(terms, ratio)
        curvature = np.empty(mean.shape)
        curvature[_others(target, n_classes)] = rival.T.reshape(-1)
        curvature[np.arange(n), target] = own
        scale = np.sqrt(1 + variance)[_others(target, n_classes)].reshape(n, n_classes - 1)
        slope = _assemble_gradient(pull / scale.T, target)
        return Moments(log_z, slope, curvature / (1 + variance))

    def log_z(self, mean: Doubles, variance: Doubles, target: Integers) -> Doubles:
        """Return log Z, (n,), faster if the classes share the variance (n, 1); see `Likelihood`."""
        out = np.empty(len(target))
        for rows, _, _, terms in self._quadrature(self._biased(mean), variance, target):
            out[rows] = terms.log_z
        return out

    def log_probabilities(self, mean: Doubles, variance: Doubles) -> Doubles:
        """Return the log probability of every class, (n, K), normalised to sum to one.

        If the classes share the variance and no mean is far behind the largest, one quadrature
        serves all classes of a row, in single precision for up to `COARSE` nodes.
        """
        if variance.shape[1] > 1:
            return super().log_probabilities(mean, variance)
        ratio = self._biased(mean) / np.sqrt(1.0 + variance)
        deficits = ratio.max(axis=1, keepdims=True) - ratio
        near, log_p = deficits.max(axis=1) <= MAX_DISTANCE, np.empty(mean.shape)
        kind = np.float32 if self.n_nodes <= COARSE else np.float64
        log_p[near] = log_win_probabilities(deficits[near].astype(kind), RANGE / self.n_nodes)
        if not near.all():
            log_p[~near] = super().log_probabilities(mean[~near], variance[~near])
        return log_p

    def gradient(self, latent: Doubles, target: Integers) -> tuple[Doubles, Doubles]:
        """Return log p(y|u) (n,) and its gradient (n, K).

        The gradient sums to zero over the classes because p depends only on differences.
        """
        log_z, pull = np.empty(len(target)), np.empty((latent.shape[1] - 1, len(target)))
        for rows, _, _, terms in self._quadrature(self._biased(latent), None, target):
            log_z[rows] = terms.log_z
            pull[:, rows] = -ordered_sum(terms.weight * terms.hazard, axis=1)
        return log_z, _assemble_gradient(pull, target)

    def mean_gradient(self, mean: Floats, target: Integers) -> tuple[Doubles, Floats]:
        """Return log Z (n,) and its gradient (n, K) without latent variance, for many rows.

        Classes that trail the target by more than `REACH` are left out: each changes log Z by less
        than 3e-6 and its gradient by less than 8e-6. With one rival left there is a closed form;
        with more, three quarters of the nodes, closer together, are enough: with `n_nodes` = 12,
        the errors of log Z and its gradient are 2e-4 and 5e-4 for up to 10 classes, 1e-3 and 4e-3
        for 26. The precision is that of the means.
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
            for some in pieces(len(rows), CHUNK_VALUES // count):
                index = rows[some][:, np.newaxis]
                log_z[rows[some]], pull = self._rivals(
                    np.ascontiguousarray(gap[index, columns[some]].T)
                )
                gradient[index, columns[some]] = pull.T
        gradient[every, target] = 0 - ordered_sum(gradient, axis=1)  # not -0.0
        return log_z, gradient

    def curvature(self, mean: Doubles, target: Integers) -> Doubles:
        """Return -d2 log Z / dm dm^T without latent variance, (n, K, K).

        With g_j = m_i - m_j, z_j = u + g_j and h the hazard, under the weights w of the nodes

            -d2 log Z / dg_j dg_k = delta_jk E_w[h_j (z_j + h_j)] - Cov_w(h_j, h_k)

        because h' = -h (z + h). Rows and columns sum to zero. The eigenvalues are at least 0, as Z
        is log-concave, and at most 1.
        """
        out = np.empty((*mean.shape, mean.shape[1]))
        for rows, gap, _, terms in self._quadrature(self._biased(mean), None, target):
            h, weight, every = terms.hazard, terms.weight, np.arange(len(gap))
            own = weight * h * (h + terms.node + gap[:, np.newaxis])
            spread = h - ordered_sum(weight * h, axis=1)[:, np.newaxis]
            spread = (np.sqrt(weight) * spread).transpose(2, 0, 1)  # (n, K - 1, q)
            others = -spread @ spread.transpose(0, 2, 1)
            others[:, every, every] += ordered_sum(own, axis=1).T
            across = contrasts(target[rows], mean.shape[1])
            out[rows] = across @ others @ across.swapaxes(1, 2)
        return out

    def curvature_gradient(self, mean: Doubles, target: Integers, weights: Doubles) -> Doubles:
        """Return the gradient of tr(W C) in the means, (n, K), for the `curvature` C, symmetric W.

        With W' the weights of the gaps, c = h - E[h] and h' = -h (z + h), minus the derivative of
        tr(W C) with respect to g_l is

            W'_ll E[h''_l] + sum_j W'_jj Cov(h'_j, h_l) + 2 Cov(h'_l, (W'h)_l) + E[c_l c'W'c]

        where (W'h)_l = sum_k W'_lk h_k: the third derivatives of log Z contracted with W'.
        """
        fall = np.empty((mean.shape[1] - 1, len(target)))
        for rows, gap, _, terms in self._quadrature(self._biased(mean), None, target):
            across = contrasts(target[rows], mean.shape[1])
            of_gaps = across.swapaxes(1, 2) @ weights[rows] @ across
            fall[:, rows] = _third(terms, gap, of_gaps)
        return _assemble_gradient(fall, target)

    def _rivals(self, gap: Floats) -> tuple[Doubles, Floats]:
        """Return log Z (n,) and its gradient in the means of the rivals (j, n) for gaps (j, n)."""
        if len(gap) == 1:
            shrink = gap.dtype.type(np.sqrt(0.5))
            log_phi, h = log_cdf_and_hazard(shrink * gap)
            return log_phi[0].astype(np.float64), -shrink * h
        ratio = np.ones((len(gap), 1), dtype=gap.dtype)
        log_z, pull = np.empty(gap.shape[1]), np.empty_like(gap)
        for some, terms in product_terms(gap, ratio, -(-3 * self.n_nodes // 4), spread=0.9):
            log_z[some] = terms.log_z
            pull[:, some] = -ordered_sum(terms.weight * terms.hazard, axis=1)
        return log_z, pull

    def _quadrature(
        self, mean: Doubles, variance: Doubles | None, target: Integers
    ) -> Iterator[tuple[Integers, Doubles, Doubles, ProductTerms]]:
        """Yield rows (n,), gaps and ratios (K - 1, n), and terms of the rule for the variances.

        A variance of None means zero.
        """
        variance = np.zeros((len(mean), 1)) if variance is None else variance
        rule: Any = product_terms if variance.shape[1] == 1 else stepped_terms
        for rows in pieces(len(mean), CHUNK_VALUES // mean.shape[1]):
            gap, ratio = _gaps(mean[rows], variance[rows], target[rows])
            steepness = np.maximum(ratio / STEEPEST, 1.0)
            gap, ratio = gap / steepness, ratio / steepness  # the steps' positions do not change
            every, wide = np.arange(rows.start, rows.stop), np.broadcast_to(ratio, gap.shape)
            for some, terms in rule(gap, ratio, self.n_nodes):
                yield every[some], gap[:, some], wide[:, some], terms


def _others(target: Integers, n_classes: int) -> Booleans:
    """Return a mask of the classes that are not the target, (n, K), for fast indexing."""
    return np.asarray(np.arange(n_classes) != target[:, np.newaxis])


def _curvatures(terms: ProductTerms, ratio: Doubles) -> tuple[Floats, Floats, Floats]:
    """Return v_j d log Z / dm_j, v_j^2 times the curvature (K - 1, n), and v_i^2 times that of i.

    With w the weights, r_j = v_i / v_j, H_j the hazards and S = sum_j r_j H_j,

        -v_i^2 d2 log Z / dm_i^2 = 1 - Var_w[u] = -Cov_w(S, u)
        -v_j^2 d2 log Z / dm_j^2 = E_w[H_j (z_j + H_j)] - Var_w(H_j)
                                 = Cov_w(H_j, S - r_j H_j - u) / r_j

    The last forms follow by integration by parts. As hazards decrease with u, they are nonnegative
    for any positive weights, and they stay accurate where the first forms cancel.
    """
    u, h, weight = terms.node, terms.hazard, terms.weight
    scaled = ratio[:, np.newaxis] * h
    total = ordered_sum(scaled)
    mean_h = ordered_sum(weight * h, axis=1)
    own = -ordered_sum(weight * total * (u - ordered_sum(weight * u)))
    other = weight * (h - mean_h[:, np.newaxis]) * (total - u - scaled)
    # one minus the variance of a standard normal variable given that i wins: values outside [0, 1]
    # are rounding errors
    rival = np.clip(ordered_sum(other, axis=1) / ratio, 0.0, 1.0)
    return -mean_h, rival, np.clip(own, 0.0, 1.0)


def _third(terms: ProductTerms, gap: Doubles, of_gaps: Doubles) -> Floats:
    """Return the third derivatives of log Z in the gaps, contracted with weights, (K - 1, n)."""
    weight, h, z = terms.weight, terms.hazard, terms.node + gap[:, np.newaxis]
    own = np.einsum("njj->jn", of_gaps)
    slope = -h * (z + h)
    second = -slope * (z + h) - h * (1.0 + slope)
    centred = h - ordered_sum(weight * h, axis=1)[:, np.newaxis]
    mixed = np.einsum("njk,kqn->jqn", of_gaps, centred)
    common = ordered_sum(own[:, np.newaxis] * slope) + ordered_sum(centred * mixed)
    total = own[:, np.newaxis] * second + 2.0 * slope * mixed + common * centred
    return np.asarray(ordered_sum(weight * total, axis=1))


def _assemble_gradient(pull: Floats, target: Integers) -> Doubles:
    """Return the gradient (n, K), given its elements for the classes j != i, (K - 1, n)."""
    gradient = np.empty((len(target), len(pull) + 1))
    gradient[_others(target, len(pull) + 1)] = pull.T.reshape(-1)
    gradient[np.arange(len(target)), target] = -ordered_sum(pull)
    return gradient


def _gaps(mean: Doubles, variance: Doubles, target: Integers) -> tuple[Doubles, Doubles]:
    """Return (m_i - m_j) / v_j (K - 1, n) and v_i / v_j (K - 1, n or 1) for j != i."""
    n, every = len(target), np.arange(len(target))
    others = _others(target, mean.shape[1])
    gap = mean[every, target][:, np.newaxis] - mean[others].reshape(n, -1)
    scale = np.sqrt(1 + variance)
    if scale.shape[1] == 1:
        return np.ascontiguousarray((gap / scale).T), np.ones((gap.shape[1], 1))
    rival = scale[others].reshape(n, -1)
    ratio = scale[every, target][:, np.newaxis] / rival
    return np.ascontiguousarray((gap / rival).T), np.ascontiguousarray(ratio.T)
