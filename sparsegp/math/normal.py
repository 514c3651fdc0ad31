"""The standard normal distribution in the log domain."""

import numpy as np
from scipy.special import erfcx, log_ndtr

from sparsegp.types import Doubles, Floats

SQRT_HALF = np.sqrt(0.5)
SQRT_TWO_OVER_PI = np.sqrt(2.0 / np.pi)
CERTAIN = 30.0
"""Beyond this log Phi is zero and the hazard too, to 1e-190."""


def log_cdf(z: Floats) -> Doubles:
    """Return log Phi(z), accurate in both tails; any shape."""
    return np.asarray(log_ndtr(z), dtype=np.float64)


def hazard(z: Floats) -> Doubles:
    """Return H(z) = phi(z) / Phi(z), accurate in both tails; any shape.

    The scaled complementary error function needs no difference of large exponents; where it
    overflows (z > 37) H is zero to every digit.
    """
    return np.asarray(SQRT_TWO_OVER_PI / erfcx(-SQRT_HALF * np.asarray(z, dtype=np.float64)))


def log_cdf_and_hazard(z: Doubles) -> tuple[Doubles, Doubles]:
    """Return log Phi(z) and H(z) at the price of one special function.

    log Phi has an absolute error of about 1e-16 (1 + z^2): enough where logarithms are added up,
    not for the digits of 1 - Phi at large z.
    """
    z = np.minimum(z, CERTAIN)
    scaled = erfcx(-SQRT_HALF * z)
    return np.log(0.5 * scaled) - 0.5 * z**2, SQRT_TWO_OVER_PI / scaled
