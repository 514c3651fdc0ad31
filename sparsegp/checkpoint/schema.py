"""What a reader needs of a bundle that verified: the arrays, their shapes, and values that fit.

A digest says that a bundle is what its writer wrote, not that the writer meant a model: whoever
restores objects from one checks the arrays here, and turns what else does not fit into one error.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsegp.checkpoint.manifest import ADVICE, shown
from sparsegp.checkpoint.places import Place
from sparsegp.errors import SparseGPError, StoreError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MISFITS = (
    *(AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError),
    SparseGPError,  # of the parts, which do not know the file
)


def check_arrays(
    place: Place, arrays: Mapping[str, "NDArray[Any]"], wanted: Mapping[str, str]
) -> dict[str, int]:
    """Check kinds, shapes and values of arrays, and return the lengths of their axes by name.

    Parameters
    ----------
    place : Path or StorePath
        The bundle, for messages.
    arrays : mapping
        As they were read.
    wanted : mapping
        For each array the kinds of dtype that it may have (letters of numpy), then a name for each
        axis: ``{"x": "f d p", "target": "iu d", "precision?": "f d *"}``. Axes of one name have one
        length, ``*`` is any. An array with ``?`` after its name may be missing.

    Raises
    ------
    StoreError
        If an array is missing or does not fit, or holds numbers that are not finite.
    """
    lengths: dict[str, int] = {}
    for marked, description in wanted.items():
        name = marked.removesuffix("?")
        kinds, *axes = description.split()
        if name not in arrays:
            if name != marked:
                continue
            raise StoreError(f"{place} holds no array {name!r}; {ADVICE}")
        found = arrays[name]
        sizes = dict(zip(axes, found.shape, strict=False))
        fits = len(axes) == found.ndim and found.dtype.kind in kinds
        if not fits or any(lengths.setdefault(axis, size) != size for axis, size in sizes.items()):
            known = ", ".join(f"{axis} = {lengths[axis]}" for axis in axes if axis in lengths)
            raise StoreError(
                f"array {name!r} of {place} must be of kind {kinds} and shape "
                f"({', '.join(axes)}), {known}; it is {found.dtype} of shape {found.shape}"
            )
        lengths.pop("*", None)
        if not np.isfinite(found).all():
            raise StoreError(
                f"array {name!r} of {place} holds values that are not finite; {ADVICE}"
            )
    return lengths


@contextmanager
def restoring(place: Place) -> Iterator[None]:
    """Turn what does not fit, while objects are made of a bundle, into a `StoreError` of its place.

    Raises
    ------
    StoreError
    """
    try:
        yield
    except StoreError:
        raise
    except _MISFITS as error:
        reason = shown(f"{type(error).__name__}: {error}")
        raise StoreError(
            f"{place} does not hold what its reader needs ({reason}); {ADVICE}"
        ) from error
