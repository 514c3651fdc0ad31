"""The Gibbs sampler for the multinomial probit and the probit (Girolami & Rogers 2006; GR below).

As in variational inference each latent value m has a noisy copy y ~ N(m, 1), of which the labels
tell the largest or the sign. A sweep draws (GR appendix D)

    the parameters of the kernels given Y, M integrated out, by a Metropolis step, if wanted
    M given Y: normal, covariances K (I + K)^-1 and means K (I + K)^-1 y
    Y given M: normal, in the cones of the labels

and, before M, what the labels leave free of Y. The values of a row may all move by one number: with
one kernel for all classes their means are independent of the rest, and are drawn from the prior.
And cones do not change when Y is multiplied by g, so that g^2 is chi-squared with n R degrees of
freedom over y' (I + K)^-1 y (Liu & Sabatti 2000). Chains are slow all the same where the variance
of the kernel is large: M moves by steps of the size of the noise. The report tells how well they
have mixed.

Given Y a new latent value is Gaussian with mean k' (I + K)^-1 y: each draw kept is a member of the
mixture that predicts, and no new latent values need to be drawn.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sparsegp.dense.base import Fit, Method, Problem, Watch
from sparsegp.dense.chains import effective_draws, r_hat
from sparsegp.dense.component import Component
from sparsegp.dense.length_scales import log_weights
from sparsegp.dense.orthant import log_evidence
from sparsegp.dense.spectrum import Spectrum
from sparsegp.dense.truncated import biases, labelled
from sparsegp.errors import SettingsError
from sparsegp.math.quadrature import log_sum_exp
from sparsegp.types import Doubles

KEY = 23
SEGMENT = 200
"""Sweeps of all chains between two looks at whether to stop."""
MONITORED = 100
"""Rows at most, evenly spaced, whose latent means tell whether the chains have mixed."""
KEPT = ("weights", "logs", "means")
FIRST_STEP = 0.1
ACCEPTED = 0.3
"""Share of Metropolis steps that should be accepted."""


@dataclass(frozen=True)
class Gibbs(Method, name="gibbs"):
    """The Gibbs sampler.

    Parameters
    ----------
    chains : int
        Started from draws of the prior, and run side by side.
    samples : int
        Draws kept of each chain.
    burn_in : int
        Sweeps of each chain that are thrown away.
    thin : int
        Sweeps for one draw kept.
    metropolis : bool
        Whether the parameters of the kernels are drawn, too. Their logarithms have a normal prior
        about those given. The length of the steps is learnt during the burn-in.
    spread : float
        Standard deviation of that prior.
    particles : int
        Of the estimate of the marginal likelihood, made once for each chain; none with 0, or where
        the kernels are drawn.
    """

    chains: int = 4
    samples: int = 250
    burn_in: int = 1000
    thin: int = 8
    metropolis: bool = False
    spread: float = 2.0
    particles: int = 500

    likelihoods: ClassVar[tuple[str, ...]] = ("probit", "multinomial_probit")

    def __post_init__(self) -> None:
        least = {"chains": 1, "samples": 4, "burn_in": 0, "thin": 1, "particles": 0}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise SettingsError(f"{name} must be {bound} or more, got {getattr(self, name)}")
        if not self.spread > 0.0:
            raise SettingsError(f"spread must be positive, got {self.spread}")

    @property
    def sweeps(self) -> int:
        """Of each chain."""
        return self.burn_in + self.samples * self.thin

    def fit(self, problem: Problem, watch: Watch) -> Fit:
        """Return the posterior as a mixture of the draws kept."""
        spectrum = Spectrum(problem.covariances(), problem.n_latent)
        course = Course.begin(self, problem, spectrum, watch.former)
        shared = (self, problem, None if self.metropolis else spectrum)
        while course.sweep < self.sweeps:
            for number, (chain, kept) in watch.map(advance, shared, course.chains):
                course.chains[number] = chain
                course.segments[number].append(kept)
            figures = {"accepted": course.accepted} if self.metropolis else {}
            watch.say(course.sweep, self.sweeps, course.arrays, **figures)
        kept = course.kept()
        report: dict[str, Any] = {"mean": _mixing(kept["means"])}
        value, trace = float("nan"), []
        if self.metropolis:
            trace = _trace(problem, kept["logs"])
            report["parameters"] = _mixing(kept["logs"])
            report["accepted"] = course.accepted
        elif self.particles:
            found = log_evidence(problem, self.particles, self.chains, watch)
            value = float(log_sum_exp(found) - np.log(len(found)))
            report["log_evidence_estimates"] = found.tolist()
        return Fit(_components(problem, kept), value, trace, report)

    def matrices(self, n_kernels: int, n_latent: int, likelihood: str = "") -> int:
        """Return how many (n, n) matrices it holds, the estimate of the evidence the most."""
        return 3 * n_kernels + 3


@dataclass(frozen=True)
class Chain:
    """Where a chain is.

    Attributes
    ----------
    number : int
    sweep : int
        Sweeps made.
    y : Doubles (n, R)
    logs : Doubles (q,)
        Parameters of the kernels.
    log_step : float
        Logarithm of the length of Metropolis steps.
    accepted : int
        Metropolis steps.
    """

    number: int
    sweep: int
    y: Doubles
    logs: Doubles
    log_step: float
    accepted: int

    @classmethod
    def start(cls, number: int, problem: Problem, spectrum: Spectrum) -> Self:
        """Draw M from the prior, and Y given the labels."""
        rng = np.random.default_rng([problem.seed, KEY, number])
        noise = rng.standard_normal((len(problem.x), problem.n_latent))
        mean = spectrum.back(np.sqrt(spectrum.values) * noise)
        y = labelled(problem.likelihood, mean, np.ones_like(mean), problem.target, rng)
        return cls(number, 0, y, problem.parameters(), np.log(FIRST_STEP), 0)


def advance(
    shared: tuple[Gibbs, Problem, Spectrum | None], chain: Chain
) -> tuple[Chain, dict[str, Doubles]]:
    """Make the next sweeps of a chain.

    Parameters
    ----------
    shared : (Gibbs, Problem, Spectrum or None)
        The spectrum of the covariances, where these stay.
    chain : Chain

    Returns
    -------
    chain : Chain
    kept : dict
        Of S draws: `weights` (I + K)^-1 y, (S, n, R), `logs` of the parameters of the kernels,
        (S, q), and `means` of the latent values given y of some rows, (S, rows, R).
    """
    method, problem, spectrum = shared
    if spectrum is None:
        here = problem.with_parameters(chain.logs)
        spectrum = Spectrum(here.covariances(), problem.n_latent)
    rows = np.unique(np.linspace(0, len(problem.x) - 1, MONITORED).astype(int))
    kept: list[tuple[Doubles, Doubles, Doubles]] = []
    for sweep in range(chain.sweep + 1, min(chain.sweep + SEGMENT, method.sweeps) + 1):
        # sweeps count from one: a last zero would not change the key
        rng = np.random.default_rng([problem.seed, KEY, chain.number, sweep])
        if method.metropolis:
            chain, spectrum = _move(method, problem, chain, spectrum, rng)
        y = _draw(problem, spectrum, chain.y, rng)
        chain = replace(chain, sweep=sweep, y=y)
        if sweep > method.burn_in and (sweep - method.burn_in) % method.thin == 0:
            weights = spectrum.smooth(y)
            kept.append((weights, chain.logs, _contrasts(y - weights)[rows]))
    shapes = y.shape, chain.logs.shape, (len(rows), y.shape[1])
    columns = zip(*kept, strict=True) if kept else [[], [], []]
    parts = zip(KEPT, columns, shapes, strict=True)
    return chain, {name: np.reshape(part, (len(kept), *shape)) for name, part, shape in parts}


def _contrasts(mean: Doubles) -> Doubles:
    """Return latent means (n, R) less what all of a row share, of which labels say nothing."""
    return mean - mean.mean(axis=1, keepdims=True) if mean.shape[1] > 1 else mean


def _draw(problem: Problem, spectrum: Spectrum, y: Doubles, rng: np.random.Generator) -> Doubles:
    """Draw what the labels leave free of Y, then M, then Y, in the basis of the eigenvectors."""
    turned = spectrum.turn(y)
    if y.shape[1] > 1 and len(problem.kernels) == 1:
        common = rng.standard_normal(len(y)) * np.sqrt((1.0 + spectrum.values[:, 0]) / y.shape[1])
        turned = turned - turned.mean(axis=1, keepdims=True) + common[:, np.newaxis]
    if not biases(problem.likelihood, y.shape[1]).any():
        square = float((np.square(turned) / (1.0 + spectrum.values)).sum())
        turned = turned * np.sqrt(rng.chisquare(y.size) / square)
    share = spectrum.values / (1.0 + spectrum.values)
    noise = rng.standard_normal(y.shape)
    mean = spectrum.back(share * turned + np.sqrt(share) * noise)
    return labelled(problem.likelihood, mean, np.ones_like(mean), problem.target, rng)


def _move(
    method: Gibbs, problem: Problem, chain: Chain, spectrum: Spectrum, rng: np.random.Generator
) -> tuple[Chain, Spectrum]:
    """Make a Metropolis step of the parameters of the kernels, given Y."""
    proposed = chain.logs + np.exp(chain.log_step) * rng.standard_normal(len(chain.logs))
    away = np.square((np.array([chain.logs, proposed]) - problem.parameters()) / method.spread)
    here = -0.5 * (spectrum.quadratic(chain.y) + spectrum.log_det + away[0].sum())
    there = log_weights((problem, chain.y), proposed[np.newaxis]).sum() - 0.5 * away[1].sum()
    share = float(np.exp(min(0.0, there - here)))
    if chain.sweep < method.burn_in:
        rise = (share - ACCEPTED) / (chain.sweep + 1.0) ** 0.6
        chain = replace(chain, log_step=chain.log_step + rise)
    if rng.random() >= share:
        return chain, spectrum
    covariances = problem.with_parameters(proposed).covariances()
    chain = replace(chain, logs=proposed, accepted=chain.accepted + 1)
    return chain, Spectrum(covariances, problem.n_latent)


@dataclass
class Course:
    """What a fit has come to: the chains, and what each has kept in its segments."""

    chains: list[Chain]
    segments: list[list[dict[str, Doubles]]]

    @classmethod
    def begin(
        cls,
        method: Gibbs,
        problem: Problem,
        spectrum: Spectrum,
        former: Mapping[str, NDArray[Any]],
    ) -> Self:
        """Return the one that was interrupted, or a new one."""
        numbers = range(method.chains)
        if not former:
            return cls([Chain.start(c, problem, spectrum) for c in numbers], [[] for _ in numbers])
        chains = [
            Chain(
                c,
                int(former["sweep"]),
                former["y"][c],
                former["parameters"][c],
                float(former["log_step"][c]),
                int(former["accepted"][c]),
            )
            for c in numbers
        ]
        return cls(chains, [[{name: former[name][c] for name in KEPT}] for c in numbers])

    @property
    def sweep(self) -> int:
        """Sweeps made of each chain."""
        return self.chains[0].sweep

    @property
    def accepted(self) -> float:
        """Share of the Metropolis steps."""
        return sum(chain.accepted for chain in self.chains) / (self.sweep * len(self.chains))

    def kept(self) -> dict[str, Doubles]:
        """Return all that was kept, (chains, S, ...)."""
        return {
            name: np.stack([np.concatenate([part[name] for part in own]) for own in self.segments])
            for name in KEPT
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all of it, to go on from."""
        return self.kept() | {
            "sweep": np.array(self.sweep),
            "y": np.array([chain.y for chain in self.chains]),
            "parameters": np.array([chain.logs for chain in self.chains]),
            "log_step": np.array([chain.log_step for chain in self.chains]),
            "accepted": np.array([chain.accepted for chain in self.chains]),
        }


