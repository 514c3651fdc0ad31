"""Base of the estimators of sparse models: row weights, and fits continued with new rows."""

import logging
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_matrix, issparse, vstack

from sparsegp.data import as_table, effective_rows, encode_with
from sparsegp.data.encoding import Encoding
from sparsegp.data.frames import as_pandas, is_frame, real_numbers
from sparsegp.errors import DataError, SettingsError, quoted
from sparsegp.estimator.base import GPEstimator
from sparsegp.estimator.parameters import named_settings
from sparsegp.estimator.rows import dask_context, is_lazy, training_data
from sparsegp.fields import setting
from sparsegp.fit.update import FEW_ROWS, update
from sparsegp.settings import TrainSettings
from sparsegp.settings.sparse import DEFAULT_N_ACTIVE
from sparsegp.types import Labels

logger = logging.getLogger(__name__)

MOST_ROWS, MIN_OTHERS = 10_000, 50
"""Number of rows from which no more are kept; fewest rows of each class, or of unusual targets."""
MIN_RARE = 10
"""Fewest rows per rare level of a category: with fewer, later rows have mostly unknown levels."""
GROWTH = 1.5
"""Growth of `FEW_ROWS` rows or more, or of some of them, above which all are fitted again."""


@dataclass(kw_only=True, eq=False, repr=False)
class SparseEstimator(GPEstimator):
    """An estimator that supports sample weights."""

    n_active: int | None = TrainSettings.n_active
    kernel: Any = None
    criterion: str | None = None
    posterior: str | None = None
    settings: Any = setting(
        None,
        "Other settings by name: fields of `sparsegp.settings.TrainSettings`.",
        kind="mapping",
    )

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the model to training data.

        Parameters
        ----------
        X, y
            Inputs (n, p) and labels (n,), of the types that all estimators accept.
        sample_weight : array-like (n,), optional
            Weights of the log likelihoods of the rows: 2 is equivalent to including a row twice,
            0 to leaving it out. The encoding of categories, dates and missing values counts rows
            of positive weight once.
        groups : array-like (n,), optional
            Groups of rows that are alike, such as the visits of a patient. If there are at least
            20, rows of one are held out together when kernel and calibration are chosen.

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
        self._fit(X, y, sample_weight, groups=groups)
        self._first_rows: FirstRows | None = None
        return self

    def _fit_in_parts(
        self, X: Any, y: Any, sample_weight: Any, classes: Labels | None = None
    ) -> Self:
        """Fit to the first rows, or continue the fit with new ones.

        While there are too few rows, they are kept and fitted again with those of later calls, or
        a poor choice of kernel would be final. Rows of dask are not kept.
        """
        is_first = not hasattr(self, "model_")
        former = None if is_first else getattr(self, "_first_rows", None)
        if is_lazy(X) or not (is_first or former):
            how = self._fit if is_first else self._update
            how(X, y, sample_weight, classes)
            self._first_rows = None
            return self
        inputs, labels = training_data(copy(self) if is_first else self, X, y, reset=is_first)
        new = as_table(inputs, labels, sample_weight)  # errors count only the new rows
        labels = among(classes, labels)
        rows = FirstRows(X if is_frame(X) else inputs, labels, sample_weight)
        rows = rows if former is None else former.joined(rows)
        if is_first or rows.are_due or not rows.lack(classes, self.model_.encoding):
            again = not is_first
            try:
                self._fit(rows.X, rows.y, rows.weights, classes, again=again, is_part=True)
            except DataError as error:
                if again:
                    replace(new, is_part=True).learnt()  # raises if these alone are at fault
                    raise DataError(f"with the rows of earlier calls before it, {error}") from None
                raise
            rows = replace(rows, fitted=rows.sizes)
        else:
            self._update(X, y, sample_weight, classes)
        lack = rows.lack(classes, self.model_.encoding)
        if lack and len(rows.y) >= MOST_ROWS:
            logger.warning("too few %s in the first %d, which chose the kernel", lack, len(rows.y))
        self._first_rows = deepcopy(rows) if lack and len(rows.y) < MOST_ROWS else None
        return self

    def _update(self, X: Any, y: Any, sample_weight: Any, classes: Labels | None = None) -> Self:
        """Update the model with new rows only; the active set grows up to `n_active`."""
        client, runtime = self._place(X)
        with dask_context(X, self.client), self._in_own_words():
            X, y = training_data(self, X, y, reset=False)
            y = among(classes, y)
            table = as_table(X, y, sample_weight)
            wanted = _stated(self).n_active or DEFAULT_N_ACTIVE
            known = table.encoded_for(self.model_)
            n_new = len(effective_rows(known, is_regression=self.model_.is_regression).X)
            size = max(self.n_active_, min(wanted, self.n_active_ + n_new))
            model = update(self.model_, table, n_active=size, runtime=runtime)
        return self._set_fitted(model, getattr(self, "classes_", np.empty(0)), client)


