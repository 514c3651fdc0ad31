"""Expectation propagation for the softmax, with correlated sites (Cseke & Csato 2005; CC below).

The site of a row is a Gaussian over all its latent values. In a sweep all sites are set anew, each
from its cavity (the posterior without it), towards the one that matches the tilted moments; the
step is damped. At the fixed point every cavity times its term has the moments of the posterior.

With moments="laplace" a tilted density is expanded about its mode (CC section 3.2). The sites are
then the expansions of the terms themselves, and the fixed point is the Laplace approximation of the
whole posterior: the mode, the curvature there, and its log evidence.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparsegp.dense.base import Alone, Evidence, Fit, Method, Problem, Watch
from sparsegp.dense.component import Component
from sparsegp.dense.precisions import Full, of_latent
from sparsegp.dense.tilted_softmax import Matched, Rule, contrasts
from sparsegp.errors import NumericalError, SettingsError
from sparsegp.types import Doubles


@dataclass(frozen=True)
class Sites:
    """exp(h_i' z_i - z_i' P_i z_i / 2) in the differences z_i = B_i' u_i of every row.

    Attributes
    ----------
    precision : Doubles (n, d, d)
    shift : Doubles (n, d)
    """

    precision: Doubles
    shift: Doubles

    @classmethod
    def none(cls, n: int, d: int) -> "Sites":
        """Return sites that say nothing."""
        return cls(np.zeros((n, d, d)), np.zeros((n, d)))

    def towards(self, other: "Sites | Matched", share: float) -> "Sites":
        """Return sites a share of the way to others."""
        return Sites(
            self.precision + share * (other.precision - self.precision),
            self.shift + share * (other.shift - self.shift),
        )

    def packed(self) -> Doubles:
        """Return both in one array, (n, d, d + 1)."""
        return np.concatenate([self.precision, self.shift[..., np.newaxis]], axis=2)

    @classmethod
    def unpacked(cls, array: NDArray[Any]) -> "Sites":
        """Return what `packed` has put together."""
        return cls(array[..., :-1], array[..., -1])


class Posterior:
    """The prior times the sites.

    Attributes
    ----------
    precision : Doubles (n, R, R)
        Of the sites in u.
    full : Full
        The same, factored.
    coefficients : Doubles (n, R)
        K^-1 of the mean.
    mean : Doubles (n, d)
        Of z.
    covariance : Doubles (n, d, d)
        Of the z of a row.
    log_integral : float
        Log of the integral of prior times sites.
    """

    def __init__(self, sites: Sites, covariances: Doubles, basis: Doubles) -> None:
        across = basis.swapaxes(1, 2)
        self.precision = basis @ sites.precision @ across
        self.full = Full(self.precision, covariances, basis.shape[1])
        shift = basis @ sites.shift[..., np.newaxis]
        every = of_latent(covariances, basis.shape[1])
        self.coefficients = (shift - self.full.apply(_times(every, shift)))[..., 0]
        mean = _times(every, self.coefficients[..., np.newaxis])
        self.mean = (across @ mean)[..., 0]
        variances = np.diagonal(covariances, axis1=1, axis2=2)
        self.covariance = across @ self.full.covariance(covariances, variances) @ basis
        self.log_integral = float(0.5 * np.sum(sites.shift * self.mean) - 0.5 * self.full.log_det)


@dataclass(frozen=True)
class SoftmaxEP(Method, name="softmax_ep"):
    """Expectation propagation for the softmax.

    Parameters
    ----------
    moments : str
        ``quadrature`` or ``laplace``.
    n_nodes : int
        Nodes of the product rule along each of the R - 1 dimensions.
    damping : float
        Share of the way that a site goes in a sweep, in (0, 1].
    tolerance : float
        Largest difference of posterior and tilted moments at the end, in units of the posterior
        scale of a row.
    max_sweeps : int

    Raises
    ------
    SettingsError
        If an option is out of range.
    """

    moments: str = "quadrature"
    n_nodes: int = 7
    damping: float = 0.5
    tolerance: float = 1e-5
    max_sweeps: int = 300
    likelihoods: ClassVar[tuple[str, ...]] = ("softmax",)

    def __post_init__(self) -> None:
        Rule(self.moments, self.n_nodes)  # checks both
        if not 0.0 < self.damping <= 1.0:
            raise SettingsError(f"damping must be in (0, 1], got {self.damping}")
        if not self.tolerance > 0.0:
            raise SettingsError(f"tolerance must be positive, got {self.tolerance}")
        if self.max_sweeps < 1:
            raise SettingsError(f"max_sweeps must be at least 1, got {self.max_sweeps}")

    def fit(self, problem: Problem, watch: Watch) -> Fit:
        """Return the posterior; see `Method`. One component of the form "full"."""
        _, trace, posterior, log_evidence = self._converge(problem, watch, None)
        component = Component(
            problem.kernels,
            problem.likelihood,
            posterior.coefficients[np.newaxis],
            Full.name,
            posterior.precision,
        )
        names = ("log_evidence", "difference")
        steps = [{"step": k, **dict(zip(names, row, strict=True))} for k, row in enumerate(trace)]
        report = {
            "moments": self.moments,
            "points": Rule(self.moments, self.n_nodes).points(problem.n_latent),
            "sweeps": len(trace) - 1,
            "difference": trace[-1][1],
        }
        return Fit([component], log_evidence, steps, report)

    @property
    def has_evidence(self) -> bool:
        """True with moments="quadrature"; the Laplace fixed point is no maximum of its evidence."""
        return self.moments == "quadrature"

    def evidence(self, problem: Problem, start: NDArray[Any] | None = None) -> Evidence:
        """Return log Z_EP and its gradient; see `Method`.

        At the fixed point log Z_EP does not change with the sites (Seeger 2005), so the gradient is
        that of the prior alone: (a a' - V) / 2 for each covariance. The value has the error of the
        product rule, which the gradient does not see.

        Raises
        ------
        SettingsError
            With moments="laplace".
        """
        if not self.has_evidence:
            return super().evidence(problem, start)
        begin = None if start is None else Sites.unpacked(start)
        sites, _, posterior, log_evidence = self._converge(problem, Alone(), begin)
        weights = np.zeros((len(problem.kernels), len(problem.x), len(problem.x)))
        for r, a in enumerate(posterior.coefficients.T):
            weights[r % len(weights)] += 0.5 * (np.outer(a, a) - posterior.full.block(r))
        return Evidence(log_evidence, problem.pull_back(list(weights)), sites.packed())

    def matrices(self, n_kernels: int, n_latent: int, likelihood: str = "") -> int:
        """Return how many (n, n) matrices it holds; see `Method`."""
        return n_kernels + 5 * n_latent**2

    def _converge(
        self, problem: Problem, watch: Watch, start: Sites | None
    ) -> tuple[Sites, list[tuple[float, float]], Posterior, float]:
        """Return sites, (log evidence, difference) of each sweep, posterior and log evidence."""
        Rule(self.moments, self.n_nodes).points(problem.n_latent)
        sites = start or Sites.none(len(problem.x), problem.n_latent - 1)
        trace: list[tuple[float, float]] = []
        if "softmax_ep_sites" in watch.former:
            sites = Sites.unpacked(watch.former["softmax_ep_sites"])
            trace = [(float(row[0]), float(row[1])) for row in watch.former["softmax_ep_trace"]]
        covariances = problem.covariances()
        basis = contrasts(problem.target, problem.n_latent)
        while True:
            posterior = Posterior(sites, covariances, basis)
            matched, log_evidence, difference = self._match(problem, sites, posterior)
            now = [*trace, (log_evidence, difference)]
            if difference <= self.tolerance:
                return sites, now, posterior, log_evidence
            if len(now) > self.max_sweeps:
                raise NumericalError(
                    f"{self} must agree with its tilted moments to {self.tolerance:g}, found a "
                    f"difference of {difference:.2g} after {self.max_sweeps} sweeps; use more "
                    "n_nodes, a smaller damping, or a kernel of smaller variance"
                )
            sites, trace = sites.towards(matched, self.damping), now
            state = {"softmax_ep_sites": sites.packed(), "softmax_ep_trace": np.array(trace)}
            watch.say(len(trace), 0, state.copy, log_evidence=log_evidence, difference=difference)

    def _match(
        self, problem: Problem, sites: Sites, posterior: Posterior
    ) -> tuple[Matched, float, float]:
        """Return matching sites, log Z_EP, and how far tilted and posterior moments differ."""
        precision = np.asarray(np.linalg.inv(posterior.covariance), np.float64)
        natural = np.einsum("nij,nj->ni", precision, posterior.mean)
        cavity_precision, cavity_natural = precision - sites.precision, natural - sites.shift
        covariance = np.asarray(np.linalg.inv(cavity_precision), np.float64)
        covariance = 0.5 * (covariance + covariance.swapaxes(1, 2))
        mean = np.einsum("nij,nj->ni", covariance, cavity_natural)
        likelihood: Any = problem.likelihood
        rule = Rule(self.moments, self.n_nodes)
        try:
            matched = rule(mean, covariance, problem.target, likelihood.biases)
        except np.linalg.LinAlgError:
            raise NumericalError(
                "the posterior without a row must be a Gaussian, found a covariance that is not "
                "positive definite after rounding; use a kernel of smaller variance"
            ) from None
        ratio = _log_volume(cavity_precision, cavity_natural) - _log_volume(precision, natural)
        log_evidence = posterior.log_integral + float(np.sum(matched.log_z + ratio))

        tilted = np.asarray(np.linalg.inv(cavity_precision + matched.precision), np.float64)
        ahead = np.einsum("nij,nj->ni", tilted, cavity_natural + matched.shift)
        scale = np.sqrt(np.diagonal(posterior.covariance, axis1=1, axis2=2))
        by_mean = np.abs(ahead - posterior.mean) / scale
        square = scale[:, :, np.newaxis] * scale[:, np.newaxis]
        by_covariance = np.abs(tilted - posterior.covariance) / square
        return matched, log_evidence, float(max(by_mean.max(), by_covariance.max()))


def _times(covariances: Doubles, right: Doubles) -> Doubles:
    """Return K applied to (n, R, q), for R covariances (R, n, n)."""
    return np.asarray(np.einsum("rij,jrq->irq", covariances, right, optimize=True))


def _log_volume(precision: Doubles, natural: Doubles) -> Doubles:
    """Return the log integral of exp(h' z - z' P z / 2), (n,), up to powers of 2 pi."""
    mean = np.linalg.solve(precision, natural[..., np.newaxis])[..., 0]
    square = np.einsum("ni,ni->n", natural, mean)
    return np.asarray(0.5 * (square - np.linalg.slogdet(precision)[1]))
