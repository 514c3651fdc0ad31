"""Girolami & Rogers (2006), eq. 5.1 to 5.5, as printed: dense, one row after the other.

The blocks and the pool compute the same in parallel, in tiles and panels. This file helps to read
them, and their tests compare with it. It takes K covariance matrices of all rows, and is slow.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparsegp.ivm.scores import quantise
from sparsegp.types import Doubles, Integers


def select(
    covariances: Sequence[Doubles], target: Integers, n_active: int, likelihood: Any
) -> tuple[list[int], Doubles, Doubles]:
    """Select rows; return them in order, and the latent means and variances of all rows, (n, K).

    Parameters
    ----------
    covariances : sequence of Doubles (n, n)
        C_k of each of the K classes.
    target : Integers (n,)
        Class codes.
    n_active : int
    likelihood : MultinomialProbit
        Or any object with its methods `log_z` and `gradient`.
    """
    n, n_classes = len(target), len(covariances)
    M = [np.empty((0, n)) for _ in range(n_classes)]
    m, s = np.zeros((n, n_classes)), np.stack([np.diag(C) for C in covariances], axis=1)
    active: list[int] = []
    for _ in range(n_active):
        score = quantise(-likelihood.log_z(m, s, target))  # eq. 5.5; ties go to the smaller row
        score[active] = -np.inf
        i = int(score.argmax())
        p = likelihood.gradient(m[[i]], target[[i]])[1][0]  # eq. 4.3 and 4.4
        s_i = s[i].copy()
        for k, C in enumerate(covariances):
            sigma = C[i] - M[k].T @ M[k][:, i]  # eq. 5.1
            s[:, k] -= sigma**2 / (1.0 + s_i[k])  # eq. 5.2
            M[k] = np.vstack([M[k], sigma / np.sqrt(1.0 + s_i[k])])  # eq. 5.3
            m[:, k] += p[k] / (1.0 + s_i[k]) * sigma  # eq. 5.4
        active.append(i)
    return active, m, s
