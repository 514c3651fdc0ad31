r"""Rows that are gone, as far as the posterior that they have shaped remembers them.

It keeps its coefficients c and, of G = M W M^T over these rows, B = P / s + G times the curvature
of its metric. Where c is the maximum, the slope of their log likelihoods is P c / s, so that to
second order they are

    -kappa tr((a - c)^T G (a - c)) / 2 + tr(c^T P a) / s      plus a constant

for coefficients a. The metric bounds the curvature by that of the identity (posterior/all_data.py);
kappa is the mean share of the bound that is felt, measured at new rows.

Other active rows have other features w' = L'^-1 k'. For an active row that stays k' is a row of
k = L w. For a fresh one, z, it is taken to be what regression on the former ones gives,
k_zu (Pi^-1 + C)^-1 k = w(z)^T w. So w' = T w, where L' T has rows of L for those that stay, and
w(z)^T for fresh ones; G becomes T G T^T, and a stands for T^T a of the former coefficients.

With new rows the sum is maximised. Without any its maximum is c itself, as long as T is square.
Where the ascent to c was stopped early it left a slope, which is not among these: to follow it now
would undo that (sdss in six stretches: 0.138 nats of the next one in place of 0.055). The curvature
felt row by row, in place of kappa times that of all, was no better in a small example.

The idea is that of streaming sparse approximations (Bui, Nguyen & Turner 2017, section 3), where
the former posterior takes the place of the rows that are gone.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sparsegp.ivm.active_set import ActiveSet
from sparsegp.math.linalg import solve_lower
from sparsegp.math.quantiles import Quantiles
from sparsegp.posterior.base import ActiveRows, PosteriorWeights
from sparsegp.posterior.sites import regression
from sparsegp.types import Doubles, Integers


@dataclass(frozen=True)
class PastRows:
    """What is known of them.

    Parameters
    ----------
    active : ActiveRows
        Of their posterior; every row active for every process.
    weights : PosteriorWeights
        That posterior, of all data.
    kept : Integers (m,)
        Places of the active rows that stay, which come first in any active set that follows.
    numbers : Integers (m,)
        Row numbers of these: negative, for new rows are counted from 0.
    curvature : float
        kappa, see `mean_curvature`.
    shares : Quantiles, optional
        Of the prior variance left (posterior/limits.py).
    """

    active: ActiveRows
    weights: PosteriorWeights
    kept: Integers
    numbers: Integers
    curvature: float
    shares: Quantiles | None = None

    def active_set(self, slots: int, dtype: Any) -> ActiveSet:
        """Return the active rows that stay as inclusions, in batches of so many slots."""
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
        """Return what tells it from others."""
        found = hashlib.blake2b(digest_size=16)
        gain = self.weights.gain or []
        for array in (self.active.x, self.kept, *self.weights.coefficients, *gain):
            found.update(np.ascontiguousarray(array).tobytes())
        return found.hexdigest()

    @cached_property
    def _former(self) -> list[tuple[Doubles, Doubles, Doubles]]:
        """L, G and kappa G c + P c / s of every kernel."""
        found, scale = [], self.weights.calibration.prior_scale
        factors, gain = self.active.factors(), self.weights.gain
        assert gain is not None  # of all data
        triples = zip(factors, self.active.penalties(factors), gain, strict=True)
        for (L, P, L_B), c in zip(triples, self.weights.coefficients, strict=True):
            G = (L_B @ L_B.T - P / scale) / self.active.likelihood.metric_curvature
            found.append((L, G, self.curvature * (G @ c) + P @ c / scale))
        return found

    def seen_by(
        self, active: ActiveRows, factors: list[Doubles]
    ) -> tuple[list[Doubles], list[Doubles]]:
        """Return T G T^T (d, d) and T (kappa G c + P c / s) (d, R) of every kernel.

        Parameters
        ----------
        active : ActiveRows
            Those that stay, and then fresh ones.
        factors : list of Doubles (d, d)
            L' of every kernel.
        """
        grams, forces, m = [], [], len(self.kept)
        old, fresh = (np.asarray(x, np.float64) for x in (self.active.x, active.x[m:]))
        for kernel, factor, (L, G, force) in zip(
            active.kernels, factors, self._former, strict=True
        ):
            w = solve_lower(L, np.asarray(kernel(old, fresh), np.float64))
            T = solve_lower(factor, np.concatenate([L[self.kept], w.T]))
            grams.append(T @ G @ T.T)
            forces.append(T @ force)
        return grams, forces


def mean_curvature(likelihood: Any, mean: Doubles, target: Integers) -> float:
    """Return the mean share of the bound of the curvature of -log Z at some rows.

    That is the trace of the matrices over K - 1: rows and columns sum to zero, and the bound is the
    identity. With one latent value it is the curvature itself.

    Parameters
    ----------
    likelihood : Likelihood
        That has a bound.
    mean : Doubles (n, R)
    target : Integers (n,)
    """
    found = likelihood.curvature(mean, target)
    if likelihood.curvature_form == "independent":
        return float(found.mean())
    if likelihood.curvature_form == "simplex":  # diag(p) - p p'
        return float((1.0 - np.square(found).sum(axis=1)).mean() / (mean.shape[1] - 1))
    return float(np.trace(found, axis1=1, axis2=2).mean() / (mean.shape[1] - 1))
