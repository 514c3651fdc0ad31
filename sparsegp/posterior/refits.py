"""Follow the all-data posterior while its span grows: for criteria that look at its means.

Whenever the active set has grown by a factor, the ascent of posterior/all_data.py makes a few
rounds from the former coefficients, with zeros for the new rows: the features of the former ones
are what they were. Then every row is scored at its new mean, and keeps that score until the next
fit. More fits, or more rounds, cost more than they give.
"""

import math

from sparsegp.ivm.greedy import Selection
from sparsegp.math.lbfgs import Ascent
from sparsegp.posterior.base import ActiveRows, Rows
from sparsegp.posterior.objective import Problem
from sparsegp.types import Doubles

GROWTH = 2.0
"""Factor by which the active set grows between two fits."""
ROUNDS = 3
"""Of a fit."""


def keep_up(selection: Selection, rows: Rows, coefficients: Doubles | None) -> Doubles | None:
    """Fit again if it is time to, before a round, and have all candidates scored anew.

    Parameters
    ----------
    selection : Selection
    rows : Rows
        The rows of its blocks. Validation rows do not count.
    coefficients : Doubles (C, t, R), optional
        Of the fit before, with t active rows.

    Returns
    -------
    Doubles (C, d, R) or None
        Of the latest fit: all that is to be remembered.
    """
    if not selection.settings.criterion.refitted:
        return None
    size = 0 if coefficients is None else coefficients.shape[1]
    if len(selection.active) < max(1, math.ceil(GROWTH * size)):
        return coefficients
    problem = Problem(ActiveRows.of(selection.settings, selection.active), rows)
    start = problem.start()
    start[:, :size] = 0.0 if coefficients is None else coefficients
    ascent = Ascent.at(start, problem.value_and_gradient)
    for _ in range(ROUNDS):
        ascent.step(problem.value_and_gradient, problem.solve, problem.resolution)
    rows.map_blocks("rescore", ascent.point)
    selection.forget()
    return ascent.point
