"""What a posterior over the span of the active rows is made of.

With Pi^(-1) + C = L L^T on the active rows, where the site precisions Pi are one for variational
sites, and with features w(x) = L^-1 k(X_active, x), every posterior here has the latent mean w . c
with coefficients c. They differ in c and in the variance.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparsegp.errors import DataError, SettingsError
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


@dataclass(frozen=True)
class ActiveRows:
    """What a selection leaves behind.

    Attributes
    ----------
    kernels : sequence of Kernel
        One for all classes, or one a class.
    likelihood : Likelihood
    x : Floats (d, p)
        Scaled inputs.
    target : array (d,)
        Class codes, or numbers.
    site : Doubles (d, R)
        Site means at inclusion.
    precision : Doubles (d, C)
        Site precisions at inclusion; zero where a row is not active for a process.
    """

    kernels: Sequence[Kernel]
    likelihood: Likelihood
    x: Floats
    target: NDArray[Any]
    site: Doubles
    precision: Doubles

    def __post_init__(self) -> None:
        d, n_latent = self.site.shape
        found = (self.x.ndim, len(self.x), self.target.shape, self.precision.shape)
        n_kernels = len(self.kernels)
        if found != (2, d, (d,), (d, n_kernels)) or n_kernels not in {1, n_latent}:
            raise DataError("inputs, targets, sites and kernels of active rows must fit")

    @classmethod
    def of(cls, settings: BlockSettings, active: ActiveSet | PairSet) -> "ActiveRows":
        """Return what a selection with these settings has left."""
        site, precision = active.sites(settings.n_latent)
        return cls(settings.kernels, settings.likelihood, active.x, active.target, site, precision)

    def columns(self) -> list[slice]:
        """Return the latent values that each kernel serves."""
        width = self.site.shape[1] // len(self.kernels)
        return [slice(c * width, (c + 1) * width) for c in range(len(self.kernels))]

    def members(self) -> list[Integers]:
        """Return the places of the rows that are active for each kernel, (d_c,)."""
        return [np.flatnonzero(column) for column in self.precision.T]

    def take(self, places: Integers) -> "ActiveRows":
        """Return some of the rows, by their places."""
        names = ("x", "target", "site", "precision")
        return replace(self, **{name: getattr(self, name)[places] for name in names})

    def penalties(self, factors: Sequence[Doubles]) -> list[Doubles]:
        """Return P = I - L^-1 Pi^-1 L^-T of every kernel, for factors L (posterior/all_data.py)."""
        found = []
        for factor, precision in zip(factors, self.precision.T, strict=True):
            root = np.sqrt(precision)[:, np.newaxis] * factor
            penalty = inverse_of_square(root)  # L^-1 Pi^-1 L^-T
            np.negative(penalty, out=penalty)
            penalty[np.diag_indices_from(penalty)] += 1.0
            found.append(penalty)
        return found

    def factors(self) -> list[Doubles]:
        """Return L of Pi^(-1) + C = L L^T, one (d_c, d_c) a kernel."""
        factors = []
        for c, (kernel, members) in enumerate(zip(self.kernels, self.members(), strict=True)):
            x = np.asarray(self.x[members], dtype=np.float64)
            covariance = lower_covariance(kernel, x)
            covariance[np.diag_indices_from(covariance)] += 1.0 / self.precision[members, c]
            factors.append(lower_cholesky(covariance, COVARIANCE, in_place=True))
        return factors


def lower_covariance(kernel: Kernel, x: Doubles) -> Doubles:
    """Return the lower triangle of k(x, x), (d, d), with zeros above it; d^2 is all it takes."""
    covariance = np.zeros((len(x), len(x)))
    for start in range(0, len(x), BLOCK):
        rows = slice(start, start + BLOCK)
        covariance[rows, : rows.stop] = np.tril(kernel(x[rows], x[: rows.stop]), start)
    return covariance


@dataclass(frozen=True)
class Calibration:
    """How latent values become probabilities.

    Attributes
    ----------
    temperature : float
        Latent means are divided by it, and so is what the likelihood adds to them
        (`Likelihood.tempered`).
    variance_weight : float
        Latent variances are multiplied by it.
    prior_scale : float
        Variances of the kernels are multiplied by it (posterior `all`).
    """

    temperature: float = 1.0
    variance_weight: float = 1.0
    prior_scale: float = 1.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            least = 1e-6 if name == "temperature" else 0.0
            if not least <= value < np.inf:
                raise SettingsError(f"{name} must be a number from {least:g} on, got {value}")

    def log_probabilities(
        self, likelihood: Likelihood, mean: Doubles, variance: Doubles
    ) -> Doubles:
        """Return log class probabilities (n, K) of latent means (n, R) and variances (n, C)."""
        return likelihood.tempered(self.temperature).log_probabilities(
            mean / self.temperature, self.variance_weight * variance
        )


@dataclass(frozen=True)
class PosteriorWeights:
    """A posterior over the span of the active rows.

    Attributes
    ----------
    coefficients : sequence of Doubles (d_c, R)
        c of each kernel.
    gain : sequence of Doubles (d, d), optional
        Lower Cholesky factors of B (posterior/all_data.py); none where sites alone are learnt from.
    reduction : sequence of Doubles (d, d), optional
        With it: lower triangles W of each kernel, by which with prior scale s the variance is
        s k** - |W k_u*|^2 (posterior/predict.py).
    calibration : Calibration
    report : dict
        What happened on the way, plain JSON.
    scores : Quantiles, optional
        Of rows that it was not learnt from (posterior/limits.py).
    whitened : sequence of Doubles (d_c, R), optional
        L^-T c of each kernel, which need no factor then.
    """

    coefficients: Sequence[Doubles]
    gain: Sequence[Doubles] | None = field(default=None, metadata=TRIANGLES)
    reduction: Sequence[Doubles] | None = field(default=None, metadata=TRIANGLES)
    calibration: Calibration = Calibration()
    report: dict[str, Any] = field(default_factory=dict)
    scores: Quantiles | None = None
    whitened: Sequence[Doubles] | None = field(default=None, metadata=UNSAVED)


class Rows(Protocol):
    """All training rows, for posteriors and calibrations that look at more than the active ones.

    Attributes
    ----------
    n_rows : int
    total : float
        Of the weights of the rows; their number where they have none.
    weights : Doubles (n,) or None
        By which the log likelihoods of the rows are multiplied.
    validation_weights : Doubles (a,) or float
        Of the validation rows, over their mean; 1 where rows have none.
    precision : dtype
        In which the blocks hold their stub.
    tolerance : float
        Gain a round, in nats over the total weight, below which an iteration stops.
    calibrate : bool
        Whether to learn how latent values become probabilities, or what noise numbers have.
    knows_limits : bool
        Whether to keep the scores of the rows from which that is learnt.
    folds : Integers (n,)
        Of all rows in order, for cross-validation; empty where there are validation rows instead.
    former : mapping
        The arrays of the state that was last reported before an interruption, or empty.
    past : PastRows, optional
        Rows that are gone, but count.
    """

    n_rows: int
    total: float
    weights: Doubles | None
    validation_weights: Doubles | float
    precision: np.dtype[Any]
    tolerance: float
    calibrate: bool
    knows_limits: bool
    folds: Integers
    former: Mapping[str, NDArray[Any]]
    past: "PastRows | None"

    def map_blocks(self, method: str, *args: Any) -> list[Any]:
        """Call a method on the blocks of training rows."""
        ...

    def sum_blocks(self, method: str, *args: Any) -> Any:
        """Call a method on the blocks of training rows and return the sum of the answers."""
        ...

    def report(self, state: Any, rounds: int, **figures: float) -> None:
        """Take note that a round is done; may raise Interrupted.

        Parameters
        ----------
        state : dataclass
            All from which to go on, as `sparsegp.state` saves it.
        rounds : int
            Done so far.
        **figures
            What may be shown.
        """
        ...


@dataclass(frozen=True)
class Choice:
    """A posterior by name.

    Attributes
    ----------
    make : callable
    uses_all_rows : bool
        Whether it needs the row blocks; if not, they are dropped before.
    """

    make: Callable[[ActiveRows, Rows], PosteriorWeights]
    uses_all_rows: bool = False
