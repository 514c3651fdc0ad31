"""Parts of a posterior over the span of the active rows.

With Pi^(-1) + C = L L^T on the active rows, where Pi are the site precisions, and with features
w(x) = L^-1 k(X_active, x), every posterior here has the latent mean w . c with coefficients c. They
differ in c and in the variance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparsegp.errors import DataError
from sparsegp.fields import Checked, setting
from sparsegp.ivm.active_set import ActiveSet
from sparsegp.ivm.pairs import PairSet
from sparsegp.ivm.rows import BlockSettings
from sparsegp.kernels import Kernel
from sparsegp.likelihoods import Likelihood
from sparsegp.math.linalg import BLOCK, inverse_of_square, lower_cholesky
from sparsegp.math.quantiles import Quantiles
from sparsegp.state import TRIANGLES, UNSAVED
from sparsegp.types import Doubles, Floats, Integers

if TYPE_CHECKING:
    from sparsegp.posterior.past import PastRows


COVARIANCE = "the covariance of the active rows"

MAX_ROUNDING = 1e-3
"""Maximum latent variance due to rounding errors of features, at prior variance factor 1."""


@dataclass(frozen=True)
class ActiveRows:
    """Result of a selection: active rows and their sites, kernels and likelihood."""

    kernels: Sequence[Kernel]  # one for all classes, or one per class
    likelihood: Likelihood
    x: Floats  # scaled inputs (d, p)
    target: NDArray[Any]  # class codes, or targets in a regression, (d,)
    site: Doubles  # site means at inclusion (d, R)
    precision: Doubles  # site precisions at inclusion (d, C); zero if inactive for a process

    def __post_init__(self) -> None:
        d, n_latent = self.site.shape
        found = (self.x.ndim, len(self.x), self.target.shape, self.precision.shape)
        n_kernels = len(self.kernels)
        if found != (2, d, (d,), (d, n_kernels)) or n_kernels not in {1, n_latent}:
            raise DataError("inputs, targets, sites and kernels of active rows must fit")

    @classmethod
    def of(cls, settings: BlockSettings, active: ActiveSet | PairSet) -> "ActiveRows":
        """Return the active rows of a selection with these settings."""
        site, precision = active.sites(settings.n_latent)
        return cls(settings.kernels, settings.likelihood, active.x, active.target, site, precision)

    def columns(self) -> list[slice]:
        """Return the slice of latent values that each kernel is for."""
        width = self.site.shape[1] // len(self.kernels)
        return [slice(c * width, (c + 1) * width) for c in range(len(self.kernels))]

    def members(self) -> list[Integers]:
        """Return the places of the rows that are active for each kernel, (d_c,)."""
        return [np.flatnonzero(column) for column in self.precision.T]

    def take(self, places: Integers) -> "ActiveRows":
        """Return the rows at these places."""
        names = ("x", "target", "site", "precision")
        return replace(self, **{name: getattr(self, name)[places] for name in names})

    def penalties(self, factors: Sequence[Doubles], jitter: float = 0.0) -> list[Doubles]:
        """Return P = L^-1 (C + jitter I) L^-T of each kernel, for factors L.

        Without jitter it is I - L^-1 Pi^-1 L^-T; see posterior/all_data.py and `penalty_jitter`.
        """
        found = []
        for factor, precision in zip(factors, self.precision.T, strict=True):
            root = np.sqrt(precision)[:, np.newaxis] * factor
            penalty = inverse_of_square(root)  # L^-1 Pi^-1 L^-T
            if (precision == precision[0]).all():
                penalty *= 1.0 - jitter * precision[0]
            elif jitter:
                penalty -= jitter * inverse_of_square(np.array(factor))
            np.negative(penalty, out=penalty)
            penalty[np.diag_indices_from(penalty)] += 1.0
            found.append(penalty)
        return found

    def factors(self) -> list[Doubles]:
        """Return L of Pi^(-1) + C = L L^T, one (d_c, d_c) per kernel."""
        factors = []
        for c, (kernel, members) in enumerate(zip(self.kernels, self.members(), strict=True)):
            x = np.asarray(self.x[members], dtype=np.float64)
            covariance = lower_covariance(kernel, x)
            covariance[np.diag_indices_from(covariance)] += 1.0 / self.precision[members, c]
            factors.append(lower_cholesky(covariance, COVARIANCE, in_place=True))
        return factors


def penalty_jitter(variance: float, d: int, precision: DTypeLike) -> float:
    """Return the jitter of C in P that keeps rounding errors from acting as inputs.

    In directions where a kernel's rank is too low for its active rows, C and P vanish, and features
    L^-1 k consist of errors of about eps k(x, x), which could be fitted at no cost. With a jitter q
    of C the prior variance of such a fit is d (eps k)^2 / q.

    Parameters
    ----------
    variance : float
        Mean prior variance of the active rows.
    d : int
        Number of active rows.
    precision : dtype
        Precision in which features are computed.
    """
    return d * (float(np.finfo(precision).eps) * variance) ** 2 / MAX_ROUNDING


def lower_covariance(kernel: Kernel, x: Doubles) -> Doubles:
    """Return the lower triangle of k(x, x), (d, d), with zeros above it, block by block."""
    covariance = np.zeros((len(x), len(x)))
    for start in range(0, len(x), BLOCK):
        rows = slice(start, start + BLOCK)
        covariance[rows, : rows.stop] = np.tril(kernel(x[rows], x[: rows.stop]), start)
    return covariance


@dataclass(frozen=True)
class Calibration(Checked):
    """Calibration of the probabilities computed from latent values.

    Latent means, and what the likelihood adds to them (`Likelihood.tempered`), are divided by the
    temperature.
    """

    temperature: float = setting(1.0, least=1e-6)
    variance_weight: float = setting(1.0, least=0.0)  # factor on the latent variances
    prior_scale: float = setting(1.0, least=0.0)  # factor on the prior variances (posterior `all`)

    def log_probabilities(
        self, likelihood: Likelihood, mean: Doubles, variance: Doubles
    ) -> Doubles:
        """Return log class probabilities (n, K) for latent means (n, R) and variances (n, C)."""
        return likelihood.tempered(self.temperature).log_probabilities(
            mean / self.temperature, self.variance_weight * variance
        )


@dataclass(frozen=True)
class PosteriorWeights:
    """A posterior over the span of the active rows."""

    coefficients: Sequence[Doubles]  # c of each kernel, (d_c, R)
    # lower Cholesky factors of B (posterior/all_data.py), (d, d); None for posteriors from sites
    gain: Sequence[Doubles] | None = field(default=None, metadata=TRIANGLES)
    # lower triangles W of each kernel (d, d), given with `gain`: with prior variance factor s the
    # variance is s k** - |W k_u*|^2 (posterior/predict.py)
    reduction: Sequence[Doubles] | None = field(default=None, metadata=TRIANGLES)
    calibration: Calibration = Calibration()
    report: dict[str, Any] = field(default_factory=dict)  # diagnostics, as plain JSON
    # quantiles of the conformal scores of rows that were not fitted (posterior/limits.py)
    scores: Quantiles | None = None
    # L^-T c of each kernel, (d_c, R), so that predictions do not need L
    whitened: Sequence[Doubles] | None = field(default=None, metadata=UNSAVED)


class Rows(Protocol):
    """All training rows, for posteriors and calibrations that use more than the active ones."""

    n_rows: int
    total: float  # sum of the row weights; the number of rows if they have none
    weights: Doubles | None  # factors on the log likelihoods of the rows, (n,)
    validation_weights: Doubles | float  # for validation rows (a,), divided by their mean; or 1
    precision: np.dtype[Any]  # of the stub matrices in the blocks
    tolerance: float  # gain of an iteration, in nats, at which an ascent stops
    calibrate: bool  # whether to fit the calibration or, in a regression, the noise variance
    keeps_scores: bool  # whether to keep the conformal scores of the rows that it is fitted to
    folds: Integers  # fold of each row (n,), for cross-validation; empty if there is none
    former: Mapping[str, NDArray[Any]]  # the last state reported before an interruption, or empty
    past: "PastRows | None"  # summary of earlier training rows that are no longer available

    def map_blocks(self, method: str, *args: Any) -> list[Any]:
        """Call a method on the blocks of training rows and return the answers."""

    def sum_blocks(self, method: str, *args: Any) -> Any:
        """Call a method on the blocks of training rows and return the sum of the answers."""

    def report(self, state: Any, rounds: int, **figures: float) -> None:
        """Record the end of an iteration; may raise Interrupted.

        Parameters
        ----------
        state : dataclass
            State from which to resume, as saved by `sparsegp.state`.
        rounds : int
            Number of iterations so far.
        **figures
            Numbers that may be displayed.
        """
