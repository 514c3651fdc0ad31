"""Size of a search: rows and active rows of its trials, and number of candidates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparsegp.kernels import STRETCHES
from sparsegp.learning.space import MOST_COLUMNS

MOST_ROWS, MOST_ACTIVE = 16000, 2000
"""Maximum numbers of rows and active rows of a trial, to bound its time; no lower, since few active
rows favour smooth kernels."""
MOST_HELD_OUT = 4000
"""Maximum number of held-out rows."""
FIRST_ROWS, FIRST_ACTIVE = 3000, 300
"""Maximum numbers of rows and active rows of a trial before re-estimation."""
FIRST_OF_NUMBERS = 30
"""Number of candidates of the default search in a regression, whose approximate fits are fast."""
LEAST_FOR_COLUMNS = 100
"""With fewer rows to fit, per-column length scales are noise."""
LEAST_FOR_SEARCH, PIXELS = 90, 50
"""With fewer training rows the choice of a default search would be noise; with so many columns of
one range these are taken for pixels or spectra."""
FEW_ROWS = 250
"""With fewer rows to fit, the default search may end early: cross-validation takes long compared
with the fit of the run."""
SURE = 2.0
"""Standard errors by which the winner must lead a given kernel: the best of many is often best by
chance."""
LEAST_FOR_STRETCHES, ROWS_A_STRETCH = 1500, 20
"""Minimum numbers of rows to fit for input warping, in all and per segment of a column. With fewer
in all there is cross-validation, and warping would start from length scales averaged over the folds
and so learnt from the held-out rows; with fewer per segment it is noise."""
AGAIN_ROWS, AGAIN_ENTRIES, A_CLASS, AGAIN_ACTIVE = 8000, 1_000_000, 4, 1000
"""Limits of re-estimation: rows; rows times columns, or times classes, of which each counts as four
columns; and active rows."""
GROWN = (1000, 2000, 4000)
"""Numbers of active rows to choose from, if the number is not given."""


@dataclass(frozen=True)
class Rung:
    """Numbers of rows and active rows of the trials of one stage."""

    rows: int
    n_active: int


@dataclass(frozen=True)
class Plan:
    """Plan of a search, without the candidates.

    Attributes
    ----------
    first : Rung
        Trials of the first candidates, and of those that are learnt from them.
    count : int, optional
        Number of first candidates; see `Candidates.first`.
    by_column : bool
        Whether per-column length scales, and a metric, are learnt.
    by_stretch : bool
        Whether input warping is learnt from these length scales.
    grown : sequence of Rung
        Trials of more active rows: a quarter (not in a regression) and half of the smallest of
        `sizes`, then those of `sizes` that are not too large for a trial.
    sizes : sequence of int
        Numbers of active rows to choose from, ascending; empty if the number is given.
    from_first : bool
        Whether length scales are learnt from the best of the few first candidates too, if others
        lead these: they make better starts.
    ends_early : bool
        Whether no length scales are learnt if no candidate leads the kernel of the settings.
    errors : float
        Standard errors by which the winner must lead the kernel of the settings.
    again : Rung, optional
        Rows and active rows with which the length scales of the best are re-estimated.
    of_numbers : bool
        Whether it is a regression.
    """

    first: Rung
    by_column: bool
    count: int | None = None
    by_stretch: bool = False
    grown: Sequence[Rung] = ()
    sizes: Sequence[int] = ()
    from_first: bool = False
    ends_early: bool = False
    errors: float = 0.0
    again: Rung | None = None
    of_numbers: bool = False

    @classmethod
    def of(
        cls,
        shape: tuple[int, int],
        n_active: int,
        max_trials: int | None,
        *,
        held_out: int = 0,
        n_classes: int = 2,
        sizes: Sequence[int] = (),
        validation: Callable[[int], int] = lambda _: 0,
    ) -> "Plan":
        """Create the plan for a given number of rows.

        Parameters
        ----------
        shape : (int, int)
            Numbers of rows to fit, of which at most `MOST_ROWS` are used, and of columns.
        n_active : int
            Number of active rows of the run.
        max_trials : int or None
            Number of candidates that an extended search compares first; None in a default search.
        held_out : int
            Number of held-out rows.
        n_classes : int
            Zero in a regression.
        sizes : sequence of int
            Numbers of active rows to choose from, ascending; empty if the number is given.
        validation : callable
            Maps a number of rows to how many of them are validation rows and cannot be active.
        """
        (n, p), of_numbers = shape, n_classes == 0
        by_column = p <= MOST_COLUMNS and n >= LEAST_FOR_COLUMNS
        enough = max(LEAST_FOR_STRETCHES, ROWS_A_STRETCH * STRETCHES * p)
        rows, last = min(n, FIRST_ROWS), min(n, MOST_ROWS)
        first = Rung(rows, min(n_active, FIRST_ACTIVE, rows - validation(rows)))
        most = (last - validation(last)) * 4 // 5
        if sizes and most < sizes[0]:  # nearly all rows become active anyway
            sizes = ()
        sizes = list(dict.fromkeys(min(d, most) for d in sizes))
        tried = [d // k for d in sizes[:1] for k in ((2,) if of_numbers else (4, 2))]
        tried += [d for d in sizes if d <= MOST_ACTIVE]
        all_rows = min(n + held_out, AGAIN_ROWS, AGAIN_ENTRIES // max(p, A_CLASS * n_classes))
        is_again = by_column and min(n, all_rows) >= LEAST_FOR_STRETCHES
        wanted = min(AGAIN_ACTIVE, max(FIRST_ACTIVE, n_active))
        return cls(
            first,
            by_column,
            max_trials or (FIRST_OF_NUMBERS if of_numbers else None),
            by_stretch=by_column and rows >= enough,
            grown=[Rung(last, d) for d in tried] if sizes[1:] else [],
            sizes=sizes,
            from_first=max_trials is not None,
            ends_early=n < FEW_ROWS and max_trials is None,
            again=Rung(all_rows, wanted) if is_again else None,
            of_numbers=of_numbers,
        )
