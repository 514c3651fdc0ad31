"""The Gibbs sampler for the multinomial probit and the probit (Girolami & Rogers 2006; GR below).

As in variational inference, each latent value m has a noisy copy y ~ N(m, 1). The label of a row is
the index of its largest y, or the sign of y. A sweep draws (GR appendix D)

    optionally, kernel parameters given Y, with M integrated out, by a Metropolis step
    M given Y: normal, with covariances K (I + K)^-1 and means K (I + K)^-1 y
    Y given M: normal, truncated to the cones of the labels

and, before M, moves Y in directions that the labels do not determine. A row's values can be shifted
by a common number: with one kernel for all classes their mean is independent of the rest and is
drawn from the prior. Without biases Y can be multiplied by g > 0, and y' (I + K)^-1 y g^2 is
chi-squared with n R degrees of freedom (Liu & Sabatti 2000). Mixing is still slow if the kernel
variance is large, since the steps of M have the size of the noise. The report contains convergence
diagnostics.

Given Y a new latent value is Gaussian with mean k' (I + K)^-1 y: each kept draw is a component of
the mixture used for predictions, and no new latent values need to be drawn.
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from sparsegp.dense.base import Fit, Method, Problem, RunTasks, Status
from sparsegp.dense.length_scales import log_weights
from sparsegp.dense.mixture import covariances
from sparsegp.dense.orthant import draw_given_labels, log_evidence
from sparsegp.dense.precisions import broadcast_kernels
from sparsegp.dense.spectrum import Spectrum
from sparsegp.fields import setting
from sparsegp.math.chains import effective_sample_size, r_hat
from sparsegp.math.quadrature import log_sum_exp
from sparsegp.state import UNSAVED
from sparsegp.types import Doubles

KEY = 23
SEGMENT = 200
"""Number of sweeps of every chain in one step."""
MONITORED = 100
"""Maximum number of rows, evenly spaced, whose latent means are used for the diagnostics."""
FIRST_STEP = 0.1
ACCEPTED = 0.3
"""Target acceptance rate of the Metropolis steps."""


@dataclass(frozen=True)
class GibbsChain:
    """State of a chain."""

    y: Doubles  # (n, R)
    logs: Doubles  # log parameters of the kernels (q,)
    log_step: float = float(np.log(FIRST_STEP))  # logarithm of the scale of Metropolis steps
    accepted: int = 0  # number of Metropolis steps accepted


@dataclass(frozen=True)
class GibbsState:
    """All chains after `sweep` sweeps of each, and their kept draws."""

    sweep: int
    chains: tuple[GibbsChain, ...]
    weights: Doubles  # (I + K)^-1 y of the draws (chains, S, n, R)
    logs: Doubles  # log kernel parameters of the draws (chains, S, q)
    spectrum: Any = field(default=None, metadata=UNSAVED)  # of the kernels, if they are fixed


@dataclass(frozen=True)
class Gibbs(Method, name="gibbs"):
    """The Gibbs sampler.

    Parameters
    ----------
    chains : int
        Number of chains, started from prior draws and run in parallel.
    samples : int
        Number of draws kept from each chain.
    burn_in : int
        Number of sweeps of each chain that are discarded.
    thin : int
        Number of sweeps per draw kept.
    metropolis : bool
        Whether the kernel parameters are drawn as well. Their logarithms have a normal prior
        centred on the given values. The step size is adapted during the burn-in.
    spread : float
        Standard deviation of that prior.
    particles : int
        Number of particles in each estimate of the marginal likelihood, of which there is one per
        chain. With 0, or if kernel parameters are drawn, there is no estimate.
    """

    State: ClassVar[type] = GibbsState
    likelihoods: ClassVar[tuple[str, ...]] = ("probit", "multinomial_probit")

    chains: int = setting(4, least=1)
    samples: int = setting(250, least=4)
    burn_in: int = setting(1000, least=0)
    thin: int = setting(8, least=1)
    metropolis: bool = False
    spread: float = setting(2.0, above=0.0)
    particles: int = setting(500, least=0)

    @property
    def sweeps(self) -> int:
        """Number of sweeps of each chain."""
        return self.burn_in + self.samples * self.thin

    def start(self, problem: Problem, near: Any = None) -> GibbsState:
        """Draw M from the prior and Y given M and labels, for every chain; see `Method`."""
        spectrum, logs, chains = Spectrum(problem), problem.parameters(), []
        shape = len(problem.x), problem.n_latent
        for number in range(self.chains):
            rng = np.random.default_rng([problem.seed, KEY, number])
            noise = rng.standard_normal(shape)
            mean = spectrum.from_eigenbasis(np.sqrt(spectrum.values) * noise)
            y = draw_given_labels(problem, mean, np.ones(shape), problem.target, rng)
            chains.append(GibbsChain(y, logs))
        weights, none = np.empty((self.chains, 0, *shape)), np.empty((self.chains, 0, len(logs)))
        return GibbsState(0, tuple(chains), weights, none, None if self.metropolis else spectrum)

    def step(self, problem: Problem, state: GibbsState, run_tasks: RunTasks) -> GibbsState:
        """Make the next sweeps of all chains."""
        spectrum, last = state.spectrum, min(state.sweep + SEGMENT, self.sweeps)
        if spectrum is None and not self.metropolis:
            spectrum = Spectrum(problem)
        shared = self, problem, spectrum, range(state.sweep + 1, last + 1)
        found = run_tasks(_advance, shared, list(enumerate(state.chains)))
        chains, weights, logs = zip(*found, strict=True)
        every_weights = np.concatenate([state.weights, weights], axis=1)
        every_logs = np.concatenate([state.logs, logs], axis=1)
        return GibbsState(last, chains, every_weights, every_logs, spectrum)

    def status(self, state: GibbsState) -> Status:
        """Return the progress, which is finished after the last sweep."""
        figures = {"accepted": _accepted(state)} if self.metropolis and state.sweep else {}
        return Status(state.sweep, self.sweeps, state.sweep == self.sweeps, figures)

    def finish(self, problem: Problem, state: GibbsState, run_tasks: RunTasks) -> Fit:
        """Return the posterior as a mixture of the draws, one component per distinct kernel.

        For the convergence diagnostics, the mean over the latent means of a row is subtracted, as
        the labels do not determine it.
        """
        weights = state.weights.reshape(-1, *state.weights.shape[2:])
        each, which = np.unique(state.logs.reshape(len(weights), -1), axis=0, return_inverse=True)
        rows = np.unique(np.linspace(0, len(problem.x) - 1, MONITORED).astype(int))
        means, components = np.empty((len(weights), len(rows), problem.n_latent)), []
        precision = np.ones((len(problem.x), len(problem.kernels)))
        for number, logs in enumerate(each):
            some, own = problem.with_parameters(logs), which.ravel() == number
            components.append(some.posterior(weights[own], "independent", precision))
            cross = covariances(some.kernels, some.x[rows], some.x)
            cross = broadcast_kernels(cross, some.n_latent)
            means[own] = np.einsum("rmn,snr->smr", cross, weights[own], optimize=True)
        if problem.n_latent > 1:
            means -= means.mean(axis=2, keepdims=True)
        value, trace = float("nan"), list[dict[str, float]]()
        report: dict[str, Any] = {"mean": _worst(means.reshape(self.chains, -1, *means.shape[1:]))}
        if self.metropolis:
            report |= {"parameters": _worst(state.logs), "accepted": _accepted(state)}
            own_names = ((c, k.parameter_names) for c, k in enumerate(problem.kernels))
            names = [f"{c}:{name}" for c, every in own_names for name in every]
            values = np.exp(state.logs.reshape(-1, len(names))).tolist()
            trace = [dict(zip(names, some, strict=True)) for some in values]
        elif self.particles:
            numbers = list(range(self.chains))
            found = np.array(run_tasks(log_evidence, (problem, self.particles), numbers))
            value = float(log_sum_exp(found) - np.log(len(found)))
            report["log_evidence_estimates"] = found.tolist()
        return Fit(components, value, trace, report)


def _advance(
    shared: tuple[Gibbs, Problem, Spectrum | None, range], task: tuple[int, GibbsChain]
) -> tuple[GibbsChain, Doubles, Doubles]:
    """Make the next sweeps of a chain; return it with the weights and logs kept, (S, ...)."""
    (method, problem, spectrum, sweeps), (number, chain) = shared, task
    if spectrum is None:
        spectrum = Spectrum(problem.with_parameters(chain.logs))
    weights, logs = [], []
    for sweep in sweeps:  # from 1: a trailing zero does not change a seed
        rng = np.random.default_rng([problem.seed, KEY, number, sweep])
        if method.metropolis:
            chain, spectrum = _move(method, problem, chain, spectrum, sweep, rng)
        chain = replace(chain, y=_draw(problem, spectrum, chain.y, rng))
        if sweep > method.burn_in and (sweep - method.burn_in) % method.thin == 0:
            weights.append(spectrum.smooth(chain.y))
            logs.append(chain.logs)
    shapes = (len(weights), *chain.y.shape), (len(logs), *chain.logs.shape)
    return chain, np.reshape(weights, shapes[0]), np.reshape(logs, shapes[1])


def _draw(problem: Problem, spectrum: Spectrum, y: Doubles, rng: Generator) -> Doubles:
    """Move Y where the labels leave it free, then draw M and Y; in the basis of eigenvectors."""
    rotated = spectrum.to_eigenbasis(y)
    if y.shape[1] > 1 and len(problem.kernels) == 1:
        common = rng.standard_normal(len(y)) * np.sqrt((1.0 + spectrum.values[:, 0]) / y.shape[1])
        rotated = rotated - rotated.mean(axis=1, keepdims=True) + common[:, np.newaxis]
    if not problem.biases.any():
        square = float((np.square(rotated) / (1.0 + spectrum.values)).sum())
        rotated = rotated * np.sqrt(rng.chisquare(y.size) / square)
    share = spectrum.values / (1.0 + spectrum.values)
    noise = rng.standard_normal(y.shape)
    mean = spectrum.from_eigenbasis(share * rotated + np.sqrt(share) * noise)
    return draw_given_labels(problem, mean, np.ones_like(mean), problem.target, rng)


def _move(
    method: Gibbs,
    problem: Problem,
    chain: GibbsChain,
    spectrum: Spectrum,
    sweep: int,
    rng: Generator,
) -> tuple[GibbsChain, Spectrum]:
    """Make a Metropolis step in the kernel parameters, given Y."""
    proposed = chain.logs + np.exp(chain.log_step) * rng.standard_normal(len(chain.logs))
    both = np.array([chain.logs, proposed])
    penalty, rival = np.square((both - problem.parameters()) / method.spread).sum(axis=1)
    present = -0.5 * (spectrum.quadratic(chain.y) + spectrum.log_det + penalty)
    weights = log_weights((problem, chain.y, True), proposed[np.newaxis])
    proposal = weights.sum() - 0.5 * rival
    share = float(np.exp(min(0.0, proposal - present)))
    if sweep <= method.burn_in:
        rise = (share - ACCEPTED) / float(sweep) ** 0.6
        chain = replace(chain, log_step=chain.log_step + rise)
    if rng.random() >= share:
        return chain, spectrum
    chain = replace(chain, logs=proposed, accepted=chain.accepted + 1)
    return chain, Spectrum(problem.with_parameters(proposed))


def _accepted(state: GibbsState) -> float:
    """Return the acceptance rate of the Metropolis steps."""
    return sum(chain.accepted for chain in state.chains) / (state.sweep * len(state.chains))


def _worst(draws: Doubles) -> dict[str, float]:
    """Return the worst convergence diagnostics over all quantities that change."""
    reduction, effective = r_hat(draws), effective_sample_size(draws)
    changed = np.isfinite(reduction) & np.isfinite(effective)
    if not changed.any():
        return {}
    return {
        "r_hat": float(reduction[changed].max()),
        "effective_draws": float(effective[changed].min()),
    }
