"""What `extra` of a method may name: a function that adds metrics to those of a finished run.

Its arguments are the model, the data, the metrics so far, the seed, and `options` of the method.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from pipelines.views import Data
from sparsegp.data import encode
from sparsegp.dense import Problem
from sparsegp.dense.annealing import Bridge, Ladder

Figures = dict[str, float]

WIDTH, ROWS = 512, 8192
"""Columns of the right factor of a product, and at most so many rows of the left one."""


def annealed(model: Any, data: Data, figures: Figures, seed: int, **ladder: int) -> Figures:
    """Return the log evidence by annealed importance sampling, and its standard error.

    As in figure 3.12 of Rasmussen & Williams (2006); the runs set out from the posterior of a
    dense method. `ladder` has `runs` and `temperatures` of `sparsegp.dense.annealing.Ladder`.
    """
    del figures
    component, target = model.mixture.components[0], encode(data.y_train, data.name)[1]
    x, kernels, likelihood = model.mixture.x, component.kernels, component.likelihood
    problem = Problem(x, target, kernels, likelihood, model.n_latent, seed)
    with threadpool_limits(1):
        found = Ladder(**ladder).fit(Bridge(problem, component))
    return {"log evidence": found.value, "standard error": found.error}


def products(model: Any, data: Data, figures: Figures, seed: int, threads: int) -> Figures:
    """Multiply as much as a selection must, on as many threads of this process, and compare.

    Among n rows of p columns d inclusions need at least 2 n d p + n d^2 floating-point operations
    in matrix products: kernel columns, and stub columns from all earlier ones. Here `WIDTH` of
    them are done at a time; the stub columns are from those before the middle one.
    """
    del seed
    (n, p), d = data.X_train.shape, len(model.rows)
    right = np.ones((max(p, d), WIDTH), np.float32)

    def multiply(rows: int) -> None:
        left, product = np.ones((rows, len(right)), np.float32), np.empty((rows, WIDTH), np.float32)
        for k in [size for start in range(0, d, WIDTH) for size in (p, start + WIDTH // 2)]:
            np.matmul(left[:, :k], right[:k], out=product)

    cuts, times = np.linspace(0, n, threads * -(-n // (threads * ROWS)) + 1).astype(int), []
    with threadpool_limits(1), ThreadPoolExecutor(threads) as executor:
        for _ in range(3):
            began = time.perf_counter()
            list(executor.map(multiply, np.diff(cuts).tolist()))
            times.append(time.perf_counter() - began)
    return {
        "seconds of products": min(times),
        "rounds / products": figures["selection, seconds"] / min(times),
        "peak memory / (X + stub)": figures["peak memory, MiB"] * 2**20 / (4 * n * (p + d)),
    }
