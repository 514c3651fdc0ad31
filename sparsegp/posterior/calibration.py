"""Temperature and variance weight from rows that were kept aside."""

from dataclasses import asdict
from typing import Any

import numpy as np
from scipy.optimize import minimize

from sparsegp.posterior.base import ActiveRows, Calibration, Rows, Span
from sparsegp.posterior.predict import Posterior
from sparsegp.types import Doubles

PRIOR = np.log([1.0, 0.5]), np.array([0.5, 1.0])
"""Means and standard deviations of the logarithms of temperature and variance weight, for sites of
active rows: these learn from few rows, and how wrong their variance is depends on how few."""


def with_calibration(active: ActiveRows, rows: Rows, span: Span) -> Span:
    """Return the span with what suits the rows kept aside best; as it is if there are none."""
    answers = rows.map_blocks("kept_aside")
    x = np.concatenate([part for part, _ in answers])
    if len(x) == 0:
        return span
    target = np.concatenate([part for _, part in answers])
    mean, variance = Posterior.from_span(active, span).latent(x)
    temperature, weight = fit(active.likelihood, mean, variance, target)
    calibration = Calibration(temperature, weight)
    log_z = active.likelihood.log_z(mean / temperature, weight * variance, target)
    report = {**span.report, **asdict(calibration), "aside_nlpp": -float(log_z.mean())}
    return Span(span.coefficients, span.gain, calibration, report)


def fit(likelihood: Any, mean: Doubles, variance: Doubles, target: Any) -> tuple[float, float]:
    """Return temperature and variance weight.

    They maximise the predictive probability of the targets times a prior (`PRIOR`), which decides
    where the rows say nothing: with all of them right, any temperature would be too high.

    Parameters
    ----------
    likelihood : Likelihood
    mean : Doubles (n, R)
    variance : Doubles (n, C)
    target : array (n,)
    """

    def loss(logs: Doubles) -> float:
        temperature, weight = np.exp(logs)
        log_z = likelihood.log_z(mean / temperature, weight * variance, target)
        return float(np.square((logs - PRIOR[0]) / PRIOR[1]).sum()) / 2.0 - float(log_z.sum())

    found = minimize(loss, PRIOR[0], method="Nelder-Mead", options={"xatol": 0.01, "fatol": 0.01})
    temperature, weight = np.exp(found.x)
    return float(temperature), float(weight)
