"""First rows of `partial_fit`: kept until there are enough to choose a kernel and its variance."""

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse, vstack

from sparsegp.data.encoding import Encoding
from sparsegp.data.frames import as_pandas, is_frame, real_numbers
from sparsegp.errors import quoted
from sparsegp.fit.update import FEW_ROWS
from sparsegp.types import Labels

MOST_ROWS, MIN_OTHERS = 10_000, 50
"""Number of rows from which no more are kept; fewest rows of a class, or of unusual targets."""

MIN_RARE = 10
"""Fewest rows per rare level of a category: with fewer, later rows have mostly unknown levels."""

GROWTH = 1.5
"""Growth of more than `FEW_ROWS` rows, or of some of them, after which all are fitted again."""


@dataclass(frozen=True)
class FirstRows:
    """Inputs (n, p), labels (n,) and row weights (n,), or None; the `sizes` that were fitted."""

    X: Any
    y: Labels
    weights: Any = None
    fitted: tuple[int, int, int] = (0, 0, 0)

    def joined(self, new: "FirstRows") -> "FirstRows":
        """Return these rows and new ones, in the form of these."""
        X, more, weights = self.X, new.X, None
        if is_frame(X):
            from sparsegp.data.joined import joined_frames  # noqa: PLC0415 - loads pandas

            X = joined_frames(as_pandas(X), as_pandas(more) if is_frame(more) else _dense(more))
        else:
            more = real_numbers(more, "X") if is_frame(more) else more
            both: list[Any] = [X, csr_matrix(more) if issparse(X) else _dense(more)]
            X = vstack(both, format="csr") if issparse(X) else np.concatenate(both)
        if self.weights is not None or new.weights is not None:
            weights = np.concatenate([self.counts, new.counts])
        return FirstRows(X, np.concatenate([self.y, new.y]), weights, self.fitted)

    @property
    def counts(self) -> Any:
        """Weight of each row, (n,)."""
        return np.asarray(np.ones(len(self.y)) if self.weights is None else self.weights, float)

    @cached_property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of rows, of different ones, and of those without the most frequent label.

        The last two are of rows of positive weight.
        """
        chosen = self.counts > 0.0
        counts = np.unique(self.y[chosen], return_counts=True)[1]
        return len(self.y), self._n_different(chosen), int(counts.sum() - counts.max(initial=0))

    @property
    def are_due(self) -> bool:
        """Whether to fit all rows: few were fitted, or these say much more than those did."""
        pairs = zip(self.sizes, self.fitted, strict=True)
        return self.fitted[0] < FEW_ROWS or any(now > GROWTH * before for now, before in pairs)

    def lack(self, classes: Labels | None) -> str:
        """Return what the rows of positive weight have too few of, "" if nothing.

        Parameters
        ----------
        classes : array (K,), optional
            All classes; without them targets are numbers.
        """
        n, n_different, n_others = self.sizes
        if classes is None:
            if n_others < MIN_OTHERS:
                return "different targets"
        else:
            found, counts = np.unique(self.y[self.counts > 0.0], return_counts=True)
            of = dict(zip(found.tolist(), counts.tolist(), strict=True))
            rare = [each for each in classes.tolist() if of.get(each, 0) < MIN_OTHERS]
            if rare:
                return f"rows of class {rare[0]!r}"
        return "" if n >= MOST_ROWS or n_different >= FEW_ROWS else "rows"

    def _n_different(self, chosen: Any) -> int:
        """Return how many of the chosen rows differ; all of a sparse matrix."""
        if issparse(self.X):
            return int(chosen.sum())
        if is_frame(self.X):
            with suppress(TypeError):  # values that are unusable, as the fit will say
                return int((~as_pandas(self.X)[chosen].duplicated()).sum())
            return 0
        return len(np.unique(self.X[chosen], axis=0))


def lacks_levels(encoding: Encoding | None, n: int) -> str:
    """Return what n rows, of which an encoding was learnt, have too few of, "" if nothing."""
    columns = () if encoding is None else encoding.columns
    few = (column.name for column in columns if MIN_RARE * len(column.rare) > n)
    return next((f"rows of most levels of {quoted(name)}" for name in few), "")


def _dense(X: Any) -> Any:
    """Return an array, also of a sparse matrix."""
    return X.toarray() if hasattr(X, "toarray") else np.asarray(X)
