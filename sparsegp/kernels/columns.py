"""Kernels with per-column length scales, for dissimilar columns, and relevances of columns."""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np

from sparsegp.errors import SettingsError, quoted
from sparsegp.kernels.base import Kernel
from sparsegp.kernels.checks import check_range, positive, round_to_six_digits
from sparsegp.kernels.pair import InputPair, negative_half_squared_distance, weighted_displacements
from sparsegp.kernels.stationary import Stationary
from sparsegp.lists import join_first
from sparsegp.math.subnormals import exp_in_place
from sparsegp.types import Doubles, Floats


class ByColumn(Stationary):
    """Base class of kernels with a length scale l_j per column, the last field of a subclass.

    Parameters
    ----------
    length_scales : tuple of float, optional
        l_j, in the units of the p (scaled) columns; if left out, `fill` sets them.

    Raises
    ------
    SettingsError
        If they are not positive numbers.
    """

    length_scales: tuple[float, ...] | None
    variadic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        given: object = self.length_scales
        if given is None:
            return
        if not isinstance(given, (tuple, list)) or not given:
            raise SettingsError(
                f"the length scales of {self.name} must be one number per column, as in "
                f"{self.name}(1.0, 2.0), got {given!r}"
            )
        what = f"of {self.name}"
        values = (positive(value, f"length scale {j} {what}") for j, value in enumerate(given))
        object.__setattr__(self, "length_scales", tuple(values))

    def with_length_scales(self, scales: Iterable[float]) -> Self:
        """Return the kernel with other length scales."""
        kernel: Self = replace(cast(Any, self), length_scales=tuple(scales))
        return kernel


@dataclass(frozen=True)
class ARD(ByColumn, name="ard"):
    r"""Squared exponential with one length scale per column (automatic relevance determination).

    .. math:: k(x, z) = \exp\left(-\sum_j \frac{(x_j - z_j)^2}{2 l_j^2}\right)
    """

    length_scales: tuple[float, ...] | None = None

    def _filled(self, variances: Doubles) -> Kernel:
        half = len(variances) / 2
        squares = variances * half
        squares = np.where(squares > 0, squares, half)
        return ARD(tuple(round_to_six_digits(math.sqrt(square)) for square in squares))

    def _matrix(self, pair: InputPair) -> Floats:
        X, Z, smallest = pair.X, pair.Z, min(self.scales.tolist())
        check_range(1 / smallest / smallest, X.dtype, self)
        G = negative_half_squared_distance(X, Z, (1 / self.scales / self.scales).astype(X.dtype))
        return exp_in_place(G)

    def _pull_back(self, pair: InputPair, weights: Doubles) -> tuple[float, Doubles]:
        # d/d log l_j = sum_ik q_ik (x_ij - z_kj)^2 / l_j^2, q = w k, with the square expanded
        X, Z, q = pair.X, pair.Z, weights * pair.matrix(self)
        squares = q.sum(axis=1) @ X**2 + q.sum(axis=0) @ Z**2
        crossed = np.einsum("kj,kj->j", q.T @ X, Z)
        return float(q.sum()), (squares - 2 * crossed) / self.scales / self.scales

    def _slopes(self, X: Doubles, Z: Doubles, factors: Doubles, weights: Doubles) -> Doubles:
        factors = factors * self._matrix(InputPair(X, Z))
        return weighted_displacements(X, Z, factors, weights) / self.scales / self.scales


class ColumnNames(NamedTuple):
    """Names of encoded columns, (p,), and of their length scales, (p,).

    Length scales given by name, as in the kernel ``ard({"age": 2.0})``, also fit other rows, which
    may be encoded differently. Further names that such rows could have are in `others`, or begin
    with one of `beginnings`.
    """

    names: tuple[str, ...] = ()
    scales: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    beginnings: tuple[str, ...] = ()

    def text(self, kernel: Kernel) -> str:
        """Return the text of a kernel, with per-column length scales given by name."""
        text, p = str(kernel), len(self.names)
        for leaf in kernel.leaves:
            if isinstance(leaf, ByColumn) and leaf.has_ard(p):
                own, given = str(leaf), leaf.scales.tolist()
                each = given if len(given) == p else np.reshape(given, (p, -1)).tolist()
                named = dict(zip(self.scales, each, strict=True))
                if [named[name] for name in self.scales] != each:
                    named = dict(zip(self.names, each, strict=True))
                # escape all but single spaces, since reading a kernel collapses whitespace
                scales = json.dumps(named, ensure_ascii=False)
                scales = re.sub(r"[^\S ]|(?<= ) ", lambda a: f"\\u{ord(a[0]):04x}", scales)
                start = own.removesuffix(", ".join(map(repr, given)) + ")")
                text = text.replace(own, f"{start}{scales})")
        return text

    def in_order(self, given: Mapping[str, Any], may_warp: bool) -> list[float]:
        """Return length scales, given by name, in the order of the columns.

        Columns without one get the median of those that are used. With `may_warp` there may be four
        for each name.

        Raises
        ------
        SettingsError
            If they do not map names to numbers, or a name is not that of a column or part of one.
        """
        try:
            values = np.array([*given.values()])
        except ValueError:  # different numbers of length scales
            values = np.empty(0)
        is_right = values.dtype.kind in "if" and values.shape[1:] in {(), (4,) * may_warp}
        if not (values.size and is_right and {*map(type, given)} == {str}):
            raise SettingsError(
                "length scales by column must be a number for each name, or in laplace, power and "
                f"additive four, got {quoted(given)}"
            )
        used = {*self.names, *self.scales}
        for name in given:
            if name not in used.union(self.others) and not name.startswith(self.beginnings):
                found = join_first([*dict.fromkeys(self.scales)], 20) or "columns without names"
                raise SettingsError(
                    f"length scales must be of columns, got {name!r}; found: {found}"
                )
        each = dict(zip(given, values, strict=True))
        usual = np.median([each[name] for name in given if name in used] or values, axis=0)
        both = zip(self.names, self.scales, strict=True)
        ordered = [each.get(name, each.get(scale, usual)) for name, scale in both]
        return [float(value) for value in np.ravel(ordered)]


def relevances(kernels: Sequence[Kernel], deviations: Doubles) -> Doubles | None:
    """Return the relevances of the columns, (p,), which sum to 1.

    The relevance of a column is proportional to its standard deviation divided by its length scale.
    With several length scales the squares add up, as the variances of the slopes of latent
    functions do: weighted by the prior variances over kernels and the terms of a sum, unweighted
    over the factors of a product.

    Parameters
    ----------
    kernels : sequence of Kernel
    deviations : Doubles (p,)
        Standard deviations of the columns after scaling.

    Returns
    -------
    Doubles (p,) or None
        None if no kernel has a length scale for every column, or all are irrelevant.
    """
    if not any(leaf.has_ard(len(deviations)) for kernel in kernels for leaf in kernel.leaves):
        return None
    squares = np.sum([kernel.slope_variances(deviations)[1] for kernel in kernels], axis=0)
    roots = np.sqrt(squares / (squares.max() or 1.0))
    total = float(roots.sum())
    return np.asarray(roots / total) if 0.0 < total < np.inf else None
