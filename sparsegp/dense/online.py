"""The sparse online Gaussian process, with the softmax (Csato & Opper 2002; CO below).

Rows come one after the other, in an order of chance. The site of a row is set from the moments of
its term under the posterior so far, and acts on the projection of its latent values on the basis
(CO eqs. 14-19: KL-optimal for a fixed basis). The first sweep is the online algorithm; in further
sweeps a site is taken out before it is set anew, which is expectation propagation (Cseke & Csato
2005, section 3.2, as in the toolbox that they build on).

Of the rows in that order, one joins the basis if its prior variance given the basis so far exceeds
`novelty` times its prior variance (CO eq. 21). As that hardly depends on the labels, the basis is
chosen before the first sweep, so that early rows are projected on all of it as well.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sparsegp.dense.base import Fit, Method, Problem, Watch
from sparsegp.dense.component import Component
from sparsegp.dense.projected import Projected, marked
from sparsegp.dense.softmax_ep import Sites
from sparsegp.dense.tilted_softmax import Rule, contrasts
from sparsegp.errors import NumericalError, SettingsError
from sparsegp.types import Doubles, Integers

KEY = 53


@dataclass(frozen=True)
class Online(Method, name="online"):
    """Sparse online inference for the softmax.

    Parameters
    ----------
    novelty : float
        Share of its prior variance that a row of the basis has, given the rows before it; below 1.
    sweeps : int
        At most.
    tolerance : float
        Largest difference of posterior and tilted moments in a sweep, in units of the posterior
        scale, after which there are no more sweeps.
    moments : str
        ``quadrature`` or ``laplace``, as in softmax_ep.
    n_nodes : int
        Of the product rule, along each of the R - 1 dimensions.

    Raises
    ------
    SettingsError
        If an option is out of range.
    """

    novelty: float = 1e-3
    sweeps: int = 20
    tolerance: float = 1e-4
    moments: str = "quadrature"
    n_nodes: int = 7
    likelihoods: ClassVar[tuple[str, ...]] = ("softmax",)

    def __post_init__(self) -> None:
        Rule(self.moments, self.n_nodes)  # checks both
        if not 1e-12 <= self.novelty < 1.0:
            raise SettingsError(f"novelty must be at least 1e-12 and below 1, got {self.novelty}")
        if self.sweeps < 1:
            raise SettingsError(f"sweeps must be at least 1, got {self.sweeps}")
        if not self.tolerance > 0.0:
            raise SettingsError(f"tolerance must be positive, got {self.tolerance}")

    def fit(self, problem: Problem, watch: Watch) -> Fit:
        """Return the posterior; see `Method`. There is no log evidence."""
        rule = Rule(self.moments, self.n_nodes)
        points, n = rule.points(problem.n_latent), len(problem.x)
        covariances = problem.covariances()
        order = np.random.default_rng([problem.seed, KEY]).permutation(n)
        basis = choose_basis(covariances, order, self.novelty)
        sites, trace = Sites.none(n, problem.n_latent - 1), list[float]()
        if "online_sites" in watch.former:
            sites = Sites.unpacked(watch.former["online_sites"])
            trace = watch.former["online_trace"].tolist()
        sweep = Sweep(problem, rule, covariances, basis)
        while len(trace) < self.sweeps and not (trace and trace[-1] <= self.tolerance):
            sites, difference = sweep(sites, order)
            trace.append(difference)
            state = {"online_sites": sites.packed(), "online_trace": np.array(trace)}
            watch.say(len(trace), self.sweeps, state.copy, difference=difference)
        projected, mean = sweep.posterior(sites)
        component = Component(
            problem.kernels,
            problem.likelihood,
            projected.coefficients(mean)[np.newaxis],
            Projected.name,
            marked(projected.precision, basis),
        )
        report = {"basis": len(basis), "points": points, "sweeps": len(trace)}
        return Fit(
            [component],
            trace=[{"difference": value} for value in trace],
            report={**report, "difference": trace[-1]},
        )

    def matrices(self, n_kernels: int, n_latent: int, likelihood: str = "") -> int:
        """Return how many (n, n) matrices it holds, if all rows join the basis; see `Method`."""
        return n_kernels + n_latent + 4 * n_latent**2


def choose_basis(covariances: Doubles, order: Integers, novelty: float) -> Integers:
    """Return the rows of the basis, ascending, (b,).

    Parameters
    ----------
    covariances : Doubles (C, n, n)
        A row is new if it is under one of them.
    order : Integers (n,)
        In which rows come.
    novelty : float
    """
    variances = np.diagonal(covariances, axis1=1, axis2=2)
    left = variances.copy()
    features = np.zeros((len(covariances), 0, len(order)))
    basis: list[int] = []
    for row in order.tolist():
        if (left[:, row] > novelty * variances[:, row]).any():
            # under a kernel for which it is not new, it is not to be divided by rounding
            scale = np.sqrt(np.maximum(left[:, row], 1e-12 * variances[:, row]))
            explained = np.einsum("cb,cbn->cn", features[:, :, row], features)
            new = (covariances[:, row] - explained) / scale[:, np.newaxis]
            features = np.concatenate([features, new[:, np.newaxis]], axis=1)
            left = left - new**2
            basis.append(row)
    return np.sort(np.array(basis))


@dataclass(frozen=True)
class Sweep:
    """One pass over the rows.

    Attributes
    ----------
    problem : Problem
    rule : Rule
    covariances : Doubles (C, n, n)
    basis : Integers (b,)
    """

    problem: Problem
    rule: Rule
    covariances: Doubles
    basis: Integers

    def posterior(self, sites: Sites) -> tuple[Projected, Doubles]:
        """Return the sites in u, factored, and the mean of w, (R, b)."""
        across = contrasts(self.problem.target, self.problem.n_latent)
        blocks = across @ sites.precision @ across.swapaxes(1, 2)
        n_latent = self.problem.n_latent
        projected = Projected(marked(blocks, self.basis), self.covariances, n_latent)
        return projected, projected.mean((across @ sites.shift[..., np.newaxis])[..., 0])

    def __call__(self, sites: Sites, order: Integers) -> tuple[Sites, float]:
        """Return new sites, and the largest difference of posterior and tilted moments."""
        projected, first = self.posterior(sites)
        size = first.size
        covariance = projected.solve(np.eye(size))
        mean = first.ravel()
        across = contrasts(self.problem.target, self.problem.n_latent)
        prior = np.diagonal(self.covariances, axis1=1, axis2=2)
        left = prior - np.square(projected.features).sum(axis=1)[: len(prior)]
        left = np.maximum(left, 0.0)  # below zero there is rounding
        precision, shift, worst = sites.precision.copy(), sites.shift.copy(), 0.0
        for i in order.tolist():
            # z_i = slope' w and what the basis leaves of it
            slope = np.einsum("rb,rd->rbd", projected.features[:, :, i], across[i])
            slope = slope.reshape(size, -1)
            rest = np.broadcast_to(left[:, i], len(across[i]))
            extra = across[i].T @ (rest[:, np.newaxis] * across[i])
            half = covariance @ slope
            here, at = slope.T @ half, slope.T @ mean
            found, found_shift, difference = self._site(i, at, here, extra, precision[i], shift[i])
            change, move = found - precision[i], found_shift - shift[i]
            gain = np.linalg.solve(np.eye(len(at)) + change @ here, np.eye(len(at)))
            covariance -= half @ gain @ change @ half.T
            mean = mean + half @ gain @ (move - change @ at)
            precision[i], shift[i] = found, found_shift
            worst = max(worst, difference)
        return Sites(precision, shift), worst

    def _site(
        self,
        i: int,
        at: Doubles,
        here: Doubles,
        extra: Doubles,
        precision: Doubles,
        shift: Doubles,
    ) -> tuple[Doubles, Doubles, float]:
        """Return precision and shift of the site that matches, and the difference of moments.

        Parameters
        ----------
        i : int
            Row.
        at, here : Doubles (d,), (d, d)
            Posterior mean and covariance of the projected z.
        extra : Doubles (d, d)
            Covariance of what the basis leaves.
        precision, shift : Doubles (d, d), (d,)
            Of the site so far.
        """
        identity = np.eye(len(at))
        cavity = np.linalg.solve(identity - here @ precision, here)
        middle = at + cavity @ (precision @ at - shift)
        wide = 0.5 * (cavity + cavity.T) + extra
        likelihood: Any = self.problem.likelihood
        target = self.problem.target[i : i + 1]
        try:
            matched = self.rule(middle[np.newaxis], wide[np.newaxis], target, likelihood.biases)
        except np.linalg.LinAlgError:
            raise NumericalError(
                f"the posterior without row {i} must be a Gaussian, found a covariance that is not "
                "positive definite after rounding; use a kernel of smaller variance"
            ) from None
        found, natural = matched.precision[0], matched.shift[0]
        tilted = np.linalg.solve(identity + cavity @ found, cavity)
        ahead = middle + tilted @ (natural - found @ middle)
        scale = np.sqrt(np.diag(here))
        by_mean = np.abs(ahead - at) / scale
        by_covariance = np.abs(tilted - here) / np.outer(scale, scale)
        return found, natural, float(max(by_mean.max(), by_covariance.max()))
