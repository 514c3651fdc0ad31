"""Follow the all-data posterior while its span grows: for criteria that look at its means.

Whenever the active set has grown by a factor, the ascent of posterior/all_data.py makes a few
rounds from the former coefficients, with zeros for the new rows: the features of the former ones
are what they were. Then every row is scored at its new mean, and keeps that score until the next
fit. More fits, or more rounds, cost more than they give.
"""

import math
from typing import Any

from sparsegp.ivm.greedy import Selection
from sparsegp.math.lbfgs import Ascent
from sparsegp.posterior.all_data import Problem
from sparsegp.posterior.base import ActiveRows, Rows
from sparsegp.types import Doubles

GROWTH = 2.0
"""Factor by which the active set grows between two fits."""
ROUNDS = 3
"""Of a fit."""


class Refits:
    """Keeps the scores of a selection up to date, if its criterion asks for that.

    Parameters
    ----------
    selection : Selection
    rows : Rows
        The rows of its blocks. Those kept aside do not count.
    coefficients : Doubles (C, t, R), optional
        Of an earlier fit, to go on from; the blocks are told.

    Attributes
    ----------
    coefficients : Doubles (C, t, R) or None
        Of the last fit, with t active rows: all that is to be remembered.
    """

    def __init__(
        self, selection: Selection, rows: Rows, coefficients: Doubles | None = None
    ) -> None:
        self.selection, self.rows, self.coefficients = selection, rows, coefficients
        for method, args in self.recovery():
            rows.map_blocks(method, *args)

    def recovery(self) -> list[tuple[str, tuple[Any, ...]]]:
        """Return what a new block has to be told after its inclusions."""
        if self.coefficients is None:
            return []
        return [("rescore", (self.coefficients,))]

    def keep_up(self) -> None:
        """Fit again if it is time to: before a round."""
        if not self.selection.settings.criterion.refitted:
            return
        size = 0 if self.coefficients is None else self.coefficients.shape[1]
        if len(self.selection.active) >= max(1, math.ceil(GROWTH * size)):
            self.coefficients = self._fit()
            self.rows.map_blocks("rescore", self.coefficients)
            self.selection.forget()

    def _fit(self) -> Doubles:
        """Return coefficients after some rounds of the ascent."""
        left = ActiveRows.of(self.selection.settings, self.selection.active)
        problem = Problem(left, self.rows)
        start = problem.start()
        if self.coefficients is not None:
            start[:, : self.coefficients.shape[1]] = self.coefficients
        ascent = Ascent.at(start, problem.value_and_gradient)
        for _ in range(ROUNDS):
            ascent.step(problem.value_and_gradient, problem.solve, problem.resolution)
        return ascent.point
