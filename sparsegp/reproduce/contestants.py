"""Classifiers that a benchmark compares: ours, and those of libraries that users would take."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from sparsegp.data import Dataset, Table, choose_scaling, encode, summarise, table_from_arrays
from sparsegp.errors import SettingsError, SparseGPError
from sparsegp.model import Model
from sparsegp.registry import Registry
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.toml import Section
from sparsegp.settings import TrainSettings
from sparsegp.training import Progress
from sparsegp.types import Doubles, Integers, Labels

MAX_ROUNDS = 10_000
"""Of the solver of logistic regression, which is to converge."""


@dataclass(frozen=True)
class Fitted:
    """A classifier after its fit.

    Parameters
    ----------
    classes : Labels (K,)
    log_probabilities : callable or None
        Of inputs (n, p), as read; (n, K). None for a classifier without.
    codes : callable
        Most probable classes of inputs (n, p), as read; (n,).
    settings : str
        What it was fitted with, in words.
    details : dict
        What happened, plain JSON.
    stages : mapping
        Processor seconds of the stages of the fit, where it has some.
    """

    classes: Labels
    log_probabilities: Callable[[Any], Doubles] | None
    codes: Callable[[Any], Integers]
    settings: str
    details: dict[str, Any]
    stages: Mapping[str, float] = field(default_factory=dict)


class Contestant(ABC):
    """A kind of classifier.

    Attributes
    ----------
    title : str
        Name in tables.
    settings_used : collection of str or None
        Fields of `TrainSettings` that it depends on, None for all.
    """

    title: ClassVar[str]
    settings_used: ClassVar[Collection[str] | None]

    @abstractmethod
    def read(self, section: Section) -> dict[str, Any]:
        """Take its own parameters from a variant of a pipeline."""

    @abstractmethod
    def prepare(self, train: Table, cell: Cell, progress: Progress) -> Callable[[], Fitted]:
        """Return what fits it on rows that are in memory; only that call is timed."""


CONTESTANTS: Registry[Contestant] = Registry("model of a benchmark")


class Ours(Contestant):
    """The model of this package. Scaling its inputs is part of the fit."""

    title = "sparsegp"
    settings_used = None

    def read(self, section: Section) -> dict[str, Any]:
        """All is in the settings."""
        del section
        return {}

    def prepare(self, train: Table, cell: Cell, progress: Progress) -> Callable[[], Fitted]:
        """Train on one thread, without held-out rows."""
        from sparsegp.training import train as fit  # noqa: PLC0415 - takes no part in the time

        settings, watch = cell.settings, StageWatch(progress)

        def work() -> Fitted:
            model = fit(train, threads=1, progress=watch, **settings.to_json())
            return Fitted(
                model.classes,
                model.predict_log_proba,
                lambda X: model.predict_log_proba(X).argmax(axis=1),
                _words(model),
                {"posterior": model.report},
                watch.seconds,
            )

        return work


class StageWatch:
    """Progress that also takes the processor time of each stage.

    Parameters
    ----------
    shown : Progress
        Where the progress goes.

    Attributes
    ----------
    seconds : dict
        By what the stage is called.
    """

    def __init__(self, shown: Progress) -> None:
        self.shown = shown
        self.seconds: dict[str, float] = {}
        self._stage, self._since = "", 0.0

    def start(self, total: int, unit: str, description: str) -> None:
        """Begin a stage."""
        self.shown.start(total, unit, description)
        self._stage, self._since = description, time.process_time()

    def update(self, done: int, **figures: float) -> None:
        """Pass it on."""
        self.shown.update(done, **figures)

    def message(self, text: str) -> None:
        """Pass it on."""
        self.shown.message(text)

    def finish(self) -> None:
        """End the stage."""
        self.seconds[self._stage] = time.process_time() - self._since
        self.shown.finish()


def _words(model: Model) -> str:
    kernels = "; ".join(dict.fromkeys(str(kernel) for kernel in model.kernels))
    settings = TrainSettings.from_json(model.settings)
    return (
        f"d={len(model.rows)}, {kernels}, inputs {model.scaling.name}, "
        f"{settings.criterion}, panel {settings.order.panel}, {settings.posterior}"
    )


CONTESTANTS.register("sparsegp")(Ours())


class Rival(Contestant):
    """A classifier with the interface of scikit-learn.

    Its inputs are scaled beforehand, outside of the timing.
    """

    settings_used: ClassVar[Collection[str] | None] = ("n_active", "scaling", "precision")
    has_kernel: ClassVar[bool] = True

    def read(self, section: Section) -> dict[str, Any]:
        """Take C, and gamma: 1 / (p Var X) if left out, what scikit-learn calls "scale"."""
        options: dict[str, Any] = {"C": section.take("C", float)}
        gamma = section.maybe("gamma", float) if self.has_kernel else None
        return options if gamma is None else {**options, "gamma": gamma}

    @abstractmethod
    def build(self, cell: Cell, gamma: float) -> Any:
        """Return the estimator."""

    def words(self, cell: Cell, gamma: float) -> list[str]:
        """Return its settings in words."""
        own = [f"gamma={gamma:.4g}"] if self.has_kernel else []
        return [*own, f"C={cell.options['C']:g}"]

    def details(self, estimator: Any) -> dict[str, Any]:
        """Return what happened in a fit, plain JSON."""
        return {"iterations": _iterations(estimator)}

    def prepare(self, train: Table, cell: Cell, progress: Progress) -> Callable[[], Fitted]:
        """Scale the inputs and build the estimator."""
        del progress
        classes, target = encode(train.y, train.source)
        scaling = choose_scaling(cell.settings.scaling, summarise(train.X, train.source))

        def scale(X: Any) -> Any:
            return scaling.apply(np.asarray(X), cell.sparse_settings.dtype)

        inputs = scale(train.X)
        gamma = cell.options.get("gamma") or 1.0 / (inputs.shape[1] * inputs.var(dtype=float))
        estimator = self.build(cell, gamma)
        words = ", ".join([*self.words(cell, gamma), f"inputs {scaling.name}"])

        def logs(X: Any) -> Doubles:
            found: Doubles = estimator.predict_log_proba(scale(X)).astype(np.float64)
            return found

        def codes(X: Any) -> Integers:
            found: Integers = estimator.predict(scale(X))
            return found

        def work() -> Fitted:
            estimator.fit(inputs, target)
            known = logs if hasattr(estimator, "predict_log_proba") else None
            return Fitted(classes, known, codes, words, self.details(estimator))

        return work


def _iterations(estimator: Any) -> int:
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


class SVC(Rival):
    """A support vector machine with an RBF kernel, without probabilities."""

    title = "SVC"

    def build(self, cell: Cell, gamma: float) -> Any:
        """Return the estimator."""
        from sklearn.svm import SVC  # noqa: PLC0415

        return SVC(C=cell.options["C"], gamma=gamma)


class NystroemLogistic(Rival):
    """Logistic regression on as many Nystroem features as the cell has active rows."""

    title = "Nystroem + LogisticRegression"

    def build(self, cell: Cell, gamma: float) -> Any:
        """Return the estimator."""
        from sklearn.kernel_approximation import Nystroem  # noqa: PLC0415
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
        from sklearn.pipeline import make_pipeline  # noqa: PLC0415

        seed = cell.settings.seed
        features = Nystroem(gamma=gamma, n_components=cell.n_active, random_state=seed)
        return make_pipeline(features, LogisticRegression(C=cell.options["C"], max_iter=MAX_ROUNDS))

    def words(self, cell: Cell, gamma: float) -> list[str]:
        """Return the number of features, too."""
        return [f"d={cell.n_active}", *super().words(cell, gamma)]


class Logistic(Rival):
    """Linear logistic regression."""

    title = "LogisticRegression"
    has_kernel = False

    def build(self, cell: Cell, gamma: float) -> Any:
        """Return the estimator."""
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

        del gamma
        return LogisticRegression(C=cell.options["C"], max_iter=MAX_ROUNDS)


class SVGP(Rival):
    """A sparse variational Gaussian process of GPyTorch, with as many inducing points as rows."""

    title = "SVGP (GPyTorch)"

    def read(self, section: Section) -> dict[str, Any]:
        """Take how its bound is ascended, and `full` for a posterior with full covariances."""
        options: dict[str, Any] = {
            "epochs": section.take("epochs", int),
            "batch": section.take("batch", int, 512),
            "rate": section.take("rate", float, 0.02),
        }
        for key, value in options.items():
            if not value > 0:
                raise section.error(key, f"must be positive, got {value}")
        return {**options, "full": section.take("full", bool, False)}

    def build(self, cell: Cell, gamma: float) -> Any:
        """Return the estimator.

        Raises
        ------
        SettingsError
            If GPyTorch is not installed.
        """
        del gamma
        try:
            from sparsegp.reproduce.variational import VariationalClassifier  # noqa: PLC0415
        except ImportError as error:
            raise SettingsError(
                f"the model svgp needs gpytorch ({error}); install it by "
                'pip install "sparsegp[rivals]"'
            ) from None
        names = ("epochs", "batch", "rate", "full")
        options = {name: cell.options[name] for name in names}
        return VariationalClassifier(cell.n_active, **options, seed=cell.settings.seed)

    def words(self, cell: Cell, gamma: float) -> list[str]:
        """Return how it is fitted."""
        del gamma
        options = cell.options
        return [
            f"d={cell.n_active}",
            f"{'full' if options['full'] else 'diagonal'} covariances",
            f"{options['epochs']} epochs of batches of {options['batch']}",
            f"rate {options['rate']:g}",
        ]

    def details(self, estimator: Any) -> dict[str, Any]:
        """Return the kernel found, and the bound."""
        return {
            "iterations": estimator.n_iter_,
            "kernel": estimator.kernel_,
            "bound": estimator.bound_,
        }


CONTESTANTS.register("svc")(SVC())
CONTESTANTS.register("nystroem-logistic")(NystroemLogistic())
CONTESTANTS.register("logistic")(Logistic())
CONTESTANTS.register("svgp")(SVGP())


def in_memory(dataset: Dataset) -> Dataset:
    """Return the data set with its inputs read."""
    train, test = dataset.train, dataset.test
    return Dataset(_read(train), None if test is None else _read(test))


def _read(table: Table) -> Table:
    X: Any = table.X
    return table_from_arrays(X.compute(scheduler="synchronous"), table.y, table.source)
