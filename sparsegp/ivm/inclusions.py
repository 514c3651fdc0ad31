"""Inclusions, in batches or pairs, which the driver sends to all row blocks and records.

For process c (a kernel with its stub matrix), including row i as the j-th of the active set adds a
row to the lower triangular factor L,

    L[j, :j] = M[:, i]     L[j, j] = length = sqrt(1/pi + a_i)

and a stub column mu = (k(X, x_i) - M^T M[:, i]) / length, along which the means change, h += mu
step. Here pi, length and step belong to the site of row i (likelihoods/sites.py; pi = 1 in GR eq.
5.1-5.4). In the notation of SLH appendix C.1 this L is Pi^(-1/2) L: Pi^(-1) + K_I = L L^T.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.ivm.criteria import Marginals
from sparsegp.types import Doubles, Floats, Integers

COLUMNS = ("rows", "target", "x", "site", "precision", "score")
"""Fields of a batch with its rows along the first axis."""


@dataclass(frozen=True)
class Inclusions:
    """Batch of rows included one after another.

    Row blocks pad a batch to `slots` rows. Products thus have the same shapes, and the same
    rounding, whether or not the batch was cut short.
    """

    start: int  # number of active rows before the batch
    slots: int  # number of rows in a full batch
    rows: Integers  # row numbers in the whole data set, in order of inclusion, (q,)
    target: Any  # class codes, or targets in a regression, (q,)
    x: Floats  # scaled inputs (q, p)
    factor: Doubles  # new rows of L, one matrix per process, (C, q, start + q)
    step: Doubles  # change of a process's R latent means along the new stub columns (C, q, R)
    site: Doubles  # site means (q, K)
    precision: Doubles  # site precisions (q, C)
    score: Doubles  # at inclusion, in units of `ROUNDING_UNIT`, (q,)

    @property
    def count(self) -> int:
        """Number of rows q in the batch."""
        return len(self.rows)

    @property
    def stop(self) -> int:
        """Number of active rows after the batch."""
        return self.start + self.count

    def first(self, count: int) -> "Inclusions":
        """Return the first `count` rows as a batch with the same number of slots."""
        factor, step = self.factor[:, :count, : self.start + count], self.step[:, :count]
        columns = {name: getattr(self, name)[:count] for name in COLUMNS}
        return replace(self, factor=factor, step=step, **columns)

    def padded_factor(self, c: int) -> Doubles:
        """Return the new rows of L of process c, (slots, start + slots), with ones as padding."""
        empty = np.arange(self.count, self.slots)
        factor = np.pad(self.factor[c], (0, len(empty)))
        factor[empty, self.start + empty] = 1.0
        return factor

    def padded_rows(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values of the rows, (q, ...), padded with zeros to (slots, ...)."""
        return np.pad(values, [(0, self.slots - self.count), *[(0, 0)] * (values.ndim - 1)])


@dataclass(frozen=True)
class Pair:
    """Inclusion of one row in the active set of one process."""

    start: int  # number of pairs before it
    process: int
    row: int
    target: int
    x: Floats  # (p,)
    factor: Doubles  # new row of L (t + 1,): stub entries of the row, then the length of its site
    step: float  # change of the latent means along the new stub column
    site: float  # mean of the site
    precision: float  # precision of the site
    score: float  # in units of `ROUNDING_UNIT`

    @property
    def stop(self) -> int:
        """Number of pairs after it."""
        return self.start + 1


@dataclass(frozen=True)
class OfferedRows:
    """Rows offered for inclusion, with the data needed to include them."""

    marginals: Marginals  # of c rows
    score: Doubles  # in units of `ROUNDING_UNIT`, best first, (c,)
    x: Floats  # scaled inputs (c, p)
    stub: Floats  # entries M[:, i] of the stub matrix for each row and process (C, c, t)


def merge(parts: list[OfferedRows]) -> OfferedRows:
    """Merge the candidates of several blocks, best first; ties go to the smaller row number."""
    parts = [p for p in parts if len(p.score)] or parts[:1]  # held-out blocks lack weights
    marginals = Marginals.joined([part.marginals for part in parts])
    score, x = (np.concatenate([getattr(p, name) for p in parts]) for name in ("score", "x"))
    order = np.lexsort((marginals.rows, -score))
    stub = np.concatenate([part.stub for part in parts], axis=1)
    return OfferedRows(marginals.take(order), score[order], x[order], stub[:, order])
