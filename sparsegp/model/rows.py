"""Predictions for rows: of an array at once, of a dask array block by block."""

import logging
import pickle
import sys
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from sparsegp.blas import single_threaded_blas
from sparsegp.data import frames
from sparsegp.data.blocks import of_known_sizes
from sparsegp.data.encoding import encoding_for
from sparsegp.errors import DataError
from sparsegp.math.products import TILE
from sparsegp.types import Doubles

if TYPE_CHECKING:
    from sparsegp.model.base import Model

logger = logging.getLogger(__name__)

EXAMINED, FAR, MANY, LEAST, STORED = 1000, 4.0, 0.1, 5, 50
"""Number of rows of a block that are examined for values far outside the range of the stored rows;
distance from it, in scaled units, unless the range is wider; share and least number of such rows
that raise a warning; least number of stored rows."""
LARGE = 2**20
"""Size in bytes above which a model is too large for the graph of a dask client."""


def map_rows(model: "Model", method: str, X: Any, columns: int) -> Any:
    """Apply a method of a model, with `columns` results per row, to X (n, p); chunked like X."""
    encoding = model.encoding
    if frames.is_frame(X):
        X = frames.as_pandas(X)
        encoding = encoding_for(frames.frame_names(X), model)
        if encoding is not None:
            X = encoding.apply(X, "X")
    elif encoding is not None and np.shape(X)[1:] != (model.n_features,):
        raise DataError(
            f"X must be a data frame with the columns {frames.listed(encoding.inputs)}, or an "
            f"array of the {model.n_features} encoded ones; found shape {np.shape(X)}"
        )
    found = frames.column_names(getattr(X, "columns", ()))
    if model.names is not None and found is not None and found != model.names:
        X = X[[X.columns[place] for place in frames.column_places(model.names, found, "X")]]
    if hasattr(X, "to_dask_array"):
        X = X.to_dask_array(lengths=True)
    X = of_known_sizes(X) if hasattr(X, "dask") else frames.real_numbers(X, "X")
    if X.ndim != 2 or X.shape[1] != model.n_features:
        raise DataError(f"X must have {model.n_features} columns, found shape {X.shape}")
    if not hasattr(X, "dask"):
        return _predict(X, model, method)
    sizes = [TILE * max(1, size // TILE) for size in X.chunks[0]]
    tiled = X.rechunk({0: max(sizes), 1: -1})
    options = {"chunks": (tiled.chunks[0], (columns,)), "dtype": np.float64}
    found = tiled.map_blocks(_predict, model=_shared(model), method=method, **options)
    return found.rechunk({0: X.chunks[0]})  # as labels are chunked


def _predict(x: Any, model: "Model", method: str) -> Doubles:
    """Apply a method to rows; the model is an argument, so that it is sent once per worker."""
    x = frames.real_numbers(x, "X")  # a dask block may hold objects
    if x.dtype.kind not in "biuf":
        raise DataError(f"X must be numeric, found dtype {x.dtype}")
    if not np.isfinite(x).all():
        bad = np.argwhere(~np.isfinite(x))
        row, column = bad[0]
        raise DataError(
            f"X must be finite: {len(bad)} values are not, the first, {x[row, column]}, "
            f"in row {row}, column {column}"
        )
    with single_threaded_blas(), np.errstate(over="ignore", under="ignore", invalid="ignore"):
        warn_of_far_values(x[:EXAMINED], model)
        rows = x if len(x) else np.zeros((1, model.n_features))
        values: Doubles = getattr(model, method)(rows)[: len(x)]
    bad = np.isnan(values) | (values == np.inf)  # the logarithm of a probability may be -inf
    if bad.any():
        raise DataError(
            f"the inputs of row {int(bad.any(axis=1).argmax())} are so large that what is "
            "predicted is not a number; leave the row out, or scale it as the training rows were"
        )
    return values


def warn_of_far_values(x: Any, model: "Model") -> None:
    """Warn, once for each column, if many values are far outside those of the stored rows."""
    if len(x) < LEAST or len(model.rows) < STORED or model.scaling.mixing is not None:
        return
    scaled, (low, high, known) = model.scaling.apply(x), model.training_range
    distance = np.maximum(low - scaled, scaled - high)
    count = (distance > np.maximum(high - low, FAR)).sum(axis=0)
    are_many = count >= max(LEAST, MANY * len(x))
    if new := [each for each in np.flatnonzero(are_many).tolist() if each not in known]:
        known.update(new)
        names = [f"column {each}" if model.names is None else model.names[each] for each in new]
        message = "values far outside those of training in: %s; %s"
        advice = "the model knows nothing of such values: check the units"
        logger.warning(message, frames.listed(names), advice)


def _shared(model: "Model") -> Any:
    """Return the model as an argument that all tasks of a graph share.

    It is a node of the graph, which any scheduler can compute. Dask warns of large graphs, so if a
    client is in use, a large model is sent to the workers ahead of the graph.
    """
    if "distributed" in sys.modules and len(pickle.dumps(model)) > LARGE:  # no client without it
        from sparsegp.runtime.clusters import client_in_use  # noqa: PLC0415
        from sparsegp.runtime.host import shared_future  # noqa: PLC0415

        client = client_in_use()
        if client is not None and not client.asynchronous:
            return shared_future(client, model)

    from dask.delayed import delayed  # noqa: PLC0415 - needed only here

    return delayed(model, name=f"model-{uuid4().hex}", traverse=False)
