"""What every kernel promises, over one list of instances."""

import itertools
import math
import pickle
import re
from functools import partial

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.gaussian_process import kernels as reference

from sparsegp.errors import DataError, SettingsError
from sparsegp.kernels import (
    ARD,
    KERNELS,
    RBF,
    Additive,
    Constant,
    Laplace,
    Linear,
    Matern32,
    Matern52,
    Power,
    Product,
    Sum,
    parse,
    relevances,
)
from tests.differences import central

P = 5
NUMBER = r"(?<![a-z])\d+\.\d*(?:e[+-]?\d+)?"
SCALES = (0.7, 1.3, 2.0, 4.5, 0.9)
SEGMENT_SCALES = tuple(np.linspace(0.4, 3.1, 4 * P)[::-1].tolist())
QUARTILES = [norm.ppf(q).round(4) for q in (0.25, 0.5, 0.75)]


def by_loops(k):
    """A covariance matrix entry by entry from a function of two vectors."""
    return lambda X, Z: np.array([[k(x, z) for z in Z] for x in X])


def differences(X, Z, scales):
    """|w_j(x_j) - w_j(z_j)|, (n, m, p): w is x / l, or an integral of the steps 1 / l."""
    steps = np.reshape(scales, (min(len(scales), X.shape[1]), -1))
    first, last = [-np.inf, *QUARTILES], [*QUARTILES, np.inf]

    def w(x):
        within = np.clip(x[..., np.newaxis], first, last) - np.clip(0.0, first, last)
        return (within / steps).sum(axis=-1)

    return np.abs(w(X)[:, np.newaxis] - w(Z))


def of_columns(make, function):
    """Kernels of differences of columns, with all kinds of length scales, and their formulas."""
    every = ((2.5,), SCALES, SEGMENT_SCALES)
    return [(make(s), lambda X, Z, s=s: function(differences(X, Z, s))) for s in every]


# (kernel, second formula)
CONTRACT = [
    (RBF(1.7), by_loops(lambda x, z: math.exp(-sum((x - z) ** 2) / 2 / 1.7**2))),
    (RBF(1e3), reference.RBF(1e3)),
    (ARD(SCALES), reference.RBF(SCALES)),
    (Matern32(1.2), reference.Matern(1.2, nu=1.5)),
    (Matern52(2.3), reference.Matern(2.3, nu=2.5)),
    *of_columns(Laplace, lambda d: np.exp(-d.sum(axis=2))),
    *of_columns(partial(Power, 0.5), lambda d: np.exp(-np.sqrt(d).sum(axis=2))),
    *of_columns(partial(Power, 0.7), lambda d: np.exp(-(d**0.7).sum(axis=2))),
    *of_columns(Additive, lambda d: np.exp(-d).mean(axis=2)),
    (Linear(), by_loops(lambda x, z: sum(x * z))),
    (Linear(0.3), lambda X, Z: 0.3 * reference.DotProduct(0.0)(X, Z)),
    (Constant(2.5), reference.ConstantKernel(2.5)),
    (0.5 + RBF(1.7) + Linear(), lambda X, Z: 0.5 + reference.RBF(1.7)(X, Z) + X @ Z.T),
    (
        3 * Matern52(2.3) * (ARD(SCALES) + 0.1),
        lambda X, Z: 3 * reference.Matern(2.3, nu=2.5)(X, Z) * (reference.RBF(SCALES)(X, Z) + 0.1),
    ),
    (Constant(2) * 3 + 0.5, lambda X, Z: np.full((len(X), len(Z)), 6.5)),
]

LEAVES = {type(kernel): (kernel, formula) for kernel, formula in CONTRACT}
COMPOSED = [
    (
        2 * kernel * (RBF(1.7) + 0.5) + 0.1 * kernel,
        lambda X, Z, k=formula: k(X, Z) * (2 * reference.RBF(1.7)(X, Z) + 1.1),
    )
    for kind, (kernel, formula) in LEAVES.items()
    if kind not in {Sum, Product, Constant}
]
"""Sums and products with one kernel of each kind."""
CONTRACT += COMPOSED

every_kernel = pytest.mark.parametrize("kernel", [kernel for kernel, _ in CONTRACT], ids=str)
X, Z = np.random.default_rng(1).normal(size=(40, P)), np.random.default_rng(2).normal(size=(7, P))


