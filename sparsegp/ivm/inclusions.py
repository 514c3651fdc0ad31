"""Inclusions, in batches or pairs, which the driver sends to all row blocks and records.

For process c (a kernel with its stub matrix) the included row i, the j-th of the active set, adds a
row to the lower triangular factor L,

    L[j, :j] = M[:, i]     L[j, j] = length = sqrt(1/pi + a_i)

and a stub column mu = (k(X, x_i) - M^T M[:, i]) / length, along which the means change, h += mu
step. Here pi, length and step are those of its site (likelihoods/sites.py; GR eq. 5.1-5.4 have
pi = 1). In the notation of SLH appendix C.1 this L is Pi^(-1/2) L: Pi^(-1) + K_I = L L^T.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.ivm.criteria import Marginals
from sparsegp.types import Doubles, Floats, Integers

COLUMNS = ("rows", "target", "x", "site", "precision", "score")
"""Fields of a batch whose first axis is that of its rows."""


@dataclass(frozen=True)
class Inclusions:
    """Batch of rows included one after the other.

    Row blocks pad a batch to `slots` rows. Products thus have the same shapes, and the same
    rounding, whether or not the batch was cut short.

    Attributes
    ----------
    start : int
        Number of active rows before the batch.
    slots : int
        Number of rows of a batch that was not cut short.
    rows : Integers (q,)
        Row numbers in the whole data set, in order of inclusion.
    target : array (q,)
        Class codes, or targets in a regression.
    x : Floats (q, p)
    factor : Doubles (C, q, start + q)
        New rows of L, one matrix per process.
    step : Doubles (C, q, R)
        Change of each of the R mean columns of a process along the new stub columns.
    site : Doubles (q, K)
        Site means.
    precision : Doubles (q, C)
        Site precisions.
    score : Doubles (q,)
        Score at inclusion, in units of `ROUNDING_UNIT`.
    """

    start: int
    slots: int
    rows: Integers
    target: Any
    x: Floats
    factor: Doubles
    step: Doubles
    site: Doubles
    precision: Doubles
    score: Doubles

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
    """Inclusion of a row in the active set of one process.

    Attributes
    ----------
    start : int
        Number of pairs before it.
    process : int
    row : int
    target : int
    x : Floats (p,)
    factor : Doubles (t + 1,)
        New row of L: the stub entries of the row, then the length of its site.
    step : float
        Change of the latent means along the new stub column.
    site, precision : float
        Mean and precision of the site.
    score : float
        In units of `ROUNDING_UNIT`.
    """

    start: int
    process: int
    row: int
    target: int
    x: Floats
    factor: Doubles
    step: float
    site: float
    precision: float
    score: float

    @property
    def stop(self) -> int:
        """Number of pairs after it."""
        return self.start + 1


@dataclass(frozen=True)
class Candidates:
    """Rows offered for inclusion, with the data needed to include them.

    Attributes
    ----------
    marginals : Marginals
        Of c rows.
    score : Doubles (c,)
        In units of `ROUNDING_UNIT`, best first.
    x : Floats (c, p)
    stub : Floats (C, c, t)
        Entries M[:, i] of the stub matrix for each row, one matrix per process.
    """

    marginals: Marginals
    score: Doubles
    x: Floats
    stub: Floats


def merge(parts: list[Candidates]) -> Candidates:
    """Merge the candidates of several blocks, best first; ties go to the smaller row number."""
    parts = [p for p in parts if len(p.score)] or parts[:1]  # held-out rows have no weights
    marginals = Marginals.joined([part.marginals for part in parts])
    score, x = (np.concatenate([getattr(p, name) for p in parts]) for name in ("score", "x"))
    order = np.lexsort((marginals.rows, -score))
    stub = np.concatenate([part.stub for part in parts], axis=1)
    return Candidates(marginals.take(order), score[order], x[order], stub[:, order])
