"""Descents that are cut short and started again with what they had asked."""

import numpy as np
import pytest

from sparsegp.learning.optimise import STRATEGIES, descend
from sparsegp.learning.record import Record, Recorded
from tests.learning.test_optimise import SITES, START, Quadratic


class CutError(Exception):
    """The end of a process."""


def cut_after(answers: int, record: Record):
    def noted() -> None:
        if len(record) == answers:
            raise CutError

    return noted


@pytest.mark.parametrize("strategy", list(STRATEGIES))
@pytest.mark.parametrize("cuts", [(1,), (4,), (2, 3, 7)])
def test_started_again_it_goes_the_same_way(strategy, cuts):
    expected = descend(Quadratic(), START, SITES, strategy)
    assert expected.evaluations > max(cuts)
    record, asked = Record(), 0
    for cut in cuts:
        problem = Quadratic()
        with pytest.raises(CutError):
            descend(Recorded(problem, record, cut_after(cut, record)), START, SITES, strategy)
        asked += len(problem.asked)
        stored = {name: array.copy() for name, array in record.arrays().items()}
        record = Record.from_arrays(stored)
        assert len(record) == asked == cut  # nothing was asked twice
    problem = Quadratic()
    path = descend(Recorded(problem, record, lambda: None), START, SITES, strategy)
    assert asked + len(problem.asked) == expected.evaluations
    for name, array in expected.arrays().items():
        np.testing.assert_array_equal(path.arrays()[name], array)


def test_answers_to_other_questions_are_forgotten():
    record = Record()
    for i in range(4):
        record.add(np.full(3, i), float(i), np.zeros(3))
    assert record.answer(1, np.full(3, 1.0))[0] == 1.0
    assert record.answer(2, np.full(3, 2.5)) is None
    assert record.values == [0.0, 1.0]
    problem = Quadratic()
    recorded = Recorded(problem, record, lambda: None)
    path = descend(recorded, START, SITES)
    expected = descend(Quadratic(), START, SITES)
    np.testing.assert_array_equal(path.points, expected.points)
    assert len(problem.asked) == len(record) == expected.evaluations


def test_nothing_asked_yet_is_not_nothing_there():
    restored = Record.from_arrays(Record().arrays())
    assert restored is not None
    assert len(restored) == 0
    assert Record.from_arrays({}) is None
