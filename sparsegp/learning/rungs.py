"""Size of a search: rows and active rows of its rungs, and number of candidates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sparsegp.kernels import STRETCHES
from sparsegp.learning.space import MOST_COLUMNS

ETA = 3
"""Ratio of the numbers of rows of successive rungs."""
LEAST_ROWS = 3000
"""Minimum number of rows of a rung: on fewer, the best kernel is often not the best on all rows."""
MOST_ROWS, MOST_ACTIVE = 16000, 2000
"""Maximum numbers of rows and active rows of a trial, to bound its time; no lower, since few active
rows favour smooth kernels."""
MOST_HELD_OUT = 4000
"""Maximum number of held-out rows."""
BRIEF_ROWS, BRIEF_ACTIVE = 3000, 300
"""Maximum numbers of rows and active rows of a trial in the default search."""
BRIEF_OF_NUMBERS = 30
"""Number of candidates of the default search in a regression, whose approximate fits are fast."""
SHARES = (4, 2, 1, 1)
"""Relative numbers of trials in the rungs of an extended search."""
LEAST_FOR_COLUMNS = 100
"""With fewer rows to fit, per-column length scales are noise."""
LEAST_FOR_SEARCH, PIXELS = 90, 50
"""With fewer training rows the choice of a default search would be noise; with so many columns of
one range these are taken for pixels or spectra."""
FEW_ROWS = 250
"""With fewer rows to fit, the default search may end early: cross-validation takes long compared
with the fit of the run."""
SURE = 2.0
"""Standard errors by which the winner of an extended search must lead: the best of many candidates
is often best by chance."""
FEW_TO_TUNE = 2000
"""With fewer rows to fit, the draw of the active rows favours a kernel by more than the held-out
rows can tell."""
LEAST_FOR_STRETCHES, ROWS_A_STRETCH = 1500, 20
"""Minimum numbers of rows to fit for input warping, in all and per segment of a column. With fewer
in all there is cross-validation, and warping would start from length scales averaged over the folds
and so learnt from the held-out rows; with fewer per segment it is noise."""
REFINED, FOR_STRETCHES = 4, 2
"""Trials for per-column length scales or a metric, and additional trials for input warping."""
LEAST_TRIALS = 2 * len(SHARES) + REFINED
"""With fewer trials an extended search learns no per-column length scales."""
AGAIN_ROWS, AGAIN_ENTRIES, A_CLASS, AGAIN_ACTIVE = 8000, 1_000_000, 4, 1000
"""Limits of re-estimation: rows; rows times columns, or times classes, of which each counts as four
columns; and active rows."""
GROWN = (1000, 2000, 4000)
"""Numbers of active rows to choose from, if the number is not given."""


@dataclass(frozen=True)
class Rung:
    """One round of trials: the rows and active rows of each, and the number of trials.

    A count of None stands for the first candidates (`Candidates.first`).
    """

    rows: int
    n_active: int
    count: int | None


@dataclass(frozen=True)
class Plan:
    """Plan of a search, without the candidates.

    Attributes
    ----------
    rungs : sequence of Rung
    by_column : bool
        Whether per-column length scales, and a metric, are learnt.
    by_stretch : bool
        Whether input warping is learnt from these length scales.
    grown : sequence of Rung
        Trials of more active rows: a quarter (not in a regression) and half of the smallest of
        `sizes`, then those of `sizes` that are not too large for a trial.
    sizes : sequence of int
        Numbers of active rows to choose from, ascending; empty if the number is given.
    ends_early : bool
        Whether no length scales are learnt if no candidate leads the kernel of the settings.
    errors : float
        Standard errors by which the winner must lead the kernel of the settings.
    in_full : bool
        Whether it must do so in fits like that of the run too.
    again : Rung, optional
        Rows and active rows with which the length scales of the best are re-estimated.
    of_numbers : bool
        Whether it is a regression.
    """

    rungs: Sequence[Rung]
    by_column: bool
    by_stretch: bool = False
    grown: Sequence[Rung] = ()
    sizes: Sequence[int] = ()
    ends_early: bool = False
    errors: float = 0.0
    in_full: bool = False
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

        In an extended search, active rows are proportional to rows; the last rungs have as many as
        the run, at most `MOST_ACTIVE`.

        Parameters
        ----------
        shape : (int, int)
            Numbers of rows to fit, of which at most `MOST_ROWS` are used, and of columns.
        n_active : int
            Number of active rows of the run.
        max_trials : int or None
            Number of trials of an extended search, up to and including those that learn length
            scales, metric and warping; None for the default search.
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
        by_stretch = by_column and min(n, BRIEF_ROWS) >= enough
        last, wanted, rungs = min(n, MOST_ROWS), min(n_active, MOST_ACTIVE), []
        if max_trials is None:
            rows = min(n, BRIEF_ROWS)
            d = min(n_active, BRIEF_ACTIVE, rows - validation(rows))
            rungs.append(Rung(rows, d, BRIEF_OF_NUMBERS if of_numbers else None))
        else:
            by_column = by_column and max_trials >= LEAST_TRIALS
            by_stretch = by_stretch and max_trials >= LEAST_TRIALS + FOR_STRETCHES
            numbers = counts(max_trials - REFINED * by_column - FOR_STRETCHES * by_stretch)
            for place, count in enumerate(numbers):
                steps = max(0, len(numbers) - 2 - place)
                rows = min(last, max(LEAST_ROWS, last // ETA**steps))
                d = min(-(-wanted * rows // last), rows - validation(rows))
                rungs.append(Rung(rows, d, count))
        most = (last - validation(last)) * 4 // 5
        if sizes and most < sizes[0]:  # nearly all rows become active anyway
            sizes = ()
        sizes = list(dict.fromkeys(min(d, most) for d in sizes))
        tried = [d // k for d in sizes[:1] for k in ((2,) if of_numbers else (4, 2))]
        tried += [d for d in sizes if d <= MOST_ACTIVE]
        grown = [Rung(last, d, None) for d in tried] if sizes[1:] else []
        how: dict[str, Any] = {"ends_early": n < FEW_ROWS}
        if max_trials is not None:
            how = {"errors": SURE, "in_full": n < FEW_TO_TUNE}
        rows = min(n + held_out, AGAIN_ROWS, AGAIN_ENTRIES // max(p, A_CLASS * n_classes))
        if by_column and min(n, rows) >= LEAST_FOR_STRETCHES:
            how["again"] = Rung(rows, min(AGAIN_ACTIVE, max(BRIEF_ACTIVE, n_active)), 1)
        return cls(rungs, by_column, by_stretch, grown, sizes, of_numbers=of_numbers, **how)


def counts(max_trials: int) -> list[int]:
    """Return the number of trials in each rung of an extended search, `max_trials` in all.

    Each rung has at least two, for the kernel of the settings and a competitor. If there are too
    few for that, there is only the last rung, since few rows decide badly.
    """
    if max_trials < 2 * len(SHARES):
        return [max_trials]
    later = [max(2, max_trials * share // sum(SHARES)) for share in SHARES[1:]]
    return [max_trials - sum(later), *later]
