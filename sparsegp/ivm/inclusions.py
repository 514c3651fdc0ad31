"""A batch of inclusions: what the driver tells every row block, and what it keeps.

For process c (a kernel with its stub matrix) the included row i, the j-th of the active set, adds
one row to the lower triangular factor L and one column to the means:

    L[j, :j] = M[:, i]     L[j, j] = length = sqrt(1/pi + a_i)

so that a stub column is mu = (k(X, x_i) - M^T M[:, i]) / length and h += mu step, where pi, length
and step are those of its site (likelihoods/sites.py; GR eq. 5.1-5.4 have pi = 1). In the notation
of SLH appendix C.1 this L is Pi^(-1/2) L: Pi^(-1) + K_I = L L^T.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsegp.types import Doubles, Floats, Integers


@dataclass(frozen=True)
class Inclusions:
    """Rows included one after the other, in slots of a fixed number.

    Slots past `count` are empty and hold zeros (ones on the diagonal of the factor): products have
    the same shapes, and so the same rounding, whether a batch was cut short or is repeated.

    Attributes
    ----------
    start : int
        Active rows before the batch.
    count : int
        Rows in it.
    rows : Integers (q,)
        Row numbers in the whole data set, in order of inclusion.
    target : array (q,)
        Their class codes, or numbers.
    x : Floats (q, p)
    factor : Doubles (C, q, start + q)
        New rows of L, one matrix a process.
    step : Doubles (C, q, R)
        Change of each of the R mean columns of a process along the new stub columns.
    site : Doubles (q, K)
        Site means.
    precision : Doubles (q, C)
        Site precisions.
    score : Doubles (q,)
        Score at inclusion, in units of the comparison.
    """

    start: int
    count: int
    rows: Integers
    target: Any
    x: Floats
    factor: Doubles
    step: Doubles
    site: Doubles
    precision: Doubles
    score: Doubles

    @property
    def slots(self) -> int:
        """Number of slots q."""
        return len(self.rows)

    @property
    def stop(self) -> int:
        """Active rows after the batch."""
        return self.start + self.count

    def first(self, count: int) -> "Inclusions":
        """Return the batch cut short, with the same slots."""
        if count == self.count:
            return self
        keep = np.arange(self.slots) < count
        factor = np.where(keep[:, np.newaxis], self.factor, 0.0)
        empty = np.flatnonzero(~keep)
        factor[:, empty, self.start + empty] = 1.0
        return replace(
            self,
            count=count,
            rows=np.where(keep, self.rows, -1),
            target=np.where(keep, self.target, -1),
            x=np.where(keep[:, np.newaxis], self.x, self.x.dtype.type(0)),
            factor=factor,
            step=np.where(keep[:, np.newaxis], self.step, 0.0),
            site=np.where(keep[:, np.newaxis], self.site, 0.0),
            precision=np.where(keep[:, np.newaxis], self.precision, 0.0),
            score=np.where(keep, self.score, 0.0),
        )


@dataclass(frozen=True)
class Candidates:
    """Rows offered for inclusion, with all that is needed to include them.

    Attributes
    ----------
    rows : Integers (c,)
    target : array (c,)
    score : Doubles (c,)
        In units of the comparison, best first.
    x : Floats (c, p)
    stub : Floats (C, c, t)
        Stub columns of the rows, one matrix a process.
    mean : Doubles (c, K)
    variance : Doubles (c, C)
    """

    rows: Integers
    target: Any
    score: Doubles
    x: Floats
    stub: Floats
    mean: Doubles
    variance: Doubles


def merge(parts: list[Candidates], count: int) -> Candidates:
    """Return the best candidates of several blocks; ties go to the smaller row."""
    score = np.concatenate([part.score for part in parts])
    rows = np.concatenate([part.rows for part in parts])
    order = np.lexsort((rows, -score))[:count]
    return Candidates(
        rows=rows[order],
        target=np.concatenate([part.target for part in parts])[order],
        score=score[order],
        x=np.concatenate([part.x for part in parts])[order],
        stub=np.concatenate([part.stub for part in parts], axis=1)[:, order],
        mean=np.concatenate([part.mean for part in parts])[order],
        variance=np.concatenate([part.variance for part in parts])[order],
    )
