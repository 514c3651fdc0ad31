"""Run classifiers of other libraries, given by import path; and classifiers built from them."""

import warnings
from dataclasses import dataclass
from inspect import signature
from pkgutil import resolve_name
from typing import Any, Self

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from pipelines.data import Data, errors_of
from pipelines.experiment import Cell
from pipelines.metrics import Predictions
from pipelines.place import Place
from sparsegp.data import SCALINGS, summarise, table_from_arrays
from sparsegp.errors import SparseGPError
from sparsegp.types import Doubles, Floats, Integers

COSTS = tuple(10.0**k for k in (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0))
GAMMAS = tuple(2.0**k for k in range(-4, 5))
"""Values of C, and factors of gamma, from which cross-validation chooses."""


def run(cell: Cell, data: Data, place: Place) -> dict[str, Any]:
    """Fit the estimator of a cell on one thread, and evaluate it on the test rows.

    Inputs are scaled beforehand, which is not timed. Labels are encoded as integers from 0. A
    solver that does not converge is an error: a baseline must be at its best. Parameters and result
    are those of `pipelines.ours.run`.
    """
    spec = cell.spec
    summary = summarise(table_from_arrays(data.X_train, source=data.name))
    scaling = SCALINGS[spec.get("scaling", "auto")](summary, lambda: data.X_train)
    dtype = np.dtype(spec.get("precision", "float64"))
    X_train, X_test = (scaling.apply(np.asarray(X), dtype) for X in (data.X_train, data.X_test))
    classes, codes = np.unique(data.y_train, return_inverse=True)
    estimator = _built(spec, cell.seed)
    strict = warnings.catch_warnings(action="error", category=ConvergenceWarning)
    with threadpool_limits(1), strict:
        try:
            with place.timed():
                fitted = estimator.fit(X_train, codes)
        except ConvergenceWarning as warning:
            raise SparseGPError(f"{cell.name} did not converge: {warning}") from None
        logs, certainty = None, getattr(fitted, "certainty", lambda X: None)(X_test)
        if spec.get("probabilities", hasattr(fitted, "predict_proba")):
            p = place.predicted(lambda: fitted.predict_proba(X_test), len(X_test))
            with np.errstate(divide="ignore"):  # log of a zero probability
                logs = np.log(np.asarray(p, np.float64))
        chosen = fitted.predict(X_test) if logs is None else logs.argmax(axis=1)
    found = Predictions(classes, chosen, logs, certainty)
    rows = {name: found.rows(data)[name] for name in spec.get("keep_rows", ())}
    figures = found.figures(data) | place.costs
    return {"figures": figures, "curve": [], "rows": rows, "scaling": scaling.name}


def _built(spec: Any, seed: int) -> Any:
    """Create the estimator that a table names, and recursively those in its parameters.

    The seed becomes the `random_state` where there is such a parameter and it is not given.
    """
    if not isinstance(spec, dict):
        return spec
    if not isinstance(spec.get("estimator"), str):
        return {key: _built(value, seed) for key, value in spec.items()}
    with errors_of(spec["estimator"]):
        kind, named = resolve_name(spec["estimator"]), _built(spec.get("parameters", {}), seed)
        if "random_state" in signature(kind).parameters:
            named.setdefault("random_state", seed)
        return kind(**named)


def _scale(X: Floats) -> Any:
    """Return 1 / (p Var X), which scikit-learn calls gamma="scale", in double precision."""
    return 1.0 / (X.shape[1] * X.var(dtype=float))


@dataclass
class NystroemLogistic:
    """Logistic regression with penalty 1 / C on Nystroem features of the kernel exp(-gamma r^2).

    By default gamma is what scikit-learn calls "scale".
    """

    n_components: int
    C: float = 1.0
    gamma: float | None = None
    random_state: int = 0

    def fit(self, X: Floats, y: Integers) -> Any:
        """Return a fitted pipeline of the features and the regression."""
        named: Any = {"gamma": self.gamma or _scale(X), "random_state": self.random_state}
        features = Nystroem(n_components=min(self.n_components, len(X)), **named)
        return make_pipeline(features, LogisticRegression(C=self.C, max_iter=10_000)).fit(X, y)


@dataclass
class EarlyStopped:
    """A LightGBM or CatBoost model with early stopping on a share of each class, held back.

    The model's parameters set the number of rounds without improvement after which it stops.
    """

    model: Any
    share: float = 0.15
    random_state: int = 0

    def fit(self, X: Floats, y: Integers) -> Any:
        """Return the model, fitted to the other rows."""
        parting: Any = {"test_size": self.share, "random_state": self.random_state}
        X, X_valid, y, y_valid = train_test_split(X, y, stratify=y, **parting)
        validation: dict[str, Any] = {"eval_X": X_valid, "eval_y": y_valid}
        if "eval_X" not in signature(self.model.fit).parameters:
            validation = {"eval_set": [(X_valid, y_valid)]}
        return self.model.fit(X, y, **validation)


@dataclass
class TunedSVC:
    """A support vector machine whose C and gamma have the lowest cross-validated error.

    If `calibrated`, probabilities are by Platt's method: a logistic function of cross-validated
    decision values; Rasmussen & Williams (2006, section 3.7.3) use a cumulative Gaussian.
    """

    calibrated: bool = True
    folds: int = 5
    random_state: int = 0

    def fit(self, X: Floats, y: Integers) -> Any:
        """Return the fitted machine; ties go to the smaller C."""
        parts = StratifiedKFold(self.folds, shuffle=True, random_state=self.random_state)
        grid = {"C": COSTS, "gamma": [_scale(X) * factor for factor in GAMMAS]}
        best = GridSearchCV(SVC(), grid, cv=parts).fit(X, y).best_estimator_
        if not self.calibrated:
            return best
        return CalibratedClassifierCV(best, cv=parts, ensemble=False).fit(X, y)


class ProbabilisticNeighbour:
    """The probabilistic nearest neighbour of Rasmussen & Williams (2006, section 3.7.3).

    The probability of the nearest neighbour's class is the share of training rows that have the
    class of their own nearest neighbour; the other classes have equal parts of the rest. Rows far
    from their neighbours are the least certain.
    """

    def fit(self, X: Floats, y: Integers) -> Self:
        """Find the nearest neighbour of each training row among the others."""
        self._rows = NearestNeighbors(n_neighbors=1).fit(X)
        others = self._rows.kneighbors(return_distance=False)[:, 0]
        self._y, self._share = y, float(np.mean(y[others] == y))
        return self

    def predict_proba(self, X: Floats) -> Doubles:
        """Return class probabilities, (n, K)."""
        classes, near = np.unique(self._y), self._rows.kneighbors(X, return_distance=False)[:, 0]
        rest = (1.0 - self._share) / (len(classes) - 1)
        return np.where(self._y[near, np.newaxis] == classes, self._share, rest)

    def certainty(self, X: Floats) -> Doubles:
        """Return the negative distance to the nearest neighbour, (n,)."""
        return -np.asarray(self._rows.kneighbors(X)[0][:, 0])
