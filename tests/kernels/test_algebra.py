"""Kernels of kernels: sums and products, and the numbers that they take."""

import math

import numpy as np
import pytest

from sparsegp.errors import SettingsError
from sparsegp.kernels import ARD, RBF, Constant, Linear, Matern32, Matern52, Product, Sum


def test_operators_flatten():
    a, b, c = RBF(1), Linear(), Matern32(2)
    assert (a + b) + c == a + (b + c) == Sum((a, b, c))
    assert (a * b) * c == a * (b * c) == Product((a, b, c))
    assert Sum((a, Sum((b, c)))).parts == (a, b, c)
    assert (a + b) * c == Product((Sum((a, b)), c))


@pytest.mark.parametrize("number", [np.float64(2), np.float32(2), np.int64(2), 2])
def test_operators_take_numbers(number):
    a = RBF(1)
    assert number * a == Product((Constant(2.0), a))
    assert a * number == Product((a, Constant(2.0)))
    assert a + number == Sum((a, Constant(2.0)))
    assert str(number + RBF(number)) == "2.0 + rbf(2.0)"


def test_operators_refuse_the_rest():
    with pytest.raises(SettingsError, match=r"constant kernel must be positive .* got -1.0"):
        RBF(1) * -1
    for other in ("rbf", None, True, np.ones(2)):
        with pytest.raises(TypeError):
            RBF(1) + other
        with pytest.raises(TypeError):
            other * RBF(1)


@pytest.mark.parametrize("make", [RBF, Matern32, Matern52, Linear, Constant])
@pytest.mark.parametrize("value", [0, -1.0, math.inf, math.nan, 10**400])
def test_parameters_are_positive_and_finite(make, value):
    with pytest.raises(SettingsError, match="must be positive and finite, got"):
        make(value)
    with pytest.raises(SettingsError, match="length scale 1 of ard must be positive"):
        ARD((1.0, value))
