"""State saved as arrays and read back; types of fields that every model has are in test_runs.py."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sparsegp.errors import StoreError
from sparsegp.state import from_arrays, to_arrays
from sparsegp.types import Doubles


@dataclass(frozen=True)
class Inner:
    point: Doubles
    note: str = "here"


@dataclass
class Outer:
    number: int
    share: float
    flag: bool
    inner: Inner
    grid: NDArray[Any]
    values: list[float] = field(default_factory=list)
    steps: tuple[Doubles, ...] = ()
    chains: Sequence[Inner] = field(default_factory=list)
    other: Inner | None = None
    notes: dict[str, Any] = field(default_factory=dict)


FULL = Outer(
    number=2**62 + 1,
    share=float(np.nextafter(0.1, 1)),
    flag=True,
    inner=Inner(np.arange(3.0), "a.b\n"),
    grid=np.array([[1, 2]], np.int16),
    values=[0.1, -np.inf],
    steps=(np.ones(2), np.zeros(2)),
    chains=[Inner(np.full(k, 0.5)) for k in range(12)],
    other=Inner(np.ones(1)),
    notes={"a": [1, None], "b": {"c": "text"}},
)
EMPTY = Outer(0, float("nan"), False, Inner(np.empty((0, 4))), np.empty(0, bool))


@pytest.mark.parametrize("state", [FULL, EMPTY], ids=["full", "empty"])
def test_comes_back_the_same(state):
    arrays = to_arrays(state)
    assert all(isinstance(array, np.ndarray) for array in arrays.values())
    again = from_arrays(Outer, arrays)
    assert repr(again) == repr(state)
    assert again.grid.dtype == state.grid.dtype


@pytest.mark.parametrize("name", ["number", "inner.point", "notes"])
def test_what_is_missing_or_damaged_is_refused(name):
    arrays = to_arrays(FULL)
    with pytest.raises(StoreError, match="must hold the fields of"):
        from_arrays(Outer, {key: arrays[key] for key in arrays if key != name})
    with pytest.raises(StoreError, match="must hold the fields of Outer"):
        from_arrays(Outer, arrays | {"notes": np.zeros(3, np.uint8)})
