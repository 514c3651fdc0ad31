"""Linear classifiers of scikit-learn, on inputs or on features of a kernel."""

from typing import Any

from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.contestants.base import CONTESTANTS
from sparsegp.reproduce.contestants.rival import MAX_ROUNDS, Rival, iterations
from sparsegp.reproduce.toml import Section

PENALTIES = tuple(10.0**k for k in range(-4, 5))
"""Values of C, the inverse strength of the penalty, among which cross-validation chooses."""


class Logistic(Rival):
    """Linear logistic regression."""

    title = "LogisticRegression"

    def read(self, section: Section) -> dict[str, Any]:
        """Take C."""
        return {"C": section.take("C", float)}

    def build(self, cell: Cell, gamma: float) -> Any:
        """Return the estimator."""
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

        del gamma
        return LogisticRegression(C=cell.options["C"], max_iter=MAX_ROUNDS)

    def words(self, cell: Cell, gamma: float) -> list[str]:
        """Return C."""
        del gamma
        return [f"C={cell.options['C']:g}"]

    def details(self, estimator: Any) -> dict[str, Any]:
        """Return the rounds of the solver."""
        return {"iterations": iterations(estimator)}


class NystroemLogistic(Logistic):
    """Logistic regression on as many Nystroem features as the cell has active rows."""

    title = "Nystroem + LogisticRegression"
    takes_all_rows = False

    def read(self, section: Section) -> dict[str, Any]:
        """Take C, and gamma: 1 / (p Var X) if left out, what scikit-learn calls "scale"."""
        options, gamma = super().read(section), section.maybe("gamma", float)
        return options if gamma is None else {**options, "gamma": gamma}

    def build(self, cell: Cell, gamma: float) -> Any:
        """Return the estimator."""
        from sklearn.kernel_approximation import Nystroem  # noqa: PLC0415
        from sklearn.pipeline import make_pipeline  # noqa: PLC0415

        seed = cell.settings.seed
        features = Nystroem(gamma=gamma, n_components=cell.n_active, random_state=seed)
        return make_pipeline(features, super().build(cell, gamma))

    def words(self, cell: Cell, gamma: float) -> list[str]:
        """Return the number of features, too."""
        return [f"d={cell.n_active}", f"gamma={gamma:.4g}", *super().words(cell, gamma)]


class TunedLogistic(Rival):
    """Linear logistic regression with the C that predicts best in a cross-validation."""

    title = "LogisticRegression, C by cross-validation"

    def read(self, section: Section) -> dict[str, Any]:
        """Take the number of folds."""
        return read_folds(section)

    def build(self, cell: Cell, gamma: float) -> Any:
        """Return the estimator."""
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
        from sklearn.model_selection import GridSearchCV  # noqa: PLC0415

        del gamma
        model = LogisticRegression(max_iter=MAX_ROUNDS)
        return GridSearchCV(model, {"C": PENALTIES}, scoring="neg_log_loss", cv=folds_of(cell))

    def words(self, cell: Cell, gamma: float) -> list[str]:
        """Return the number of folds."""
        del gamma
        return [f"C by {cell.options['folds']} folds"]

    def details(self, estimator: Any) -> dict[str, Any]:
        """Return C, and the rounds of the solver."""
        return {**estimator.best_params_, "iterations": iterations(estimator.best_estimator_)}


class Discriminant(Rival):
    """Linear discriminant analysis."""

    title = "LinearDiscriminantAnalysis"

    def build(self, cell: Cell, gamma: float) -> Any:
        """Return the estimator."""
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis  # noqa: PLC0415

        del cell, gamma
        return LinearDiscriminantAnalysis()


def read_folds(section: Section) -> dict[str, Any]:
    """Take the number of folds of a cross-validation."""
    folds = section.take("folds", int, 5)
    if folds < 2:
        raise section.error("folds", f"must be at least 2, got {folds}")
    return {"folds": folds}


def folds_of(cell: Cell) -> Any:
    """Return the folds of a cell, which its seed deals out."""
    from sklearn.model_selection import StratifiedKFold  # noqa: PLC0415

    return StratifiedKFold(cell.options["folds"], shuffle=True, random_state=cell.settings.seed)


CONTESTANTS.register("logistic")(Logistic())
CONTESTANTS.register("nystroem-logistic")(NystroemLogistic())
CONTESTANTS.register("tuned-logistic")(TunedLogistic())
CONTESTANTS.register("discriminant")(Discriminant())
