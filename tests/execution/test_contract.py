"""What every runtime does."""

import pickle
from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest
from dask.delayed import delayed

from sparsegp.execution import Part
from sparsegp.execution.base import Runtime
from tests.execution.blocks import Tally, parts


def test_answers_come_in_block_order(runtime: Runtime) -> None:
    for n_blocks in (5, 1, 8):
        runtime.build(Tally, parts(n_blocks))
        assert runtime.n_blocks == n_blocks
        assert runtime.map_blocks("name") == [f"block {index}" for index in range(n_blocks)]
        assert runtime.map_blocks("name", "part")[-1] == f"part {n_blocks - 1}"


def test_one_block_is_called_alone(runtime: Runtime) -> None:
    runtime.build(Tally, parts(3))
    assert runtime.call_block(1, "add", 1) == runtime.call_block(1, "add", 1)
    assert runtime.call_block(0, "name") == "block 0"
    with pytest.raises(IndexError, match="no block 3; blocks are 0 to 2"):
        runtime.call_block(3, "name")


def test_repeated_message_changes_nothing(runtime: Runtime) -> None:
    runtime.build(Tally, parts(4))
    assert runtime.map_blocks("add", 1) == runtime.map_blocks("add", 1)
    assert runtime.map_blocks("add", 2) == runtime.map_blocks("add", 2)


@pytest.mark.parametrize("kind", [ValueError, OSError, RuntimeError, TimeoutError])
def test_exceptions_reach_the_caller_as_themselves(runtime: Runtime, kind: type[Exception]) -> None:
    runtime.build(Tally, parts(4))
    with pytest.raises(kind, match="from 2") as caught:
        runtime.map_blocks("fail", kind, 2)
    assert any("raised by block 2 in fail" in note for note in caught.value.__notes__)
    with pytest.raises(kind, match="from 0"):
        runtime.map_blocks("fail", kind)
    assert runtime.map_blocks("fail", kind, 9) == ["well"] * 4


def test_unknown_method_and_failing_construction(runtime: Runtime) -> None:
    runtime.build(Tally, parts(2))
    with pytest.raises(AttributeError, match="vanish"):
        runtime.map_blocks("vanish")
    with pytest.raises(TypeError, match="colour"):
        runtime.build(Tally, [Part(0, {"index": 0, "colour": "red"})])
    assert runtime.n_blocks == 0


def test_parts_must_be_numbered(runtime: Runtime) -> None:
    with pytest.raises(ValueError, match=r"numbered 0, 1, 2, ... in order, found \[1\]"):
        runtime.build(Tally, [Part(1)])


def test_lazy_inputs_become_values(runtime: Runtime) -> None:
    X = da.arange(12.0, chunks=4)
    lazy = [
        Part(index, {"index": delayed(int)(index), "rows": X.blocks[index]}) for index in range(3)
    ]
    runtime.build(Tally, lazy)
    expected = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(runtime.map_blocks("values"), expected)


def test_arrays_in_memory_are_cut_to_their_chunk(runtime: Runtime) -> None:
    rows = np.random.default_rng(0).normal(size=12)
    X = da.from_array(rows, chunks=6)
    runtime.build(Tally, [Part(k, {"index": k, "rows": X.blocks[k]}) for k in range(2)])
    np.testing.assert_array_equal(np.concatenate(runtime.map_blocks("values")), rows)


def test_factory_may_carry_arguments(runtime: Runtime) -> None:
    runtime.build(partial(Tally, rows=np.ones(3)), parts(2))
    np.testing.assert_array_equal(runtime.map_blocks("values"), np.ones((2, 3)))


def test_blocks_are_shown_as_dask_arrays(runtime: Runtime) -> None:
    runtime.build(partial(Tally, rows=np.ones(3)), parts(4))
    pieces = [da.from_delayed(piece, (3,), float) for piece in runtime.as_dask("values")]
    total = da.concatenate(pieces).sum()
    for scheduler in ("threads", "synchronous"):
        assert dask.compute(total, scheduler=scheduler) == (12.0,)


def test_blas_has_one_thread(runtime: Runtime) -> None:
    runtime.build(Tally, parts(2))
    for threads in runtime.map_blocks("blas_threads"):
        assert set(threads) == {1}


def test_a_runtime_stays_in_its_process(runtime: Runtime) -> None:
    with pytest.raises(TypeError, match="cannot leave its process"):
        pickle.dumps(runtime)


def test_describe(runtime: Runtime) -> None:
    n = runtime.n_workers  # some may have been lost, or started, in other tests
    assert f"{n} worker" in runtime.describe() or f"{n} thread" in runtime.describe()


def test_all_runtimes_give_the_same_numbers(
    thread_runtime: Runtime, local_runtime: Runtime, tcp_runtime: Runtime
) -> None:
    answers = []
    for each in (thread_runtime, local_runtime, tcp_runtime):
        each.build(partial(Tally, rows=np.zeros(5)), parts(3))
        answers.append([each.map_blocks("add", step) for step in (1, 2, 3)])
    assert answers[0] == answers[1] == answers[2]
