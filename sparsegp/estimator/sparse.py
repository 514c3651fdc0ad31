"""Estimators of sparse models: row weights, and fits that go on with new rows."""

import logging
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from sparsegp.data import Table, as_table, effective_rows, encode_with
from sparsegp.data.frames import is_frame
from sparsegp.errors import DataError, SettingsError, quoted
from sparsegp.estimator.base import GPEstimator
from sparsegp.estimator.first_rows import MOST_ROWS, FirstRows, lacks_levels
from sparsegp.estimator.parameters import named_settings
from sparsegp.estimator.rows import dask_context, is_lazy, training_data
from sparsegp.fit.update import update
from sparsegp.settings import TrainSettings
from sparsegp.settings.sparse import DEFAULT_N_ACTIVE
from sparsegp.types import Labels

logger = logging.getLogger(__name__)


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
            On SIGTERM, SIGHUP or Ctrl-C, after writing a checkpoint if there is a `checkpoint_dir`.
        """
        self._fit(X, y, sample_weight)
        self._first_rows: FirstRows | None = None
        return self

    def _fit_in_parts(
        self, X: Any, y: Any, sample_weight: Any, classes: Labels | None = None
    ) -> Self:
        """Fit to the first rows, or go on with new ones.

        Rows are kept while they are too few, since what they choose would be wrong for ever, and
        fitted again with those of later calls. Rows of dask are not kept.
        """
        is_first = not hasattr(self, "model_")
        former = None if is_first else getattr(self, "_first_rows", None)
        if is_lazy(X) or not (is_first or former):
            how = self._fit if is_first else self._update
            how(X, y, sample_weight, classes)
            self._first_rows = None
            return self
        inputs, labels = training_data(copy(self) if is_first else self, X, y, reset=is_first)
        new = as_table(inputs, labels, sample_weight)  # an error counts the new rows alone
        labels = among(classes, labels)
        rows = FirstRows(X if is_frame(X) else inputs, labels, sample_weight)
        rows = rows if former is None else former.joined(rows)
        if is_first or rows.are_due or not self._lack(rows, classes):
            self._fit_first_rows(rows, classes, None if is_first else new)
            rows = replace(rows, fitted=rows.sizes)
        else:
            self._update(X, y, sample_weight, classes)
        lack = self._lack(rows, classes)
        if lack and len(rows.y) >= MOST_ROWS:
            logger.warning("too few %s in the first %d, which chose the kernel", lack, len(rows.y))
        self._first_rows = deepcopy(rows) if lack and len(rows.y) < MOST_ROWS else None
        return self

    def _fit_first_rows(self, rows: FirstRows, classes: Labels | None, new: Table | None) -> None:
        """Fit to all first rows; errors count rows of the new ones, if any, where they can."""
        try:
            again = new is not None
            self._fit(rows.X, rows.y, rows.weights, classes, again=again, is_part=True)
        except DataError as error:
            if new is None:
                raise
            replace(new, is_part=True).learnt()
            raise DataError(f"with the rows of earlier calls before it, {error}") from None

    def _lack(self, rows: FirstRows, classes: Labels | None) -> str:
        """Return what the rows, or those of the last fit, have too few of, "" if nothing."""
        return rows.lack(classes) or lacks_levels(self.model_.encoding, rows.fitted[0])

    def _update(self, X: Any, y: Any, sample_weight: Any, classes: Labels | None = None) -> Self:
        """Update the model with new rows only; the active set grows up to `n_active`."""
        client = self._find_client(X)
        with dask_context(X, self.client), self._in_own_words():
            X, y = training_data(self, X, y, reset=False)
            y = among(classes, y)
            table = as_table(X, y, sample_weight)
            wanted = _stated(self).n_active or DEFAULT_N_ACTIVE
            known = table.encoded_for(self.model_)
            n_new = len(effective_rows(known, of_numbers=self.model_.is_regression).X)
            size = max(self.n_active_, min(wanted, self.n_active_ + n_new))
            model = update(self.model_, table, n_active=size, runtime=self._runtime(client))
        return self._set_fitted(model, getattr(self, "classes_", np.empty(0)), client)


def among(classes: Labels | None, y: Labels) -> Labels:
    """Return labels as these classes, or raise a `DataError`; None stands for a regression."""
    if classes is None:
        return y
    codes, unseen = encode_with(classes, y)
    if unseen:
        raise DataError(
            f"labels must be among the classes known so far, {quoted(classes.tolist())}, found "
            f"{quoted(unseen[0])}; for new classes fit all rows together"
        )
    return classes[codes]


def has_posterior_all(estimator: Any) -> bool:
    """Return whether the posterior is `all`; also True for invalid parameters: `fit` raises."""
    try:
        return _stated(estimator).posterior == "all"
    except (SettingsError, TypeError):
        return True


def _stated(estimator: Any) -> TrainSettings:
    """Return the settings that the parameters state, or raise an error as `fit` does."""
    bare = copy(estimator)
    bare.random_state = 0  # from another no seed is drawn for this
    return TrainSettings.given(estimator._task, **named_settings(bare))
