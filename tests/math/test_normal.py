"""log Phi and the hazard against the error function, asymptotic series and scipy."""

import numpy as np
import pytest
from scipy.stats import norm

from sparsegp.math.normal import hazard, log_cdf, log_cdf_and_hazard

MIDDLE = np.linspace(-25.0, 25.0, 1001)
TAIL = -np.geomspace(25.0, 1e4, 50)


def mills(z):
    """Phi(z) / phi(z) for z << 0 by its continued fraction 1/(x + 1/(x + 2/(x + 3/...)))."""
    x = value = -z
    for k in range(60, 0, -1):
        value = x + k / value
    return 1.0 / value


def test_log_cdf():
    np.testing.assert_allclose(log_cdf(TAIL), norm.logpdf(TAIL) + np.log(mills(TAIL)), rtol=1e-14)
    np.testing.assert_allclose(log_cdf(MIDDLE), norm.logcdf(MIDDLE), rtol=1e-13)


def test_hazard_is_density_over_probability():
    expected = np.exp(norm.logpdf(MIDDLE) - norm.logcdf(MIDDLE))
    np.testing.assert_allclose(hazard(MIDDLE), expected, rtol=1e-12)
    np.testing.assert_allclose(hazard(TAIL), 1.0 / mills(TAIL), rtol=3e-14)
    z = np.array([-1e4, -1e6, -1e8])
    np.testing.assert_allclose(hazard(z), -z - 1.0 / z, rtol=3e-14)
    assert (hazard(np.array([40.0, 1e3, 1e8])) < 1e-300).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_shape_and_precision(dtype):
    for z in (np.full((), 0.5, dtype), np.full((2, 3, 4), 0.5, dtype)):
        assert log_cdf(z).shape == hazard(z).shape == z.shape
        assert (log_cdf(z).dtype, hazard(z).dtype) == (np.float64, dtype)


def test_both_at_once():
    z = np.concatenate([TAIL, MIDDLE, [30.0, 40.0, 1e3, 1e8]])
    log_phi, h = log_cdf_and_hazard(z)
    bound = 3e-14 + 1e-15 * np.minimum(z, 30.0) ** 2
    np.testing.assert_array_less(np.abs(log_phi - log_cdf(z)), bound)
    np.testing.assert_allclose(h, hazard(z), rtol=2e-13, atol=1e-190)


def test_single_precision_agrees_with_double():
    z = np.linspace(-60.0, 20.0, 100_001, dtype=np.float32)
    log_phi, h = log_cdf_and_hazard(z)
    assert log_phi.dtype == h.dtype == np.float32
    np.testing.assert_allclose(log_phi, log_cdf(z), rtol=5e-7, atol=2e-7)
    np.testing.assert_allclose(h, hazard(z.astype(np.float64)), rtol=1e-6, atol=4e-7)
