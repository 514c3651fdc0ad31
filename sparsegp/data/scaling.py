"""Scaling of inputs: chosen once from the training rows, stored with the model, applied anywhere.

`auto` distinguishes inputs that share one bounded range from measurements with their own units.
Three numbers of the summary decide:

- the *frame*, the range that the columns would share: [-1, 1] or [0, 1] when all values lie in it,
  [0, M] for whole numbers with least value 0 and greatest value M <= 255;
- the *reach*, the median over the columns that vary of (high - low) / width of the frame;
- the *polarisation*, sum of variances / sum of (mean - low end) (high end - mean) over those
  columns. The denominator is the greatest variance that a variable with that mean can have in the
  frame (Bhatia & Davis 2000), so it lies in [0, 1]: 1 for values at the two ends only, 1/3 for
  values spread evenly over the frame, small for bells inside it.

A reach of at least `REACH` is always needed. The frames [-1, 1], [0, 1] and [0, 255] are
conventions (normalised columns, indicators, bytes), and reach suffices. Any other [0, M] may be a
scale that features were rounded to, each with its own bell; there polarisation must exceed that of
even spread, as it does for ink and background.
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
from sparsegp.state import GREATEST
from sparsegp.types import Booleans, Doubles, Floats

REACH = 0.75
"""Least part of the frame that the median column must fill: columns that were normalised to the
frame fill all of it, but 50 of their rows may fill four fifths only."""

EVEN = 1.0 / 3.0
"""Polarisation of values spread evenly over the frame."""

KNOTS = 256
"""Quantiles of a column that the rule "quantile" keeps."""

OUTERMOST = 1.0 / 2000.0
"""Ranks are kept this far from 0 and 1, so that normal scores stay within 3.3."""

Draw = Callable[[], Floats]
"""Returns some training rows (m, p), the same ones every time."""


@dataclass(frozen=True)
class Scaling:
    """The map x -> (x - shift) * factor of each column, of its normal scores if it has knots.

    Columns that are scaled so may then be mixed, as a metric wants (learning/metric.py).

    Parameters
    ----------
    shift, factor : Doubles (p,)
    name : str
        The rule that was followed: "standard", "range", "quantile" or "none" (`auto` resolves to
        one).
    knots : Doubles (p, m), optional
        Evenly spaced quantiles of each column, from the least value to the greatest. The normal
        score of x is the normal quantile of its rank among them, equal values in the middle.
    kept : Booleans (p,), optional
        Columns that no rule applies to: levels of categories, truths and gaps, which stay 0 and 1.
    mixing : Doubles (p, p), optional
        By which rows of scaled columns are multiplied.

    Raises
    ------
    DataError
        If the numbers are not finite, or not for the same columns.
    """

    shift: Doubles
    factor: Doubles
    name: str
    knots: Doubles | None = None
    kept: Booleans | None = None
    mixing: Doubles | None = None

    def __post_init__(self) -> None:
        shift, factor, knots = self.shift, self.factor, self.knots
        fitting = shift.ndim == 1 and shift.shape == factor.shape and type(self.name) is str
        if not (fitting and np.isfinite(shift).all() and np.isfinite(factor).all()):
            raise DataError(
                "shift and factor of a scaling must be finite numbers, one of each for a column"
            )
        if knots is not None and not (
            knots.ndim == 2
            and len(knots) == len(shift)
            and 2 <= knots.shape[1] <= KNOTS
            and np.isfinite(knots).all()
            and (np.diff(knots) >= 0).all()
        ):
            raise DataError(
                f"the knots of a scaling must be 2 to {KNOTS} rising numbers for each column"
            )
        if (kept := self.kept) is not None and (
            kept.shape != shift.shape or kept.dtype.kind != "b"
        ):
            raise DataError("a scaling must say for each column whether it is kept")
        mixing = self.mixing
        if mixing is not None and not (
            mixing.shape == 2 * shift.shape
            and (np.abs(mixing) <= GREATEST).all()
            and np.linalg.slogdet(mixing)[0] != 0.0
        ):
            raise DataError(
                "the mixing of a scaling must be an invertible matrix of finite numbers, a row and "
                "a column for each column"
            )

    @property
    def has_unit_variance(self) -> Booleans:
        """Which scaled training columns have variance 1, (p,), if not one value only.

        That is before they are mixed.
        """
        unit = np.full(len(self.shift), self.name in {"standard", "quantile"})
        return unit if self.kept is None else unit & ~self.kept

    def keeping(self, kept: Booleans) -> "Scaling":
        """Return this scaling of columns among which are others that it leaves as they are.

        Parameters
        ----------
        kept : Booleans (p,)
            Which of all columns these others are.
        """
        before = np.flatnonzero(kept) - np.arange(kept.sum())  # which of the present columns
        shift, factor = np.insert(self.shift, before, 0.0), np.insert(self.factor, before, 1.0)
        knots = None if self.knots is None else np.insert(self.knots, before, 0.0, axis=0)
        return replace(self, shift=shift, factor=factor, knots=knots, kept=kept)

    def variances(self, summary: Summary) -> Doubles:
        """Return the variances of the scaled training columns, (p,), before they are mixed."""
        if self.knots is not None:
            varies = np.asarray(self.knots[:, 0] < self.knots[:, -1], np.float64)
            return varies if self.kept is None else np.where(self.kept, summary.variance, varies)
        return np.asarray(summary.variance * self.factor**2)

    def apply(self, X: Any, dtype: DTypeLike = np.float64) -> Any:
        """Scale X (n, p), a numpy array at once or a dask array lazily.

        The arithmetic is in float64, the result is cast to `dtype`.

        Raises
        ------
        DataError
            If X has another number of columns.
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
                knots = self.knots[j]
                result[:, j] = normal_scores(result[:, j], knots)
        result -= self.shift
        result *= self.factor
        if self.mixing is not None:
            result = _by_tiles(result, self.mixing)
        return result.astype(dtype, copy=False)


