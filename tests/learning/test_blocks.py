"""The evidence over the row blocks of a real selection: one set, one a class, one in all."""

import numpy as np
import pytest

from sparsegp.ivm.criteria import CRITERIA
from sparsegp.learning.evidence import Members, evidence
from sparsegp.learning.objective import Objective, sums_over
from sparsegp.likelihoods import Gaussian, MultinomialProbit, Probit, SiteRule
from sparsegp.math.products import TILE
from tests.ivm.problems import Problem
from tests.learning.rows import make_rows

KERNELS = ["2*rbf(1.2)", "1.5*ard(1, 2, 0.5) + 0.1*linear", "3*matern52(1)"]
CLASSES = MultinomialProbit(12, (0.4, -0.3, 0.1))
CASES = {
    "probit": (Probit(0.3), False, 20),
    "gaussian": (Gaussian(0.2), False, 20),
    "one set": (CLASSES, False, 12),
    "a set a class": (CLASSES, True, 60),
}
"""Likelihood, whether pairs of a row and a class are selected, and how many."""
N = 700


@pytest.mark.parametrize("case", CASES)
def test_rows_that_are_not_active_count_and_no_others(case):
    """And sites set anew in order are those of the selection."""
    likelihood, pairs, size = CASES[case]
    several = likelihood is CLASSES
    rows = make_rows(True, N, seed=2)
    if not likelihood.numeric:
        rows.target = np.digitize(rows.target, [-0.5, 0.7] if several else [0.2])
    run = Problem(
        rows.X,
        rows.target,
        KERNELS if several else KERNELS[:1],
        size,
        criterion=CRITERIA["information"](),
        rule=SiteRule(likelihood, "moments", 1e-8),
        n_blocks=3,
        pairs=pairs,
        validation=~rows.counts,
    )
    selection = run.finish()
    active = selection.active
    members, sites = Members.of_sites(active.x, active.target, *active.sites(run.settings.n_latent))
    sum_rows = sums_over(selection.blocks.map_blocks, size, N, TILE)
    objective = Objective(run.kernels, likelihood, members, sum_rows)
    rows.active = active.rows
    expected = evidence(run.kernels, likelihood, members, sites, rows.sum_rows)
    value, gradient = objective.evaluate(objective.start, sites)
    assert value == pytest.approx(expected.phi, rel=1e-10)
    own = gradient[: len(expected.kernels)]
    np.testing.assert_allclose(own, expected.kernels, rtol=1e-8, atol=1e-8)
    if not several:
        np.testing.assert_allclose(objective.resite(objective.start)[0], sites[0], rtol=1e-4)
