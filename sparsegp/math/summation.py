"""Sums that do not depend on the order of their terms.

Floating-point numbers that are whole multiples of one quantum add up without rounding as long as
the sum stays below 2^53 quanta, so such sums are the same however the terms are dealt to blocks.
"""

import numpy as np

from sparsegp.types import Doubles, Floats


def quantum(bound: float) -> float:
    """Return the power of two by which sums up to `bound` in size are exact."""
    return float(2.0 ** (np.ceil(np.log2(bound)) - 51.0))


def snap(values: Floats, unit: float) -> Doubles:
    """Return values rounded to whole multiples of `unit`, a power of two."""
    snapped = np.multiply(values, 1.0 / unit, dtype=np.float64)
    np.rint(snapped, out=snapped)
    snapped *= unit
    return snapped
