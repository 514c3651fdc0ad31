"""What a run has to remember is enough, and messages may come twice."""

from dataclasses import fields, is_dataclass

import numpy as np
import pytest

from sparsegp.errors import StoreError
from sparsegp.ivm.active_set import ActiveSet
from sparsegp.ivm.criteria import Random
from sparsegp.kernels import parse

CASES = {
    "shared": (["3*rbf(1.2)"], 16, 1),
    "shared, unequal variances": (["20*linear"], 32, 1),
    "per class": (["3*rbf(1.5)", "matern32(1.0) + 0.2", "0.5*linear + rbf(2.0)"], 8, 1),
    "panel": (["2*linear + rbf(1.0)"], 1, 16),
    "panel, per class": (["3*rbf(1.5)", "matern32(1.0) + 0.2", "linear"], 1, 8),
    "one by one": (["3*rbf(1.5)"], 1, 1),
}
N_ACTIVE = 100


def uneven(rings):
    """Rows of very different norm: later inclusions can have the larger variance."""
    X, target = rings(700, seed=4)
    norm = np.exp(np.random.default_rng(4).normal(size=(700, 1)))
    return X * norm, target


@pytest.fixture(params=list(CASES))
def run(request, problem, rings):
    texts, lookahead, panel = CASES[request.param]
    dtype = np.float64 if request.param == "shared" else np.float32
    X, target = uneven(rings)
    kernels = [parse(text) for text in texts]
    return problem(X.astype(dtype), target, kernels, N_ACTIVE, lookahead, panel, n_blocks=2)


def digests(selection):
    stub = [
        block.array("stub", c).tobytes()
        for block in selection.blocks.blocks
        for c in range(len(block.settings.kernels))
    ]
    return selection.blocks.map_blocks("state_digest"), stub


def stored(active, slots):
    """The active set as it comes back from a checkpoint."""
    arrays = {name: values.copy() for name, values in active.arrays().items()}
    return ActiveSet.from_arrays(arrays, slots)


def same(one, other):
    """Deep equality, to the last bit."""
    if is_dataclass(one):
        return type(one) is type(other) and all(
            same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one)
        )
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and np.array_equal(one, other)
    return one == other


def test_a_stored_active_set_is_the_same(run):
    active = run.finish().active
    again = stored(active, run.order.slots)
    assert same(active.batches, again.batches)
    assert same(active.arrays(), again.arrays())


def test_new_blocks_reach_the_same_bits_by_the_messages_of_recovery(run):
    selection = run.finish()
    replayed = run.begin(stored(selection.active, run.order.slots))
    assert digests(replayed) == digests(selection)
    assert [name for name, _ in replayed.blocks.messages[: len(selection.active.batches)]] == [
        "include"
    ] * len(selection.active.batches)


