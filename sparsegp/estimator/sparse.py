"""Estimators of sparse models: row weights, and fits that go on with new rows."""

from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sparsegp.data import as_table, effective_rows
from sparsegp.data.frames import is_frame
from sparsegp.errors import SettingsError
from sparsegp.estimator.base import GPEstimator
from sparsegp.estimator.parameters import named_settings
from sparsegp.estimator.rows import Rows, dask_context, is_lazy, joined_rows, training_data
from sparsegp.fit.update import FEW_ROWS, update
from sparsegp.settings import TrainSettings
from sparsegp.settings.sparse import DEFAULT_N_ACTIVE
from sparsegp.types import Labels


@dataclass(kw_only=True, eq=False, repr=False)
class SparseEstimator(GPEstimator):
    """An estimator that supports sample weights."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model to training data.

        Parameters
        ----------
        X, y
            Inputs (n, p) and labels (n,), of the types that all estimators accept.
        sample_weight : array-like (n,), optional
            Weights of the log likelihoods of the rows: 2 is equivalent to including a row twice,
            0 to leaving it out.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the data are unusable, or a parameter is out of range.
        KeyboardInterrupt
            On SIGTERM or Ctrl-C, after writing a checkpoint if there is a `checkpoint_dir`.
        """
        self._first_rows: Rows | None = None
        return self._fit(X, y, sample_weight)

    def _fit_in_parts(
        self, X: Any, y: Any, sample_weight: Any, known: Labels | None = None
    ) -> Self:
        """Fit to the first rows, or go on with new ones.

        Up to `FEW_ROWS` rows are kept, and the next call fits them again with its own: what few
        rows choose would be wrong for ever. Rows of dask are not kept.
        """
        is_first = not hasattr(self, "model_")
        former = None if is_first else getattr(self, "_first_rows", None)
        if is_first and is_lazy(X):
            return self._fit(X, y, sample_weight, known)
        if not is_first and (former is None or is_lazy(X)):
            self._first_rows = None
            return self._update(X, y, sample_weight)
        inputs, labels = training_data(self, X, y, reset=is_first)
        rows = (X if is_frame(X) else inputs), labels, sample_weight
        rows = rows if former is None else joined_rows(former, rows)
        self._fit(*rows, known, again=not is_first)
        self._first_rows = deepcopy(rows) if len(rows[1]) < FEW_ROWS else None
        return self

    def _update(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Update the model with new rows only; the active set grows up to `n_active`."""
        client = self._find_client(X)
        with dask_context(X, self.client), self._in_own_words():
            X, y = training_data(self, X, y, reset=False)
            table = as_table(X, y, sample_weight)
            wanted = DEFAULT_N_ACTIVE if self.n_active is None else self.n_active
            known = table.encoded_for(self.model_)
            n_new = len(effective_rows(known, of_numbers=self.model_.is_regression).X)
            size = max(self.n_active_, min(wanted, self.n_active_ + n_new))
            model = update(self.model_, table, n_active=size, runtime=self._runtime(client))
        return self._set_fitted(model, getattr(self, "classes_", np.empty(0)), client)


def has_posterior_all(estimator: Any) -> bool:
    """Return whether the posterior is `all`; also True for invalid parameters: `fit` raises."""
    bare = copy(estimator)
    bare.random_state = 0  # from another no seed is drawn for this
    try:
        settings = TrainSettings.given(estimator._task, **named_settings(bare))
    except (SettingsError, TypeError):
        return True
    return settings.posterior == "all"
