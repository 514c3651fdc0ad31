"""Virtual informative vectors: transformed copies of the active rows (SLH sections 5 and 6.5).

Some transformations do not change the meaning of a row: a digit moved by a pixel is still the same
digit. A model learns this invariance from transformed copies of training rows. Copies of the active
rows are enough, since the others lie far from the boundaries between classes. So train once, add
copies of the active rows, and train again with the same kernel and likelihood:

    first = sparsegp.train(X, y, n_active=500, likelihood="probit", learn="evidence")
    table = virtual_rows(first, (X, y), "shift", pixels=1)
    second = sparsegp.train(table, **same_settings(first, n_active=1000))

The kernel refers to scaled inputs. The second run applies the scaling rule of the first to its own
rows: "none" and "range" change nothing if the copies stay within the range of the data; "standard"
uses the means and variances of all rows including the copies, so length scales shift a little. The
targets of a regression are standardised again in the same way.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.data.blocks import from_memory
from sparsegp.data.copies import effective_rows
from sparsegp.data.table import Table, table_of
from sparsegp.errors import DataError, SettingsError
from sparsegp.fields import model_of
from sparsegp.registry import Registry

Rows = NDArray[Any]
Transform = Callable[..., Sequence[Rows]]

TRANSFORMS: Registry[Transform] = Registry("transformation")
"""Functions by name, of rows (m, p) and parameters; they return transformed copies, (m, p) each."""
KEPT = ("kernel", "kernel_per_class", "likelihood", "sites", "active_per_class", "scaling", "learn")
"""Settings that a second run takes unchanged from the first one."""


@TRANSFORMS.register("shift")
def shift(X: Rows, pixels: int = 1, image: tuple[int, int] | None = None) -> list[Rows]:
    """Return images moved up, down, left and right by some pixels, four arrays (m, p).

    Pixels that enter at the edges get the smallest value in X.

    Parameters
    ----------
    X : array (m, p)
        One image per row, line by line.
    pixels : int
    image : (int, int), optional
        Height and width; square by default.

    Raises
    ------
    SettingsError
        If p columns do not make such an image, or nothing of it would remain.
    """
    height, width = image_shape(X.shape[1], image)
    if not 1 <= pixels < min(height, width):
        raise SettingsError(
            f"a shift must be by 1 to {min(height, width) - 1} pixels for images of "
            f"{height}x{width}, got {pixels}"
        )
    edge = (pixels, pixels)
    images = X.reshape(-1, height, width)
    framed = np.pad(images, ((0, 0), edge, edge), constant_values=X.min())
    corners = ((2 * pixels, pixels), (0, pixels), (pixels, 2 * pixels), (pixels, 0))
    return [framed[:, i : i + height, j : j + width].reshape(X.shape) for i, j in corners]


def image_shape(p: int, image: tuple[int, int] | None = None) -> tuple[int, int]:
    """Return the height and width of images of p pixels, which are square by default.

    Raises
    ------
    SettingsError
        If p columns do not make such an image.
    """
    height, width = image or (round(p**0.5),) * 2
    if height < 1 or width < 1 or height * width != p:
        raise SettingsError(
            f"{p} columns do not make an image of {height}x{width}; if rows are images, give "
            "their height and width as `image`, such as 16x16"
        )
    return height, width


def virtual_rows(
    model: Any, rows: Table | tuple[Any, ...], transform: str | Transform, **parameters: Any
) -> Table:
    """Return the training rows followed by transformed copies of the active rows.

    With `calibration="learned"` a second run holds out a tenth of them for validation, keeping each
    row together with its copies. As active rows are hard to classify, calibration on them and their
    copies is less reliable than on the data alone.

    Parameters
    ----------
    model : Model or fitted estimator
    rows : Table or tuple (X, y) or (X, y, sample_weight)
        Training data of the model.
    transform : str or callable
        A name in `TRANSFORMS`, or a function from an array (m, p) to a sequence of transformed
        copies, (m, p) each. It is called with the active rows before scaling, in the order of the
        data.
    **parameters
        Parameters of the transformation.

    Returns
    -------
    Table
        Copies have the labels of their originals, whose row numbers are in `origin`.

    Raises
    ------
    DataError
        If the model was trained on other rows, or the copies have the wrong shape.
    SettingsError
        If the model has no active rows, or the name or a parameter of the transformation is
        invalid.
    """
    import dask.array as da  # noqa: PLC0415 - slow to import

    function = TRANSFORMS[transform] if isinstance(transform, str) else transform
    model = model_of(model)
    table = table_of("rows", rows, "X").encoded_for(model, to_learn=True)
    if table.y is None:
        raise DataError(f"{table.source} has no labels; copies take those of their originals")
    if not hasattr(model, "active"):
        raise SettingsError(
            f"virtual rows are made from active rows, and a {type(model).__name__} has none; give "
            "a run of method=ivm"
        )
    active_inputs(model, table)  # raises an error for other rows
    # virtual copies of a merged row get its weight
    table = effective_rows(table, is_regression=model.is_regression)
    labels: Any = table.y
    number = np.arange(len(table.X)) if table.rows is None else table.rows
    active = np.flatnonzero(np.isin(number, model.rows))  # a row may have several labels
    X: Rows = table.X[active].compute()
    copies = [np.asarray(copy) for copy in function(X, **parameters)]
    if not copies or any(copy.shape != X.shape for copy in copies):
        raise DataError(
            f"a transformation must return a list of arrays of the shape of its rows, {X.shape}, "
            f"got {len(copies)} of shapes {sorted({copy.shape for copy in copies})}"
        )
    virtual = from_memory(np.concatenate(copies))
    last, copied = int(number.max()) + 1, np.tile(active, len(copies))
    originals = np.concatenate([np.arange(len(number)), copied])
    sources = np.concatenate([np.arange(last), number[copied]])
    return replace(
        table,
        X=da.concatenate([table.X, virtual]),
        y=labels[originals],
        source=f"{table.source} and {len(virtual)} virtual rows",
        origin=originals if table.origin is None else table.origin[originals],
        weights=None if table.weights is None else table.weights[originals],
        rows=np.concatenate([number, last + np.arange(len(virtual))]),
        beside={name: np.asarray(each)[sources] for name, each in table.beside.items()},
    )


def active_inputs(model: Any, table: Table, scheduler: Any = None) -> Rows:
    """Return the active rows of a model before scaling, in the order of their row numbers.

    Raises
    ------
    DataError
        If the table does not contain them.
    """
    n, p = table.X.shape
    active, known = np.unique(model.rows), np.arange(n) if table.rows is None else table.rows
    if p == model.n_features and np.isin(active, known).all():
        X: Rows = table.X[table.places(active)].compute(scheduler=scheduler)
        if model.holds(X):
            return X
    raise DataError(
        f"{table.source} must hold the active rows of the model, of {model.n_features} columns, "
        f"and it has {n} others of {p}; give the rows that it was trained on, in the same order"
    )


def same_settings(model: Any, **changed: Any) -> dict[str, Any]:
    """Return the settings of a run with the learnt kernel and likelihood of a model.

    Parameters
    ----------
    model : Model or fitted estimator
    **changed
        Settings that differ in the new run.

    Returns
    -------
    dict
        Arguments of `sparsegp.train`.

    Raises
    ------
    SettingsError
        If one of `KEPT` would change.
    """
    model = model_of(model)
    former = dict(model.settings)
    kernels = [str(kernel) for kernel in model.kernels]
    learnt = former.get("learn", "none") != "none"
    settings = {
        **former,
        "kernel": "; ".join(kernels) if former["kernel_per_class"] else kernels[0],
        "likelihood": str(model.likelihood) if learnt else former["likelihood"],
        "scaling": model.scaling.name,
        "learn": "none",
    }
    for name in KEPT:
        if name in changed and changed[name] != settings.get(name):
            raise SettingsError(
                f"{name} must be that of the first run, {settings.get(name)!r}, got "
                f"{changed[name]!r}; leave it out"
            )
    return settings | changed