def test_a_resumed_selection_is_the_one_that_never_stopped(run):
    whole = run.begin()
    boundaries = []
    while len(whole.active) < N_ACTIVE:
        whole.round(N_ACTIVE)
        boundaries.append(len(whole.active))
    wanted = digests(whole)
    stops = boundaries[:-1]
    for stop in stops[1 :: max(1, len(stops) // 3)]:
        begun = run.begin()
        while len(begun.active) < stop:
            begun.round(N_ACTIVE)
        assert len(begun.active) == stop
        resumed = run.finish(run.begin(stored(begun.active, run.order.slots)))
        assert resumed.active.rows.tolist() == whole.active.rows.tolist()
        assert same(resumed.active.batches, whole.active.batches)
        assert digests(resumed) == wanted


def test_a_selection_goes_on_after_it_was_finished(problem, rings):
    X, target = uneven(rings)
    run = problem(X, target, [parse("3*rbf(1.5)")], 40)
    selection = run.begin()
    for stop in (10, 11, 40):
        while len(selection.active) < stop:
            selection.round(stop)
    assert selection.active.rows.tolist() == run.finish().active.rows.tolist()


class Twice:
    """Sends every message two times and wants the same answer and state."""

    def __init__(self, blocks):
        self.blocks = blocks
        self.sent = set()

    def map_blocks(self, method, *args):
        answers, states = [], []
        for _ in range(2):
            answers.append([getattr(block, method)(*args) for block in self.blocks])
            states.append([block.state_digest() for block in self.blocks])
            states[-1] += [block.array("stub").tobytes() for block in self.blocks]
            states[-1] += [block.open.tobytes() for block in self.blocks]
        assert same(*answers), method
        assert states[0] == states[1], method
        self.sent.add(method)
        return answers[0]


def test_every_message_may_come_twice(run):
    once = run.finish()
    run.runtime = Twice
    twice = run.finish()
    assert twice.active.rows.tolist() == once.active.rows.tolist()
    assert same(twice.active.batches, once.active.batches)
    assert [b.state_digest() for b in twice.blocks.blocks] == digests(once)[0]
    twice.blocks.map_blocks("marginal_metrics")
    twice.blocks.map_blocks("fingerprint")
    assert ("gather" in twice.blocks.sent) == (run.order.slots > 1)
    assert ("propose" in twice.blocks.sent) == (run.lookahead > 1)


def test_a_batch_is_included_with_or_without_its_proposal(run):
    """A rebuilt block has not seen the proposal, of which its neighbour keeps the columns."""
    selection = run.finish()
    blocks = run.blocks()
    proposed = run.blocks()
    for batch in selection.active.batches:
        for block in proposed:
            block.propose(batch, batch.rows)
        for block in [*blocks, *proposed]:
            block.include(batch)
    wanted = selection.blocks.map_blocks("state_digest")
    assert [block.state_digest() for block in blocks] == wanted
    assert [block.state_digest() for block in proposed] == wanted


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_batch_cut_short_keeps_its_bits(problem, rings, dtype):
    """Also where a later inclusion has the larger variance, so that elimination would pivot."""
    X, target = uneven(rings)
    run = problem(X.astype(dtype), target, [parse("linear")], 16, 16, criterion=Random(1))
    (whole,) = run.finish().active.batches
    within = whole.factor[0]
    assert (np.abs(np.tril(within, -1)).max(axis=0) > within.diagonal()).any()
    for count in (1, 2, 3, 5, 8, 11, 13, 15):
        cut = whole.first(count)
        (seen,), (new,) = run.blocks(), run.blocks()
        seen.propose(whole, whole.rows)
        for block in (seen, new):
            block.include(cut)
        assert seen.state_digest() == new.state_digest()
        assert seen.array("stub").tobytes() == new.array("stub").tobytes()


def test_messages_for_another_state_are_refused(problem, rings):
    X, target = rings(300)
    run = problem(X, target, [parse("rbf(1.0)")], 30, lookahead=4)
    selection = run.begin()
    for _ in range(3):
        selection.round(30)
    first, second, third = selection.active.batches[:3]
    (block,) = run.blocks()
    block.include(first)
    held = first.stop
    with pytest.raises(RuntimeError, match=f"at 0 holds {held} inclusions, not {second.stop}"):
        block.include(third)
    with pytest.raises(RuntimeError, match="inclusions, not"):
        block.propose(third, third.rows)
    with pytest.raises(RuntimeError, match="inclusions, not"):
        block.advance(None, second.stop, 1)
    block.include(second)
    with pytest.raises(RuntimeError, match="inclusions, not"):
        block.propose(first, first.rows)
    state = block.state_digest()
    block.include(first)  # an old message that comes again
    assert block.state_digest() == state


def test_an_active_set_has_no_gaps(problem, rings):
    X, target = rings(300)
    active = problem(X, target, [parse("rbf(1.0)")], 12, lookahead=4).finish().active
    other = ActiveSet()
    assert len(other) == 0
    assert other.rows.tolist() == []
    with pytest.raises(ValueError, match=f"starts at {active.batches[1].start}"):
        other.append(active.batches[1])


def test_arrays_that_do_not_fit_are_refused(problem, rings):
    X, target = rings(300)
    active = problem(X, target, [parse("rbf(1.0)")], 12, lookahead=4).finish().active
    arrays = active.arrays()
    with pytest.raises(StoreError, match="do not add up"):
        ActiveSet.from_arrays({**arrays, "rows": arrays["rows"][:-1]}, 4)
    with pytest.raises(StoreError, match="do not add up"):
        ActiveSet.from_arrays(arrays, int(arrays["counts"].max()) - 1)