def _components(problem: Problem, kept: Mapping[str, Doubles]) -> list[Component]:
    """Return the draws, those with the same kernels together."""
    weights, logs = (kept[name].reshape(-1, *kept[name].shape[2:]) for name in ("weights", "logs"))
    each, which = np.unique(logs, axis=0, return_inverse=True)
    precision = np.ones((weights.shape[1], len(problem.kernels)))
    return [
        Component(
            problem.with_parameters(some).kernels,
            problem.likelihood,
            weights[which.ravel() == number],
            "independent",
            precision,
        )
        for number, some in enumerate(each)
    ]


def _mixing(draws: Doubles) -> dict[str, float]:
    """Return the worst figures of convergence over all quantities that have changed."""
    reduction, effective = r_hat(draws), effective_draws(draws)
    changed = np.isfinite(reduction) & np.isfinite(effective)
    if not changed.any():
        return {}
    return {
        "r_hat": float(reduction[changed].max()),
        "effective_draws": float(effective[changed].min()),
    }


def _trace(problem: Problem, logs: Doubles) -> list[dict[str, float]]:
    """Return the parameters of each draw kept, one chain after the other."""
    names = [f"{c}:{name}" for c, k in enumerate(problem.kernels) for name in k.parameter_names]
    values = np.exp(logs.reshape(-1, logs.shape[2])).tolist()
    return [dict(zip(names, some, strict=True)) for some in values]