def _by_tiles(X: Doubles, mixing: Doubles) -> Doubles:
    """Return X @ mixing in products of one shape: the bits of a row depend on its tile alone."""
    n, p = X.shape
    tiles = np.zeros((-(-n // TILE), TILE, p))
    tiles.reshape(-1, p)[:n] = X
    return np.asarray((tiles @ mixing).reshape(-1, p)[:n])


def normal_scores(x: Doubles, knots: Doubles) -> Doubles:
    """Return the normal quantiles of the ranks of x (n,) among knots (m,)."""
    from scipy.special import ndtri  # noqa: PLC0415 - slow to import

    ranks = np.linspace(0.0, 1.0, len(knots))
    # where knots are equal, the least of their ranks and the greatest
    least = np.interp(x, knots, ranks)
    greatest = -np.interp(-x, -knots[::-1], -ranks[::-1])
    middle = (least + greatest) / 2.0
    return np.asarray(ndtri(np.clip(middle, OUTERMOST, 1.0 - OUTERMOST)))


SCALINGS: Registry[Callable[[Summary, Draw], Scaling]] = Registry("scaling")
"""Rules by name: from the summary of the training rows, and some of them, to their scaling."""


def scaling_for(rule: str, summary: Summary, draw: Draw, kept: Booleans | None = None) -> Scaling:
    """Return the scaling of some training rows by a rule; the columns that are kept stay."""
    if kept is None or not kept.any():
        return SCALINGS[rule](summary, draw)
    some = summary.of(~kept)
    if not some.p:
        return unscaled(some, draw).keeping(kept)
    return SCALINGS[rule](some, lambda: draw()[:, ~kept]).keeping(kept)


@SCALINGS.register("none")
def unscaled(summary: Summary, _draw: Draw) -> Scaling:
    """Leave the columns unchanged."""
    return Scaling(np.zeros(summary.p), np.ones(summary.p), "none")


@SCALINGS.register("standard")
def standard(summary: Summary, _draw: Draw) -> Scaling:
    """Give every column mean 0 and variance 1; columns of one value become 0."""
    spread = np.sqrt(summary.variance)
    spread[spread == 0] = 1.0
    return Scaling(summary.mean, 1.0 / spread, "standard")


@SCALINGS.register("range")
def shared_range(summary: Summary, draw: Draw) -> Scaling:
    """Divide all columns by the one greatest absolute value."""
    bound = float(np.abs([summary.low, summary.high]).max()) or 1.0
    return replace(unscaled(summary, draw), factor=np.full(summary.p, 1.0 / bound), name="range")


@SCALINGS.register("quantile")
def quantile(summary: Summary, draw: Draw) -> Scaling:
    """Give every column a normal distribution by a rising map, and variance 1.

    Outliers and units do not matter then, only the order of the values.
    """
    rows = np.asarray(draw(), np.float64)
    knots = np.quantile(rows, np.linspace(0.0, 1.0, min(KNOTS, len(rows))), axis=0).T
    scores = replace(unscaled(summary, draw), name="quantile", knots=knots)
    normal = scores.apply(rows)
    spread = normal.std(axis=0)
    spread[spread == 0] = 1.0
    return replace(scores, shift=normal.mean(axis=0), factor=1.0 / spread)


@SCALINGS.register("auto")
def auto(summary: Summary, draw: Draw) -> Scaling:
    """Divide inputs that share one bounded range by its bound, standardise all others.

    The rule is at the head of this file. Inputs in [-1, 1] or [0, 1] stay unchanged.
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
    return (unscaled if upper == 1.0 else shared_range)(summary, draw)
