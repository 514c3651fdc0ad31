"""Summary of earlier training rows that are no longer available, from the posterior they produced.

The posterior has coefficients c, and B, which is P / s plus the metric's curvature times
G = M W M^T over these rows. If c is the maximum, the gradient of their log likelihood is P c / s,
so that to second order the log likelihood is

    -kappa tr((a - c)^T G (a - c)) / 2 + tr(c^T P a) / s      plus a constant

for coefficients a. Here kappa replaces the curvature of the metric (posterior/all_data.py): it is
the mean curvature of -log Z, measured at new rows.

A new active set has other features w' = L'^-1 k'. For an active row that is kept, k' is a row of
k = L w. For a new one, z, it is interpolated from the former active rows, with jitter:
k_zu C^-1 k = k_zu C^-1 L w. (With the noise of the sites, Pi^-1 + C, it would be shrunk, and one
new row could ruin a model.) So w' = T w, where L' T has rows of L for kept rows, and k_zu C^-1 L
for new ones; G becomes T G T^T, and coefficients a correspond to former coefficients T^T a.

Errors must not grow from one update to the next. As B is stored in single precision, negative
eigenvalues of G are set to zero before anything is derived from it. P has a jitter like that of the
interpolation: if P vanished in a direction in which the interpolation is not exact, nothing would
oppose the error there.

This term is added to the objective of the new rows. Without new rows, the maximum is c itself, as
long as T is square. If the ascent to c was stopped early, a gradient remained, which is omitted
here: following it now would undo early stopping, and made predictions much worse on one table. A
curvature for each row instead of the mean was no better in a small example.

The idea is that of streaming sparse approximations (Bui, Nguyen & Turner 2017, section 3): the
former posterior takes the place of the rows it was fitted to.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import eigh

from sparsegp.ivm.active_set import ActiveSet
from sparsegp.math.linalg import jittered_cholesky, solve_lower
from sparsegp.math.quantiles import Quantiles
from sparsegp.posterior.base import ActiveRows, PosteriorWeights
from sparsegp.posterior.sites import regression
from sparsegp.types import Doubles, Integers

JITTER = 1e-6
"""Jitter of C, relative to its mean diagonal, in P of an update, and in the interpolation, where it
is divided by the prior variance factor if that is above one."""


@dataclass(frozen=True)
class PastRows:
    """Summary of rows that are no longer available."""

    active: ActiveRows  # of the former posterior; all are active for every process
    weights: PosteriorWeights  # the former posterior, an all-data posterior
    kept: Integers  # places (m,) of the rows that are kept; they come first in any later active set
    numbers: Integers  # their row numbers (m,): negative, as new rows are counted from 0
    curvature: float  # kappa, see `mean_curvature`
    shares: Quantiles | None = None  # of the remaining prior variance (posterior/limits.py)

    def active_set(self, slots: int, dtype: Any) -> ActiveSet:
        """Return the kept active rows as inclusions, in batches of `slots` slots."""
        stay, d = self.active.take(self.kept), len(self.kept)
        inside = np.tri(d, dtype=bool)
        arrays = {
            "rows": self.numbers,
            "target": stay.target,
            "x": stay.x.astype(dtype),
            "site": stay.site,
            "precision": stay.precision,
            "score": np.zeros(d),
            "step": np.stack(regression(stay, stay.site).coefficients),
            "factor": np.stack([factor[inside] for factor in stay.factors()]),
            "counts": np.diff([*range(0, d, slots), d]),
        }
        return ActiveSet.from_arrays(arrays, slots)

    def digest(self) -> str:
        """Return a hash that identifies this summary."""
        found = hashlib.blake2b(digest_size=16)
        gain = self.weights.gain or []
        for array in (self.active.x, self.kept, *self.weights.coefficients, *gain):
            found.update(np.ascontiguousarray(array).tobytes())
        return found.hexdigest()

    @cached_property
    def _former(self) -> list[tuple[Doubles, Doubles, Doubles]]:
        """L, G and kappa G c + P c / s of each kernel."""
        found, scale = [], self.weights.calibration.prior_scale
        factors, gain = self.active.factors(), self.weights.gain
        assert gain is not None  # an all-data posterior
        triples = zip(factors, self.active.penalties(factors), gain, strict=True)
        for (L, P, L_B), c in zip(triples, self.weights.coefficients, strict=True):
            G = (L_B @ L_B.T - P / scale) / self.active.likelihood.metric_curvature
            values, vectors = eigh(G)
            vectors *= np.sqrt(np.maximum(values, 0.0))  # B is stored in single precision
            G = vectors @ vectors.T
            found.append((L, G, self.curvature * (G @ c) + P @ c / scale))
        return found

    def projected_onto(
        self, active: ActiveRows, factors: list[Doubles]
    ) -> tuple[list[Doubles], list[Doubles]]:
        """Return T G T^T (d, d) and T (kappa G c + P c / s) (d, R) of each kernel.

        Parameters
        ----------
        active : ActiveRows
            The kept active rows, followed by new ones.
        factors : list of Doubles (d, d)
            L' of each kernel.
        """
        grams, forces, m = [], [], len(self.kept)
        old, fresh = (np.asarray(x, np.float64) for x in (self.active.x, active.x[m:]))
        for kernel, factor, (L, G, force) in zip(
            active.kernels, factors, self._former, strict=True
        ):
            C = np.asarray(kernel(old, old), np.float64)
            jitter = JITTER / max(1.0, self.weights.calibration.prior_scale)
            root, _ = jittered_cholesky(C, "the covariance of the former active rows", jitter)
            to_fresh = solve_lower(root, np.asarray(kernel(old, fresh), np.float64))
            rows = solve_lower(root, to_fresh, transposed=True).T @ L
            T = solve_lower(factor, np.concatenate([L[self.kept], rows]))
            grams.append(T @ G @ T.T)
            forces.append(T @ force)
        return grams, forces


def mean_curvature(likelihood: Any, mean: Doubles, target: Integers) -> float:
    """Return the mean curvature of -log Z at some rows, without latent variance.

    The curvature of a row is the trace of its matrix divided by K - 1, as rows and columns sum to
    zero. With one latent value it is the second derivative itself.

    Parameters
    ----------
    likelihood : Likelihood
        Likelihood with a method `curvature`.
    mean : Doubles (n, R)
    target : Integers (n,)
    """
    found = likelihood.curvature(mean, target)
    if likelihood.curvature_form == "independent":
        return float(found.mean())
    if likelihood.curvature_form == "simplex":  # diag(p) - p p'
        return float((1.0 - np.square(found).sum(axis=1)).mean() / (mean.shape[1] - 1))
    return float(np.trace(found, axis1=1, axis2=2).mean() / (mean.shape[1] - 1))
