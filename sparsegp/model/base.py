"""What every fitted model is: predictions at new rows, and one file on a disk or in a store."""

import os
import pickle
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from sparsegp.blas import single_threaded_blas
from sparsegp.data.labels import Numbers
from sparsegp.data.scaling import Scaling
from sparsegp.data.table import column_names, column_places, real_numbers
from sparsegp.errors import DataError, SettingsError, StoreError
from sparsegp.kernels import Kernel
from sparsegp.likelihoods import Gaussian, Likelihood
from sparsegp.posterior.base import Calibration
from sparsegp.posterior.predict import TILE
from sparsegp.registry import Registry
from sparsegp.state import from_arrays, to_arrays
from sparsegp.store import MODEL, MODEL_FILE, RUN_FILE, file_of, read_file, restoring, write_file
from sparsegp.types import Doubles, Floats, Integers, Labels

LARGE = 2**20
"""Bytes of a model that is too large for the graph of a dask client."""

FAR = 1e75
"""Scaled inputs beyond this are taken for it: their squares would overflow."""

GREATEST = 1e100
"""Of the numbers in a model that is read, so that no product of them overflows."""


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
    names : tuple of str, optional
        Of the columns, where the training rows had any: named columns of new rows are put into
        this order, and must not be missing.
    """

    family: ClassVar[str] = ""

    rows: Integers
    classes: Labels
    scaling: Scaling
    settings: Mapping[str, Any] = field(default_factory=dict)
    history: Sequence[Mapping[str, float]] = ()
    numbers: Numbers | None = None
    names: tuple[str, ...] | None = None

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

    @property
    def is_regression(self) -> bool:
        """Whether labels are numbers."""
        return self.numbers is not None

    # -- predictions -------------------------------------------------------------------------------

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
            If X has another number of columns than the training data, is not finite, or so large
            that a prediction is no number.
        """
        both = self._map("_latent_pair", X, 2 * self.n_latent)
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
            As for `latent_mean_and_variance`.
        """
        likelihood = self.likelihood
        if self.numbers is None or not isinstance(likelihood, Gaussian):
            raise SettingsError("a classifier predicts probabilities: use predict_proba")
        both = self._map("_latent_pair", X, 2)
        mean, variance = likelihood.predictive(both[:, :1], both[:, 1:])
        return self.numbers.decode(mean), variance * self.numbers.scale**2

    def predict_log_proba(self, X: Any) -> Any:
        """Return log class probabilities, (n, K) (GR appendix B); see `predict_proba`."""
        if self.is_regression:
            raise SettingsError(
                "a regression has no class probabilities: use predictive_mean_and_variance"
            )
        return self._map("_checked_log_probabilities", X, len(self.classes))

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
            As for `latent_mean_and_variance`.
        SettingsError
            If the model is a regression.
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> Any:
        """Return the label of the most probable class, or the mean of a regression, (n,)."""
        if self.is_regression:
            return self.predictive_mean_and_variance(X)[0]
        return self._map("_labels", X, None, self.classes.dtype)

    def _latent_pair(self, X: Any) -> Doubles:
        mean, variance = self._latent(X)
        return _finite(np.concatenate([mean, np.broadcast_to(variance, mean.shape)], axis=1))

    def _checked_log_probabilities(self, X: Any) -> Doubles:
        return _finite(self._log_probabilities(X))

    def _labels(self, X: Any) -> Labels:
        best: Labels = self.classes[self._checked_log_probabilities(X).argmax(axis=1)]
        return best

    def _scaled(self, X: Any) -> Floats:
        with np.errstate(over="ignore"):
            scaled = self.scaling.apply(X)
        return np.asarray(np.clip(scaled, -FAR, FAR, out=scaled))

    def _map(self, method: str, X: Any, columns: int | None, dtype: Any = np.float64) -> Any:
        """Apply a method to an array at once, or to a dask array block by block."""
        found = column_names(getattr(X, "columns", ()))
        if self.names is not None and found is not None and found != self.names:
            column_places(self.names, found, "X")  # refuses where some are missing
            X = X[list(self.names)]
        if not hasattr(X, "dask"):
            return _predict(real_numbers(X, "X"), self, method)
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise DataError(f"X must have {self.n_features} columns, found shape {X.shape}")
        sizes = [TILE * max(1, size // TILE) for size in X.chunks[0]]
        X = X.rechunk({0: max(sizes), 1: -1})

        kind = {"drop_axis": 1} if columns is None else {"chunks": (X.chunks[0], (columns,))}
        return X.map_blocks(_predict, model=_shared(self), method=method, dtype=dtype, **kind)

    def _checked(self, X: Any) -> Any:
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise DataError(f"X must have {self.n_features} columns, found shape {X.shape}")
        X = real_numbers(X, "X")  # objects in a block of dask
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

    # -- one file ----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], extra: Mapping[str, Any] | None = None) -> None:
        """Write the model to one file, or to an object of a store, whole or not at all.

        Parameters
        ----------
        path : path or URL
            The file; or a folder that is there, in which it is `model.zarr.zip`.
        extra : mapping, optional
            Plain JSON to keep beside the model, for `read_model`.

        Raises
        ------
        StoreError
            If it cannot be written.
        """
        meta = {"family": self.family, "extra": extra}
        write_file(*file_of(path, MODEL_FILE), MODEL, meta, self._arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Model":
        """Read a model from its file, or from the folder of a run.

        Raises
        ------
        StoreError
            If there is none, or it was altered, or a newer version wrote it.
        """
        return read_model(path)[0]

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return all fields as arrays."""
        return to_arrays(self)

    @classmethod
    def _of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "Model":
        """Return the model of these arrays.

        Raises
        ------
        StoreError, ValueError
            If they do not fit.
        """
        return from_arrays(cls, arrays)

    def _check(self) -> None:
        """Check what was read: values that fit each other, evaluated once.

        Raises
        ------
        SettingsError, DataError, ValueError
            If they do not.
        """
        x = np.asarray(self._scaled(np.zeros((1, self.n_features))), np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            values = [float(kernel(x, x)[0, 0]) for kernel in self.kernels]
        calibration, numbers = self.calibration, self.numbers or Numbers(0.0, 1.0)
        mappings = (self.settings, self.report, *self.history)
        checks = {
            "temperature": 1e-6 <= calibration.temperature <= 1e6,
            "calibration": max(calibration.variance_weight, calibration.prior_scale) <= GREATEST,
            "labels": 0 < numbers.scale <= GREATEST and abs(numbers.offset) <= GREATEST,
            "classes": len(set(self.classes.tolist())) == len(self.classes),
            "settings, report or history": all(isinstance(each, dict) for each in mappings),
            "number of kernels": len(self.kernels) in {1, self.n_latent},
            "kernels": bool((np.abs(values) <= GREATEST).all()),
        }
        if not self.is_regression:
            self.likelihood.log_density(np.zeros((1, self.n_latent)), np.zeros(1, np.int64))
            n_latent = self.likelihood.n_latent(len(self.classes))
            checks["number of classes"] = n_latent == self.n_latent
        wrong = [name for name, holds in checks.items() if not holds]
        if wrong:
            raise ValueError(f"not those of a model: {', '.join(wrong)}")


FAMILIES: Registry[type[Model]] = Registry("family of models")


load = Model.load


def read_model(path: str | os.PathLike[str]) -> tuple[Model, Mapping[str, Any] | None]:
    """Return a model and what was kept beside it by `Model.save`.

    Raises
    ------
    StoreError
        As for `Model.load`.
    """
    folder, name = file_of(path, MODEL_FILE)
    files = folder.sizes()
    if name == MODEL_FILE and name not in files and RUN_FILE in files:
        raise StoreError(f"{folder} holds no finished model; go on with `train --resume`")
    stored = read_file(folder, name, MODEL)
    with restoring(f"{folder}/{name}"):
        for key, array in stored.arrays.items():
            greatest = float(np.abs(array).max(initial=0.0)) if array.dtype.kind in "fc" else 0.0
            if array.ndim and not greatest <= GREATEST:
                raise ValueError(f"{key} holds values that are not finite, or too large")
        model = FAMILIES[stored.meta["family"]]._of_arrays(stored.arrays)
        with single_threaded_blas():
            model._check()
        extra = stored.meta["extra"]
        return model, None if extra is None else dict(extra)


def require_shape(name: str, array: NDArray[Any], kinds: str, *shape: int) -> None:
    """Check an array that was read.

    Raises
    ------
    ValueError
        If it has another shape, or a dtype of another kind.
    """
    if array.shape != shape or array.dtype.kind not in kinds:
        raise ValueError(f"{name} must be of kind {kinds} and shape {shape}, found {array.shape}")


def _finite(values: Doubles) -> Doubles:
    """Refuse predictions that are no numbers; the logarithm of a probability may be -inf.

    Raises
    ------
    DataError
    """
    bad = np.isnan(values) | (values == np.inf)
    if bad.any():
        raise DataError(
            f"the inputs of row {int(bad.any(axis=1).argmax())} are so large that what is "
            "predicted is no number; leave the row out, or scale it as the training rows were"
        )
    return values


def _predict(x: Any, model: Model, method: str) -> Any:
    """Apply a method to rows; the model is an argument, so that it travels once a worker."""
    x = model._checked(x)
    with single_threaded_blas(), np.errstate(over="ignore", invalid="ignore"):
        rows = x if len(x) else np.zeros((1, model.n_features))
        return getattr(model, method)(rows)[: len(x)]


def _shared(model: Model) -> Any:
    """Return the model as an argument that all tasks of a graph share.

    It is a node of the graph, which any scheduler can compute. Dask warns of large graphs, so a
    large model goes to the workers ahead of the graph where there is a client in use.
    """
    if "distributed" in sys.modules and _pickled_size(model) > LARGE:  # no client without it
        from sparsegp.runtime.clusters import client_in_use  # noqa: PLC0415
        from sparsegp.runtime.host import share  # noqa: PLC0415

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
