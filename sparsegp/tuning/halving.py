"""Successive halving: many candidates on few rows, the best of them on more.

Bookkeeping only: how many trials each rung has, on how many rows, and who goes on (Jamieson &
Talwalkar 2016, https://arxiv.org/abs/1502.07943). Here each rung also tries the neighbours of the
best so far, so that the last ones refine what the first ones found; the last size serves twice.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

ETA = 3
"""Rows of a rung over those of the one before."""

LEAST_ROWS = 3000
"""On fewer rows the best kernel is often another one than on all."""

MOST_ROWS = 16000
"""Bounds the time of the last rungs; larger tables are tuned on a part of them."""

MOST_ACTIVE = 2000
"""The same for active rows. Fewer than the run has favour smooth kernels."""

SHARES = (4, 2, 1, 1)
"""Of the trials, for each rung."""


@dataclass(frozen=True)
class Rung:
    """One round of trials.

    Attributes
    ----------
    rows : int
        That each trial trains on.
    n_active : int
    count : int
        Trials.
    """

    rows: int
    n_active: int
    count: int


def plan(
    n: int, n_active: int, max_trials: int, rows_aside: Callable[[int], int] = lambda _: 0
) -> list[Rung]:
    """Return the rungs.

    Active rows grow with the rows, up to `MOST_ACTIVE` or what the run asks.

    Parameters
    ----------
    n : int
        Rows to train on, at most `MOST_ROWS` of which are used.
    n_active : int
        Active rows of the run.
    max_trials : int
        Trials in all.
    rows_aside : callable
        From rows to those of them that cannot become active.
    """
    last, wanted, rungs = min(n, MOST_ROWS), min(n_active, MOST_ACTIVE), []
    numbers = counts(max_trials)
    for place, count in enumerate(numbers):
        steps = max(0, len(numbers) - 2 - place)
        rows = min(last, max(LEAST_ROWS, last // ETA**steps))
        d = min(-(-wanted * rows // last), rows - rows_aside(rows))
        rungs.append(Rung(rows, d, count))
    return rungs


def counts(max_trials: int) -> list[int]:
    """Return the trials of each rung, `max_trials` in all.

    Each has two at least, the kernel of the settings and a rival. Where that cannot be, there is
    the last rung alone: few rows alone decide badly.
    """
    if max_trials < 2 * len(SHARES):
        return [max_trials]
    later = [max(2, max_trials * share // sum(SHARES)) for share in SHARES[1:]]
    return [max_trials - sum(later), *later]


def best(scores: Sequence[float | None], count: int | None = None) -> list[int]:
    """Return the places of the least scores, the best first; ties go to the smaller place.

    Parameters
    ----------
    scores : sequence of float or None
        None for a trial that failed; such come last.
    count : int, optional
        At most so many.
    """
    order = sorted(
        range(len(scores)), key=lambda place: math.inf if (s := scores[place]) is None else s
    )
    return order[:count]
