"""Nearest neighbours."""

from typing import Any, Self

import numpy as np

from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.contestants.base import CONTESTANTS
from sparsegp.reproduce.contestants.rival import Rival
from sparsegp.reproduce.toml import Section
from sparsegp.types import Doubles, Floats, Integers


class Neighbours(Rival):
    """The class of most of the nearest neighbours, without probabilities."""

    title = "nearest neighbours"

    def read(self, section: Section) -> dict[str, Any]:
        """Take how many neighbours are asked."""
        count = section.take("neighbours", int)
        if count < 1:
            raise section.error("neighbours", f"must be at least 1, got {count}")
        return {"neighbours": count}

    def build(self, cell: Cell, gamma: float) -> Any:
        """Return the estimator."""
        del gamma
        return Majority(cell.options["neighbours"])

    def words(self, cell: Cell, gamma: float) -> list[str]:
        """Return the number of neighbours."""
        del gamma
        return [f"{cell.options['neighbours']}-NN"]


class ProbabilisticNeighbour(Rival):
    """The nearest neighbour, with the probability that it tells the class."""

    title = "probabilistic nearest neighbour"

    def build(self, cell: Cell, gamma: float) -> Any:
        """Return the estimator."""
        del cell, gamma
        return OneNeighbour()

    def details(self, estimator: Any) -> dict[str, Any]:
        """Return that probability."""
        return {"probability": estimator.probability_}


class Majority:
    """The most frequent class of the k nearest rows, the first of equally frequent ones.

    Parameters
    ----------
    count : int
        k.
    """

    def __init__(self, count: int) -> None:
        self.count = count

    def fit(self, X: Floats, y: Integers) -> Self:
        """Keep the rows."""
        from sklearn.neighbors import KNeighborsClassifier  # noqa: PLC0415

        self._model = KNeighborsClassifier(self.count).fit(X, y)
        return self

    def predict(self, X: Floats) -> Integers:
        """Return the classes, (n,)."""
        codes: Integers = self._model.predict(X)
        return codes


class OneNeighbour:
    """The probabilistic nearest neighbour of Rasmussen & Williams (2006, section 3.7.3).

    A row is of the class of its nearest neighbour with the share of training rows that are of the
    class of theirs, and of each other class with an equal part of the rest. Rows far from their
    neighbours are the least certain.

    Attributes
    ----------
    probability_ : float
        That share.
    """

    def fit(self, X: Floats, y: Integers) -> Self:
        """Look for the neighbour of each row among the others."""
        from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415

        self._rows = NearestNeighbors(n_neighbors=1).fit(X)
        self._y, self._classes = np.asarray(y), np.unique(y)
        others = self._rows.kneighbors(return_distance=False)[:, 0]
        self.probability_ = float(np.mean(self._y[others] == self._y))
        return self

    def predict(self, X: Floats) -> Integers:
        """Return the classes of the nearest neighbours, (n,)."""
        codes: Integers = self._y[self._rows.kneighbors(X, return_distance=False)[:, 0]]
        return codes

    def predict_log_proba(self, X: Floats) -> Doubles:
        """Return log probabilities, (n, K); -inf where no training row was told wrongly."""
        rest = (1.0 - self.probability_) / (len(self._classes) - 1)
        own = self.predict(X)[:, np.newaxis] == self._classes
        return np.log(np.where(own, self.probability_, rest))

    def certainty(self, X: Floats) -> Doubles:
        """Return minus the distance of the nearest neighbour, (n,)."""
        distances: Doubles = self._rows.kneighbors(X)[0][:, 0]
        return -distances


CONTESTANTS.register("neighbours")(Neighbours())
CONTESTANTS.register("probabilistic-neighbour")(ProbabilisticNeighbour())
