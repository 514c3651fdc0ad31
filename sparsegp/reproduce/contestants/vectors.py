"""Support vector machines of scikit-learn with an RBF kernel."""

from typing import Any, Self

import numpy as np

from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.contestants.base import CONTESTANTS
from sparsegp.reproduce.contestants.linear import folds_of, read_folds
from sparsegp.reproduce.contestants.rival import Rival
from sparsegp.reproduce.toml import Section
from sparsegp.types import Doubles, Floats, Integers

COSTS = tuple(10.0**k for k in (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0))
GAMMAS = tuple(2.0**k for k in range(-4, 5))
"""Values of C, and factors of gamma, among which cross-validation chooses."""


class SVC(Rival):
    """A support vector machine, without probabilities."""

    title = "SVC"

    def read(self, section: Section) -> dict[str, Any]:
        """Take C, and gamma: 1 / (p Var X) if left out, what scikit-learn calls "scale"."""
        options: dict[str, Any] = {"C": section.take("C", float)}
        gamma = section.maybe("gamma", float)
        return options if gamma is None else {**options, "gamma": gamma}

    def build(self, cell: Cell, gamma: float) -> Any:
        """Return the estimator."""
        from sklearn.svm import SVC  # noqa: PLC0415

        return SVC(C=cell.options["C"], gamma=gamma)

    def words(self, cell: Cell, gamma: float) -> list[str]:
        """Return both parameters."""
        return [f"gamma={gamma:.4g}", f"C={cell.options['C']:g}"]

    def details(self, estimator: Any) -> dict[str, Any]:
        """Return the iterations of the solver."""
        return {"iterations": int(np.max(estimator.n_iter_))}


class TunedSVC(Rival):
    """A support vector machine with the C and gamma of the least error in a cross-validation."""

    title = "SVC, C and gamma by cross-validation"

    def read(self, section: Section) -> dict[str, Any]:
        """Take the number of folds, and whether there shall be probabilities."""
        return {**read_folds(section), "probabilities": section.take("probabilities", bool, True)}

    def build(self, cell: Cell, gamma: float) -> Any:
        """Return the estimator."""
        kind = CalibratedMachine if cell.options["probabilities"] else TunedMachine
        return kind(gamma, folds_of(cell))

    def words(self, cell: Cell, gamma: float) -> list[str]:
        """Return the number of folds, and where gamma was looked for."""
        return [f"C and gamma by {cell.options['folds']} folds, gamma about {gamma:.4g}"]

    def details(self, estimator: Any) -> dict[str, Any]:
        """Return what was chosen."""
        return dict(estimator.best_)


class TunedMachine:
    """`sklearn.svm.SVC` with parameters by cross-validation.

    Parameters
    ----------
    gamma : float
        In the middle of those that are tried.
    folds : object
        Those of scikit-learn.

    Attributes
    ----------
    best_ : dict
        C and gamma.
    """

    def __init__(self, gamma: float, folds: Any) -> None:
        self.gamma, self.folds = gamma, folds

    def fit(self, X: Floats, y: Integers) -> Self:
        """Choose the parameters; the first of equally good ones, with the smaller C, is taken."""
        from sklearn.model_selection import GridSearchCV  # noqa: PLC0415
        from sklearn.svm import SVC  # noqa: PLC0415

        grid = {"C": COSTS, "gamma": [self.gamma * factor for factor in GAMMAS]}
        search = GridSearchCV(SVC(), grid, cv=self.folds).fit(X, y)
        self.best_, self._model = search.best_params_, search.best_estimator_
        return self

    def predict(self, X: Floats) -> Integers:
        """Return the classes, (n,)."""
        codes: Integers = self._model.predict(X)
        return codes


class CalibratedMachine(TunedMachine):
    """The same with probabilities, by the method of Platt.

    A logistic function of the decision values is fitted to those of the rows that were left out,
    as Rasmussen & Williams (2006, section 3.7.3) do with a cumulative Gaussian.
    """

    def fit(self, X: Floats, y: Integers) -> Self:
        """Choose the parameters, and fit the logistic function."""
        from sklearn.calibration import CalibratedClassifierCV  # noqa: PLC0415
        from sklearn.svm import SVC  # noqa: PLC0415

        machine = SVC(**super().fit(X, y).best_)
        self._model = CalibratedClassifierCV(machine, cv=self.folds, ensemble=False).fit(X, y)
        return self

    def predict_log_proba(self, X: Floats) -> Doubles:
        """Return log probabilities, (n, K)."""
        return np.log(np.asarray(self._model.predict_proba(X), np.float64))


CONTESTANTS.register("svc")(SVC())
CONTESTANTS.register("tuned-svc")(TunedSVC())
