"""The sparse online Gaussian process, with the softmax (Csato & Opper 2002; CO below).

Rows are processed one after another, in random order. The site of a row is computed from the
moments of its term under the posterior so far, and acts on the projection of its latent values onto
the basis (CO eqs. 14-19: KL-optimal for a fixed basis). The first sweep is the online algorithm; in
later sweeps a site is removed before it is recomputed, which is expectation propagation (Cseke &
Csato 2005, section 3.2, as in the toolbox that they build on).

In the same order, a row joins the basis if its prior variance given the basis so far exceeds
`novelty` times its prior variance (CO eq. 21). As this does not depend on the labels, the basis is
chosen before the first sweep, so that early rows are projected onto all of it as well.

With B the rows of the basis, L L' their prior covariance and phi_i = L^-1 k(B, x_i), the site of
row i acts on phi_i' w, w ~ N(0, I), in place of its latent value: the prior covariance of the rows
is replaced by an approximation of rank b. The cost is O(n (b R)^2).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sparsegp.dense.base import Fit, Problem, Status
from sparsegp.dense.ep import SoftmaxMatching
from sparsegp.dense.precisions import NAME, Precisions, broadcast_kernels, with_prior
from sparsegp.fields import setting
from sparsegp.likelihoods.softmax_sites import contrasts
from sparsegp.math.linalg import lower_cholesky, solve_factored, solve_lower
from sparsegp.types import Doubles, Integers

KEY = 53


class Projected(Precisions, name="projected"):
    """Positive semidefinite precisions (n, R, R), each with an extra row that marks the basis."""

    def __init__(self, precision: Doubles, covariances: Doubles, n_latent: int) -> None:
        self.precision = precision[:, :-1]
        self.basis = np.flatnonzero(precision[:, -1, 0])  # row numbers (b,), ascending
        self.lower = [
            lower_cholesky(each[np.ix_(self.basis, self.basis)], "the covariance of the basis")
            for each in covariances
        ]
        self.features = self._features(covariances)  # phi of all rows (R, b, n)
        inner = np.einsum(
            "rbi,irs,sci->rbsc", self.features, self.precision, self.features, optimize=True
        )
        size = n_latent * len(self.basis)
        # Cholesky factor of I + sum_i phi_i phi_i' (x) P_i (R b, R b), the posterior precision of w
        self.factor = lower_cholesky(np.eye(size) + inner.reshape(size, size), NAME)

    def _features(self, cross: Doubles) -> Doubles:
        """Return phi, (R, b, m), given the covariances (C, n, m) of training rows with others."""
        pairs = zip(self.lower, cross[:, self.basis], strict=True)
        found = np.stack([solve_lower(lower, each) for lower, each in pairs])
        return broadcast_kernels(found, self.precision.shape[1])

    def mean(self, natural: Doubles) -> Doubles:
        """Return E[w], (R, b), for sites with shifts (n, R)."""
        right = np.einsum("rbi,ir->rb", self.features, natural, optimize=True)
        return solve_factored(self.factor, right.reshape(-1, 1)).reshape(right.shape)

    def coefficients(self, mean: Doubles) -> Doubles:
        """Return the coefficients (n, R) for a mean of w (R, b); zero outside the basis."""
        out = np.zeros((len(self.precision), len(mean)))
        for r, each in enumerate(mean):
            lower = self.lower[r % len(self.lower)]
            out[self.basis, r] = solve_lower(lower, each, transposed=True)
        return out

    def covariance(self, cross: Doubles, prior: Doubles) -> Doubles:
        """Return covariances (m, R, R)."""
        features = self._features(cross)
        n_latent, b, m = features.shape
        halves = []
        for r, each in enumerate(features):
            right = np.zeros((n_latent, b, m))
            right[r] = each
            halves.append(solve_lower(self.factor, right.reshape(-1, m)))
        out = np.asarray(np.einsum("rim,sim->mrs", halves, halves, optimize=True))
        return with_prior(out, broadcast_kernels(prior, n_latent) - np.square(features).sum(axis=1))


def marked(blocks: Doubles, basis: Integers) -> Doubles:
    """Append a row to blocks (n, R, R), of ones for rows in the basis, else zeros."""
    n, n_latent, _ = blocks.shape
    marks = np.zeros((n, 1, n_latent))
    marks[basis] = 1.0
    return np.concatenate([blocks, marks], axis=1)


@dataclass(frozen=True)
class OnlineState:
    """Basis (b,), sites (n, d, d + 1), and the largest moment difference of each sweep."""

    basis: Integers
    sites: Doubles
    differences: tuple[float, ...] = ()


@dataclass(frozen=True)
class Online(SoftmaxMatching, name="online"):
    """Sparse online inference for the softmax.

    Parameters
    ----------
    moments, n_nodes
        See `SoftmaxMatching`.
    novelty : float
        Minimum variance of a basis row given the previous ones, as a fraction of its prior
        variance; below 1.
    sweeps : int
        Maximum number of sweeps.
    tolerance : float
        Largest difference between posterior and tilted moments in a sweep, in units of the
        posterior scale, at which the sweeps end.
    """

    State: ClassVar[type] = OnlineState

    novelty: float = setting(1e-3, least=1e-12, below=1.0)
    sweeps: int = setting(20, least=1)
    tolerance: float = setting(1e-4, above=0.0)

    def start(self, problem: Problem, near: Any = None) -> OnlineState:
        """Choose the basis; see `Method`."""
        self.points(problem.n_latent)  # raises if there are too many
        basis = choose_basis(problem.prior, order_of(problem), self.novelty)
        return OnlineState(
            basis, np.zeros((len(problem.x), problem.n_latent - 1, problem.n_latent))
        )

    def step(self, problem: Problem, state: OnlineState, run_tasks: Any) -> OnlineState:
        """Make a sweep over the rows that updates the site of each."""
        projected, first = posterior(problem, state)
        covariance = solve_factored(projected.factor, np.eye(first.size))
        mean = first.ravel()
        across = contrasts(problem.target, problem.n_latent)
        prior = np.diagonal(problem.prior, axis1=1, axis2=2)
        rest = prior - np.square(projected.features).sum(axis=1)[: len(prior)]
        rest = np.maximum(rest, 0.0)  # negative values are rounding errors
        sites, worst = state.sites.copy(), 0.0
        for i in order_of(problem).tolist():
            # z_i = slope' w plus a part of covariance `extra` that the basis does not explain
            slope = np.einsum("rb,rd->rbd", projected.features[:, :, i], across[i])
            slope = slope.reshape(first.size, -1)
            own = np.broadcast_to(rest[:, i], len(across[i]))
            extra = across[i].T @ (own[:, np.newaxis] * across[i])
            half = covariance @ slope
            at, spread = slope.T @ mean, slope.T @ half
            moments, row = (at[np.newaxis], spread[np.newaxis]), slice(i, i + 1)
            _, (found,), difference = self.tilted(problem, row, *moments, sites[row], extra)
            change, move = np.split(found - sites[i], [-1], axis=1)
            gain = np.linalg.solve(np.eye(len(at)) + change @ spread, np.eye(len(at)))
            covariance -= half @ gain @ change @ half.T
            mean = mean + half @ gain @ (move[:, 0] - change @ at)
            sites[i], worst = found, max(worst, difference)
        return OnlineState(state.basis, sites, (*state.differences, worst))

    def status(self, state: OnlineState) -> Status:
        """Return the progress, which is finished when moments match or after the last sweep."""
        done, difference = len(state.differences), min(state.differences[-1:], default=np.inf)
        finished = done == self.sweeps or difference <= self.tolerance
        return Status(done, self.sweeps, finished, {"difference": difference})

    def finish(self, problem: Problem, state: OnlineState, run_tasks: Any) -> Fit:
        """Return the posterior, without a log evidence; see `Method`."""
        projected, mean = posterior(problem, state)
        coefficients = projected.coefficients(mean)[np.newaxis]
        precision = marked(projected.precision, state.basis)
        report = {
            "basis": len(state.basis),
            "points": self.points(problem.n_latent),
            "sweeps": len(state.differences),
            "difference": state.differences[-1],
        }
        return Fit(
            [problem.posterior(coefficients, Projected.name, precision)],
            trace=[{"difference": value} for value in state.differences],
            report=report,
        )


def order_of(problem: Problem) -> Integers:
    """Return the order in which rows are processed, (n,)."""
    return np.random.default_rng([problem.seed, KEY]).permutation(len(problem.x))


def choose_basis(covariances: Doubles, order: Integers, novelty: float) -> Integers:
    """Return the rows of the basis, ascending, (b,).

    Parameters
    ----------
    covariances : Doubles (C, n, n)
        A row joins the basis if it is novel under any of them.
    order : Integers (n,)
        Order in which rows are processed.
    novelty : float
    """
    variances = np.diagonal(covariances, axis1=1, axis2=2)
    rest = variances.copy()
    features = np.zeros((len(covariances), 0, len(order)))
    basis: list[int] = []
    for row in order.tolist():
        if (rest[:, row] > novelty * variances[:, row]).any():
            # under a kernel for which it is not novel, avoid dividing by rounding errors
            scale = np.sqrt(np.maximum(rest[:, row], 1e-12 * variances[:, row]))
            explained = np.einsum("cb,cbn->cn", features[:, :, row], features)
            new = (covariances[:, row] - explained) / scale[:, np.newaxis]
            features = np.concatenate([features, new[:, np.newaxis]], axis=1)
            rest = rest - new**2
            basis.append(row)
    return np.sort(np.array(basis))


def posterior(problem: Problem, state: OnlineState) -> tuple[Projected, Doubles]:
    """Return the factored site precisions in u, and the mean of w, (R, b)."""
    across = contrasts(problem.target, problem.n_latent)
    blocks = across @ state.sites[..., :-1] @ across.swapaxes(1, 2)
    projected = Projected(marked(blocks, state.basis), problem.prior, problem.n_latent)
    return projected, projected.mean((across @ state.sites[..., -1:])[..., 0])
