"""Selections under a bound on the entries of stub matrices: cases, and what their blocks hold."""

import numpy as np
import pytest

from sparsegp.ivm.criteria import Entropy, Information, Random
from sparsegp.ivm.rows import TILE
from sparsegp.ivm.shrink import Bound
from sparsegp.likelihoods.probit import Probit
from sparsegp.likelihoods.sites import SiteRule

N, N_ACTIVE, BOUND = 6 * TILE + 100, 60, Bound(entries=20_000, every=15, best=0.5)
"""1636 rows, of which 1333, 666, 444 and 333 may be candidates in the four blocks of inclusions."""

CASES = {
    "one by one": {"lookahead": 1},
    "lookahead": {"lookahead": 8},
    "all scores": {"lookahead": 8, "lazy": False},
    "panel": {"panel": 8},
    "random": {"lookahead": 16, "criterion": Random(5)},
    "information": {"criterion": Information(), "rule": SiteRule(Probit(), "moments", 1e-8)},
    "entropy": {"criterion": Entropy(), "rule": SiteRule(Probit(), "moments", 1e-8), "panel": 4},
    "per class": {"texts": ["3*rbf(1.5)", "matern32(1.0) + 0.2", "linear + 2*rbf(2.0)"]},
    "per class, double": {"texts": ["3*rbf(1.5)"] * 3, "dtype": np.float64, "lookahead": 1},
}
cases = pytest.mark.parametrize("case", CASES)


def candidates(selection):
    """Row numbers of the candidates, in order."""
    return np.concatenate([block.rows[block.open] for block in selection.blocks.blocks])


def held(selection):
    """Bits of all that the blocks hold."""
    arrays = ["mean", "variance", *range(len(selection.settings.kernels))]
    blocks = selection.blocks.blocks
    return [
        np.concatenate([b.array(a) if isinstance(a, str) else b.array("stub", a).T for b in blocks])
        for a in arrays
    ]
