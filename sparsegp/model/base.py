"""What every fitted model is: predictions at new rows, and its directory on disk."""

import os
import pickle
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sparsegp.checkpoint import is_bundle, place_of, read_bundle, write_bundle
from sparsegp.checkpoint.schema import check_arrays, restoring
from sparsegp.data.labels import classes_from_json, classes_to_json
from sparsegp.data.numbers import Numbers
from sparsegp.data.scaling import Scaling
from sparsegp.errors import DataError, SettingsError, StoreError
from sparsegp.kernels import Kernel
from sparsegp.likelihoods import Gaussian, Likelihood
from sparsegp.posterior.base import Calibration
from sparsegp.posterior.predict import TILE
from sparsegp.registry import Registry
from sparsegp.types import Doubles, Integers, Labels

KIND, VERSION = "sparsegp-model", 1

LARGE = 2**20
"""Bytes of a model that is too large for the graph of a dask client."""


@dataclass(frozen=True, kw_only=True)
class Model(ABC):
    """A trained classifier, or a regression.

    A subclass says what is held of the training rows, and how new ones are predicted from that;
    ``class SparseModel(Model, family="sparse")`` enters it in `FAMILIES`.

    Parameters
    ----------
    rows : Integers (d,)
        Row numbers, in the training data, of the rows that it holds, in order of inclusion.
    classes : Labels (K,)
        In the order of the columns of every prediction; none in a regression.
    scaling : Scaling
    settings : mapping
        What it was trained with, as plain JSON.
    history : sequence of dict
        The learning curve: n_active, seconds, train_error, heldout_error, heldout_nlpp; mse in
        place of error in a regression. Of a dense method, the figures of its steps.
    numbers : Numbers, optional
        How the labels of a regression were standardised.
    """

    family: ClassVar[str] = ""
    arrays: ClassVar[Mapping[str, str]] = {}
    """What a subclass needs of the arrays on disk, for `checkpoint.schema.check_arrays`."""

    rows: Integers
    classes: Labels
    scaling: Scaling
    settings: Mapping[str, Any] = field(default_factory=dict)
    history: Sequence[Mapping[str, float]] = ()
    numbers: Numbers | None = None

    def __init_subclass__(cls, family: str, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.family = family
        FAMILIES.register(family)(cls)

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of input columns p."""

    @property
    @abstractmethod
    def n_latent(self) -> int:
        """Latent values of a row: one, or one a class."""

    @property
    @abstractmethod
    def kernels(self) -> Sequence[Kernel]:
        """One for all latent values, or one each; of several samples of them, the first."""

    @property
    @abstractmethod
    def likelihood(self) -> Likelihood:
        """That of a label given its latent values."""

    @property
    @abstractmethod
    def report(self) -> Mapping[str, Any]:
        """What happened while the posterior was made, plain JSON."""

    @property
    def calibration(self) -> Calibration:
        """How latent values become probabilities."""
        return Calibration()

    @abstractmethod
    def _latent(self, X: Any) -> tuple[Doubles, Doubles]:
        """Return latent means (n, R) and variances (n, R) or (n, 1)."""

    @abstractmethod
    def _log_probabilities(self, X: Any) -> Doubles:
        """Return log class probabilities, (n, K)."""

    @abstractmethod
    def _contents(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what a subclass adds to JSON and arrays of the directory."""

    @classmethod
    @abstractmethod
    def _restored(
        cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], common: dict[str, Any]
    ) -> "Model":
        """Return the model of what `_contents` gave; `common` has what all models have."""

    @property
    def is_regression(self) -> bool:
        """Whether labels are numbers."""
        return self.numbers is not None

    def latent_mean_and_variance(self, X: Any) -> tuple[Any, Any]:
        """Return latent means (n, R) and variances (n, R).

        One latent value a class (R = K), or one in all; that of a regression has the units of the
        labels.

        Parameters
        ----------
        X : array or dask array (n, p)
            Inputs as they were before scaling. A dask array gives lazy dask arrays.

        Raises
        ------
        DataError
            If X has another number of columns than the training data, or is not finite.
        """
        both = self._map(self._latent_pair, X, 2 * self.n_latent)
        mean, variance = both[:, : self.n_latent], both[:, self.n_latent :]
        if self.numbers is None:
            return mean, variance
        return self.numbers.decode(mean), variance * self.numbers.scale**2

    def predictive_mean_and_variance(self, X: Any) -> tuple[Any, Any]:
        """Return mean (n,) and variance (n,) of the label in a regression, noise included.

        Raises
        ------
        SettingsError
            If the model is a classifier.
        DataError
            As for `predict_proba`.
        """
        likelihood = self.likelihood
        if self.numbers is None or not isinstance(likelihood, Gaussian):
            raise SettingsError("a classifier predicts probabilities: use predict_proba")
        both = self._map(self._latent_pair, X, 2)
        mean, variance = likelihood.predictive(both[:, :1], both[:, 1:])
        return self.numbers.decode(mean), variance * self.numbers.scale**2

    def predict_log_proba(self, X: Any) -> Any:
        """Return log class probabilities, (n, K) (GR appendix B); see `predict_proba`."""
        self._require_classes()
        return self._map(self._log_probabilities, X, len(self.classes))

    def predict_proba(self, X: Any) -> Any:
        """Return class probabilities, (n, K), columns in the order of `classes`.

        Parameters
        ----------
        X : array or dask array (n, p)
            Inputs as they were before scaling. A dask array gives a lazy dask array; one that is
            asked for where a dask client is in use is to be computed by that client.

        Raises
        ------
        DataError
            If X has another number of columns than the training data, or is not finite.
        SettingsError
            If the model is a regression.
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> Any:
        """Return the label of the most probable class, or the mean of a regression, (n,)."""
        if self.is_regression:
            return self.predictive_mean_and_variance(X)[0]
        return self._map(self._labels, X, None, self.classes.dtype)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a directory, or to a store by a URL, whole or not at all.

        Raises
        ------
        StoreError
            If it cannot be written.
        """
        meta, arrays = self._contents()
        meta |= {
            "family": self.family,
            "classes": classes_to_json(self.classes),
            "scaling": self.scaling.to_json(),
            "settings": dict(self.settings),
            "history": [dict(record) for record in self.history],
            "numbers": None if self.numbers is None else asdict(self.numbers),
        }
        write_bundle(
            place_of(path), meta, {**arrays, "rows": self.rows}, kind=KIND, version=VERSION
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Model":
        """Read a model, or the model of a run, from a directory or by a URL.

        Raises
        ------
        StoreError
            If there is none, or it was altered, or a newer version wrote it.
        """
        place = place_of(path)
        if is_bundle(place / "model"):
            place = place / "model"
        elif (place / "run.json").is_file():
            raise StoreError(f"{place} holds no finished model; go on with `train --resume`")
        bundle = read_bundle(place, kind=KIND, versions={VERSION})
        meta, arrays = bundle.meta, bundle.arrays
        with restoring(place):
            family = FAMILIES[meta.get("family", "sparse")]
            check_arrays(place, arrays, {"rows": "iu d", **family.arrays})
            common = {
                "rows": arrays["rows"],
                "classes": classes_from_json(meta["classes"]) if meta["classes"] else np.empty(0),
                "scaling": Scaling.from_json(meta["scaling"]),
                "settings": dict(meta["settings"]),
                "history": tuple(meta["history"]),
                "numbers": Numbers(**meta["numbers"]) if meta.get("numbers") else None,
            }
            model = family._restored(meta, arrays, common)
            model._try_parts()
        return model

    def _try_parts(self) -> None:
        """Evaluate kernels, likelihood and scaling once: their parameters may not fit each other.

        Raises
        ------
        SettingsError, DataError, ValueError
            If they do not.
        """
        x = np.asarray(self.scaling.apply(np.zeros((1, self.n_features))), np.float64)
        if len(self.kernels) not in {1, self.n_latent}:
            raise ValueError(f"{len(self.kernels)} kernels for {self.n_latent} latent values")
        with np.errstate(over="ignore", invalid="ignore"):
            values = [float(kernel(x, x)[0, 0]) for kernel in self.kernels]
        if not np.isfinite(values).all():
            raise ValueError(f"kernels of the value {values} at the origin of the inputs")
        if not self.is_regression:
            self.likelihood.log_density(np.zeros((1, self.n_latent)), np.zeros(1, np.int64))
            if self.likelihood.n_latent(len(self.classes)) != self.n_latent:
                raise ValueError(f"{len(self.classes)} classes for {self.n_latent} latent values")

    # -- one chunk of rows -------------------------------------------------------------------------

    def _require_classes(self) -> None:
        if self.is_regression:
            raise SettingsError(
                "a regression has no class probabilities: use predictive_mean_and_variance"
            )

    def _latent_pair(self, X: Any) -> Doubles:
        mean, variance = self._latent(X)
        return np.concatenate([mean, np.broadcast_to(variance, mean.shape)], axis=1)

    def _labels(self, X: Any) -> Labels:
        best: Labels = self.classes[self._log_probabilities(X).argmax(axis=1)]
        return best

    def _map(
        self, function: Callable[[Any], Any], X: Any, columns: int | None, dtype: Any = np.float64
    ) -> Any:
        """Apply a function to an array at once, or to a dask array block by block."""
        if not hasattr(X, "dask"):
            with threadpool_limits(1):
                return function(self._checked(np.asarray(X)))
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise DataError(f"X must have {self.n_features} columns, found shape {X.shape}")
        sizes = [TILE * max(1, size // TILE) for size in X.chunks[0]]
        X = X.rechunk({0: max(sizes), 1: -1})

        kind = {"drop_axis": 1} if columns is None else {"chunks": (X.chunks[0], (columns,))}
        return X.map_blocks(
            _block, model=_shared(self), method=function.__name__, dtype=dtype, **kind
        )

    def _checked(self, X: Any) -> Any:
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise DataError(f"X must have {self.n_features} columns, found shape {X.shape}")
        if X.dtype.kind not in "biuf":
            raise DataError(f"X must be numeric, found dtype {X.dtype}")
        if X.dtype.kind == "f" and not np.isfinite(X).all():
            bad = np.argwhere(~np.isfinite(X))
            row, column = bad[0]
            raise DataError(
                f"X must be finite: {len(bad)} values are not, the first, {X[row, column]}, "
                f"in row {row}, column {column}"
            )
        return X


FAMILIES: Registry[type[Model]] = Registry("family of models")


def _block(x: Any, model: Model, method: str) -> Any:
    """Apply a method to one block; the model is an argument, so that it travels once a worker."""
    return getattr(model, method)(model._checked(x))


def _shared(model: Model) -> Any:
    """Return the model as an argument that all tasks of a graph share.

    It is a node of the graph, which any scheduler can compute. Dask warns of large graphs, so a
    large model goes to the workers ahead of the graph where there is a client in use.
    """
    if "distributed" in sys.modules and _pickled_size(model) > LARGE:  # no client without it
        from sparsegp.execution.clusters import client_in_use  # noqa: PLC0415
        from sparsegp.execution.shared import share  # noqa: PLC0415

        client = client_in_use()
        if client is not None and not client.asynchronous:
            return share(client, model)

    from dask.delayed import delayed  # noqa: PLC0415 - needed only here

    return delayed(model, name=f"model-{uuid4().hex}", traverse=False)


def _pickled_size(model: Model) -> int:
    """Return the bytes of the pickled model, without a copy of its arrays."""
    arrays: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(model, protocol=5, buffer_callback=arrays.append)
    return len(rest) + sum(array.raw().nbytes for array in arrays)


def load(path: str | os.PathLike[str]) -> Model:
    """Read a model from its directory or from a run directory; see `Model.load`."""
    return Model.load(path)
