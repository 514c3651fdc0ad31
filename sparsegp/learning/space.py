"""Candidates of a search: kernels and scalings of the inputs.

A grid point is  v * family(c * l)  with l the length scale that `Kernel.fill` derives from the
data, c on a grid of half octaves and v on a grid of half decades, for inputs scaled by a rule. The
first candidates are the kernel of the settings, linear kernels, and a few points that did well on
tables of many kinds; then come points that cover the grid evenly (`spread`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sparsegp.kernels import Kernel, parse
from sparsegp.learning.metric import NONE
from sparsegp.types import Doubles

FAMILIES = ("rbf", "matern32", "matern52", "laplace", "additive")
FACTORS = tuple((2.0**0.5) ** power for power in range(-2, 6))
"""Factors c, from 1/2 to 5.7, as rougher kernels need longer length scales."""
VARIANCES = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
MAX_ROUGH_COLUMNS = 2000
"""Maximum number of columns for rough kernels, quantile scaling and per-column length scales: with
more, absolute differences take too long."""


class Candidate(NamedTuple):
    """A kernel as complete text, the scaling rule for its inputs, and a metric."""

    kernel: str
    scaling: str
    metric: str = NONE


class Point(NamedTuple):
    """A grid point: indices into `FAMILIES`, `FACTORS`, `VARIANCES` and the scaling rules."""

    family: int
    factor: int
    variance: int
    scaling: int

    def kernel(self, variances: Doubles) -> Kernel:
        """Return the kernel of this point for inputs with these column variances, (p,)."""
        family = FAMILIES[self.family]
        scale = np.exp(parse(family).fill(variances).parameters()[0]) * FACTORS[self.factor]
        return parse(f"{VARIANCES[self.variance]}*{family}({scale:.6g})")


INITIAL_POINTS = (
    Point(3, 2, 2, -1),
    Point(3, 0, 2, -1),
    Point(3, 2, 2, 0),
    Point(3, 0, 2, 0),
    Point(4, 2, 3, -1),
)
"""`laplace` with the last and the first scaling rule, and `additive`, which suit dissimilar
columns. Chosen on splits of the training rows of eighteen tables."""
WIDE_POINTS = (Point(0, 2, 2, -1), Point(0, 2, 2, 0))
"""`rbf` alone, for more columns: words, genes and the like."""
SAFE = 1
"""Number of the candidate for the first of `INITIAL_POINTS`: rough, with quantile scaling."""
LEVEL = 10.0
"""Prior variance of the constant of a linear function, and of all of its slopes together."""


def spread(seed: int, sizes: Sequence[int]) -> list[Point]:
    """Return all points of a grid with these sizes, ordered so that any prefix covers it evenly.

    This is a scrambled Sobol sequence, rounded to the grid, without repeated points.
    """
    from scipy.stats import qmc  # noqa: PLC0415 - slow to import

    sobol = qmc.Sobol(len(sizes), rng=np.random.default_rng(seed))
    found: dict[Point, None] = {}
    while len(found) < np.prod(sizes):
        places = (sobol.random(256) * sizes).astype(int).tolist()
        found.update(dict.fromkeys(Point(*place) for place in places))
    return list(found)


@dataclass(eq=False)
class Candidates:
    """Numbered candidates, added as they are needed.

    Number 0 is the kernel of the settings with their scaling.
    """

    kernel: str  # text of the kernel of the settings
    # variances of the scaled columns (p,) by scaling rule, the rule of the settings first
    variances: Mapping[str, Doubles]
    seed: int

    def __post_init__(self) -> None:
        variances, rules = self.variances, list(self.variances)
        self.n_columns = len(variances[rules[0]])
        few = self.n_columns <= MAX_ROUGH_COLUMNS
        n_families = len(FAMILIES) if few else FAMILIES.index("laplace")
        self.sizes = (n_families, len(FACTORS), len(VARIANCES), len(rules))
        given = parse(self.kernel)
        filled = [Candidate(str(given.fill(each)), rule) for rule, each in variances.items()]
        self.known = filled[:1]  # all candidates so far, by number
        for point in INITIAL_POINTS if few else WIDE_POINTS:
            self._number(point._replace(scaling=point.scaling % len(rules)))
        self.known += filled[1:]
        for rule, each in variances.items():
            slope = LEVEL / (float(each.sum()) or 1.0)
            self.known.append(Candidate(str(parse(f"{LEVEL} + {slope:.6g}*linear")), rule))
        self.n_first = len(self.known)
        self.safe = SAFE if few else self.n_first - 1  # for very few rows; with many columns linear

    def first(self, count: int | None = None) -> list[int]:
        """Return the numbers of the first candidates, by default without points of `spread`."""
        count = self.n_first if count is None else count
        found = dict.fromkeys(range(min(count, self.n_first)))
        for point in spread(self.seed, self.sizes) if count > self.n_first else ():
            if len(found) == count:
                break
            found[self._number(point)] = None
        return list(found)

    def _number(self, point: Point) -> int:
        """Return the number of a point's candidate, adding it to `known` if it is new."""
        rule = list(self.variances)[point.scaling]
        candidate = Candidate(str(point.kernel(self.variances[rule])), rule)
        if candidate not in self.known:
            self.known.append(candidate)
        return self.known.index(candidate)
