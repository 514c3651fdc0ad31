"""Scaling of inputs: chosen once from the training rows, stored with the model, applied anywhere.

`auto` distinguishes inputs that share one bounded range from measurements with their own units.
Three quantities decide:

- the *frame*, the range that the columns would share: [-1, 1] or [0, 1] if all values lie in it,
  [0, M] for whole numbers with minimum 0 and maximum M <= 255;
- the *reach*, the median over the columns that vary of (high - low) / width of the frame;
- the *polarisation*, sum of variances / sum of (mean - low end) (high end - mean) over those
  columns. The denominator is the largest variance that a variable with that mean can have in the
  frame (Bhatia & Davis 2000), so it lies in [0, 1]: 1 for values at the two ends only, 1/3 for
  a uniform distribution over the frame, small for bell-shaped distributions inside it.

A reach of at least `REACH` is always needed. The frames [-1, 1], [0, 1] and [0, 255] are
conventions (normalised columns, indicators, bytes), and reach suffices. Any other [0, M] may come
from rounding features with bell-shaped distributions of their own; there the polarisation must
exceed that of a uniform distribution, as it does for ink and background.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from sparsegp.data.summary import Summary
from sparsegp.errors import DataError
from sparsegp.math.products import TILE
from sparsegp.registry import Registry
from sparsegp.state import MAX_MAGNITUDE
from sparsegp.types import Booleans, Doubles, Floats

REACH = 0.75
"""Minimum reach: columns that were normalised to the frame fill it, but a sample of 50 rows may
fill only four fifths."""
EVEN = 1.0 / 3.0
"""Polarisation of a uniform distribution over the frame."""
KNOTS = 256
"""Maximum number of quantiles per column that the rule "quantile" stores."""
OUTERMOST = 1.0 / 2000.0
"""Ranks are clipped this far from 0 and 1, so that normal scores stay within 3.3."""
Draw = Callable[[], Floats]
"""Returns some training rows (m, p), the same ones on every call."""


@dataclass(frozen=True)
class Scaling:
    """The map x -> (x - shift) * factor of each column, or of its normal scores if it has knots.

    A distance metric may then mix the scaled columns (learning/metric.py).

    Raises
    ------
    DataError
        If the numbers are not finite, or the shapes do not match.
    """

    shift: Doubles
    factor: Doubles
    name: str  # the rule: "standard", "range", "quantile" or "none" (`auto` resolves to one)
    knots: Doubles | None = None
    """Evenly spaced quantiles of each column, from its minimum to its maximum, (p, m). The normal
    score of x is the normal quantile of its rank among them; ties get the middle of their ranks."""
    kept: Booleans | None = None  # unscaled columns, (p,): of levels, truth and missing values
    mixing: Doubles | None = None  # matrix by which scaled rows are multiplied, (p, p)

    def __post_init__(self) -> None:
        shift, factor, knots, mixing = self.shift, self.factor, self.knots, self.mixing
        fitting = shift.ndim == 1 and shift.shape == factor.shape and type(self.name) is str
        fault = ""
        if not (fitting and np.isfinite(shift).all() and np.isfinite(factor).all()):
            fault = "shift and factor of a scaling must be finite numbers, one of each for a column"
        elif knots is not None and not (
            knots.ndim == 2
            and len(knots) == len(shift)
            and 2 <= knots.shape[1] <= KNOTS
            and np.isfinite(knots).all()
            and (np.diff(knots) >= 0).all()
        ):
            fault = f"the knots of a scaling must be 2 to {KNOTS} rising numbers for each column"
        elif (kept := self.kept) is not None and (kept.shape != shift.shape or kept.dtype != bool):
            fault = "a scaling must say for each column whether it is kept"
        elif mixing is not None and not (
            mixing.shape == 2 * shift.shape
            and (np.abs(mixing) <= MAX_MAGNITUDE).all()
            and np.linalg.slogdet(mixing)[0] != 0.0
        ):
            fault = (
                "the mixing of a scaling must be an invertible matrix of finite numbers, a row and "
                "a column for each column"
            )
        if fault:
            raise DataError(fault)

    @property
    def has_unit_variance(self) -> Booleans:
        """Whether each scaled column, unless constant, has variance 1 before mixing, (p,)."""
        unit = np.full(len(self.shift), self.name in {"standard", "quantile"})
        return unit if self.kept is None else unit & ~self.kept

    def variances(self, summary: Summary) -> Doubles:
        """Return the variances of the scaled training columns before mixing, (p,)."""
        if self.knots is not None:
            varies = np.asarray(self.knots[:, 0] < self.knots[:, -1], np.float64)
            return varies if self.kept is None else np.where(self.kept, summary.variance, varies)
        return np.asarray(summary.variance * self.factor**2)

    def apply(self, X: Any, dtype: DTypeLike = np.float64) -> Any:
        """Scale X (n, p): a numpy array immediately, a dask array lazily.

        The arithmetic is in float64, the result is cast to `dtype`.

        Raises
        ------
        DataError
            If X has the wrong number of columns.
        """
        if X.ndim != 2 or X.shape[1] != len(self.shift):
            raise DataError(
                f"the scaling is for {len(self.shift)} columns; X has shape {tuple(X.shape)}"
            )
        dtype = np.dtype(dtype)
        if hasattr(X, "dask"):
            return X.map_blocks(self.apply, dtype, dtype=dtype, meta=np.empty((0, 0), dtype))
        result = np.asarray(X).astype(np.float64)
        if self.knots is not None:
            for j in np.flatnonzero(self.has_unit_variance):
                result[:, j] = normal_scores(result[:, j], self.knots[j])
        result -= self.shift
        result *= self.factor
        if self.mixing is not None:
            result = _by_tiles(result, self.mixing)
        return result.astype(dtype, copy=False)


def _by_tiles(X: Doubles, mixing: Doubles) -> Doubles:
    """Return X @ mixing, by products of equal shape, so that a row depends on its tile alone."""
    n, p = X.shape
    tiles = np.zeros((-(-n // TILE), TILE, p))
    tiles.reshape(-1, p)[:n] = X
    return np.asarray((tiles @ mixing).reshape(-1, p)[:n])


def normal_scores(x: Doubles, knots: Doubles) -> Doubles:
    """Return the normal quantiles of the ranks of x (n,) among knots (m,)."""
    from scipy.special import ndtri  # noqa: PLC0415 - slow to import

    ranks = np.linspace(0.0, 1.0, len(knots))
    # among tied knots, the smallest and the largest of their ranks
    least = np.interp(x, knots, ranks)
    greatest = -np.interp(-x, -knots[::-1], -ranks[::-1])
    middle = (least + greatest) / 2.0
    return np.asarray(ndtri(np.clip(middle, OUTERMOST, 1.0 - OUTERMOST)))


SCALINGS: Registry[Callable[[Summary, Draw], Scaling]] = Registry("scaling")
"""Rules by name: functions of the summary of the training rows, and of a sample of them."""


def scaling_for(rule: str, summary: Summary, draw: Draw, kept: Booleans | None = None) -> Scaling:
    """Return the scaling of training rows by a rule; columns in `kept` stay unscaled."""
    if kept is None or not kept.any():
        return SCALINGS[rule](summary, draw)
    some = summary.of(~kept)
    found = SCALINGS[rule](some, lambda: draw()[:, ~kept]) if some.p else unscaled(0)
    before = np.flatnonzero(kept) - np.arange(kept.sum())  # where kept columns are inserted
    shift, factor = np.insert(found.shift, before, 0.0), np.insert(found.factor, before, 1.0)
    knots = None if found.knots is None else np.insert(found.knots, before, 0.0, axis=0)
    return replace(found, shift=shift, factor=factor, knots=knots, kept=kept)


def unscaled(p: int, mixing: Doubles | None = None) -> Scaling:
    """Return the scaling that leaves p columns unchanged, but for mixing them."""
    return Scaling(np.zeros(p), np.ones(p), "none", mixing=mixing)


SCALINGS["none"] = lambda summary, _draw: unscaled(summary.p)


@SCALINGS.register("standard")
def standard(summary: Summary, _draw: Draw) -> Scaling:
    """Scale every column to mean 0 and variance 1; constant columns become 0."""
    spread = np.sqrt(summary.variance)
    spread[spread == 0] = 1.0
    return Scaling(summary.mean, 1.0 / spread, "standard")


@SCALINGS.register("range")
def shared_range(summary: Summary, _draw: Draw) -> Scaling:
    """Divide all columns by the largest absolute value of all."""
    bound = float(np.abs([summary.low, summary.high]).max()) or 1.0
    return replace(unscaled(summary.p), factor=np.full(summary.p, 1.0 / bound), name="range")


@SCALINGS.register("quantile")
def quantile(summary: Summary, draw: Draw) -> Scaling:
    """Map every column monotonically to a normal distribution with mean 0 and variance 1.

    Only the order of the values matters then, not outliers or units.
    """
    rows = np.asarray(draw(), np.float64)
    knots = np.quantile(rows, np.linspace(0.0, 1.0, min(KNOTS, len(rows))), axis=0).T
    scores = replace(unscaled(summary.p), name="quantile", knots=knots)
    normal = scores.apply(rows)
    spread = normal.std(axis=0)
    spread[spread == 0] = 1.0
    return replace(scores, shift=normal.mean(axis=0), factor=1.0 / spread)


@SCALINGS.register("auto")
def auto(summary: Summary, draw: Draw) -> Scaling:
    """Divide inputs that share one bounded range by its bound; standardise all others.

    The module docstring has the rule. Inputs that share [-1, 1] or [0, 1] stay unchanged.
    """
    low, high = float(summary.low.min()), float(summary.high.max())
    if low >= -1 and high <= 1:
        lower, upper = -1.0 if low < 0 else 0.0, 1.0
    else:
        lower, upper = 0.0, high
        if not (summary.whole and low == 0 and high <= 255):
            return standard(summary, draw)
    width = summary.high - summary.low
    varies = width > 0
    if not varies.any() or np.median(width[varies]) / (upper - lower) < REACH:
        return standard(summary, draw)
    greatest = ((summary.mean - lower) * (upper - summary.mean))[varies].sum()
    polarisation = summary.variance[varies].sum() / greatest
    if upper not in (1.0, 255.0) and polarisation <= EVEN:
        return standard(summary, draw)
    return unscaled(summary.p) if upper == 1.0 else shared_range(summary, draw)
