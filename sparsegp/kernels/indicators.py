"""Sums of absolute differences over columns with few values, as matrix products.

If x and z are two of the values v_0 < v_1 < ..., then |x - z| is the sum of v_l - v_{l-1} over all
l for which x >= v_l or z >= v_l, but not both. So it is a weighted sum of absolute differences of
zeros and ones, which equal their squares. With two values f(|x - z|) is such a sum too, for any f.
Rows with other values are computed term by term. Whether a row has any depends on this row alone,
so results do not depend on how rows are divided into blocks.
"""

from collections.abc import Callable

import numpy as np

from sparsegp.kernels.pair import negative_half_squared_distance
from sparsegp.math.differences import summed_differences
from sparsegp.types import Booleans, Doubles, Floats

VALUES = (0.0, 0.25, 1.0)
"""The values of indicators, and of the codes of rare levels."""


def digits(X: Floats, values: Floats) -> tuple[Floats, Booleans]:
    """Return where X reaches each value but the first, and which rows have other values.

    Parameters
    ----------
    X : Floats (..., n, p)
    values : Floats (v, p)
        Ascending values of each column.

    Returns
    -------
    Floats (..., n, (v - 1) p)
        Zeros and ones.
    Booleans (..., n)
    """
    p = X.shape[-1]
    reached = np.empty((*X.shape[:-1], (len(values) - 1) * p), X.dtype)
    is_known, found = np.equal(X, values[0]), np.empty(X.shape, bool)
    for first, value in zip(range(0, reached.shape[-1], p), values[1:], strict=True):
        reached[..., first : first + p] = np.greater_equal(X, value, out=found)
        is_known |= np.equal(X, value, out=found)
    return reached, ~is_known.all(axis=-1)


def indicator_sums(
    X: Floats,
    Z: Floats,
    weights: Doubles,
    values: Floats,
    each: Callable[[Floats], object] | None = None,
) -> Floats:
    """Return sum_j f(w_j |x_ij - z_kj|), (..., n, m), fast for rows with these values only.

    Parameters
    ----------
    X, Z, weights, each
        See `summed_differences`; Z is (m, p), and f is monotone. Terms t so large that
        exp(-t) is zero may be reduced.
    values : Floats (v, p)
        See `digits`; two for each column, unless f is the identity.
    """
    (A, x_others), (B, z_others) = digits(X, values), digits(Z, values)
    if x_others.all() or z_others.all():
        return summed_differences(X, Z, weights, each)
    steps = np.append(0.0, weights * np.diff(values, axis=0)).astype(X.dtype)
    if each is not None:
        each(steps)
    # larger terms would only increase rounding errors: exp(-t) is zero from here on
    np.minimum(steps, 1.0 - np.log(np.finfo(steps.dtype).smallest_subnormal), out=steps)
    change = steps[1:] - steps[0]
    sums = negative_half_squared_distance(A, B, np.abs(change))
    sums *= -2.0 * np.sign(change.sum())
    sums += len(change) * steps[0]
    if x_others.any():
        sums[x_others] = summed_differences(X[x_others], Z, weights, each)
    if z_others.any():
        sums[..., z_others] = summed_differences(X, Z[z_others], weights, each)
    return sums


def weighted_changes(
    A: Floats, B: Floats, weights: Floats, of_A: Booleans, of_B: Booleans
) -> Doubles:
    """Return sum_ik w_ik |a_ij - b_kj| over some rows for every column j, (p,).

    Parameters
    ----------
    A : Floats (n, p)
        Zeros and ones.
    B : Floats (m, p)
    weights : Floats (n, m)
    of_A, of_B : Booleans (n,), (m,)
        Which rows count.
    """
    A, B = A * of_A[:, np.newaxis], B * of_B[:, np.newaxis]
    both = (A * (weights @ B)).sum(axis=0)
    return np.asarray((weights @ of_B) @ A + (of_A @ weights) @ B - 2.0 * both)
