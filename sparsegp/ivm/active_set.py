"""Inclusions, which the driver sends to all row blocks in batches or pairs, and their record.

For process c (a kernel with its stub matrix), including row i as the j-th of the active set adds a
row to the lower triangular factor L,

    L[j, :j] = M[:, i]     L[j, j] = length = sqrt(1/pi + a_i)

and a stub column mu = (k(X, x_i) - M^T M[:, i]) / length, along which the means change, h += mu
step. Here pi, length and step belong to the site of row i (likelihoods/sites.py; pi = 1 in GR eq.
5.1-5.4). In the notation of SLH appendix C.1 this L is Pi^(-1/2) L: Pi^(-1) + K_I = L L^T.

Repeating the same inclusions, and keeping the same candidates in between, reproduces the stub
matrices, means and variances of all rows to the last bit. A checkpoint therefore stores none of
them, only the record: the active set.
"""

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparsegp.errors import StoreError
from sparsegp.ivm.criteria import Marginals
from sparsegp.ivm.shrink import Keep
from sparsegp.state import require_shapes
from sparsegp.types import Booleans, Doubles, Floats, Integers

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


S = TypeVar("S", bound=Inclusions | Pair)


@dataclass(eq=False)
class History(Generic[S]):
    """Record of inclusions, from which row blocks reach their current state."""

    included: list[S] = field(default_factory=list)  # arguments of `include`, in order
    kept: list[Keep] = field(default_factory=list)  # arguments of `keep` in between, in order

    def __len__(self) -> int:
        return self.included[-1].stop if self.included else 0

    @property
    def room(self) -> int:
        """Number of inclusions at which candidates are next dropped; 0 at the start."""
        return self.kept[-1].room if self.kept else 0

    def recovery(self) -> list[tuple[str, tuple[Any, ...]]]:
        """Return the messages that bring a new block to the current state."""
        steps: list[Keep | S] = [*self.kept, *self.included]
        steps.sort(key=lambda step: step.start)  # stable: `keep` comes before `include`
        return [("keep" if isinstance(step, Keep) else "include", (step,)) for step in steps]

    def kept_arrays(self) -> dict[str, NDArray[np.uint64]]:
        """Return `kept` as a named array; no array if it is empty."""
        words = [astuple(keep) for keep in self.kept]
        return {"kept": np.array(words, dtype=np.uint64)} if words else {}

    def restore_kept(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore `kept` from the result of `kept_arrays`."""
        words = arrays.get("kept", np.empty((0, 5)))
        require_shapes({"kept": words}, {"kept": (len(words), 5)})
        self.kept = [Keep(*each) for each in words.tolist()]


class ActiveSet(History[Inclusions]):
    """One active set, as batches of inclusions in order."""

    def _joined(self, name: str) -> NDArray[Any]:
        return np.concatenate([getattr(batch, name) for batch in self.included])

    @property
    def rows(self) -> Integers:
        """Row numbers in order of inclusion, (d,)."""
        return self._joined("rows") if self.included else np.empty(0, dtype=np.int64)

    @property
    def target(self) -> NDArray[Any]:
        """Class codes, or targets in a regression, of the active rows, (d,)."""
        return self._joined("target")

    @property
    def x(self) -> Floats:
        """Scaled inputs of the active rows, (d, p)."""
        return self._joined("x")

    def sites(self, n_latent: int) -> tuple[Doubles, Doubles]:
        """Return means (d, R) and precisions (d, C) of the sites of the active rows."""
        return self._joined("site"), self._joined("precision")

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as a few arrays; factors are packed row by row without their zeros."""
        batches = self.included
        factor = [batch.factor[:, _lower(batch.start, batch.stop)] for batch in batches]
        return {
            **{name: self._joined(name) for name in COLUMNS},
            "step": np.concatenate([batch.step for batch in batches], axis=1),
            "factor": np.concatenate(factor, axis=1),
            "counts": np.array([batch.count for batch in batches]),
            **self.kept_arrays(),
        }

    @staticmethod
    def shapes(d: int, p: int, n_kernels: int, n_latent: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of `arrays` for d active rows of p columns."""
        return {
            **dict.fromkeys(("rows", "target", "score"), (d,)),
            "x": (d, p),
            "site": (d, n_latent),
            "precision": (d, n_kernels),
            "step": (n_kernels, d, n_latent // n_kernels),
            "factor": (n_kernels, d * (d + 1) // 2),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], slots: int) -> "ActiveSet":
        """Rebuild the active set from the result of `arrays`, in batches of `slots` slots.

        Raises
        ------
        StoreError
            If the arrays are inconsistent.
        """
        counts, packed = arrays["counts"], arrays["factor"]
        if len(arrays["rows"]) != counts.sum() or (counts > slots).any():
            raise StoreError("the checkpoint's batches do not add up to its active rows")
        active = cls()
        active.restore_kept(arrays)
        for stop, count in zip(np.cumsum(counts).tolist(), counts.tolist(), strict=True):
            start = stop - count
            batch = slice(start, stop)
            factor = np.zeros((len(packed), count, stop))
            triangle = slice(start * (start + 1) // 2, stop * (stop + 1) // 2)
            factor[:, _lower(start, stop)] = packed[:, triangle]
            columns = {name: arrays[name][batch] for name in COLUMNS}
            columns |= {"factor": factor, "step": arrays["step"][:, batch]}
            active.included.append(Inclusions(start=start, slots=slots, **columns))
        return active


def _lower(start: int, stop: int) -> Booleans:
    """Return a mask of the lower-triangular entries of rows `start` to `stop` of a matrix."""
    return np.tri(stop - start, stop, start, dtype=bool)
