"""How large a search is: rows and active rows of its rungs, and how many candidates are tried."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sparsegp.kernels import STRETCHES
from sparsegp.learning.space import MOST_COLUMNS

ETA = 3
"""Rows of a rung over those of the one before."""
LEAST_ROWS = 3000
"""On fewer rows the best kernel is often another one than on all."""
MOST_ROWS, MOST_ACTIVE = 16000, 2000
"""Bounds of the time of the last rungs; few active rows favour smooth kernels."""
MOST_HELD_OUT = 4000
"""Rows, at most, that judge."""
BRIEF_ROWS, BRIEF_ACTIVE = 3000, 300
"""The same of a brief search."""
BRIEF_OF_NUMBERS = 30
"""Candidates of a brief search where labels are numbers, whose quick fits take next to no time."""
SHARES = (4, 2, 1, 1)
"""Of the trials of a tuning, for each rung."""
LEAST_FOR_COLUMNS = 100
"""With fewer rows what is learnt for columns is chance."""
LEAST_FOR_SEARCH, PIXELS = 90, 50
"""With fewer rows a brief search finds chance; so many columns of one range are those of pictures
or spectra."""
FEW_ROWS = 250
"""With fewer, whose fits to several parts take long beside that of the run, a brief search ends
early."""
SURE = 2.0
"""Standard errors by which the best of a tuning has to lead: the best of so many is often best by
chance."""
FEW_TO_TUNE = 2000
"""With fewer rows a draw of active rows favours kernels by more than held-out rows tell."""
LEAST_FOR_STRETCHES, ROWS_A_STRETCH = 1500, 20
"""With fewer rows in all every part of them is held out once: what is learnt for stretches would
begin with what all parts have learnt. With fewer for each stretch of a column it is chance."""
REFINED, FOR_STRETCHES = 4, 2
"""How many candidates are given a length scale for every column, or a metric; and those that follow
where columns have stretches."""
LEAST_TRIALS = 2 * len(SHARES) + REFINED
"""Of a tuning: with fewer none is spent on columns."""
AGAIN_ROWS, AGAIN_ENTRIES, A_CLASS, AGAIN_ACTIVE = 8000, 1_000_000, 4, 1000
"""Rows, numbers in them, and active rows, at most, with which length scales are learnt again; with
many classes, each of which takes the time of so many columns, fewer rows."""
GROWN = (1000, 2000, 4000)
"""Active rows, where their number is open."""


@dataclass(frozen=True)
class Rung:
    """One round of trials: the rows and active rows of each, and how many there are.

    With a count of None those candidates take part that come first.
    """

    rows: int
    n_active: int
    count: int | None


@dataclass(frozen=True)
class Plan:
    """The whole of a search, but for who takes part.

    Attributes
    ----------
    rungs : sequence of Rung
    by_column : bool
        Whether length scales for every column, and a metric, are learnt.
    by_stretch : bool
        Whether four for every column are learnt from those.
    grown : sequence of Rung
        More active rows: a quarter and half of the least of `sizes`, of numbers half of it alone,
        and those that are not too many to try.
    sizes : sequence of int
        Numbers of active rows that may be chosen, rising; none if theirs was given.
    ends_early : bool
        Whether nothing more is tried where no candidate leads the kernel of the settings at once.
    errors : float
        Standard errors by which the best has to lead the kernel of the settings.
    in_full : bool
        Whether it has to do so in fits like that of the run, too.
    again : Rung, optional
        Rows and active rows with which the length scales of the best are learnt again.
    of_numbers : bool
        Whether labels are numbers.
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
        """Return the plan for rows to train on.

        Active rows grow with the rows, up to `MOST_ACTIVE` or as many as the run has.

        Parameters
        ----------
        shape : (int, int)
            Rows, at most `MOST_ROWS` of which are used, and columns.
        n_active : int
            Active rows of the run.
        max_trials : int or None
            Trials of a tuning, besides those that grow the active set; None for a brief search,
            of no more than the first candidates.
        held_out : int
            Rows that judge.
        n_classes : int
            Zero where labels are numbers.
        sizes : sequence of int
            Numbers of active rows that may be chosen, rising; none if theirs was given.
        validation : callable
            From rows to those of them that cannot become active.
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
        if sizes and most < sizes[0]:  # all rows become active
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
    """Return the trials of each rung of a tuning, `max_trials` in all.

    Each has two at least, the kernel of the settings and a rival. Where that cannot be, there is
    the last rung alone: few rows alone decide badly.
    """
    if max_trials < 2 * len(SHARES):
        return [max_trials]
    later = [max(2, max_trials * share // sum(SHARES)) for share in SHARES[1:]]
    return [max_trials - sum(later), *later]
