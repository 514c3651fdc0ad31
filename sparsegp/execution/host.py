"""The worker's side: one actor per worker that holds all blocks of that worker.

Messages and answers travel as bytes that both sides pickle themselves. An exception of a block is
part of an answer, so whatever the transport raises is a failure of the transport; and a message
that cannot be pickled or unpickled is an error of its sender, not a lost worker.
"""

import contextlib
import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from sparsegp.execution.inputs import SingleThreadedBLAS, compute_inputs, is_lazy
from sparsegp.execution.memory import Room


@dataclass(frozen=True)
class Answer:
    """What a host answers: the answers of its blocks, or the exception one of them raised.

    Parameters
    ----------
    values : list
        In the order of the blocks that were asked.
    error : Exception or None
        What a block raised, if one did.
    index : int
        The block that raised it.
    """

    values: list[Any]
    error: Exception | None = None
    index: int = -1


def pack(value: Any) -> bytes:
    """Pickle `value`, by value where it cannot be imported elsewhere."""
    packed = b"__main__"
    with contextlib.suppress(Exception):
        packed = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    if b"__main__" in packed[:1000]:
        packed = cloudpickle.dumps(value)
    return packed


def pack_part(factory: Callable[..., Any], inputs: dict[str, Any]) -> bytes:
    """Pickle a factory and the inputs of one block, with only the tasks that they need."""
    from dask.base import optimize  # noqa: PLC0415 - a worker imports this module too
    from distributed.client import futures_of  # noqa: PLC0415

    lazy = {name: value for name, value in inputs.items() if is_lazy(value)}
    persisted = bool(futures_of(list(lazy.values())))  # type: ignore[no-untyped-call]
    if lazy and not persisted:  # to cull a graph would lose its references to persisted data
        culled = optimize(*lazy.values())  # type: ignore[no-untyped-call]
        lazy = dict(zip(lazy, culled, strict=True))
    packed: bytes = cloudpickle.dumps((factory, inputs | lazy, persisted))
    return packed


class Host:
    """Holds the blocks of one worker. Its methods are called one at a time."""

    def __init__(self) -> None:
        self._blocks: dict[int, Any] = {}
        self._blas = SingleThreadedBLAS()
        self._blas.limit()

    def reset(self) -> None:
        """Drop all blocks."""
        self._blocks.clear()

    def drop(self, indices: list[int]) -> None:
        """Drop some blocks."""
        for index in indices:
            self._blocks.pop(index, None)

    def room(self) -> bytes:
        """Return what memory this process may take, before Dask pauses it."""
        from dask import config  # noqa: PLC0415 - a driver imports this module too
        from distributed import get_worker  # noqa: PLC0415

        worker: Any = get_worker()
        limit, rules = worker.memory_manager.memory_limit, config.get("distributed.worker.memory")
        shares = [rules.get(action) or 1.0 for action in ("pause", "terminate")]
        name = f"worker {worker.address}"
        return pack(Answer([Room.of_this_process(name, limit and int(min(shares) * limit))]))

    def build(self, index: int, packed: bytes) -> bytes:
        """Build one block; its lazy inputs are computed here."""
        self._blocks.pop(index, None)
        try:
            factory, inputs, persisted = pickle.loads(packed)
            del packed
            compute = _compute_persisted if persisted else compute_inputs
            self._blocks[index] = factory(**compute(inputs))
        except Exception as error:
            return pack(Answer([], portable(error), index))
        self._blas.limit()  # the block may have loaded another BLAS
        return pack(Answer([None]))

    def call(self, packed: bytes, indices: list[int], keep: bool = True) -> bytes:
        """Call one method on some blocks; without `keep` their answers are left here."""
        values, index = [], indices[0]
        try:
            method, args = pickle.loads(packed)
            for index in indices:
                value = getattr(self._blocks[index], method)(*args)
                values.append(value if keep else None)
            return pack(Answer(values))
        except Exception as error:
            return pack(Answer([], portable(error), index))

    def total(self, packed: bytes, indices: list[int]) -> bytes:
        """Call one method on some blocks, and return the sum of their answers."""
        value, index = None, indices[0]
        try:
            method, args = pickle.loads(packed)
            for index in indices:
                found = getattr(self._blocks[index], method)(*args)
                value = found if value is None else value + found
            return pack(Answer([value]))
        except Exception as error:
            return pack(Answer([], portable(error), index))


def _compute_persisted(inputs: dict[str, Any]) -> dict[str, Any]:
    """Replace collections that refer to data held by workers by their values."""
    from distributed import get_client, get_worker  # noqa: PLC0415

    lazy = {name: value for name, value in inputs.items() if is_lazy(value)}
    client: Any = get_client()
    futures = client.compute(
        list(lazy.values()), workers=[get_worker().address], allow_other_workers=True
    )
    return inputs | {name: future.result() for name, future in zip(lazy, futures, strict=True)}


def portable(error: Exception) -> Exception:
    """Return an exception that survives pickling, with the traceback of this process as a note."""
    trace = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pack(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(f"on the worker:\n{trace.rstrip()}")
    return error
