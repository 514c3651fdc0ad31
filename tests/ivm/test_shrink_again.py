"""Randomised greedy selection: resumed, begun again, and with rows that are no candidates."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sparsegp.ivm.active_set import ActiveSet
from sparsegp.ivm.block import RowBlock
from sparsegp.ivm.shrink import Keep
from tests.ivm.shrinking import N_ACTIVE, N, candidates, cases, held

# -- what is remembered ------------------------------------------------------------------------


@cases
def test_new_blocks_reach_the_same_bits_by_what_is_remembered(make, case):
    run = make(case, n_blocks=2)
    selection = run.finish()
    stored = {name: values.copy() for name, values in selection.active.arrays().items()}
    again = run.begin(ActiveSet.from_arrays(stored, run.order.slots))
    assert again.active.kept == selection.active.kept
    for mine, other in zip(held(again), held(selection), strict=True):
        assert_array_equal(mine, other)
    assert_array_equal(candidates(again), candidates(selection))


@pytest.mark.parametrize("case", ["lookahead", "panel", "per class"])
def test_a_resumed_selection_is_the_one_that_never_stopped(make, case):
    run = make(case, n_blocks=2)
    whole = run.finish()
    for stop in (1, 15, 23, 45):
        begun = run.begin()
        while len(begun.active) < stop:
            begun.round(N_ACTIVE)
        stored = begun.active.arrays()
        resumed = run.begin(ActiveSet.from_arrays(stored, run.order.slots))
        while len(resumed.active) < N_ACTIVE:
            resumed.round(N_ACTIVE)
        assert resumed.active.kept == whole.active.kept
        assert_array_equal(resumed.active.rows, whole.active.rows)
        for mine, other in zip(held(resumed), held(whole), strict=True):
            assert_array_equal(mine, other)


class Twice:
    """Sends every message two times and wants the same answer and state."""

    def __init__(self, blocks):
        self.blocks, self.sent = blocks, set()

    def map_blocks(self, method, *args):
        states, answers = [], []
        for _ in range(2):
            answers.append([getattr(block, method)(*args) for block in self.blocks])
            states.append([block.state_digest() for block in self.blocks])
            states[-1] += [block.rows[block.open].tobytes() for block in self.blocks]
            states[-1] += [block.room for block in self.blocks]
        assert states[0] == states[1], method
        if method in {"count", "tally"}:
            assert_array_equal(*answers)
        self.sent.add(method)
        return answers[0]


@cases
def test_every_message_may_come_twice(make, case):
    once, twice = make(case, n_blocks=2).finish(), make(case, n_blocks=2, runtime=Twice).finish()
    assert_array_equal(twice.active.rows, once.active.rows)
    assert twice.active.kept == once.active.kept
    assert {"count", "tally", "keep"} <= twice.blocks.sent


def test_restart_brings_all_rows_back(make):
    run = make("lookahead")
    selection = run.finish()
    (block,) = selection.blocks.blocks
    before = held(selection)
    block.restart(run.kernels, run.settings.rule)
    assert block.count(0) == N
    assert block.marginal_metrics().rows == N
    for batch_or_keep in selection.active.recovery():
        getattr(block, batch_or_keep[0])(*batch_or_keep[1])
    for mine, other in zip(held(selection), before, strict=True):
        assert_array_equal(mine, other)


# -- rows that are no candidates ----------------------------------------------------------------


def test_held_out_rows_follow_and_validation_rows_leave(make):
    run, free = make("lookahead"), make("lookahead", bound=None)
    validation = np.arange(N) % 10 == 3
    (first,) = run.finish().active.kept[:1]
    block = RowBlock(run.settings, run.X, run.target, 0, validation=validation)
    block.keep(Keep(0, 15))
    assert block.count(0) == N - validation.sum()
    assert not validation[block.rows[block.open]].any()
    mine, other = (RowBlock(p.settings, run.X, run.target, 0, held_out=True) for p in (run, free))
    selection = run.finish()
    for method, args in selection.active.recovery():
        getattr(mine, method)(*args)
        if method == "include":
            other.include(*args)
    assert mine.marginal_metrics().rows == other.marginal_metrics().rows == N
    assert mine.marginal_metrics().log_z == pytest.approx(other.marginal_metrics().log_z, rel=1e-5)
    assert_allclose(mine.array("mean"), other.array("mean"), rtol=1e-3, atol=1e-3)
    assert first.room == 15
