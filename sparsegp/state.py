"""Saving state: the fields of a dataclass as named arrays, and back.

What becomes of a field follows from its type:

- an array, a number or a flag is an array;
- a dataclass gives the arrays of its own fields, under dotted names: ``ascent.point``;
- a list or tuple of numbers, or of arrays of one shape, is one array; of other arrays and of
  dataclasses it is their arrays, under numbers: ``chains.0.y``;
- an array of texts is one of their characters: ``classes.text``;
- None is left out, and what is missing is None where the type allows it;
- anything else is JSON text, as bytes; objects take part by ``to_json`` and ``from_json``.

A field with the metadata `UNSAVED` has a default, which it takes again: it follows from the others.
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
"""Metadata of a field that is not part of what is saved."""

TRIANGLES = MappingProxyType({"saved": "triangles"})
"""Metadata of a list of lower triangular matrices (d, d), which are saved in single precision."""

GREATEST = 1e100
"""Of the numbers in a model, so that no product of them overflows."""


def to_arrays(state: Any) -> dict[str, NDArray[Any]]:
    """Return the fields of an instance of a dataclass as arrays by their names."""
    out: dict[str, NDArray[Any]] = {}
    for name, kind, _, is_triangles in _fields(type(state)):
        value, element = getattr(state, name), _element(kind)
        parts: dict[str, Any] = {}
        if value is None:
            continue
        if is_triangles:
            packed = np.stack([factor[np.tril_indices(len(factor))] for factor in value])
            out[name] = packed.astype(np.float32)
        elif _is_state(kind):
            parts = {name: value}
        elif _is_state(element):
            parts = {f"{name}.{i}": each for i, each in enumerate(value)}
        elif _is_array(element) and len({np.shape(each) for each in value}) > 1:
            out |= {f"{name}.{i}": np.array(each) for i, each in enumerate(value)}
        elif _is_array(kind) or _is_array(element):
            array = np.array(value)
            if array.dtype.kind == "U":
                characters = array[..., np.newaxis].view(np.uint32)
                out[f"{name}.text"] = characters
            else:
                out[name] = array
        else:
            text = json.dumps(value, default=lambda each: each.to_json())
            out[name] = np.frombuffer(text.encode(), np.uint8)
        for above, part in parts.items():
            out |= {f"{above}.{below}": array for below, array in to_arrays(part).items()}
    return out


def from_arrays(kind: type[T], arrays: Mapping[str, NDArray[Any]]) -> T:
    """Return the instance of a dataclass of which `to_arrays` has made these arrays.

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
        for name, inner, optional, is_triangles in _fields(kind):
            missing = optional and name not in arrays and not _below(name, arrays)
            read = _triangles if is_triangles else _value
            values[name] = None if missing else read(inner, name, arrays)
        return kind(**values)
    except (KeyError, ValueError, TypeError) as error:
        raise StoreError(
            f"saved arrays must hold the fields of {kind.__name__}, found "
            f"{', '.join(sorted(arrays)) or 'none'} ({error}); they are damaged or of another "
            "version: start anew"
        ) from error


def _fields(kind: Any) -> Iterator[tuple[str, Any, bool, bool]]:
    """Yield name, type when it is not None, whether it may be None, and is of triangles."""
    hints = get_type_hints(kind)
    for each in fields(kind):
        if each.metadata != UNSAVED:
            kinds = get_args(hints[each.name])
            optional = NoneType in kinds and len(kinds) == 2
            inner = next(k for k in kinds if k is not NoneType) if optional else hints[each.name]
            yield each.name, inner, optional, each.metadata == TRIANGLES


def _value(kind: Any, name: str, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Return the value of a field from the arrays of all fields."""
    if _is_state(kind):
        return from_arrays(kind, _below(name, arrays))
    if _is_array(kind):
        return _converted(kind, name, arrays)
    if (element := _element(kind)) is not None:
        sequence = tuple if get_origin(kind) is tuple else list
        return sequence(_elements(element, name, arrays))
    value = json.loads(arrays[name].tobytes())
    return kind.from_json(value) if hasattr(kind, "from_json") else value


def _triangles(_: Any, name: str, arrays: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """Return lower triangular matrices (d, d)."""
    rows, columns = np.tril_indices(math.isqrt(2 * arrays[name].shape[1]))
    full = np.zeros((len(arrays[name]), rows[-1] + 1, rows[-1] + 1))
    full[:, rows, columns] = arrays[name]
    return list(full)


def _elements(kind: Any, name: str, arrays: Mapping[str, NDArray[Any]]) -> Iterator[Any]:
    """Yield the values of a list or tuple."""
    if _is_state(kind):
        parts = takewhile(bool, (_below(f"{name}.{i}", arrays) for i in count()))
        yield from (from_arrays(kind, part) for part in parts)
    elif not _is_array(kind):
        values = json.loads(arrays[name].tobytes())
        yield from (kind.from_json(each) if hasattr(kind, "from_json") else each for each in values)
    elif name in arrays:
        yield from (_converted(kind, name, {name: each}) for each in arrays[name])
    else:
        names = takewhile(arrays.__contains__, (f"{name}.{i}" for i in count()))
        yield from (arrays[each] for each in names)


def _below(name: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a nested state, by the names of its own fields."""
    start = name + "."
    return {key.removeprefix(start): arrays[key] for key in arrays if key.startswith(start)}


def _element(kind: Any) -> Any:
    """Return the type of the elements of a list or tuple, where all are of one."""
    several = get_origin(kind) in {list, tuple, Sequence} and get_args(kind)[1:] in {(), (...,)}
    return get_args(kind)[0] if several else None


def _is_state(kind: Any) -> bool:
    return is_dataclass(kind) and not hasattr(kind, "from_json")


def _is_array(kind: Any) -> bool:
    return kind in {int, float, bool} or get_origin(kind) is np.ndarray


def _converted(kind: Any, name: str, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Return an array or a number."""
    if (text := arrays.get(f"{name}.text")) is not None:
        if text.dtype != np.uint32 or text.max(initial=0) > sys.maxunicode:
            raise ValueError(f"{name} holds what is no text")
        return np.ascontiguousarray(text).view(f"U{text.shape[-1]}")[..., 0]
    return kind(arrays[name]) if kind in {int, float, bool} else arrays[name]
