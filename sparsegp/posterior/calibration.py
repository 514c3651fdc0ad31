"""Fit of the temperature and the variance weight to validation rows."""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import minimize

from sparsegp.likelihoods.base import Likelihood
from sparsegp.posterior.base import ActiveRows, Calibration, PosteriorWeights, Rows
from sparsegp.posterior.limits import conformal_scores
from sparsegp.posterior.predict import Posterior
from sparsegp.types import Doubles

Prior: TypeAlias = tuple[Doubles, Doubles]
"""Means and standard deviations of the log temperature and the log variance weight."""

PRIOR: Prior = np.log([1.0, 0.5]), np.array([0.5, 1.0])
"""For posteriors from sites on the active rows, whose variance is wrong by a factor that depends on
the number of active rows."""

GTOL = 0.01
"""Gradient at which `fit_by_slopes` stops: the sum over all rows is then within 1e-4 nats of its
maximum, and what is missing is close to the noise of single precision."""


def with_calibration(active: ActiveRows, rows: Rows, weights: PosteriorWeights) -> PosteriorWeights:
    """Return the weights, calibrated on the validation rows; unchanged if there are none."""
    mean, variance, target = latent_validation(active, rows, weights)
    if len(target) == 0:
        return weights

    def log_z(temperature: float, weight: float) -> Doubles:
        tempered: Likelihood = active.likelihood.tempered(temperature)
        found = tempered.log_z(mean / temperature, weight * variance, target)
        return np.asarray(rows.validation_weights * found)

    temperature, weight = fit(log_z)
    calibration = Calibration(temperature, weight)
    nlpp = -float(log_z(temperature, weight).mean())
    report = {**weights.report, **asdict(calibration), "validation_nlpp": nlpp}
    scores = None
    if rows.keeps_scores:
        logs = calibration.log_probabilities(active.likelihood, mean, variance)
        scores = conformal_scores(logs, target, rows.validation_weights)
    return replace(weights, calibration=calibration, report=report, scores=scores)


def latent_validation(
    active: ActiveRows, rows: Rows, weights: PosteriorWeights
) -> tuple[Doubles, Doubles, Any]:
    """Return the latent means (n, R), variances (n, C) and targets (n,) of the validation rows."""
    inputs, targets = zip(*rows.map_blocks("validation_rows"), strict=True)
    mean, variance = Posterior(active, weights).latent(np.concatenate(inputs))
    return mean, variance, np.concatenate(targets)


def fit(log_z: Callable[[float, float], Doubles]) -> tuple[float, float]:
    """Fit the temperature and variance weight, which `log_z` maps to log probabilities, (n,).

    They maximise the predictive probability of the targets times `PRIOR`. Without a prior, the
    temperature would fall to zero if all rows were predicted correctly.
    """
    centre, spread = PRIOR

    def loss(logs: Doubles) -> float:
        fitted = float(log_z(*np.exp(logs)).sum())
        return float(np.square((logs - centre) / spread).sum()) / 2.0 - fitted

    found = minimize(loss, centre, method="Nelder-Mead", options={"xatol": 0.01, "fatol": 0.01})
    temperature, weight = np.exp(found.x)
    return float(temperature), float(weight)


def fit_by_slopes(
    log_z: Callable[[float, float], tuple[Doubles, Doubles]], prior: Prior
) -> tuple[float, float]:
    """Return the result of `fit` with any prior, using gradients and a tenth of the evaluations.

    `log_z` also returns the gradient of the sum in the logarithms of its two arguments, (2,).
    """
    centre, spread = prior

    def loss(scores: Doubles) -> tuple[float, Doubles]:
        each, slopes = log_z(*np.exp(centre + spread * scores))
        return float(scores @ scores) / 2.0 - float(each.sum()), scores - spread * slopes

    found = minimize(loss, np.zeros(2), jac=True, method="BFGS", options={"gtol": GTOL})
    temperature, weight = np.exp(centre + spread * found.x)
    return float(temperature), float(weight)
