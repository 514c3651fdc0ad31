"""Batches of inclusions, which the driver sends to all row blocks and records.

For process c (a kernel with its stub matrix) the included row i, the j-th of the active set, adds a
row to the lower triangular factor L,

    L[j, :j] = M[:, i]     L[j, j] = length = sqrt(1/pi + a_i)

and a stub column mu = (k(X, x_i) - M^T M[:, i]) / length, along which the means change, h += mu
step. Here pi, length and step are those of its site (likelihoods/sites.py; GR eq. 5.1-5.4 have
pi = 1). In the notation of SLH appendix C.1 this L is Pi^(-1/2) L: Pi^(-1) + K_I = L L^T.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.ivm.criteria import Marginals
from sparsegp.types import Doubles, Floats, Integers


@dataclass(frozen=True)
class Inclusions:
    """Batch of rows included one after the other, in a fixed number of slots.

    Slots beyond `count` are empty and hold zeros (ones on the diagonal of the factor). Products
    thus have the same shapes, and the same rounding, whether or not a batch was cut short.

    Attributes
    ----------
    start : int
        Number of active rows before the batch.
    count : int
        Number of rows in the batch.
    rows : Integers (q,)
        Row numbers in the whole data set, in order of inclusion; -1 in empty slots.
    target : array (q,)
        Class codes, or targets in a regression; -1 in empty slots.
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
    count: int
    rows: Integers
    target: Any
    x: Floats
    factor: Doubles
    step: Doubles
    site: Doubles
    precision: Doubles
    score: Doubles

    @classmethod
    def padded(
        cls, slots: int, start: int, factor: Doubles, step: Doubles, **arrays: NDArray[Any]
    ) -> "Inclusions":
        """Return a batch with `slots` slots, the first of them filled with the given rows.

        Parameters
        ----------
        slots, start : int
        factor : Doubles (C, count, start + count)
        step : Doubles (C, count, R)
        **arrays
            The other fields, (count, ...).
        """
        n_processes, count, stop = factor.shape
        square = np.zeros((n_processes, slots, start + slots))
        square[:, :, start:] = np.eye(slots)
        square[:, :count, :stop] = factor
        steps = _filled(step.swapaxes(0, 1), slots, 0).swapaxes(0, 1)
        others = {
            name: _filled(values, slots, -1 if name in {"rows", "target"} else 0)
            for name, values in arrays.items()
        }
        return cls(start=start, count=count, factor=square, step=steps, **others)

    @property
    def slots(self) -> int:
        """Number of slots q."""
        return len(self.rows)

    @property
    def stop(self) -> int:
        """Number of active rows after the batch."""
        return self.start + self.count

    def first(self, count: int) -> "Inclusions":
        """Return the first `count` rows as a batch with the same number of slots."""
        if count == self.count:
            return self
        names = ("rows", "target", "x", "site", "precision", "score")
        return self.padded(
            self.slots,
            self.start,
            self.factor[:, :count, : self.start + count],
            self.step[:, :count],
            **{name: getattr(self, name)[:count] for name in names},
        )


def _filled(values: NDArray[Any], slots: int, fill: float) -> NDArray[Any]:
    out = np.full((slots, *values.shape[1:]), fill, dtype=values.dtype)
    out[: len(values)] = values
    return out


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
