"""The kernels that are tried: families, length scales and variances on a grid.

A candidate is  v * family(c * l)  with l the length scale that `Kernel.fill` takes from the data,
c on a grid of half octaves and v on a grid of half decades. `spread` says where to begin: points
that cover the grid evenly; `around` where to look next: the neighbours of a good one.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import ClassVar

import numpy as np
from scipy.stats import qmc

from sparsegp.kernels import InputScale, Kernel, parse
from sparsegp.types import Doubles

FAMILIES = ("rbf", "matern32", "matern52")
FACTOR_STEP = 2.0**0.5
LEAST_FACTOR, MOST_FACTOR = -2, 5
"""Powers of `FACTOR_STEP`: from l / 2 to 5.7 l, as rougher kernels want longer scales."""
VARIANCES = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)


@dataclass(frozen=True, order=True)
class Point:
    """A place in the grid.

    Attributes
    ----------
    family, factor, variance : int
        Places in `FAMILIES`, power of `FACTOR_STEP`, place in `VARIANCES`.
    """

    family: int
    factor: int
    variance: int

    SIZE: ClassVar[tuple[int, int, int]] = (
        len(FAMILIES),
        MOST_FACTOR - LEAST_FACTOR + 1,
        len(VARIANCES),
    )

    def inside(self) -> bool:
        """Whether the grid has this point."""
        return (
            0 <= self.family < len(FAMILIES)
            and LEAST_FACTOR <= self.factor <= MOST_FACTOR
            and 0 <= self.variance < len(VARIANCES)
        )

    def kernel(self, scale: InputScale) -> Kernel:
        """Return the kernel of this point for inputs of some scale."""
        filled = parse(FAMILIES[self.family]).fill(scale)
        length = getattr(filled, "length_scale") * FACTOR_STEP**self.factor  # noqa: B009
        named = replace(filled, length_scale=float(f"{length:.6g}"))  # type: ignore[call-arg]
        return VARIANCES[self.variance] * named


def spread(seed: int) -> list[Point]:
    """Return all points of the grid in an order whose every beginning covers it evenly.

    A scrambled Sobol sequence, rounded to the grid; repeated points are left out.
    """
    sobol = qmc.Sobol(3, rng=np.random.default_rng(seed))
    found: dict[Point, None] = {}
    while len(found) < np.prod(Point.SIZE):
        found.update(dict.fromkeys(map(_nearest, sobol.random(256))))
    return list(found)


def _nearest(unit: Doubles) -> Point:
    """Return the point of the grid at a place in the unit cube, (3,)."""
    place = [int(u * size) for u, size in zip(unit, Point.SIZE, strict=True)]
    return Point(place[0], place[1] + LEAST_FACTOR, place[2])


def around(point: Point) -> Iterator[Point]:
    """Yield the neighbours of a point, by length scale and variance, then by family.

    A longer length scale goes well with a greater variance: the valley of good kernels runs that
    way, so the two steps along it are neighbours too.
    """
    for factor, variance in ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, -1)):
        near = replace(point, factor=point.factor + factor, variance=point.variance + variance)
        if near.inside():
            yield near
    for family in range(len(FAMILIES)):
        if family != point.family:
            yield replace(point, family=family)


class Candidates:
    """The kernels that were thought of so far, by number.

    Number 0 is the kernel of the settings; the others are points of the grid, in the order in which
    they came up.

    Parameters
    ----------
    kernel : str
        Text of the kernel of the settings.
    scale : InputScale
        Of the inputs of a run.
    seed : int

    Attributes
    ----------
    texts : list of str
        Complete, so that they do not depend on the data any more.
    """

    def __init__(self, kernel: str, scale: InputScale, seed: int) -> None:
        self.texts = [str(parse(kernel).fill(scale))]
        self._grid = spread(seed)
        self._text_of = {point: str(point.kernel(scale)) for point in self._grid}
        self._point_of = {text: point for point, text in self._text_of.items()}

    def first(self, count: int) -> list[int]:
        """Return the numbers of the first candidates, spread evenly."""
        fresh = (n for point in self._grid if (n := self._number(point)) != 0)
        return [0, *islice(fresh, count - 1)]

    def best_and_neighbours(self, ranking: Sequence[int], count: int) -> list[int]:
        """Return candidates for more rows: number 0, the best, and as many neighbours of these.

        Parameters
        ----------
        ranking : sequence of int
            Numbers, the best first.
        count : int
            Candidates wanted.
        """
        kept = list(dict.fromkeys([0, *ranking[: max(1, count // 2)]]))[:count]
        return kept + self.neighbours(ranking, count - len(kept), kept)

    def neighbours(self, ranking: Sequence[int], count: int, but: Collection[int]) -> list[int]:
        """Return so many neighbours, those of the best first; fewer where the grid ends.

        Parameters
        ----------
        ranking : sequence of int
            Numbers, the best first.
        count : int
        but : collection of int
            Numbers that are not wanted.
        """
        found: dict[int, None] = {}
        for number in ranking:
            point = self._point_of.get(self.texts[number])
            for near in around(point) if point is not None else ():
                if len(found) >= count:
                    return list(found)
                if (other := self._number(near)) not in but:
                    found[other] = None
        return list(found)

    def _number(self, point: Point) -> int:
        """Return the number of a point; a new one has the next."""
        text = self._text_of[point]
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text)
