"""Virtual informative vectors: transformed copies of the active rows (SLH sections 5 and 6.5).

What a row means may not change under some transformations, as a digit that moves by a pixel is
still the same digit. A model learns that from copies of the training rows that were transformed.
Copies of the active rows are enough: the others lie far from where the classes part. So select
once, add copies of what was selected, and select again with the kernel and the likelihood as they
were:

    first = sparsegp.train(X, y, n_active=500, likelihood="probit", learn="evidence")
    table = virtual_rows(first, (X, y), "shift", pixels=1)
    second = sparsegp.train(table, **same_settings(first, n_active=1000))

The kernel refers to scaled inputs. The second run follows the rule by which the inputs of the first
were scaled, but takes the numbers of the rule from the rows that it has: "none" and "range" change
nothing as long as the copies keep to the range of the data; "standard" takes the means and the
variances of all rows with the copies, so length scales shift a little. The labels of a regression
are standardised anew in the same way.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.data import Table, join_tables, table_from_arrays
from sparsegp.errors import DataError, SettingsError
from sparsegp.model import Model, SparseModel
from sparsegp.registry import Registry
from sparsegp.types import Integers

Rows = NDArray[Any]
Transform = Callable[..., Sequence[Rows]]

TRANSFORMS: Registry[Transform] = Registry("transformation")
"""From rows (m, p), and parameters by name, to transformed copies of all of them, (m, p) each."""

KEPT = ("kernel", "kernel_per_class", "likelihood", "sites", "active_per_class", "scaling", "learn")
"""Settings that a second run takes from the first one as they are."""


@TRANSFORMS.register("shift")
def shift(
    X: Rows,
    pixels: int = 1,
    image: tuple[int, int] | None = None,
    background: float | None = None,
) -> list[Rows]:
    """Return images moved up, down, left and right by some pixels, four arrays (m, p).

    Parameters
    ----------
    X : array (m, p)
        An image a row, one line of it after the other.
    pixels : int
    image : (int, int), optional
        Height and width; square if left out.
    background : float, optional
        What enters at the edges; the smallest value in X if left out.

    Raises
    ------
    SettingsError
        If p columns are no such image, if the whole image would leave, or if the background is no
        value of the type of X.
    """
    height, width = image_shape(X.shape[1], image)
    if not 1 <= pixels < min(height, width):
        raise SettingsError(
            f"a shift must be by 1 to {min(height, width) - 1} pixels for images of "
            f"{height}x{width}, got {pixels}"
        )
    fill = X.min() if background is None else _as_type(background, X.dtype)
    images = X.reshape(-1, height, width)
    up, down, left, right = (np.full_like(images, fill) for _ in range(4))
    up[:, :-pixels] = images[:, pixels:]
    down[:, pixels:] = images[:, :-pixels]
    left[:, :, :-pixels] = images[:, :, pixels:]
    right[:, :, pixels:] = images[:, :, :-pixels]
    return [moved.reshape(X.shape) for moved in (up, down, left, right)]


def image_shape(p: int, image: tuple[int, int] | None = None) -> tuple[int, int]:
    """Return height and width of images of p pixels.

    Raises
    ------
    SettingsError
        If the given ones do not fit, or none are given and p is no square.
    """
    if image is None:
        side = round(p**0.5)
        if side * side != p:
            raise SettingsError(
                f"{p} columns are no square image; give height and width, such as --image 16x16"
            )
        return side, side
    height, width = image
    if height < 1 or width < 1 or height * width != p:
        raise SettingsError(
            f"an image of {height}x{width} has {height * width} pixels, but the rows have {p} "
            "columns; they must be the same"
        )
    return height, width


def _as_type(background: float, dtype: np.dtype[Any]) -> Any:
    """Return the background as a value of the type of the images, if there is one."""
    with np.errstate(invalid="ignore"):  # refused by its own message
        fill = np.asarray(background).astype(dtype)
    if not np.isclose(float(fill), background):
        raise SettingsError(f"background={background} is no value of type {dtype}, that of X")
    return fill


def virtual_rows(
    model: Model,
    rows: Table | tuple[Any, Any],
    transform: str | Transform,
    keep: str = "all",
    **parameters: Any,
) -> Table:
    """Return training rows, followed by transformed copies of the active ones.

    With `calibration="learned"` a second run keeps a tenth of them aside, a row always with its
    copies. As these are copies of hard rows, what is learnt from them is less to be trusted than
    what is learnt from the data alone.

    Parameters
    ----------
    model : Model
    rows : Table or pair (X, y)
        What the model was trained on.
    transform : str or callable
        A name in `TRANSFORMS`, or a function of an array (m, p) that returns a sequence of
        transformed copies, (m, p) each. It sees the active rows before scaling, in the order in
        which they stand in the data.
    keep : str
        "all" training rows, or the "active" ones alone.
    **parameters
        Of the transformation.

    Returns
    -------
    Table
        Copy after copy, with the labels of the originals and, as `origin`, their numbers.

    Raises
    ------
    DataError
        If the model was trained on other rows, or the copies have another shape.
    SettingsError
        If the name or a parameter of the transformation is not known or does not fit.
    """
    if keep not in {"all", "active"}:
        raise SettingsError(f"keep must be all or active, got {keep!r}")
    function = TRANSFORMS[transform] if isinstance(transform, str) else transform
    table = rows if isinstance(rows, Table) else table_from_arrays(*rows)
    if table.y is None:
        raise DataError(f"{table.source} has no labels; copies take those of their originals")
    active = np.unique(model.rows)
    X, y = active_inputs(model, table, active), table.y[active]
    copies = [np.asarray(copy) for copy in function(X, **parameters)]
    for copy in copies:
        if copy.shape != X.shape:
            raise DataError(
                f"a transformation must return arrays of the shape of its rows, {X.shape}, got "
                f"{copy.shape}"
            )
    if not copies:
        raise DataError("a transformation must return at least one array, got none")
    first = table if keep == "all" else table_from_arrays(X, y, f"active rows of {table.source}")
    count = len(copies) * len(active)
    virtual = table_from_arrays(np.concatenate(copies), np.tile(y, len(copies)), "virtual rows")
    whole = join_tables(first, virtual, f"{first.source} and {count} virtual rows")
    own = np.arange(first.X.shape[0]) if first.origin is None else first.origin
    parents = own[active] if keep == "all" else own
    return replace(whole, origin=np.concatenate([own, np.tile(parents, len(copies))]))


def active_inputs(model: Model, table: Table, active: Integers) -> Rows:
    """Return the active rows as they were before scaling, (m, p).

    Parameters
    ----------
    model : Model
    table : Table
        The training rows.
    active : Integers (m,)
        Their numbers, sorted.

    Raises
    ------
    DataError
        If these are not the rows that the model holds.
    """
    if not isinstance(model, SparseModel):
        raise SettingsError(
            "virtual rows are made from active rows, of which a model of "
            f"method={model.settings['method']} has none; give a run of method=ivm"
        )
    n, p = table.X.shape
    if p != model.n_features:
        raise DataError(
            f"{table.source} has {p} columns, the model {model.n_features}; give the rows that the "
            "model was trained on"
        )
    if active[-1] < n:
        X: Rows = np.asarray(table.X[active].compute())
        found = model.scaling.apply(X[np.searchsorted(active, model.rows)], model.active.x.dtype)
        if np.allclose(found, model.active.x, rtol=1e-5, atol=1e-5 * np.abs(found).max()):
            return X
    raise DataError(
        f"{table.source} does not hold the active rows of the model; give the rows that it was "
        "trained on, in the same order"
    )


def same_settings(model: Model, **changed: Any) -> dict[str, Any]:
    """Return the settings of a run with the kernel and the likelihood of a model, as learnt.

    Parameters
    ----------
    model : Model
    **changed
        Settings of the new run that differ from those of the model.

    Returns
    -------
    dict
        Arguments of `sparsegp.train`.

    Raises
    ------
    SettingsError
        If one of `KEPT` is to be changed.
    """
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
