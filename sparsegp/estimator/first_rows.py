"""First rows of `partial_fit`: kept until there are enough to choose a kernel and its variance."""

from contextlib import suppress
from typing import Any, NamedTuple

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
"""Growth of more than `FEW_ROWS` kept rows after which all are fitted again."""


class FirstRows(NamedTuple):
    """Inputs (n, p), labels (n,) and row weights (n,), or None; how many the last fit had."""

    X: Any
    y: Labels
    weights: Any = None
    n_fitted: int = 0

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
        return FirstRows(X, np.concatenate([self.y, new.y]), weights, self.n_fitted)

    @property
    def counts(self) -> Any:
        """Weight of each row, (n,)."""
        return np.asarray(np.ones(len(self.y)) if self.weights is None else self.weights, float)

    def lack(self, classes: Labels | None) -> str:
        """Return what the rows of positive weight have too few of, "" if nothing.

        Parameters
        ----------
        classes : array (K,), optional
            All classes; without them targets are numbers.
        """
        chosen = self.counts > 0.0
        found, counts = np.unique(self.y[chosen], return_counts=True)
        if classes is None:
            if counts.sum() - counts.max(initial=0) < MIN_OTHERS:
                return "different targets"
        else:
            of = dict(zip(found.tolist(), counts.tolist(), strict=True))
            rare = [each for each in classes.tolist() if of.get(each, 0) < MIN_OTHERS]
            if rare:
                return f"rows of class {rare[0]!r}"
        return "" if len(self.y) >= MOST_ROWS or self._has_many(chosen) else "rows"

    def _has_many(self, chosen: Any) -> bool:
        """Return whether `FEW_ROWS` of the chosen rows differ."""
        if issparse(self.X):
            return int(chosen.sum()) >= FEW_ROWS
        if is_frame(self.X):
            with suppress(TypeError):  # values that are unusable, as the fit will say
                return int((~as_pandas(self.X)[chosen].duplicated()).sum()) >= FEW_ROWS
            return False
        return len(np.unique(self.X[chosen], axis=0)) >= FEW_ROWS


def lacks_levels(encoding: Encoding | None, n: int) -> str:
    """Return what n rows, of which an encoding was learnt, have too few of, "" if nothing."""
    columns = () if encoding is None else encoding.columns
    few = (column.name for column in columns if MIN_RARE * len(column.rare) > n)
    return next((f"rows of most levels of {quoted(name)}" for name in few), "")


def _dense(X: Any) -> Any:
    """Return an array, also of a sparse matrix."""
    return X.toarray() if hasattr(X, "toarray") else np.asarray(X)
