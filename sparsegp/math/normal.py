"""The standard normal distribution in the log domain."""

import numpy as np
from scipy.special import erfcx, log_ndtr

from sparsegp.types import Doubles, Floats

SQRT_HALF = np.sqrt(0.5)
SQRT_TWO_OVER_PI = np.sqrt(2.0 / np.pi)


def log_cdf(z: Floats) -> Doubles:
    """Return log Phi(z), accurate in both tails; any shape."""
    return np.asarray(log_ndtr(z), dtype=np.float64)


def hazard(z: Floats) -> Doubles:
    """Return H(z) = phi(z) / Phi(z), accurate in both tails; any shape.

    The scaled complementary error function needs no difference of large exponents; where it
    overflows (z > 37) H is zero to every digit.
    """
    return np.asarray(SQRT_TWO_OVER_PI / erfcx(-SQRT_HALF * np.asarray(z, dtype=np.float64)))