def test_every_registered_kernel_is_in_the_contract():
    wanted = {Sum, Product, *(KERNELS[name] for name in KERNELS)}
    assert wanted <= {type(kernel) for kernel, _ in CONTRACT}


@pytest.mark.parametrize(("kernel", "formula"), CONTRACT, ids=[str(k) for k, _ in CONTRACT])
def test_equals_second_formula(kernel, formula):
    np.testing.assert_allclose(kernel(X, Z), formula(X, Z), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(kernel(Z, X), formula(Z, X), rtol=1e-11, atol=1e-13)


@every_kernel
def test_symmetric_positive_semidefinite_with_its_diagonal(kernel):
    rows = np.concatenate([X, X[:5]])  # repeated rows make it singular
    K = kernel(rows, rows)
    np.testing.assert_allclose(kernel.diag(rows), np.diagonal(K), rtol=1e-13)
    np.testing.assert_allclose(K, K.T, rtol=1e-13, atol=1e-14)
    assert np.linalg.eigvalsh((K + K.T) / 2).min() >= -1e-10 * len(rows)


@every_kernel
def test_precision_is_that_of_the_wider_input(kernel):
    X32, Z32 = X.astype(np.float32), Z.astype(np.float32)
    K, diag = kernel(X32, Z32), kernel.diag(X32)
    assert K.dtype == diag.dtype == np.float32
    np.testing.assert_allclose(K, kernel(X, Z), rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(diag, kernel.diag(X), rtol=2e-6)
    np.testing.assert_array_equal(kernel(X32, Z), kernel(X32.astype(np.float64), Z))


@every_kernel
@pytest.mark.parametrize(
    ("left", "right"), [((3,), ()), ((), (3,)), ((3,), (3,)), ((2, 1), (3,)), ((), ())], ids=str
)
def test_leading_axes_equal_loops(kernel, left, right):
    rng = np.random.default_rng(3)
    X, Z = rng.normal(size=(*left, 6, P)), rng.normal(size=(*right, 4, P))
    every = np.vectorize(kernel, signature="(n,p),(m,p)->(n,m)")(X, Z)
    diag = np.vectorize(kernel.diag, signature="(n,p)->(n)")(X)
    for found, expected in ((kernel(X, Z), every), (kernel.diag(X), diag)):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@every_kernel
def test_inputs_are_not_changed_and_may_be_empty(kernel):
    x, z = X.copy(), Z.copy()
    x.flags.writeable = z.flags.writeable = False  # else an error
    kernel(x, z)
    kernel(x, x)
    kernel.diag(x)
    assert kernel(X, X[:0]).shape == (len(X), 0)
    assert kernel(X[:0], X).shape == (0, len(X))
    assert kernel.diag(X[:0]).shape == (0,)


@every_kernel
def test_text_pickle_hash_and_parameters_round_trip(kernel):
    assert parse(str(kernel)) == pickle.loads(pickle.dumps(kernel)) == kernel
    assert hash(parse(str(kernel))) == hash(kernel)
    assert kernel.complete
    assert kernel.fill(np.ones(P)) == kernel
    logs = kernel.parameters()
    assert (logs.dtype, logs.ndim) == (np.float64, 1)
    numbers = [float(number) for number in re.findall(NUMBER, str(kernel))]
    if len(numbers) == len(logs):  # no default is left out of the text
        np.testing.assert_allclose(sorted(np.exp(logs)), sorted(numbers), rtol=1e-13)
    assert len(kernel.parameter_names) == len(logs)
    again = kernel.with_parameters(logs)
    assert type(again) is type(kernel)
    np.testing.assert_allclose(again(X, Z), kernel(X, Z), rtol=1e-12)
    other = logs + np.linspace(0.1, 0.2, len(logs))
    np.testing.assert_allclose(kernel.with_parameters(other).parameters(), other, atol=1e-13)


@pytest.mark.parametrize("name", sorted(KERNELS.keys() - {"constant"}))
def test_kernels_by_name_alone_are_filled_and_come_back_from_their_texts(name):
    try:
        filled = parse(name).fill(X.var(axis=0))
    except SettingsError:  # it needs a parameter
        filled, _ = LEAVES[KERNELS[name]]
    assert filled.complete
    again = pickle.loads(pickle.dumps(parse(str(filled))))
    assert again == filled
    np.testing.assert_array_equal(again(X, Z), filled(X, Z))
    for number, wrong in itertools.product(re.findall(NUMBER, str(filled)), ("0", "-1", "inf")):
        with pytest.raises(SettingsError):
            parse(str(filled).replace(number, wrong, 1))(X, Z)


@every_kernel
@pytest.mark.parametrize("diag", [False, True])
def test_gradient_against_finite_differences(kernel, diag):
    logs = kernel.parameters()
    inputs = (X,) if diag else (X, Z)
    weights = np.random.default_rng(4).normal(size=[len(each) for each in inputs])
    pull_back = kernel.pull_back_diag if diag else kernel.pull_back

    def value(at):
        some = kernel.with_parameters(at)
        return some.diag(X) if diag else some(X, Z)

    expected = central(lambda at: np.vdot(weights, value(at)), logs)
    size = np.abs(weights).sum() * np.abs(value(logs)).max()
    gradient = pull_back(*inputs, weights)
    assert gradient.dtype == np.float64
    np.testing.assert_allclose(gradient, expected, rtol=1e-7, atol=1e-11 * size)
    narrow = pull_back(*(each.astype(np.float32) for each in inputs), weights)
    np.testing.assert_allclose(narrow, gradient, rtol=1e-5, atol=1e-6 * size)
    if not diag:
        matrix, pull_back = kernel.with_pull_back(X, Z)
        np.testing.assert_array_equal(matrix, kernel(X, Z))
        np.testing.assert_allclose(pull_back(weights), gradient, rtol=1e-12, atol=1e-13 * size)
    else:
        on_diagonal = kernel.pull_back(X, X, np.diag(weights))
        np.testing.assert_allclose(gradient, on_diagonal, rtol=1e-12, atol=1e-13 * size)


@every_kernel
def test_slopes_against_finite_differences(kernel):
    weights = np.random.default_rng(8).normal(size=(len(Z), 3))
    expected = central(lambda shift: kernel(X + shift, Z) @ weights, np.zeros(P), 2e-7)
    np.testing.assert_allclose(kernel.slopes(X, Z, weights), expected.T, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "kernel", [RBF(1e200), Matern32(1e200), Matern52(1e200), ARD((1e200, 1e200))]
)
def test_flat_kernels_have_no_slopes(kernel):
    X = np.random.default_rng(0).normal(size=(4, 2))
    assert not kernel.slopes(X, X, np.ones((4, 1))).any()


@pytest.mark.parametrize("kernel", [RBF(), ARD(), Matern32(), Matern52(), 2 * (RBF() + Linear())])
def test_incomplete_kernels_say_what_to_do(kernel):
    assert not kernel.complete
    assert parse(str(kernel)) == kernel
    for use in (
        lambda: kernel(X, X),
        lambda: kernel.diag(X),
        lambda: kernel.pull_back(X, X, np.ones((40, 40))),
        lambda: kernel.pull_back_diag(X, np.ones(40)),
        kernel.parameters,
    ):
        with pytest.raises(SettingsError, match="has a length scale left out; give it, or call"):
            use()
    filled = kernel.fill(X.var(axis=0))
    assert filled.complete
    assert parse(str(filled)) == filled
    assert filled(X, X).shape == (len(X), len(X))


@pytest.mark.parametrize(
    ("kernel", "variances", "expected"),
    [
        (RBF(), [1.0, 1.0, 1.0], RBF(1.22474)),  # scikit-learn's gamma="scale"
        (RBF(), [0.0, 0.0], RBF(1.0)),
        (ARD(), [4.0, 0.0, 1.0, 9.0], ARD((2.82843, 1.41421, 1.41421, 4.24264))),
        (Laplace(), [4.0, 0.0, 9.0], Laplace((4.0,))),  # by the sum of deviations
        (Laplace(), [0.0, 0.0], Laplace((1.0,))),
        (Power(1.0), [4.0, 0.0, 9.0], Power(1.0, (4.0,))),
        (Power(0.5), [16.0, 0.0, 81.0], Power(0.5, (16.0,))),
        (Additive(), [4.0, 0.0, 16.0], Additive((9.0,))),
        (Additive(), [0.0, 0.0], Additive((1.0,))),
        (2 * (RBF() + Matern32(3.0)) + Matern32() * Matern52(), [2.0, 6.0],
         2 * (RBF(2.0) + Matern32(3.0)) + Matern32(2.0) * Matern52(2.0)),
    ],
)  # fmt: skip
def test_rules_of_length_scales_that_are_left_out(kernel, variances, expected):
    assert kernel.fill(np.array(variances)) == expected


def test_ard_names_both_numbers():
    kernel = 2 * ARD((1.0, 2.0, 3.0)) + Linear()
    message = "ard has 3 length scales but the inputs have 5 columns"
    for use in (lambda: kernel(X, X), lambda: kernel.diag(X), lambda: kernel.fill(np.ones(P))):
        with pytest.raises(SettingsError, match=message):
            use()


@pytest.mark.parametrize(
    ("use", "arrays", "message"),
    [
        (RBF(1), (X, Z[:, :3]), r"same number of columns, got shapes \(40, 5\) and"),
        (RBF(1), (X.astype(np.int64), Z), r"X must be floats .* got int64 of shape \(40, 5\)"),
        (RBF(1), (X, Z[0]), r"Z must be floats .* got float64 of shape \(5,\)"),
        (Constant(1).diag, (X[0],), "X must be floats"),
        (RBF(1).pull_back, (X, Z, X @ X.T), r"\(n, m\), got \(40, 5\), \(7, 5\) and \(40, 40\)"),
        (RBF(1).slopes, (X, Z, X), r"\(m, R\), got \(40, 5\), \(7, 5\) and \(40, 5\)"),
        (RBF(1).pull_back_diag, (X, X[:, :1]), r"\(n,\), got \(40, 5\) and \(40, 1\)"),
    ],
)
def test_arrays_are_checked(use, arrays, message):
    with pytest.raises(DataError, match=message):
        use(*arrays)


@pytest.mark.parametrize(
    "kernel", [RBF(1e-25), ARD((1.0,) * 4 + (1e-25,)), Constant(1e50), 1e39 * RBF(1), Linear(1e50)]
)
def test_factors_out_of_range_are_refused(kernel):
    kernel(X, X)
    X32 = X.astype(np.float32)
    with pytest.raises(SettingsError, match="within the range of float32, got a factor"):
        kernel(X32, X32)


def test_overflow_and_underflow_of_constants_are_refused():
    over, under = (1e300 * RBF(1) * 1e300, RBF(1e-200)), (1e-100 * RBF(1), 5e-324 * RBF(1))
    for kernel in over + under:
        factor = "inf" if kernel in over else r"\d.*e-\d"
        with pytest.raises(SettingsError, match=f"got a factor {factor}"):
            kernel(X, X)


SMOOTH = [RBF(1.7), ARD(SCALES), 2 * ARD(SCALES) * (RBF(1.7) + 0.5) + 3, 0.3 * Linear() + RBF(2.0)]


@pytest.mark.parametrize("kernel", SMOOTH, ids=str)
def test_slope_variances_are_those_of_finite_differences(kernel):
    """The variance of (f(he) - f(-he)) / 2h in units of the deviations."""
    deviations, h = np.arange(1.0, P + 1.0), 1e-3
    variance, slopes = kernel.slope_variances(deviations)
    if "linear" not in str(kernel):
        assert variance == pytest.approx(kernel.diag(np.zeros((1, P)))[0])
    steps = h * deviations[:, None, None] * np.eye(P)[:, None] * np.array([[1.0], [-1.0]])
    K = kernel(steps, steps)
    found = (K[:, 0, 0] + K[:, 1, 1] - 2 * K[:, 0, 1]) / (2 * h) ** 2
    np.testing.assert_allclose(slopes, found, rtol=1e-4)


def test_relevances():
    scales, deviations = np.array(SCALES), np.array([1.0, 2.0, 0.0, 1.0, 1.0])
    expected = deviations / scales / (deviations / scales).sum()
    for kernel in (ARD(SCALES), 3 * Laplace(SCALES) + 1, ARD(SCALES) * Laplace(SCALES)):
        np.testing.assert_allclose(relevances([kernel, kernel], deviations), expected, rtol=1e-12)
    mixed = relevances([ARD(SCALES) + RBF(1e-3)], np.ones(P))
    np.testing.assert_allclose(mixed, 1 / P, rtol=1e-3)  # the shorter length scale decides
    assert relevances([RBF(1.0) + Linear(), Laplace((2.0,))], deviations) is None
    assert relevances([ARD(SCALES)], np.zeros(P)) is None


def test_no_square_root_of_rounding_below_zero():
    X = np.full((50, 300), 1e3) + np.random.default_rng(0).normal(size=(50, 300)) * 1e-9
    for kernel in (RBF(1.0), Matern32(1.0), Matern52(1.0)):
        K = kernel(X, X)
        assert np.isfinite(K).all()
        assert K.max() <= 1
