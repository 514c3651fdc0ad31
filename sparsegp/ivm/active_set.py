"""The active set: every inclusion so far, which is all that a run has to remember.

The stub matrices, means and variances of all rows follow from it, to the last bit, by including the
same batches again, and keeping the same candidates in between. A checkpoint is therefore this and
nothing else.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.errors import StoreError
from sparsegp.ivm.inclusions import Inclusions
from sparsegp.ivm.shrink import Keep, in_order, kept_arrays, kept_from, room
from sparsegp.types import Doubles, Floats, Integers


class ActiveSet:
    """Batches of inclusions in order, and which candidates were kept in between."""

    def __init__(self) -> None:
        self.batches: list[Inclusions] = []
        self.kept: list[Keep] = []

    def __len__(self) -> int:
        return self.batches[-1].stop if self.batches else 0

    def append(self, batch: Inclusions) -> None:
        """Add a batch that starts where the last one stopped."""
        if batch.start != len(self):
            raise ValueError(f"batch starts at {batch.start}, the active set has {len(self)} rows")
        self.batches.append(batch)

    @property
    def room(self) -> int:
        """Active rows for which the candidates last kept are there."""
        return room(self.kept)

    def recovery(self) -> list[tuple[str, tuple[Any, ...]]]:
        """Return the messages that bring a new block to the present."""
        return in_order(self.kept, {batch.start: batch for batch in self.batches})

    def _filled(self, name: str) -> NDArray[Any]:
        return np.concatenate([getattr(batch, name)[: batch.count] for batch in self.batches])

    @property
    def rows(self) -> Integers:
        """Row numbers in order of inclusion, (d,)."""
        return self._filled("rows") if self.batches else np.empty(0, dtype=np.int64)

    @property
    def target(self) -> NDArray[Any]:
        """Class codes, or numbers, of the active rows, (d,)."""
        return self._filled("target")

    @property
    def x(self) -> Floats:
        """Scaled inputs of the active rows, (d, p)."""
        return self._filled("x")

    def sites(self, n_latent: int) -> tuple[Doubles, Doubles]:
        """Return means (d, R) and precisions (d, C) of the sites of the active rows."""
        del n_latent  # as they are
        return self.site, self.precision

    @property
    def site(self) -> Doubles:
        """Site means of the active rows, (d, R)."""
        return self._filled("site")

    @property
    def precision(self) -> Doubles:
        """Site precisions of the active rows, (d, C)."""
        return self._filled("precision")

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as a few arrays; the factors row after row without their zeros."""
        rows = [
            batch.factor[:, j, : batch.start + j + 1]
            for batch in self.batches
            for j in range(batch.count)
        ]
        arrays = {
            "rows": self._filled("rows"),
            "target": self._filled("target"),
            "x": self._filled("x"),
            "site": self._filled("site"),
            "precision": self._filled("precision"),
            "score": self._filled("score"),
            "step": np.concatenate([b.step[:, : b.count] for b in self.batches], axis=1),
            "factor": np.concatenate(rows, axis=1),
            "counts": np.array([batch.count for batch in self.batches]),
        }
        return arrays | kept_arrays(self.kept)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], slots: int) -> "ActiveSet":
        """Rebuild what `arrays` returned.

        Raises
        ------
        StoreError
            If the arrays do not fit together.
        """
        active, step, factor = cls(), arrays["step"], arrays["factor"]
        active.kept = kept_from(arrays)
        precision = arrays.get("precision")  # checkpoints of version 0.1 had sites of precision 1
        if precision is None:
            precision = np.ones((len(arrays["rows"]), len(factor)))
        if len(arrays["rows"]) != arrays["counts"].sum() or (arrays["counts"] > slots).any():
            raise StoreError("the checkpoint's batches do not add up to its active rows")
        for count in arrays["counts"].tolist():
            t = len(active)
            keep = slice(t, t + count)
            lower = np.zeros((len(factor), slots, t + slots))
            lower[:, :, t:] = np.eye(slots)
            for j in range(count):
                size = t + j + 1
                begin = size * (size - 1) // 2
                lower[:, j, :size] = factor[:, begin : begin + size]
            active.append(
                Inclusions(
                    start=t,
                    count=count,
                    rows=_padded(arrays["rows"][keep], slots, -1),
                    target=_padded(arrays["target"][keep], slots, -1),
                    x=_padded(arrays["x"][keep], slots, 0),
                    factor=lower,
                    step=_padded(step[:, keep].swapaxes(0, 1), slots, 0).swapaxes(0, 1),
                    site=_padded(arrays["site"][keep], slots, 0),
                    precision=_padded(precision[keep], slots, 0),
                    score=_padded(arrays["score"][keep], slots, 0),
                )
            )
        return active


def _padded(values: NDArray[Any], slots: int, fill: float) -> NDArray[Any]:
    out = np.full((slots, *values.shape[1:]), fill, dtype=values.dtype)
    out[: len(values)] = values
    return out
