"""Functions for the key `extra` of a method, which add metrics to those of a finished run.

Their arguments are the model, the data, the metrics so far, the seed, and the method's `options`.
"""

import timeit
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from pipelines.data import Data
from sparsegp.data import encode, encode_with
from sparsegp.dense import Problem
from sparsegp.dense.annealing import Bridge, log_marginal

Figures = dict[str, float]

VECTORS = {"AVX512": 512, "X86_V4": 512, "AVX2": 256, "X86_V3": 256}
"""Bits of a vector register by numpy's name of the instruction set; otherwise 128."""
PASSED = 24
"""Bytes moved per float32 difference without tiling: store it, take absolute value, add."""

WIDTH, ROWS = 512, 8192
"""Columns of the right factor of a product, and maximum number of rows of the left one."""


def annealed(model: Any, data: Data, figures: Figures, seed: int, **ladder: int) -> Figures:
    """Return the log marginal likelihood by annealed importance sampling, with standard error.

    As in figure 3.12 of Rasmussen & Williams (2006); the runs start from the posterior of a dense
    method. `ladder` has `runs` and `temperatures` as in `sparsegp.dense.annealing`.
    """
    del figures
    component, target = model.mixture.components[0], encode(data.y_train, data.name)[1]
    x, kernels, likelihood = model.mixture.x, component.kernels, component.likelihood
    bridge = Bridge(Problem(x, target, kernels, likelihood, model.n_latent, seed), component)
    with threadpool_limits(1):
        found = log_marginal(bridge, **ladder)
    return {"log evidence": found.value, "standard error": found.error}


def products(model: Any, data: Data, figures: Figures, seed: int, threads: int) -> Figures:
    """Time the matrix products that a selection needs at least, on `threads` threads, and compare.

    With n rows and p columns, d inclusions need at least 2 n d p + n d^2 floating-point operations
    in matrix products: for kernel columns, and for stub columns from all earlier ones. Here `WIDTH`
    inclusions are done at a time, and each uses the stub columns before the middle one of these.
    """
    del seed
    (n, p), d = data.X_train.shape, len(model.rows)
    right = np.ones((max(p, d), WIDTH), np.float32)

    def multiply(rows: int) -> None:
        left, product = np.ones((rows, len(right)), np.float32), np.empty((rows, WIDTH), np.float32)
        for k in [size for start in range(0, d, WIDTH) for size in (p, start + WIDTH // 2)]:
            np.matmul(left[:, :k], right[:k], out=product)

    cuts = np.linspace(0, n, threads * -(-n // (threads * ROWS)) + 1).astype(int)
    with threadpool_limits(1), ThreadPoolExecutor(threads) as executor:
        seconds = _quickest(lambda: list(executor.map(multiply, np.diff(cuts).tolist())))
    return {
        "seconds of products": seconds,
        "rounds / products": figures["selection, seconds"] / seconds,
        "peak memory / (X + stub)": figures["peak memory, MiB"] * 2**20 / (4 * n * (p + d)),
    }


def differences(model: Any, data: Data, figures: Figures, seed: int) -> Figures:
    """Time the covariance of many rows with a panel of 16, and with all active rows, on one thread.

    The kernel is one of absolute differences, of which there are rows x rows x columns. For
    comparison, in the same process: multiplications of a large matrix product in single precision,
    and memory moved by the sum of two large arrays. A difference takes three instructions,
    subtraction, absolute value and addition, where a product takes one; other operations of the
    kernel are not counted.
    """
    del figures
    kernel, p = model.posterior.kernels[0], data.X_train.shape[1]
    draw = np.random.default_rng(seed).standard_normal
    shapes = (4096, p), (len(model.rows), p), (2048, 2048), (1 << 24,)
    X, Z, large, long = (draw(shape, np.float32) for shape in shapes)
    total = np.empty_like(long)
    with threadpool_limits(1):
        panel = 4096 * 16 * p / _quickest(lambda: kernel(X, Z[:16]))
        active = X.shape[0] * Z.size / _quickest(lambda: kernel(X, Z))
        products = 2048**3 / _quickest(lambda: large @ large)
        moved = 3 * long.nbytes / _quickest(lambda: np.add(long, long, out=total))
    names = " ".join(np.show_config(mode="dicts")["SIMD Extensions"]["found"])
    return {
        "vector bits": max(128, *(bits for key, bits in VECTORS.items() if key in names)),
        "differences a panel, 1e9/s": panel / 1e9,
        "differences, 1e9/s": active / 1e9,
        "products, 1e9/s": products / 1e9,
        "memory, GB/s": moved / 1e9,
        "instructions / those of products": 3 * active / products,
        "differences / those through memory": active * PASSED / moved,
    }


def label_sets(
    model: Any, data: Data, figures: Figures, seed: int, coverages: list[float], rows: int
) -> Figures:
    """Return actual coverage, in percent, and mean size of prediction sets, by `coverages` asked.

    Also the lowest coverage of a class, among those with at least `rows` test rows.
    """
    del figures, seed
    codes, _ = encode_with(model.classes, data.y_test, data.name)
    own, counts = np.arange(len(codes)), np.bincount(codes)
    found: Figures = {}
    for asked in coverages:
        sets = model.predict_set(np.asarray(data.X_test), asked)
        held = 100.0 * sets[own, codes]
        of_classes = np.bincount(codes, held)[counts >= rows] / counts[counts >= rows]
        found |= {
            f"coverage of {asked:g}": float(held.mean()),
            f"size of {asked:g}": float(sets.sum(axis=1).mean()),
            f"least class of {asked:g}": float(of_classes.min()),
        }
    return found


def _quickest(work: Callable[[], object]) -> float:
    """Return the seconds of the fastest of three calls."""
    return min(timeit.repeat(work, number=1, repeat=3))
