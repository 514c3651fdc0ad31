"""The product of exponential kernels of single columns, which sees every column by itself."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial.distance import cdist

from sparsegp.kernels.base import Kernel
from sparsegp.kernels.checks import positive, readable, within
from sparsegp.kernels.pair import Pair
from sparsegp.types import Doubles, Floats

WIDTH = 0.8
"""Length scale of the rule, in mean standard deviations times columns. Of .35, .8 and 2 it had the
best geometric mean of held-out nats on splits of the training rows of sixteen tables."""


@dataclass(frozen=True)
class Laplace(Kernel, name="laplace"):
    r"""Exponential of the sum of absolute differences.

    .. math:: k(x, z) = \exp\left(-\sum_j |x_j - z_j| / l\right)

    Latent functions are rough along the axes, as those of decision trees are: it is the limit of
    the kernel of Mondrian forests (Balog, Lakshminarayanan, Ghahramani, Roy & Teh 2016). It suits
    tables of unlike columns. A matrix takes n m p absolute differences, not a matrix product.

    Parameters
    ----------
    length_scale : float, optional
        l, positive, in the unit of the (scaled) inputs. Left out, it waits for `fill`: l is 0.8
        times the sum of the columns' standard deviations, or 1 if all columns are constant.
    """

    length_scale: float | None = None

    def __post_init__(self) -> None:
        if self.length_scale is not None:
            value = positive(self.length_scale, f"the length scale of {self.name}")
            object.__setattr__(self, "length_scale", value)

    def fill(self, variances: Doubles) -> Kernel:
        """Return the kernel with l = 0.8 sum_j sqrt(v_j) if l was left out; see `Kernel.fill`."""
        if self.length_scale is not None:
            return self
        total = WIDTH * float(np.sqrt(variances).sum())
        return replace(self, length_scale=readable(total) if total > 0 else 1.0)

    def _matrix(self, pair: Pair) -> Floats:
        X, Z, dtype = pair.X, pair.Z, pair.X.dtype
        batch = np.broadcast_shapes(X.shape[:-2], Z.shape[:-2])
        K = np.empty((*batch, X.shape[-2], Z.shape[-2]), dtype)
        X, Z = (np.broadcast_to(some, (*batch, *some.shape[-2:])) for some in (X, Z))
        assert self.length_scale is not None
        factor = within(-1.0 / self.length_scale, dtype, self)
        for index in np.ndindex(batch):
            distance = cdist(X[index], Z[index], "cityblock")
            with np.errstate(over="ignore"):  # covariance zero
                np.multiply(distance, factor, out=K[index], casting="same_kind")
        return np.exp(K, out=K)

    def _diag(self, X: Floats) -> Floats:
        return np.ones(X.shape[:-1], X.dtype)

    def _pull_back(self, X: Doubles, Z: Doubles, weights: Doubles) -> Doubles:
        K = self._matrix(Pair(X, Z))
        with np.errstate(divide="ignore", invalid="ignore"):
            growth = np.where(K > 0, -K * np.log(K), 0.0)  # dk / d log l = k sum_j |..| / l
        return np.array([(weights * growth).sum()])

    def _pull_back_diag(self, X: Doubles, weights: Doubles) -> Doubles:
        return np.zeros(1)  # k(x, x) = 1 for every length scale
