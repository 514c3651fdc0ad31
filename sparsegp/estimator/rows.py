"""Inputs and outputs of estimators: NumPy for arrays and data frames, lazy dask for dask."""

from contextlib import AbstractContextManager, nullcontext
from copy import copy
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from sparsegp.data import table_from_frame
from sparsegp.data.blocks import of_known_sizes
from sparsegp.data.encoding import encoding_for
from sparsegp.data.frames import as_pandas, frame_names, is_frame, listed, require_distinct
from sparsegp.data.labels import refuse_missing
from sparsegp.data.targets import as_numbers
from sparsegp.errors import DataError
from sparsegp.types import Integers

CSR = "csr"
"""Format to which sparse matrices are converted; rows are made dense chunk by chunk."""


def is_lazy(values: Any) -> bool:
    """Return whether values are a dask collection, without evaluating its graph."""
    return hasattr(values, "__dask_graph__")


def to_memory(values: Any) -> Any:
    """Compute dask labels, and convert objects that are numbers to a type for scikit-learn.

    In this way columns of pandas, polars and Arrow with types of their own become arrays.

    Raises
    ------
    DataError
        If they are objects and one is missing.
    """
    dtype = getattr(values, "dtype", None)
    if values is None or (
        not is_lazy(values) and isinstance(dtype, np.dtype) and dtype.kind != "O"
    ):
        return values
    found = np.asarray(values)
    if found.dtype != object:
        return found
    objects = found.ravel().tolist()
    refuse_missing(objects, "y")
    are_numbers = all(isinstance(each, int | float | np.number) for each in objects)
    plain = np.array(found.tolist()) if are_numbers else found
    return plain if plain.tolist() == found.tolist() else found


def dask_context(X: Any, client: Any) -> AbstractContextManager[Any]:
    """Return the context in which dask computes X: that of the client, if any."""
    return nullcontext() if client is None or not is_lazy(X) else client.as_current()


def training_data(estimator: Any, X: Any, y: Any, reset: bool = True) -> tuple[Any, Any]:
    """Validate rows and labels, and record on the estimator what later rows must match.

    Labels of a regression must be numbers. Without `reset` the columns must match those of the
    previous fit.

    Returns
    -------
    X : array, sparse matrix, dask array with known chunks, or Table of a data frame (n, p)
    y : array (n,)

    Raises
    ------
    ValueError
        If they are unusable. Values of a dask collection are checked when computed.
    """
    refuse_masks(X, y)
    numeric, y = estimator._task == "regression", to_memory(y)
    if is_lazy(X) or is_frame(X):  # validating labels alone would reset the column names
        y = validate_data(copy(estimator), y=y, y_numeric=numeric)
    else:
        how: dict[str, Any] = {"y_numeric": numeric, "accept_sparse": CSR, "reset": reset}
        X, y = validate_data(estimator, X, y, **how)
    y = as_numbers(y, "y", "") if numeric else y
    if is_frame(X):
        return table_from_frame(_named(estimator, X, reset), y), y
    return (_lazy_rows(estimator, X, reset) if is_lazy(X) else X), y


def group_numbers(groups: Any, n: int) -> Integers:
    """Return the number of the group of each of n rows, (n,).

    Raises
    ------
    DataError
        If there is not one group per row, or one is missing.
    """
    refuse_masks(groups)
    found = np.asarray(groups, dtype=None if hasattr(groups, "__array__") else object)
    if found.shape != (n,):
        raise DataError(f"every row needs one group; X has {n} rows, groups {found.shape}")
    refuse_missing(found.tolist(), "X", "group")
    return np.unique([*map(str, found.tolist())], return_inverse=True)[1]


def rows_to_predict(estimator: Any, X: Any) -> Any:
    """Validate rows for predictions; return an array, or a dask array with known chunks, (n, p).

    The columns are those of the model: encoded if it was fitted to a data frame that needs it.

    Raises
    ------
    ValueError
        If the columns differ from those of the fit, or are not numbers.
    """
    refuse_masks(X)
    names = frame_names(as_pandas(X)) if is_frame(X) else None
    encoding = encoding_for(names, estimator.model_)
    if encoding is not None:
        if not is_frame(X):
            raise DataError(
                "X must be a data frame with the columns of the fit, which were not numbers alone: "
                f"{listed(encoding.inputs)}"
            )
        return encoding.apply(_named(estimator, X, reset=False), "X")
    if is_lazy(X):
        return _lazy_rows(estimator, X, reset=False)
    return validate_data(estimator, X, reset=False, ensure_min_samples=0, accept_sparse=CSR)


def refuse_masks(*arrays: Any) -> None:
    """Raise an error for masked values, since conversions would drop the mask."""
    for array in filter(np.ma.is_masked, arrays):
        raise DataError(
            "rows, labels and weights must have no masked values, found one in row "
            f"{np.argwhere(np.ma.getmaskarray(array))[0, 0]}; drop such rows, or fill them"
        )


def _named(estimator: Any, X: Any, reset: bool) -> Any:
    """Return a pandas or dask data frame after checking number and names of its columns."""
    X = as_pandas(X)
    require_distinct(frame_names(X), "X")
    validate_data(estimator, getattr(X, "_meta", X), skip_check_array=True, reset=reset)
    return X


def _lazy_rows(estimator: Any, X: Any, reset: bool) -> Any:
    """Return a dask array after checking its columns; values are checked when computed."""
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: X is {X}")
    if is_frame(X):
        return _named(estimator, X, reset).to_dask_array(lengths=True)
    validate_data(estimator, X, skip_check_array=True, reset=reset)
    return of_known_sizes(X)
