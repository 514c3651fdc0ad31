"""Which active rows could go, against the definition of the information gain."""

import numpy as np
import pytest

from sparsegp.kernels import parse
from sparsegp.likelihoods import MultinomialProbit
from sparsegp.posterior import ActiveRows
from sparsegp.posterior.removal import least_informative


def active_rows(x: np.ndarray, n_kernels: int = 1) -> ActiveRows:
    rng = np.random.default_rng(3)
    kernels = [parse(f"{c + 2}*rbf({c + 1})") for c in range(n_kernels)]
    site = np.zeros((len(x), 3))
    precision = rng.uniform(0.5, 2.0, size=(len(x), n_kernels))
    return ActiveRows(kernels, MultinomialProbit(), x, np.zeros(len(x), int), site, precision)


def gain(active: ActiveRows, i: int, others: list[int]) -> float:
    """1/2 log(1 + pi a), with a the variance that the sites of the others leave."""
    total = 0.0
    for kernel, pi in zip(active.kernels, active.precision.T, strict=True):
        K = np.asarray(kernel(active.x, active.x))
        k = K[others, i]
        a = K[i, i] - k @ np.linalg.solve(K[np.ix_(others, others)] + np.diag(1 / pi[others]), k)
        total += 0.5 * np.log1p(pi[i] * a)
    return total


@pytest.mark.parametrize("n_kernels", [1, 3])
def test_rows_go_one_by_one_by_their_gain_beside_the_rest(n_kernels: int) -> None:
    active = active_rows(np.random.default_rng(0).normal(size=(12, 2)), n_kernels)
    left, expected = list(range(12)), []
    for _ in range(5):
        gains = [gain(active, i, [j for j in left if j != i]) for i in left]
        expected.append(left.pop(int(np.argmin(gains))))
    assert least_informative(active, 5).tolist() == expected


def test_of_copies_one_goes_first() -> None:
    x = np.random.default_rng(1).normal(scale=4.0, size=(8, 3))
    active = active_rows(np.concatenate([x, x[2:3]]))
    assert least_informative(active, 1).item() in {2, 8}
    assert least_informative(active, 0).size == 0
