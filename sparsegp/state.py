"""Conversion of the fields of a dataclass to named arrays, and back, to save state.

The type of a field determines how it is saved:

- an array, a number or a flag as an array;
- a dataclass as the arrays of its own fields, under dotted names: ``ascent.point``;
- a list or tuple of numbers, or of arrays of one shape, as one array; of other arrays or of
  dataclasses as their arrays, numbered: ``chains.0.y``;
- an array of strings as an array of their characters: ``classes.text``;
- None is not saved, and a missing array is restored as None if the type allows it;
- anything else as the bytes of a JSON text; objects define ``to_json`` and ``from_json``.

A field with the metadata `UNSAVED` gets its default when restored, as it follows from the others.
"""

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import count, takewhile
from types import MappingProxyType, NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from sparsegp.errors import StoreError

T = TypeVar("T")

UNSAVED = MappingProxyType({"saved": False})
"""Metadata of a field that is not saved."""

TRIANGLES = MappingProxyType({"saved": "triangles"})
"""Metadata of a list of lower triangular matrices (d, d), saved in float32 if that is exact."""

MAX_MAGNITUDE = 1e100
"""Largest absolute value of numbers in a model, so that their products do not overflow."""


def to_arrays(state: Any) -> dict[str, NDArray[Any]]:
    """Return the fields of a dataclass instance as arrays by name."""
    out: dict[str, NDArray[Any]] = {}
    for name, kind, _, packed in _fields(type(state)):
        if (value := getattr(state, name)) is not None:
            out |= {name: _triangles(value)} if packed else _saved(kind, name, value)
    return out


def from_arrays(kind: type[T], arrays: Mapping[str, NDArray[Any]]) -> T:
    """Return the dataclass instance from which `to_arrays` made these arrays.

    Parameters
    ----------
    kind : type
        The dataclass.
    arrays : mapping

    Raises
    ------
    StoreError
        If an array is missing, or does not fit the type of its field.
    """
    values: dict[str, Any] = {}
    try:
        for name, inner, optional, packed in _fields(kind):
            missing = optional and name not in arrays and not _below(name, arrays)
            read = _factors if packed else _restored
            values[name] = None if missing else read(inner, name, arrays)
        return kind(**values)
    except (KeyError, ValueError, TypeError) as error:
        raise StoreError(
            f"saved arrays must hold the fields of {kind.__name__}, found "
            f"{', '.join(sorted(arrays)) or 'none'} ({error}); they are damaged or of another "
            "version: start again"
        ) from error


def require_shapes(
    arrays: Mapping[str, NDArray[Any]], expected: Mapping[str, tuple[int, ...]]
) -> None:
    """Raise a `StoreError` if a saved array is missing or has another shape."""
    for name, shape in expected.items():
        found = arrays[name].shape if name in arrays else "none"
        if found != shape:
            raise StoreError(
                f"array {name} of the checkpoint must have shape {shape}, found {found}; it is "
                "damaged: start again"
            )


def require_numbers(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise a ValueError if numbers of a model are not finite, or are too large."""
    for key, array in arrays.items():
        limited = array.dtype.kind == "f" and not key.startswith(("scaling.", "medians"))
        if limited and not float(np.abs(array).max(initial=0.0)) <= MAX_MAGNITUDE:
            raise ValueError(f"{key} holds values that are not finite, or too large")


def _fields(kind: Any) -> Iterator[tuple[str, Any, bool, bool]]:
    """Yield name and type of each saved field, whether it may be None, and whether `TRIANGLES`."""
    hints = get_type_hints(kind)
    for each in fields(kind):
        if each.metadata != UNSAVED:
            kinds = get_args(hints[each.name])
            optional = NoneType in kinds and len(kinds) == 2
            inner = next(k for k in kinds if k is not NoneType) if optional else hints[each.name]
            yield each.name, inner, optional, each.metadata == TRIANGLES


def _saved(kind: Any, name: str, value: Any) -> dict[str, NDArray[Any]]:
    element = _element(kind)
    if _is_state(kind):
        return {f"{name}.{below}": array for below, array in to_arrays(value).items()}
    if _is_state(element):
        parts = [_saved(element, f"{name}.{i}", each) for i, each in enumerate(value)]
        return {key: array for part in parts for key, array in part.items()}
    if _is_array(element) and len({np.shape(each) for each in value}) > 1:
        return {f"{name}.{i}": np.array(each) for i, each in enumerate(value)}
    if _is_array(kind) or _is_array(element):
        array = np.array(value)
        is_text = array.dtype.kind == "U"
        return {f"{name}.text": array[..., None].view(np.uint32)} if is_text else {name: array}
    text = json.dumps(value, default=lambda each: each.to_json())
    return {name: np.frombuffer(text.encode(), np.uint8)}


def _restored(kind: Any, name: str, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Return the value of a field of type `kind` from the arrays of all fields."""
    element = _element(kind)
    sequence = tuple if get_origin(kind) is tuple else list
    if _is_state(kind):
        return from_arrays(kind, _below(name, arrays))
    if _is_state(element):
        parts = takewhile(bool, (_below(f"{name}.{i}", arrays) for i in count()))
        return sequence(from_arrays(element, part) for part in parts)
    if _is_array(element) and name not in arrays:
        names = takewhile(arrays.__contains__, (f"{name}.{i}" for i in count()))
        return sequence(arrays[each] for each in names)
    if _is_array(element):
        return sequence(_converted(element, each) for each in arrays[name])
    if _is_array(kind):
        text = arrays.get(f"{name}.text")
        return _converted(kind, arrays[name]) if text is None else _text(text)
    value = json.loads(arrays[name].tobytes())
    read = getattr(element or kind, "from_json", lambda each: each)
    return sequence(map(read, value)) if element else read(value)


def _below(name: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a nested dataclass, by the names of its own fields."""
    start = name + "."
    return {key.removeprefix(start): arrays[key] for key in arrays if key.startswith(start)}


def _element(kind: Any) -> Any:
    """Return the element type of a homogeneous list or tuple; None for other types."""
    several = get_origin(kind) in {list, tuple, Sequence} and get_args(kind)[1:] in {(), (...,)}
    return get_args(kind)[0] if several else None


def _is_state(kind: Any) -> bool:
    return is_dataclass(kind) and not hasattr(kind, "from_json")


def _is_array(kind: Any) -> bool:
    return kind in {int, float, bool} or get_origin(kind) in {np.ndarray, NDArray}


def _converted(kind: Any, array: NDArray[Any]) -> Any:
    return kind(array) if kind in {int, float, bool} else array


def _text(characters: NDArray[Any]) -> NDArray[np.str_]:
    if characters.dtype != np.uint32 or characters.max(initial=0) > sys.maxunicode:
        raise ValueError("what should be text holds no characters")
    return np.ascontiguousarray(characters).view(f"U{characters.shape[-1]}")[..., 0]


def _triangles(factors: Sequence[NDArray[Any]]) -> NDArray[Any]:
    packed = np.stack([factor[np.tril_indices(len(factor))] for factor in factors])
    single = packed.astype(np.float32)
    return single if np.array_equal(single, packed) else packed


def _factors(_: Any, name: str, arrays: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    rows, columns = np.tril_indices(math.isqrt(2 * arrays[name].shape[1]))
    factors = np.zeros((len(arrays[name]), rows[-1] + 1, rows[-1] + 1))
    factors[:, rows, columns] = arrays[name]
    return list(factors)
