"""Contestants with the interface of scikit-learn."""

from abc import abstractmethod
from collections.abc import Callable, Collection
from typing import Any, ClassVar

import numpy as np

from sparsegp.data import Table, choose_scaling, encode, summarise
from sparsegp.errors import SparseGPError
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.contestants.base import Contestant, Fitted
from sparsegp.reproduce.toml import Section
from sparsegp.settings import TrainSettings
from sparsegp.training import Progress
from sparsegp.types import Doubles, Integers

MAX_ROUNDS = 10_000
"""Of the solver of logistic regression, which is to converge."""


class Rival(Contestant):
    """A classifier with the interface of scikit-learn.

    Its inputs are scaled beforehand, outside of the timing.
    """

    settings_used: ClassVar[Collection[str] | None] = ("n_active", "scaling", "precision")

    def read(self, section: Section) -> dict[str, Any]:
        """Take no parameters, unless overridden."""
        del section
        return {}

    @abstractmethod
    def build(self, cell: Cell, gamma: float) -> Any:
        """Return the estimator.

        Parameters
        ----------
        cell : Cell
        gamma : float
            Factor of the squared distance in an RBF kernel: as given, or 1 / (p Var X), what
            scikit-learn calls "scale".
        """

    def words(self, cell: Cell, gamma: float) -> list[str]:
        """Return its settings in words; none unless overridden."""
        del cell, gamma
        return []

    def details(self, estimator: Any) -> dict[str, Any]:
        """Return what happened in a fit, plain JSON; nothing unless overridden."""
        del estimator
        return {}

    def prepare(self, train: Table, cell: Cell, progress: Progress) -> Callable[[], Fitted]:
        """Scale the inputs and build the estimator."""
        del progress
        classes, target = encode(train.y, train.source)
        scaling = choose_scaling(cell.settings.scaling, summarise(train.X, train.source))
        settings = cell.settings
        dtype = settings.dtype if isinstance(settings, TrainSettings) else np.dtype(np.float64)

        def scale(X: Any) -> Any:
            return scaling.apply(np.asarray(X), dtype)

        inputs = scale(train.X)
        gamma = cell.options.get("gamma") or 1.0 / (inputs.shape[1] * inputs.var(dtype=float))
        estimator = self.build(cell, gamma)
        words = ", ".join([*self.words(cell, gamma), f"inputs {scaling.name}"])

        def logs(X: Any) -> Doubles:
            with np.errstate(divide="ignore"):  # the logarithm of no probability
                found: Doubles = estimator.predict_log_proba(scale(X)).astype(np.float64)
            return found

        def codes(X: Any) -> Integers:
            found: Integers = estimator.predict(scale(X))
            return found

        def certainty(X: Any) -> Doubles:
            found: Doubles = estimator.certainty(scale(X))
            return found

        def work() -> Fitted:
            estimator.fit(inputs, target)
            return Fitted(
                classes,
                logs if hasattr(estimator, "predict_log_proba") else None,
                codes,
                words,
                self.details(estimator),
                certainty=certainty if hasattr(estimator, "certainty") else None,
            )

        return work


def iterations(estimator: Any) -> int:
    """Return the rounds of the last step's solver.

    Raises
    ------
    SparseGPError
        If it did not converge: a rival must be at its best.
    """
    last = estimator[-1] if hasattr(estimator, "steps") else estimator
    rounds = int(np.max(last.n_iter_))
    if 0 < getattr(last, "max_iter", 0) <= rounds:
        raise SparseGPError(f"{last} did not converge within {rounds} rounds")
    return rounds
