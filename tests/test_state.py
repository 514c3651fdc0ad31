"""State of every type of field, saved as arrays and read back."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from sparsegp.errors import StoreError
from sparsegp.likelihoods import Likelihood, Probit
from sparsegp.state import UNSAVED, from_arrays, to_arrays
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
    chains: Sequence[Inner] = ()
    start: Doubles | None = None
    other: Inner | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    likelihood: Likelihood | None = None
    cache: Any = field(default=None, metadata=UNSAVED)


FULL = Outer(
    number=2**62 + 1,
    share=float(np.nextafter(0.1, 1)),
    flag=True,
    inner=Inner(np.arange(3.0), "a.b\n"),
    grid=np.array([[1, 2]], np.int16),
    values=[0.1, -np.inf],
    steps=(np.ones(2), np.zeros(2)),
    chains=[Inner(np.full(k, 0.5)) for k in range(12)],
    start=np.empty((0, 4)),
    other=Inner(np.ones(1)),
    notes={"a": [1, None], "b": {"c": "text"}},
    likelihood=Probit(0.25),
    cache=object(),
)
EMPTY = Outer(0, float("nan"), False, Inner(np.empty(0)), np.empty(0, bool))


@pytest.mark.parametrize("state", [FULL, EMPTY], ids=["full", "empty"])
def test_comes_back_the_same(state):
    arrays = to_arrays(state)
    assert all(isinstance(array, np.ndarray) for array in arrays.values())
    again = from_arrays(Outer, arrays)
    assert again.cache is None
    again.chains = [replace(each) for each in again.chains]
    assert_array_equal(again.grid, state.grid)
    assert again.grid.dtype == state.grid.dtype
    assert repr(again) == repr(replace(state, cache=None, chains=list(state.chains)))
    assert isinstance(again.steps, tuple)


@pytest.mark.parametrize("name", ["number", "inner.point", "notes"])
def test_what_is_missing_or_damaged_is_refused(name):
    arrays = to_arrays(FULL)
    with pytest.raises(StoreError, match="must hold the fields of"):
        from_arrays(Outer, {key: arrays[key] for key in arrays if key != name})
    with pytest.raises(StoreError, match="must hold the fields of Outer"):
        from_arrays(Outer, arrays | {"notes": np.zeros(3, np.uint8)})
