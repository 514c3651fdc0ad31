"""Sums that do not depend on the order of their terms.

Floating-point numbers that are integer multiples of one quantum add up without rounding as long as
the sum stays below 2^53 quanta, so such sums are the same for every partition into blocks.

`snap` needs a bound on all terms before the first is added. If none is known, a `LevelSum` assigns
each term to a level according to its size: all terms of a level share one quantum, so that its sum
is exact, and the few levels are added up in order at the end.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from sparsegp.types import Doubles, Floats

STEP = 4
"""Bits between levels: a compromise between few levels and few lost digits."""
LOWEST = -900 // STEP
"""Terms below 2^-900 share a level, so that quanta do not underflow."""


def quantum(bound: float) -> float:
    """Return the quantum, a power of two, with which sums of magnitude up to `bound` are exact."""
    return float(2.0 ** (np.ceil(np.log2(bound)) - 51.0)) if bound > 0.0 else 1.0


def snap(values: Floats, unit: float) -> Doubles:
    """Round values to integer multiples of `unit`, a power of two."""
    snapped = np.multiply(values, 1.0 / unit, dtype=np.float64)
    np.rint(snapped, out=snapped)
    snapped *= unit
    return snapped


@dataclass
class LevelSum:
    """The sum of arrays of one shape, exact apart from the rounding of each term.

    At most 2^spare terms may be added, over all sums that make up a total. A term keeps at least
    53 - `STEP` - `spare` bits of its largest element. `parts` are the sums so far, by level.
    """

    shape: tuple[int, ...]
    spare: int
    parts: dict[int, Doubles] = field(default_factory=dict)

    def add(self, term: Doubles) -> None:
        """Add a term; one that is not finite makes the total NaN."""
        largest = float(np.abs(term).max(initial=0.0))
        if not math.isfinite(largest):
            self.parts[LOWEST] = np.full(self.shape, np.nan)
        elif largest > 0.0:
            level = max(-(-math.frexp(largest)[1] // STEP), LOWEST)
            snapped = snap(term, 2.0 ** (level * STEP - 53 + self.spare))
            self.parts[level] = np.add(snapped, self.parts.get(level, 0.0), out=snapped)

    @staticmethod
    def total(sums: "Sequence[LevelSum]") -> Doubles:
        """Return the total of several sums of one shape."""
        total = np.zeros(sums[0].shape)
        for level in sorted({level for each in sums for level in each.parts}):
            total += reduce(np.add, (each.parts[level] for each in sums if level in each.parts))
        return total
