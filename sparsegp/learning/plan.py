"""Size of a search: rows and active rows of its trials, and number of candidates."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import entr

from sparsegp.learning.space import MAX_ROUGH_COLUMNS, SAFE
from sparsegp.types import Doubles, Integers

MAX_ROWS, MAX_ACTIVE = 16000, 2000
"""Maximum numbers of rows and active rows of a trial, to bound its time, unless re-estimation uses
more rows; no lower, since few active rows favour smooth kernels."""
MAX_HELD_OUT = 4000
"""Maximum number of held-out rows."""
MAX_ENTRIES, MIN_SAMPLE = 40_000_000, 2000
"""Limit on rows times columns of a sample, and the number of rows that a sample may always have."""
FIRST_ROWS, FIRST_ACTIVE = 3000, 300
"""Maximum numbers of rows and active rows of a trial before re-estimation."""
REGRESSION_CANDIDATES = 30
"""Number of candidates of the default search in a regression, whose approximate fits are fast."""
MIN_ROWS_FOR_ARD = 100
"""With fewer rows to fit, per-column length scales are noise."""
MIN_ROWS_FOR_SEARCH = 90
"""With fewer training rows the choice of a default search would be noise."""
PIXELS, ALIKE = 50, 0.15
"""At least so many columns with one range count as pixels or spectra if the mean correlation of
neighbours is at least `ALIKE`: it is 0.32 to 0.79 for digits, USPS, MNIST and Isolet."""
SPARSE_RATIO = 1 / 3
"""Ratio of mean to standard deviation of a column with nine tenths zeros and one other value."""
MAX_PLAIN = 1e6
"""Largest magnitude of inputs that are also tried without scaling."""
FEW_ROWS = 250
"""With fewer rows to fit, the default search may end early: cross-validation takes long compared
to the fit of the run."""
GUARD_ERRORS = 2.0
"""Standard errors by which the winner must lead a given kernel: the best of many candidates is
often best by chance."""
MIN_ROWS_FOR_WARPING = 250
"""Minimum number of rows to fit for input warping. Below 2000 training rows there is
cross-validation, and warping starts from length scales averaged over the folds, into which a little
of the held-out rows leaks; it still helps (docs/benchmarks/search.md)."""
MIN_ROWS_FOR_REESTIMATION = 1500
"""Minimum number of rows to fit for re-estimation; with fewer, some kernels must lead clearly."""
REESTIMATE_ROWS, REESTIMATE_ACTIVE = (8000, 32000), 1000
"""Rows from which length scales are re-estimated: half of all rows, within these limits; and the
maximum number of active rows."""
FEW_COLUMNS, COLUMNS_PER_CLASS, INDICATORS_PER_COLUMN = 125, 4, 16
"""Beyond so many columns these rows become proportionally fewer; each class counts as four. Sixteen
indicators of a category count as one, as matrix products take the place of their differences."""
ACTIVE_SIZES, MAX_REDUCED = (1000, 2000, 4000, 8000), 4000
"""Numbers of active rows to choose from, if the number is not given; and the largest that is
reduced where there are too few rows for it, rather than left out."""
SELECTED_ACTIVE, DOUBTFUL = 500, 0.5
"""Maximum number of active rows in the trials that choose between selected and random ones; and the
NLPP, relative to the entropy of the classes, above which selection may do harm. In a regression it
is the fraction of the variance of the targets that is not predicted."""
GAIN_DECAY = 0.5
"""Expected gain of a doubling of the active rows relative to the one before, if trials use all
rows. The more rows a model has, the more its active rows gain."""
NOISY, NOISY_MANY, NOISY_COLUMNS = 0.75, 0.95, 50
"""NLPP, relative to the entropy of the classes, above which labels are mostly noise; the second is
for more than two classes, where length scales still help above the first. With more encoded columns
than the third, labels may look like noise until length scales are learnt."""


def reestimated_rows(n: int) -> int:
    """Return the maximum number of rows, out of n, from which length scales are re-estimated."""
    least, most = REESTIMATE_ROWS
    return min(max(n // 2, least), most)


def sample_rows(n: int, p: int, least: int = MAX_ROWS) -> int:
    """Return the maximum number of rows of a sample of n rows with p columns.

    At least `least` rows can be fitted, if there are as many and `MAX_ENTRIES` allows it.
    """
    most = max(least, reestimated_rows(n)) + MAX_HELD_OUT
    return min(most, max(MIN_SAMPLE, MAX_ENTRIES // p))


def noise_level(shares: Doubles | Integers) -> float:
    """Return the NLPP above which labels are mostly noise, given the weights of the classes."""
    return (NOISY_MANY if np.count_nonzero(shares) > 2 else NOISY) * _entropy(shares)


def doubt_level(shares: Doubles | Integers | None) -> float:
    """Return the NLPP above which selection may do harm, given the weights of the classes, if any.

    In a regression it is that of standardised targets of which `DOUBTFUL` is Gaussian noise.
    """
    if shares is None:
        return 0.5 * (1.0 + math.log(2.0 * math.pi * DOUBTFUL))
    return DOUBTFUL * _entropy(shares)


def _entropy(shares: Doubles | Integers) -> float:
    return float(entr(shares / shares.sum()).sum())


@dataclass(frozen=True)
class Size:
    """Numbers of rows and active rows of the trials of one stage."""

    rows: int
    n_active: int


@dataclass(frozen=True)
class Plan:
    """Plan of a search, without the candidates.

    The sizes `grown` are a quarter (not in a regression) and half of the smallest of `sizes`, then
    those of `sizes` that are not too large for a trial.
    """

    first: Size  # size of trials of the first candidates, and of those learnt from them
    by_column: bool  # whether per-column length scales, and a metric, are learnt
    count: int | None = None  # number of first candidates; see `Candidates.first`
    by_warping: bool = False  # whether input warping is learnt, starting from these length scales
    grown: Sequence[Size] = ()  # sizes of trials of more active rows
    sizes: Sequence[int] = ()  # numbers of active rows to choose from, ascending; empty if given
    from_first: bool = False  # also learn from the best few first candidates, as better starts
    ends_early: bool = False  # learn no length scales if none leads the kernel of the settings
    errors: float = 0.0  # standard errors by which the winner must lead the kernel of the settings
    safe: int | None = None  # candidate to select unless the winner leads it, see `Search.select`
    reestimation: Size | None = None  # size of the re-estimation of the best's length scales
    confirmation: Size | None = None  # of trials that decide between kinds, if these have more rows
    selection: Size | None = None  # size of trials with random and with selected active rows
    doubt: float = math.inf  # NLPP above which these trials are made
    gain_decay: float = GAIN_DECAY  # gain of a doubling of active rows relative to the last one
    n_rows: int = 0  # of the run
    n_active: int = 0  # of the run, unless it is chosen from `sizes`
    is_regression: bool = False
    noise: float | None = None  # `noise_level`: with a higher NLPP the search ends early

    @classmethod
    def of(
        cls,
        shape: tuple[int, ...],
        n_active: int,
        max_trials: int | None,
        *,
        n_classes: int = 2,
        n_scales: int | None = None,
        sizes: Sequence[int] = (),
        validation: Callable[[int], int] = lambda _: 0,
    ) -> "Plan":
        """Create the plan for a given number of rows.

        Parameters
        ----------
        shape : tuple of int
            Numbers of rows to fit, of held-out rows, of columns and, if there are more rows, of
            all training rows.
        n_active : int
            Number of active rows of the run.
        max_trials : int or None
            Number of candidates that an extended search compares first; None in a default search.
        n_classes : int
            Zero in a regression.
        n_scales : int, optional
            Number of length scales; fewer than columns if the indicators of categories share them.
        sizes : sequence of int
            Numbers of active rows to choose from, ascending; empty if the number is given.
        validation : callable
            Maps a number of rows to the number of validation rows among them, never active.
        """
        (n, held_out, p, *more), is_regression = shape, n_classes == 0
        n_rows = max((n + held_out, *more))
        reestimated = reestimated_rows(n_rows)
        by_column = p <= MAX_ROUGH_COLUMNS and n >= MIN_ROWS_FOR_ARD
        rows, last = min(n, FIRST_ROWS), min(n, max(MAX_ROWS, reestimated))
        first = Size(rows, min(n_active, FIRST_ACTIVE, rows - validation(rows)))
        most = (last - validation(last)) * 4 // 5
        if sizes and most < sizes[0]:  # nearly all rows become active anyway
            sizes = ()
        sizes = [*dict.fromkeys(min(d, most) for d in sizes if d <= max(most, MAX_REDUCED))]
        tried = [d // k for d in sizes[:1] for k in ((2,) if is_regression else (4, 2))]
        tried += [d for d in sizes if d <= MAX_ACTIVE]
        n_scales = p if n_scales is None else n_scales
        width = n_scales + (p - n_scales) // INDICATORS_PER_COLUMN
        widest = max(width, COLUMNS_PER_CLASS * n_classes)
        is_safe = n < MIN_ROWS_FOR_REESTIMATION and p <= MAX_ROUGH_COLUMNS and not is_regression
        all_rows = min(n + held_out, reestimated, reestimated * FEW_COLUMNS // widest)
        is_reestimated = by_column and min(n, all_rows) >= MIN_ROWS_FOR_REESTIMATION
        wanted = min(REESTIMATE_ACTIVE, max(FIRST_ACTIVE, n_active))
        smallest = sizes[0] if sizes else n_active
        selected = Size(last, min(smallest, SELECTED_ACTIVE))
        return cls(
            first,
            by_column,
            max_trials or (REGRESSION_CANDIDATES if is_regression else None),
            by_warping=by_column and rows >= MIN_ROWS_FOR_WARPING,
            grown=[Size(last, d) for d in tried] if sizes[1:] else [],
            sizes=sizes,
            from_first=max_trials is not None,
            ends_early=n < FEW_ROWS and max_trials is None,
            safe=SAFE if is_safe else None,
            reestimation=Size(all_rows, wanted) if is_reestimated else None,
            confirmation=Size(last, wanted // 2) if is_reestimated and last > all_rows else None,
            selection=selected if n_rows >= 2 * smallest else None,
            gain_decay=min(1.0, GAIN_DECAY * math.sqrt(n_rows / (last + held_out))),
            n_rows=n_rows,
            n_active=n_active,
            is_regression=is_regression,
        )

    @property
    def has_more_rows(self) -> bool:
        """Whether there are more rows than length scales are re-estimated from."""
        return self.reestimation is not None and self.n_rows > self.reestimation.rows

    def last(self, n_active: int | None) -> Size | None:
        """Return the size of the last re-estimation, if any; `n_active` was chosen from `sizes`.

        It has no fewer active rows per row than the run, or length scales would come out too long;
        but half as many where more than the smallest size gain little.
        """
        if (size := self.reestimation) is None:
            return None
        if self.grown and n_active == self.sizes[0]:
            return replace(size, n_active=size.n_active // 2)
        alike = self.n_rows * size.n_active // (n_active or self.n_active)
        return replace(size, rows=min(size.rows, max(alike, REESTIMATE_ROWS[0])))
