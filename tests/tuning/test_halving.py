import itertools

import pytest

from sparsegp.tuning import halving
from sparsegp.tuning.halving import best, counts, plan


@pytest.mark.parametrize("max_trials", [*range(1, 60), 100, 999])
def test_trials_add_up(max_trials: int) -> None:
    found = counts(max_trials)
    assert sum(found) == max_trials
    assert len(found) in {1, len(halving.SHARES)}
    assert len(found) == 1 or min(found) >= 2
    assert found == sorted(found, reverse=True)


def test_shares_of_many_trials() -> None:
    assert counts(40) == [20, 10, 5, 5]
    assert counts(8) == [2, 2, 2, 2]
    assert counts(7) == [7]


@pytest.mark.parametrize("n", [5, 60, 2999, 3001, 9000, 12800, 48000, 10**6])
@pytest.mark.parametrize("n_active", [1, 40, 1000, 5000])
def test_rungs_grow_to_the_size_of_the_run(n: int, n_active: int) -> None:
    aside = lambda rows: rows // 10  # noqa: E731 - as TrainSettings.rows_aside
    n_active = min(n_active, n - aside(n))
    rungs = plan(n, n_active, 40, aside)
    assert [rung.count for rung in rungs] == counts(40)
    last = min(n, halving.MOST_ROWS)
    assert (rungs[-1].rows, rungs[-2].rows) == (last, last)
    assert rungs[-1].n_active == min(n_active, halving.MOST_ACTIVE, last - aside(last))
    for before, after in itertools.pairwise(rungs):
        assert before.rows <= after.rows
        assert before.n_active <= after.n_active
    for rung in rungs:
        assert rung.rows >= min(last, halving.LEAST_ROWS)
        assert 1 <= rung.n_active <= rung.rows - aside(rung.rows)


def test_sizes_of_a_large_table() -> None:
    rungs = plan(60000, 1000, 40)
    assert [(rung.rows, rung.n_active) for rung in rungs] == [
        (3000, 188),
        (5333, 334),
        (16000, 1000),
        (16000, 1000),
    ]


def test_few_trials_are_made_on_all_rows() -> None:
    assert plan(60000, 1000, 3) == [halving.Rung(16000, 1000, 3)]


def test_who_goes_on() -> None:
    """Against a plain loop that takes the first of the least ones again and again."""
    scores = [0.5, None, 0.25, 0.5, 0.25, None, 0.125]
    left = {place: float("inf") if s is None else s for place, s in enumerate(scores)}
    expected = []
    while left:
        first = next(place for place in left if left[place] == min(left.values()))
        expected.append(first)
        del left[first]
    assert best(scores) == expected == [6, 2, 4, 0, 3, 1, 5]
    assert best(scores, 3) == expected[:3]
    assert best([]) == []