@dataclass(frozen=True)
class FirstRows:
    """First rows: inputs (n, p), labels (n,), weights (n,) if any; the `sizes` last fitted."""

    X: Any
    y: Labels
    weights: Any = None
    fitted: tuple[int, int, int] = (0, 0, 0)

    def joined(self, new: "FirstRows") -> "FirstRows":
        """Return these rows followed by new ones, in the form of these."""
        X, more, weights = self.X, new.X, None
        if is_frame(X):
            from sparsegp.data.joined import joined_frames  # noqa: PLC0415 - loads pandas

            more = as_pandas(more) if is_frame(more) else real_numbers(more, "X")
            X = joined_frames(as_pandas(X), more)
        elif issparse(X):
            both: Any = [X, more if issparse(more) else csr_matrix(real_numbers(more, "X"))]
            X = vstack(both, format="csr")
        else:
            X = np.concatenate([X, real_numbers(more, "X")])
        if self.weights is not None or new.weights is not None:
            weights = np.concatenate([self.counts, new.counts])
        return FirstRows(X, np.concatenate([self.y, new.y]), weights, self.fitted)

    @property
    def counts(self) -> Any:
        """Weight of each row, (n,)."""
        return np.asarray(np.ones(len(self.y)) if self.weights is None else self.weights, float)

    @cached_property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of rows, of different ones, and of those without the most frequent label.

        The last two count rows of positive weight.
        """
        chosen = self.counts > 0.0
        counts = np.unique(self.y[chosen], return_counts=True)[1]
        return len(self.y), self._n_different(chosen), int(counts.sum() - counts.max(initial=0))

    @property
    def are_due(self) -> bool:
        """Whether to fit all rows: few were fitted, or there are many more to learn from."""
        pairs = zip(self.sizes, self.fitted, strict=True)
        return self.fitted[0] < FEW_ROWS or any(now > GROWTH * before for now, before in pairs)

    def lack(self, classes: Labels | None, encoding: Encoding | None) -> str:
        """Return what there are too few of among the rows of positive weight, "" if nothing.

        Each of the classes (K,) needs rows; None stands for a regression. Rare levels are those of
        the encoding, which was learnt from the rows that were fitted.
        """
        n, n_different, n_others = self.sizes
        if classes is None and n_others < MIN_OTHERS:
            return "different targets"
        if classes is not None:
            found, counts = np.unique(self.y[self.counts > 0.0], return_counts=True)
            of = dict(zip(found.tolist(), counts.tolist(), strict=True))
            for each in classes.tolist():
                if of.get(each, 0) < MIN_OTHERS:
                    return f"rows of class {each!r}"
        if n < MOST_ROWS and n_different < FEW_ROWS:
            return "rows"
        for column in () if encoding is None else encoding.columns:
            if MIN_RARE * len(column.rare) > self.fitted[0]:
                return f"rows of most levels of {quoted(column.name)}"
        return ""

    def _n_different(self, chosen: Any) -> int:
        """Return the number of distinct chosen rows; all rows of a sparse matrix count as such."""
        if issparse(self.X):
            return int(chosen.sum())
        if is_frame(self.X):
            with suppress(TypeError):  # values that are unusable, as the fit will say
                return int((~as_pandas(self.X)[chosen].duplicated()).sum())
            return 0
        return len(np.unique(self.X[chosen], axis=0))


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
    bare.random_state = 0  # so that no seed is drawn from a generator
    return TrainSettings.given(estimator._task, **named_settings(bare))
