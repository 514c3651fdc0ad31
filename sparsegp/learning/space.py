"""The kernels that are tried: families, length scales and variances on a grid.

A candidate is  v * family(c * l)  with l the length scale that `Kernel.fill` takes from the data,
c on a grid of half octaves and v on a grid of half decades. The first candidates cover the grid
evenly (`spread`); later ones are neighbours of good ones (`around`).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import qmc

from sparsegp.kernels import Kernel, parse
from sparsegp.types import Doubles

FAMILIES = ("rbf", "matern32", "matern52")
FACTORS = tuple((2.0**0.5) ** power for power in range(-2, 6))
"""From l / 2 to 5.7 l, as rougher kernels want longer scales."""
VARIANCES = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
SIZES = len(FAMILIES), len(FACTORS), len(VARIANCES)


class Point(NamedTuple):
    """A point of the grid: places in `FAMILIES`, `FACTORS` and `VARIANCES`."""

    family: int
    factor: int
    variance: int

    def kernel(self, variances: Doubles) -> Kernel:
        """Return the kernel of this point for inputs with such column variances, (p,)."""
        filled: Any = parse(FAMILIES[self.family]).fill(variances)
        length_scale = float(f"{filled.length_scale * FACTORS[self.factor]:.6g}")
        shape: Kernel = replace(filled, length_scale=length_scale)
        return VARIANCES[self.variance] * shape


def spread(seed: int) -> list[Point]:
    """Return all points of the grid in an order whose every beginning covers it evenly.

    A scrambled Sobol sequence, rounded to the grid; repeated points are left out.
    """
    sobol = qmc.Sobol(len(SIZES), rng=np.random.default_rng(seed))
    found: dict[Point, None] = {}
    while len(found) < np.prod(SIZES):
        places = (sobol.random(256) * SIZES).astype(int).tolist()
        found.update(dict.fromkeys(Point(*place) for place in places))
    return list(found)


def around(point: Point) -> Iterator[Point]:
    """Yield the neighbours of a point, by length scale and variance, then by family.

    A longer length scale goes well with a greater variance: the valley of good kernels runs that
    way, so the two steps along it are neighbours too.
    """
    for factor, variance in ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, -1)):
        near = Point(point.family, point.factor + factor, point.variance + variance)
        if 0 <= near.factor < len(FACTORS) and 0 <= near.variance < len(VARIANCES):
            yield near
    yield from (point._replace(family=k) for k in range(len(FAMILIES)) if k != point.family)


class Candidates:
    """The kernels that have come up so far, by number.

    Number 0 is the kernel of the settings; the others are points of the grid, in the order in which
    they came up.

    Parameters
    ----------
    kernel : str
        Text of the kernel of the settings.
    variances : Doubles (p,)
        Of the columns of the inputs of a run.
    seed : int

    Attributes
    ----------
    texts : list of str
        Complete, so that they do not depend on the data any more.
    """

    def __init__(self, kernel: str, variances: Doubles, seed: int) -> None:
        self.texts = [str(parse(kernel).fill(variances))]
        self._text_of = {point: str(point.kernel(variances)) for point in spread(seed)}
        self._point_of = {text: point for point, text in self._text_of.items()}

    def first(self, count: int) -> list[int]:
        """Return the numbers of the first candidates, spread evenly."""
        fresh = (n for point in self._text_of if (n := self._number(point)) != 0)
        return [0, *islice(fresh, count - 1)]

    def best_and_neighbours(self, ranking: Sequence[int], count: int) -> list[int]:
        """Return so many candidates for more rows: number 0, the best, and neighbours of these.

        Parameters
        ----------
        ranking : sequence of int
            Numbers, the best first.
        count : int
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
