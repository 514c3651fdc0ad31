"""The grid of kernels that are tried, and the order in which they come up."""

import itertools

import numpy as np
import pytest

from sparsegp.kernels import parse
from sparsegp.learning.space import (
    FACTORS,
    FAMILIES,
    INITIAL_POINTS,
    MAX_ROUGH_COLUMNS,
    VARIANCES,
    Candidate,
    Candidates,
    Point,
    spread,
)

SCALE = np.array([1.0, 1.0, 0.5, 0.0])
LENGTH = np.sqrt(2.5 / 2)  # the rule of Kernel.fill
RULES = {"auto": SCALE, "quantile": np.ones(4)}
SIZES = (5, 8, 7, 2)


@pytest.mark.parametrize("point", [Point(0, 2, 3, 0), Point(1, 0, 0, 1), Point(2, 7, 6, 0)])
def test_kernel_of_a_point(point):
    number, rest = str(point.kernel(SCALE)).split("*")
    assert float(number) == VARIANCES[point.variance]
    assert rest.startswith(FAMILIES[point.family])
    length = np.exp(parse(rest).parameters()[0])
    assert length == pytest.approx(LENGTH * FACTORS[point.factor], rel=1e-5)


def test_every_beginning_covers_the_grid():
    points = spread(0, SIZES)
    assert sorted(points) == [Point(*place) for place in itertools.product(*map(range, SIZES))]
    for axis, size in enumerate(SIZES):
        seen = np.unique([point[axis] for point in points[:21]], return_counts=True)[1]
        assert len(seen) >= size - 1
        assert seen.max() <= 2 * 21 / size + 2
    assert points == spread(0, SIZES)
    assert points != spread(1, SIZES)


def test_the_kernel_of_the_settings_comes_first_and_stays():
    candidates = Candidates("2*rbf + 0.1*linear", RULES, 0)
    given = f"2.0*rbf({float(f'{LENGTH:.6g}')}) + 0.1*linear"
    assert candidates.known[0] == (given, "auto", "none")
    assert candidates.first() == list(range(4 + len(INITIAL_POINTS)))
    assert candidates.known[1] == Candidate("30.0*laplace(3.2)", "quantile")
    unscaled = Candidate("2.0*rbf(1.41421) + 0.1*linear", "quantile")
    assert candidates.known[1 + len(INITIAL_POINTS)] == unscaled
    linear = [each for each in candidates.known if each.kernel.startswith("10.0 + ")]
    assert [candidate.scaling for candidate in linear] == ["auto", "quantile"]
    level, slope = parse(linear[0].kernel).diag(np.stack([0 * SCALE, np.sqrt(SCALE)]))
    assert (level, slope) == pytest.approx((10.0, 20.0), rel=1e-5)
    assert candidates.first(12) == list(range(12))
    assert len(set(candidates.known)) == 12
    assert candidates.first(3) == [0, 1, 2]


def test_a_scaling_that_is_given_stays_and_many_columns_have_no_absolute_differences():
    candidates = Candidates("50*rbf", {"standard": SCALE}, 0)
    assert candidates.first() == [0, 1, 2, 3, 4]
    assert {candidates.known[n].scaling for n in candidates.first(50)} == {"standard"}
    candidates = Candidates("50*rbf", {"auto": np.ones(MAX_ROUGH_COLUMNS + 1)}, 0)
    assert candidates.first() == [0, 1, 2]
    assert candidates.known[candidates.safe].kernel.endswith("linear")
    assert not any("laplace" in candidates.known[n].kernel for n in candidates.first(50))
