"""Runs of the library as tests begin them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparsegp
from sparsegp.data import table_from_arrays
from sparsegp.execution import open_runtime
from sparsegp.run_directory import RunDirectory
from sparsegp.settings import TrainSettings
from sparsegp.training import Training


@contextmanager
def begun(
    X: np.ndarray, y: np.ndarray, settings: dict[str, Any], path: Path, **places: Any
) -> Iterator[Training]:
    """Yield a run in a directory, its blocks built; it goes on with what it finds there."""
    with (
        open_runtime(**places) as runtime,
        Training(
            table_from_arrays(X, y),
            TrainSettings.given(**settings),
            runtime=runtime,
            directory=RunDirectory(path, 2, pytest.fail),
            resume=True,
        ) as run,
    ):
        run.build()
        yield run


def select_some(
    X: np.ndarray, y: np.ndarray, settings: dict[str, Any], path: Path, stop: Any
) -> None:
    """Select until a stop is requested, which raises `Interrupted`."""
    with begun(X, y, settings, path) as run:
        run.select(stop)


def outcome(model: sparsegp.Model, X: np.ndarray) -> np.ndarray:
    """Return all that is predicted for rows: log probabilities, or means and variances."""
    if model.is_regression:
        return np.stack(model.predictive_mean_and_variance(X), axis=1)
    return np.asarray(model.predict_log_proba(X))
