"""The grid of kernels that are tried, and the order in which they come up."""

import itertools

import numpy as np
import pytest

from sparsegp.kernels import parse
from sparsegp.learning.space import FACTORS, FAMILIES, SIZES, VARIANCES, Candidates, Point, spread

SCALE = np.array([1.0, 1.0, 0.5, 0.0])
LENGTH = np.sqrt(2.5 / 2)  # the rule of Kernel.fill


@pytest.mark.parametrize("point", [Point(0, 2, 3), Point(1, 0, 0), Point(2, 7, 6)])
def test_kernel_of_a_point(point: Point) -> None:
    number, rest = str(point.kernel(SCALE)).split("*")
    assert float(number) == VARIANCES[point.variance]
    assert rest.startswith(FAMILIES[point.family])
    length = np.exp(parse(rest).parameters()[0])
    assert length == pytest.approx(LENGTH * FACTORS[point.factor], rel=1e-5)


def test_every_beginning_covers_the_grid() -> None:
    points = spread(0)
    assert sorted(points) == [Point(*place) for place in itertools.product(*map(range, SIZES))]
    for axis, size in enumerate(SIZES):
        seen = np.unique([point[axis] for point in points[:21]], return_counts=True)[1]
        assert len(seen) >= size - 1
        assert seen.max() <= 2 * 21 / size + 1
    assert points == spread(0)
    assert points != spread(1)


def test_the_kernel_of_the_settings_comes_first_and_stays() -> None:
    candidates = Candidates("2*rbf + 0.1*linear", SCALE, 0)
    assert candidates.texts == [f"2.0*rbf({float(f'{LENGTH:.6g}')}) + 0.1*linear"]
    assert candidates.first(5) == [0, 1, 2, 3, 4]
    assert len(set(candidates.texts)) == 5
    assert candidates.best_and_neighbours([3, 1, 2, 0, 4], 4)[:3] == [0, 3, 1]
    assert candidates.best_and_neighbours([3, 1, 2, 0, 4], 1) == [0]
    assert candidates.neighbours([0], 4, ()) == []  # it is no point of the grid
