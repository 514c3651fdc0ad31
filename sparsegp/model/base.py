"""The base of all fitted models: predictions for new rows, and storage in one file."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sparsegp import store
from sparsegp.data.encoding import Encoding
from sparsegp.data.scaling import Scaling
from sparsegp.data.targets import Numbers
from sparsegp.dense import Component
from sparsegp.errors import SettingsError, StoreError
from sparsegp.kernels import Kernel, relevances
from sparsegp.likelihoods import Gaussian, Likelihood
from sparsegp.math.quantiles import Quantiles
from sparsegp.model.display import line, table
from sparsegp.model.explain import Explanation
from sparsegp.model.rows import map_rows
from sparsegp.posterior.base import ActiveRows, Calibration
from sparsegp.posterior.limits import prediction_sets
from sparsegp.state import MAX_MAGNITUDE, from_arrays, require_numbers, to_arrays
from sparsegp.types import Doubles, Floats, Integers, Labels

ONLY_SPARSE = "only models of active rows have {}; train without `method`"
MAX_SCALED_INPUT = 1e75
"""Magnitude to which scaled inputs are clipped, as the squares of larger ones would overflow."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Model(ABC):
    """A trained classifier or regression model.

    Subclasses define what is stored of the training rows, and how new rows are predicted.

    Parameters
    ----------
    rows : Integers (d,)
        Row numbers, in the training data, of the stored rows, in order of inclusion.
    classes : Labels (K,)
        Class labels, in the order of the columns of every prediction; empty for regression.
    scaling : Scaling
    settings : mapping
        Training settings, as plain JSON.
    history : sequence of dict
        Records of the selection, from its marginals: n_active, seconds, train_error, heldout_error
        (mse in a regression) and heldout_nlpp. A dense method has one record, from the model.
    numbers : Numbers, optional
        Standardisation of the labels in regression.
    names : tuple of str, optional
        Column names, if the training rows had any: named columns of new rows are put into this
        order, and none may be missing.
    label : str, optional
        Name of the label column, or its number if there are no names.
    id_column, weight_column, missing : optional
        Columns of identifiers and weights, which are not inputs; further markers of missing values.
    encoding : Encoding, optional
        Encoding of the columns of a data frame that held more than numbers; `names` are then those
        of the encoded columns. Predictions accept such data frames, and arrays of encoded columns.
    medians : Doubles (p,), optional
        Column medians, for files and data frames that held only numbers: they replace missing
        values in new files and data frames. Arrays must not have missing values.
    """

    family: ClassVar[str]

    rows: Integers
    classes: Labels
    scaling: Scaling
    settings: Mapping[str, Any] = field(default_factory=dict)
    history: Sequence[Mapping[str, float]] = ()
    numbers: Numbers | None = None
    names: tuple[str, ...] | None = None
    label: str | None = None
    id_column: str | None = None
    weight_column: str | None = None
    missing: tuple[str, ...] | None = None
    encoding: Encoding | None = None
    medians: Doubles | None = None

    def __post_init__(self) -> None:
        """Check that the parts fit each other, as they may come from a file."""
        x = np.asarray(self._scaled(np.zeros((1, self.n_features))), np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            values = [float(kernel(x, x)[0, 0]) for kernel in self.kernels]
        if not self.is_regression:
            self.likelihood.log_density(np.zeros((1, self.n_latent)), np.zeros(1, np.int64))
        rows, names, medians = self.rows, self.names, self.medians
        mappings = (self.settings, self.report, *self.history)
        checks = {
            "rows": rows.shape == self._stored_rows.shape[:1] and rows.dtype.kind in "iu",
            "classes": len(set(self.classes.tolist())) == len(self.classes),
            "names": names is None or [type(name) for name in names] == [str] * self.n_features,
            "settings, report or history": all(isinstance(each, Mapping) for each in mappings),
            "missing": self.missing is None or all(type(word) is str for word in self.missing),
            "encoding": self.encoding is None or self.encoding.names == names,
            "medians": medians is None
            or (medians.shape == (self.n_features,) and np.isfinite(medians).all()),
            "kernels": bool((np.abs(values) <= MAX_MAGNITUDE).all()),
        }
        if wrong := [name for name, holds in checks.items() if not holds]:
            raise ValueError(f"not those of a model: {', '.join(wrong)}")

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k != "training_range"}  # nor who was warned

    __repr__ = line
    _repr_html_ = table  # for notebooks

    @property
    def n_features(self) -> int:
        """Number of input columns p."""
        return len(self.scaling.shift)

    @cached_property
    def training_range(self) -> tuple[Doubles, Doubles, set[int]]:
        """Least and largest scaled inputs of the stored rows, (p,); columns warned of so far."""
        return self._stored_rows.min(axis=0), self._stored_rows.max(axis=0), set()

    @property
    def inputs(self) -> tuple[str, ...] | None:
        """Names of the columns that new rows must have; None if there are none."""
        return self.names if self.encoding is None else self.encoding.inputs

    @property
    def n_latent(self) -> int:
        """Number of latent values per row: one, or one per class."""
        return self.likelihood.n_latent(len(self.classes))

    @property
    def kernels(self) -> Sequence[Kernel]:
        """One kernel for all latent values, or one each; the first sample if there are several."""
        return self._samples[0].kernels

    @property
    def likelihood(self) -> Likelihood:
        """Likelihood of a label given its latent values; the first sample if there are several."""
        return self._samples[0].likelihood

    @property
    @abstractmethod
    def _samples(self) -> Sequence[ActiveRows | Component]:
        """Holders of kernels and likelihood; several if these were sampled."""

    @property
    @abstractmethod
    def _stored_rows(self) -> Floats:
        """Scaled training rows that the model stores, (d, p)."""

    def holds(self, X: Any) -> bool:
        """Return whether X are the stored rows before scaling, each once, by row number."""
        held, order = self._stored_rows, np.unique(self.rows, return_inverse=True)[1]
        found = self.scaling.apply(np.asarray(X), held.dtype)[order]
        return np.allclose(found, held, 1e-5, 1e-5 * float(np.abs(found).max(initial=0.0)))

    @property
    def relevances(self) -> Doubles | None:
        """Relevance of each column, (p,), from the length scales; they sum to 1.

        None if the kernels do not have a length scale per column and there is no metric. See
        `sparsegp.kernels.relevances` and `deviations`. Under a metric M, the relevance of a column
        is proportional to its standard deviation times the norm of its row in M.
        """
        mixing, deviations = self.scaling.mixing, self.deviations
        if mixing is None:
            kernels = [kernel for each in self._samples for kernel in each.kernels]
            return relevances(kernels, deviations)
        shares = deviations * np.linalg.norm(mixing, axis=1)
        return np.asarray(shares / (shares.sum() or 1.0))

    @property
    def input_relevances(self) -> Doubles | None:
        """Relevance of each column before it was encoded, (q,); see `relevances`."""
        found = self.relevances
        return found if found is None or self.encoding is None else self.encoding.by_input(found)

    @property
    def rows_unmixed(self) -> Floats:
        """Stored training rows after scaling, (d, p), before a metric mixes their columns."""
        x, mixing = self._stored_rows, self.scaling.mixing
        return x if mixing is None else np.linalg.solve(mixing.T, x.T).T

    @property
    def deviations(self) -> Doubles:
        """Standard deviations of the scaled columns, (p,), over `rows_unmixed`.

        One for columns that were scaled to unit variance, unless they are constant here.
        """
        x = self.rows_unmixed
        found = np.where(x.max(axis=0) > x.min(axis=0), x.std(axis=0, dtype=np.float64), 0.0)
        return np.where(self.scaling.has_unit_variance, np.sign(found), found)

    @property
    @abstractmethod
    def report(self) -> Mapping[str, Any]:
        """Diagnostics of the computation of the posterior, as plain JSON."""

    @property
    def is_regression(self) -> bool:
        """Whether the model is for regression."""
        return self.numbers is not None

    @property
    def calibration(self) -> Calibration:
        """Calibration of latent values into probabilities."""
        return Calibration()

    @abstractmethod
    def _latent(self, X: Any) -> tuple[Doubles, Doubles]:
        """Return latent means (n, R) and variances (n, R) or (n, 1)."""

    @abstractmethod
    def _log_probabilities(self, X: Any) -> Doubles:
        """Return log class probabilities, (n, K)."""

    def latent_mean_and_variance(self, X: Any) -> tuple[Any, Any]:
        """Return latent means (n, R) and variances (n, R).

        There is one latent value per class (R = K), or a single one; for regression it has the
        units of the labels.

        Parameters
        ----------
        X : array or dask array (n, p)
            Inputs before scaling. A dask array gives lazy dask arrays.

        Raises
        ------
        DataError
            If X has the wrong number of columns, is not finite, or is so large that a prediction
            is not a number.
        """
        both = map_rows(self, "_latent_pair", X, 2 * self.n_latent)
        mean, variance = both[:, : self.n_latent], both[:, self.n_latent :]
        if self.numbers is None:
            return mean, variance
        return self.numbers.decode(mean), variance * self.numbers.scale**2

    def predictive_mean_and_variance(self, X: Any) -> tuple[Any, Any]:
        """Return mean (n,) and variance (n,) of the label in regression, noise included.

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
        both = map_rows(self, "_latent_pair", X, 2)
        mean, variance = likelihood.predictive(both[:, :1], both[:, 1:])
        return self.numbers.decode(mean), variance * self.numbers.scale**2

    def predict_log_proba(self, X: Any) -> Any:
        """Return log class probabilities, (n, K) (GR appendix B); see `predict_proba`."""
        if self.is_regression:
            raise SettingsError("a regression has no classes: use predictive_mean_and_variance")
        return map_rows(self, "_log_probabilities", X, len(self.classes))

    def predict_proba(self, X: Any) -> Any:
        """Return class probabilities, (n, K), columns in the order of `classes`.

        Parameters
        ----------
        X : array or dask array (n, p), or a data frame of either
            Inputs before scaling. A dask array gives a lazy dask array; if it is requested while a
            dask client is in use, that client must compute it.

        Raises
        ------
        DataError
            As for `latent_mean_and_variance`.
        SettingsError
            If the model is for regression.
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> Any:
        """Return the label of the most probable class, or the mean in regression, (n,)."""
        if self.is_regression:
            return self.predictive_mean_and_variance(X)[0]
        codes = self.predict_log_proba(X).argmax(axis=1)
        if hasattr(codes, "dask"):
            return codes.map_blocks(self.classes.take, dtype=self.classes.dtype)
        return self.classes[codes]

    def explain(self, X: Any, most: int = 5) -> list[Explanation]:
        """Return an explanation of the prediction of each row, a list of length n.

        Each names the two most probable classes, up to `most` active rows in favour of either, and
        the `most` columns with the largest effect on the difference of their latent means.

        Raises
        ------
        SettingsError
            If the model is dense or for regression.
        """
        raise SettingsError(ONLY_SPARSE.format("explanations"))

    def novelty(self, X: Any) -> Any:
        """Return the novelty of each row (n,), from 0 to 1.

        It is the fraction of validation rows (training rows, if there were none) for which the
        active rows of their predicted class leave a smaller share of the prior variance.

        Raises
        ------
        SettingsError
            If the model is dense, or was written by a version without novelty.
        """
        raise SettingsError(ONLY_SPARSE.format("novelty"))

    def predict_set(self, X: Any, coverage: float = 0.95) -> Any:
        """Return the prediction set of each row, as bool (n, K).

        A set contains the true class with probability at least `coverage`, on average over rows
        like the validation rows (split conformal prediction, `sparsegp.posterior.limits`).

        Raises
        ------
        SettingsError
            If the model had too few validation rows for this coverage, or none, like dense models.
        """
        proba = self.predict_proba(X)
        if hasattr(proba, "dask"):
            return proba.map_blocks(prediction_sets, self.scores, coverage, dtype=np.bool_)
        return prediction_sets(proba, self.scores, coverage)

    @property
    def scores(self) -> Quantiles | None:
        """Quantiles of the conformal scores of validation or left-out rows, if there were any."""
        return None

    def _latent_pair(self, X: Any) -> Doubles:
        mean, variance = self._latent(X)
        return np.concatenate([mean, np.broadcast_to(variance, mean.shape)], axis=1)

    def _scaled(self, X: Any) -> Doubles:
        with np.errstate(over="ignore"):
            scaled = self.scaling.apply(X)
        return np.asarray(np.clip(scaled, -MAX_SCALED_INPUT, MAX_SCALED_INPUT, out=scaled))

    def save(self, path: str | os.PathLike[str], extra: Mapping[str, Any] | None = None) -> None:
        """Write the model atomically to one file, or to one object in an object store.

        Parameters
        ----------
        path : path or URL
            The file; or an existing folder, in which `model.zarr.zip` is written.
        extra : mapping, optional
            Plain JSON to store with the model, for `read_model`.

        Raises
        ------
        StoreError
            If it cannot be written.
        """
        meta = {"family": self.family, "extra": extra}
        store.write_file(*store.file_of(path, store.MODEL_FILE), store.MODEL, meta, to_arrays(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Model":
        """Read a model from its file, or from the folder of a run.

        Raises
        ------
        StoreError
            If there is none, it was altered, or it was written by another version.
        """
        return read_model(path)[0]


load = Model.load


def read_model(path: str | os.PathLike[str]) -> tuple[Model, Mapping[str, Any] | None]:
    """Return a model and the JSON that `Model.save` stored with it; raises as `Model.load`."""
    folder, name = store.file_of(path, store.MODEL_FILE)
    if name == store.MODEL_FILE and name not in (files := folder.sizes()):
        if store.RUN_FILE in files:
            raise StoreError(f"{folder} holds no finished model; continue it with `resume=True`")
        if store.folder_of(os.path.join(path, store.TUNING)).sizes():
            raise StoreError(
                f"{folder} holds a search for a kernel and no model; repeat its command with "
                "`resume=True` if it is unfinished, else train with its choice"
            )
    stored = store.read_file(folder, name, store.MODEL)
    with store.read_errors(f"{folder}/{name}"):
        require_numbers(stored.arrays)
        families = {each.family: each for each in Model.__subclasses__()}
        model = from_arrays(families[stored.meta["family"]], stored.arrays)
        extra = stored.meta["extra"]
        return model, None if extra is None else dict(extra)
