"""Shared by the data tests: a small sample, and the folder of real data sets."""

import os
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def sample():
    """X (30, 4) of doubles that text keeps exactly, and integer labels."""
    rng = np.random.default_rng(0)
    return rng.integers(-800, 800, size=(30, 4)) / 16.0, rng.integers(0, 3, size=30)


@pytest.fixture(scope="session")
def real_data():
    folder = os.environ.get("SPARSEGP_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("SPARSEGP_DATA does not name the folder of real data sets")
    return Path(folder)
