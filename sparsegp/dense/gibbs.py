"""The Gibbs sampler for the multinomial probit and the probit (Girolami & Rogers 2006; GR below).

As in variational inference each latent value m has a noisy copy y ~ N(m, 1), of which the labels
give the largest or the sign. A sweep draws (GR appendix D)

    the parameters of the kernels given Y, M integrated out, by a Metropolis step, as an option
    M given Y: normal, covariances K (I + K)^-1 and means K (I + K)^-1 y
    Y given M: normal, in the cones of the labels

and, before M, what the labels leave free of Y. The values of a row may all move by one number: with
one kernel for all classes their means are independent of the rest, and are drawn from the prior.
And cones do not change when Y is multiplied by g, so that g^2 is chi-squared with n R degrees of
freedom over y' (I + K)^-1 y (Liu & Sabatti 2000). Chains are slow all the same where the variance
of the kernel is large: M moves by steps of the size of the noise. The report has figures of how
well they have mixed.

Given Y a new latent value is Gaussian with mean k' (I + K)^-1 y: each draw kept is a member of the
mixture that predicts, and no new latent values need to be drawn.
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from sparsegp.dense.base import Fit, Method, Problem
from sparsegp.dense.driver import RunTasks, Status
from sparsegp.dense.length_scales import log_weights
from sparsegp.dense.mixture import covariances
from sparsegp.dense.orthant import labelled, log_evidence
from sparsegp.dense.precisions import of_latent
from sparsegp.dense.spectrum import Spectrum
from sparsegp.fields import setting
from sparsegp.math.chains import effective_draws, r_hat
from sparsegp.math.quadrature import log_sum_exp
from sparsegp.state import UNSAVED
from sparsegp.types import Doubles

KEY = 23
SEGMENT = 200
"""Sweeps of all chains in a step."""
MONITORED = 100
"""Rows at most, evenly spaced, from whose latent means the mixing of the chains is judged."""
FIRST_STEP = 0.1
ACCEPTED = 0.3
"""Share of Metropolis steps that should be accepted."""


@dataclass(frozen=True)
class GibbsChain:
    """Where a chain is.

    Attributes
    ----------
    y : Doubles (n, R)
    logs : Doubles (q,)
        Parameters of the kernels.
    log_step : float
        Logarithm of the length of Metropolis steps.
    accepted : int
        Metropolis steps.
    """

    y: Doubles
    logs: Doubles
    log_step: float = float(np.log(FIRST_STEP))
    accepted: int = 0


@dataclass(frozen=True)
class GibbsState:
    """All chains, and the draws that they have kept.

    Attributes
    ----------
    sweep : int
        Sweeps of each chain.
    chains : tuple of GibbsChain
    weights : Doubles (chains, S, n, R)
        (I + K)^-1 y of the draws kept.
    logs : Doubles (chains, S, q)
        Their parameters of the kernels.
    spectrum : Spectrum, optional
        Of kernels that stay.
    """

    sweep: int
    chains: tuple[GibbsChain, ...]
    weights: Doubles
    logs: Doubles
    spectrum: Any = field(default=None, metadata=UNSAVED)


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
        Sweeps of each chain that are discarded.
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
        """Of each chain."""
        return self.burn_in + self.samples * self.thin

    def start(self, problem: Problem, near: Any = None) -> GibbsState:
        """Draw M of every chain from the prior, and Y given the labels; see `Method`."""
        spectrum, logs, chains = Spectrum(problem), problem.parameters(), []
        shape = len(problem.x), problem.n_latent
        for number in range(self.chains):
            rng = np.random.default_rng([problem.seed, KEY, number])
            noise = rng.standard_normal(shape)
            mean = spectrum.back(np.sqrt(spectrum.values) * noise)
            y = labelled(problem, mean, np.ones(shape), problem.target, rng)
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
        """Return the progress: the end is after the last sweep."""
        figures = {"accepted": _accepted(state)} if self.metropolis and state.sweep else {}
        return Status(state.sweep, self.sweeps, state.sweep == self.sweeps, figures)

    def finish(self, problem: Problem, state: GibbsState, run_tasks: RunTasks) -> Fit:
        """Return the posterior as a mixture of the draws kept, those of the same kernels together.

        What all latent means of a row share, which labels do not determine, is left out of their
        figures of convergence.
        """
        weights = state.weights.reshape(-1, *state.weights.shape[2:])
        each, which = np.unique(state.logs.reshape(len(weights), -1), axis=0, return_inverse=True)
        rows = np.unique(np.linspace(0, len(problem.x) - 1, MONITORED).astype(int))
        means, components = np.empty((len(weights), len(rows), problem.n_latent)), []
        precision = np.ones((len(problem.x), len(problem.kernels)))
        for number, logs in enumerate(each):
            some, own = problem.with_parameters(logs), which.ravel() == number
            components.append(some.posterior(weights[own], "independent", precision))
            cross = of_latent(covariances(some.kernels, some.x[rows], some.x), some.n_latent)
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
    """Make the next sweeps of a chain by its number; return it, weights and logs kept (S, ...)."""
    (method, problem, spectrum, sweeps), (number, chain) = shared, task
    if spectrum is None:
        spectrum = Spectrum(problem.with_parameters(chain.logs))
    weights, logs = [], []
    for sweep in sweeps:  # from one: a last zero would not change the key
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
    """Draw what the labels leave free of Y, then M, then Y, in the basis of the eigenvectors."""
    turned = spectrum.turn(y)
    if y.shape[1] > 1 and len(problem.kernels) == 1:
        common = rng.standard_normal(len(y)) * np.sqrt((1.0 + spectrum.values[:, 0]) / y.shape[1])
        turned = turned - turned.mean(axis=1, keepdims=True) + common[:, np.newaxis]
    if not problem.biases.any():
        square = float((np.square(turned) / (1.0 + spectrum.values)).sum())
        turned = turned * np.sqrt(rng.chisquare(y.size) / square)
    share = spectrum.values / (1.0 + spectrum.values)
    noise = rng.standard_normal(y.shape)
    mean = spectrum.back(share * turned + np.sqrt(share) * noise)
    return labelled(problem, mean, np.ones_like(mean), problem.target, rng)


def _move(
    method: Gibbs,
    problem: Problem,
    chain: GibbsChain,
    spectrum: Spectrum,
    sweep: int,
    rng: Generator,
) -> tuple[GibbsChain, Spectrum]:
    """Make a Metropolis step of the parameters of the kernels, given Y."""
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
    """Return the share of the Metropolis steps that were accepted."""
    return sum(chain.accepted for chain in state.chains) / (state.sweep * len(state.chains))


def _worst(draws: Doubles) -> dict[str, float]:
    """Return the worst figures of convergence over all quantities that have changed."""
    reduction, effective = r_hat(draws), effective_draws(draws)
    changed = np.isfinite(reduction) & np.isfinite(effective)
    if not changed.any():
        return {}
    return {
        "r_hat": float(reduction[changed].max()),
        "effective_draws": float(effective[changed].min()),
    }
