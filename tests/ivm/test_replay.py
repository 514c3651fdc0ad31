"""Selections of any kind: blocks, threads, messages sent twice and resuming change no bit."""

import pickle
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sparsegp.errors import StoreError
from sparsegp.ivm.active_set import ActiveSet
from sparsegp.ivm.block import RowBlock
from sparsegp.ivm.criteria import Random
from sparsegp.ivm.pairs import PairSet
from tests.ivm.problems import N_ACTIVE, N, bits, candidates, case, on_rings
from tests.processes import environment, start_python


@cache
def whole(name):
    """Return the selection of a case in one go, in one block."""
    selection = case(name).finish()
    assert len(selection.active) == N_ACTIVE
    return selection


@pytest.mark.parametrize("name", ["all scores", "information", "bounded, double", "bounded, panel"])
def test_the_number_of_blocks_changes_no_bit(name):
    """Nor one of batches, with their empty slots. Of what test_runs.py has no kind."""
    selection, other = case(name, n_blocks=4).finish(), whole(name)
    assert pickle.dumps(selection.active.arrays()) == pickle.dumps(other.active.arrays())
    assert_array_equal(candidates(selection), candidates(other))
    assert bits(selection) == bits(other)


OTHER_PROCESSOR = """
from tests.ivm.problems import N_ACTIVE, bits, case
for name in ("bounded", "bounded, panel", "panel"):
    one, other = (case(name, n=1000, n_active=N_ACTIVE, n_blocks=n).finish() for n in (1, 3))
    assert bits(one) == bits(other), name
"""


@pytest.mark.slow
@pytest.mark.parametrize("processor", ["Haswell", "SkylakeX"])
def test_blocks_change_no_bit_on_other_processors(processor):
    """Where OpenBLAS rounds by the place in a tile (Haswell), and where it does not."""
    names = environment() | {"OPENBLAS_CORETYPE": processor}
    process = start_python("-c", OTHER_PROCESSOR, env=names)
    errors = process.communicate()[1]
    if process.returncode < 0:
        pytest.skip(f"this machine cannot do what {processor} can")
    assert process.returncode == 0, errors


class Twice:
    """Sends each message two times and wants the same answer and state."""

    def __init__(self, blocks):
        self.blocks, self.sent = blocks, set()

    def state(self):
        names = ("mean", "variance", "rows", "open", "room")
        return pickle.dumps([[getattr(block, name) for name in names] for block in self.blocks])

    def map_blocks(self, method, *args):
        results = []
        for _ in range(2):
            answers = [getattr(block, method)(*args) for block in self.blocks]
            results.append((pickle.dumps(answers), self.state()))
        assert results[0] == results[1], method
        self.sent.add(method)
        return answers


@pytest.mark.parametrize("name", ["one by one", "per class", "panel", "pairs", "bounded, pairs"])
def test_messages_may_be_sent_twice(name):
    twice = case(name, n_blocks=2, runtime=Twice).finish()
    assert bits(twice) == bits(whole(name))
    expected = {"pairs": {"advance", "include"}, "per class": {"propose", "gather", "advance"}}
    assert expected.get(name, set()) <= twice.blocks.sent


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_batch_cut_short_keeps_its_bits(dtype):
    """Also where a later inclusion has the larger variance, so that elimination would pivot."""
    run = case("random", n_active=16, texts=["linear"], criterion=Random(1), dtype=dtype)
    (batch,) = run.finish().active.included
    within = batch.factor[0]
    assert (np.abs(np.tril(within, -1)).max(axis=0) > within.diagonal()).any()
    for count in (1, 2, 5, 11, 15):
        cut = batch.first(count)
        (seen,), (new,) = run.blocks(), run.blocks()
        seen.propose(batch, batch.rows)
        for block in (seen, new):
            block.include(cut)
        assert_array_equal(seen.array("mean"), new.array("mean"))
        assert_array_equal(seen.array("stub"), new.array("stub"))


@pytest.mark.parametrize("name", ["per class", "pairs"])
def test_messages_for_another_state_are_refused(name):
    (block,) = case(name).blocks()
    first, second, third = whole(name).active.included[:3]
    block.include(first)
    with pytest.raises(RuntimeError, match=f"holds {first.stop} inclusions, not {second.stop}"):
        block.include(third)
    with pytest.raises(RuntimeError, match="inclusions, not"):
        block.advance(None, second.stop, *([1] if name == "per class" else []))
    block.include(second)
    state = block.mean.copy()
    block.include(first)  # an old message that comes again
    assert_array_equal(block.mean, state)


@pytest.mark.parametrize("name", ["per class", "bounded", "bounded, pairs"])
def test_restart_brings_all_rows_back(name):
    """Inclusions come without the proposals that they had, of which a block keeps the columns."""
    run = case(name)
    selection = run.finish()
    (block,) = selection.blocks.blocks
    block.restart(run.kernels, run.rule)
    assert block.open.sum() == block.marginal_metrics().rows == N
    for method, args in selection.active.recovery():
        getattr(block, method)(*args)
    assert bits(selection) == bits(whole(name))


def test_a_selection_goes_on_after_it_was_finished():
    run = case("bounded")
    selection = run.begin()
    for stop in (5, 7):
        while len(selection.active) < stop:
            selection.round(stop)
    assert_array_equal(run.finish(selection).active.rows, whole("bounded").active.rows)


def test_arrays_that_do_not_fit_are_refused():
    arrays = whole("per class").active.arrays()
    with pytest.raises(StoreError, match="do not add up"):
        ActiveSet.from_arrays({**arrays, "rows": arrays["rows"][:-1]}, 8)
    with pytest.raises(StoreError, match="do not add up"):
        ActiveSet.from_arrays(arrays, int(arrays["counts"].max()) - 1)
    arrays = whole("pairs").active.arrays()
    with pytest.raises(StoreError, match="factors have"):
        PairSet.from_arrays({**arrays, "factor": arrays["factor"][:-1]})


def test_random_rows_are_the_same_whatever_the_order_of_inclusion():
    one, ahead, panel, other = (
        on_rings(N, ["rbf(1.0)"], 64, lookahead, panel, Random(seed)).finish().active.rows
        for lookahead, panel, seed in ((1, 1, 2), (8, 1, 2), (1, 16, 2), (8, 1, 3))
    )
    assert one.tolist() == ahead.tolist()
    assert sorted(one.tolist()) == sorted(panel.tolist())
    assert len(np.intersect1d(other, one)) < 15


def test_blocks_start_at_whole_tiles():
    run = on_rings(10, ["rbf(1.0)"], 2)
    with pytest.raises(ValueError, match="multiple of 256, got 100"):
        RowBlock(run.settings, run.X, run.target, 100, None)
