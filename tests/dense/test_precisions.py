"""Forms of site precisions against the inverse of a full matrix."""

import numpy as np
import pytest
from scipy.linalg import block_diag

from sparsegp.dense.precisions import FORMS
from sparsegp.kernels import RBF
from tests.dense.references import interleaved

N, M, R = 7, 4, 3


def blocks(form, precision):
    """Return site precisions as (n, R, R)."""
    if form == "full":
        return precision
    if form == "independent":
        return np.stack([np.diag(np.broadcast_to(row, (R,))) for row in precision])
    return np.stack([np.diag(row) - np.outer(row, row) / row.sum() for row in precision])


def precisions(form, columns, rng):
    if form == "full":
        half = rng.normal(size=(N, R, R))
        return np.asarray(half @ half.transpose(0, 2, 1))
    return rng.uniform(0.1, 2.0, size=(N, R if form == "simplex" else columns))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("form", sorted(FORMS.keys() - {"projected"}))  # see test_online.py
def test_against_the_inverse_of_everything(form, shared):
    rng = np.random.default_rng(5)
    kernels = [3.0 * RBF(1.0)] if shared else [v * RBF(1.0 + v) for v in (1.0, 2.0, 0.5)]
    x, new = rng.normal(size=(N, 2)), rng.normal(size=(M, 2))
    precision = precisions(form, len(kernels), rng)
    covariances = np.stack([kernel(x, x) for kernel in kernels])
    sites = FORMS[form](precision, covariances, R)

    every = [kernels[r % len(kernels)] for r in range(R)]
    prior, cross = (interleaved([kernel(x, z) for kernel in every]) for z in (x, new))
    p = block_diag(*blocks(form, precision))
    v = p @ np.linalg.inv(np.eye(N * R) + prior @ p)  # (K + P^-1)^-1, also where P is singular

    right = rng.normal(size=(N, R))
    assert sites.log_det == pytest.approx(np.linalg.slogdet(np.eye(N * R) + prior @ p)[1])
    expected = (v @ right.ravel()).reshape(right.shape)
    np.testing.assert_allclose(sites.apply(right), expected, atol=1e-10)
    for r in range(R):
        block = v.reshape(N, R, N, R)[:, r, :, r]
        np.testing.assert_allclose(sites.block(r), block, atol=1e-10)
    weighed = (p @ right.ravel()).reshape(N, R)
    np.testing.assert_allclose(sites.weigh(right), weighed, atol=1e-12)

    at_new = np.stack([kernel(x, new) for kernel in kernels])
    found = sites.covariance(at_new, np.stack([kernel.diag(new) for kernel in kernels]))
    explained = (cross.T @ v @ cross).reshape(M, R, M, R)
    for m in range(M):
        wanted = np.diag([kernel.diag(new[m : m + 1])[0] for kernel in every])
        wanted = wanted - explained[m, :, m]
        if found.ndim == 2:
            np.testing.assert_allclose(found[m], np.diag(wanted), atol=1e-10)
            wanted = wanted - np.diag(np.diag(wanted))
            np.testing.assert_allclose(wanted, 0.0, atol=1e-10)
        else:
            np.testing.assert_allclose(found[m], wanted, atol=1e-10)
