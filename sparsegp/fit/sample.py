"""The rows of a tuning: some are held out of every trial, the others make nested subsamples."""

import hashlib
from typing import Any

import numpy as np

from sparsegp.errors import DataError
from sparsegp.fit.prepare import Prepared
from sparsegp.learning.relevances import Sample
from sparsegp.settings import TrainSettings
from sparsegp.types import Integers

HELD_SHARE = 5
"""One row in so many is held out."""

MOST_HELD = 4000


def draw_sample(
    data: Prepared, settings: TrainSettings, most: int, scheduler: Any = None
) -> Sample:
    """Read the rows of a tuning, scaled, and no others.

    Parameters
    ----------
    data : Prepared
    settings : TrainSettings
    most : int
        Rows to train on, at most.
    scheduler : str or callable, optional
        Of dask, which reads the rows; its own choice if left out.
    """
    order = stratified_order(data.target, settings.seed)
    train, held = split_sizes(len(order), most)
    rows, held_rows = order[:train], order[len(order) - held :]
    wanted = np.sort(np.concatenate([rows, held_rows]))
    X: Any = data.train.X
    scaled = data.scaling.apply(np.asarray(X[wanted].compute(scheduler=scheduler)), settings.dtype)
    return Sample(
        scaled[np.searchsorted(wanted, rows)],
        data.target[rows],
        scaled[np.searchsorted(wanted, held_rows)],
        data.target[held_rows],
        len(data.classes),
    )


def split_sizes(n: int, most: int) -> tuple[int, int]:
    """Return how many of n rows serve to train on, at most `most`, and how many are held out.

    Raises
    ------
    DataError
        If there are too few rows.
    """
    held = min(n // HELD_SHARE, MOST_HELD)
    if held < 1:
        raise DataError(
            f"tuning needs at least {HELD_SHARE} rows, of which it holds one out, found {n}; "
            "choose the kernel yourself by --kernel"
        )
    return min(n - held, most), held


def stratified_order(target: Integers, seed: int) -> Integers:
    """Return the row numbers (n,) in an order whose every beginning is a stratified sample.

    Rows are ordered by (r + 1/2) / n_k, where row r of n_k in class k is counted along a keyed
    permutation. Every beginning of that order has the classes in the proportions of the whole, and
    so has its end, which is held out.

    Parameters
    ----------
    target : Integers (n,)
        Class codes.
    seed : int
        Key of the permutation.
    """
    n = len(target)
    permuted = np.random.default_rng([seed, n]).permutation(n)
    codes = target[permuted]
    by_class = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    starts = np.cumsum(sizes) - sizes
    rank = np.empty(n)
    rank[by_class] = np.arange(n) - np.repeat(starts, sizes)
    return np.asarray(permuted[np.argsort((rank + 0.5) / sizes[codes], kind="stable")])


def digest(sample: Sample) -> str:
    """Return a digest of all values."""
    found = hashlib.blake2b(digest_size=16)
    for values in (sample.X, sample.target, sample.X_held, sample.target_held):
        found.update(np.ascontiguousarray(values).data)
    return found.hexdigest()
