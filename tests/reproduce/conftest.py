"""A small pipeline on toy data, and the folder of shipped pipelines."""

from pathlib import Path

import pytest

SMALL = """
title = "Small"
paper = "Nobody (1900)"
seeds = [0, 1]
data_seeds = [5, 6]

[data]
name = "toy"
n_train = 120
n_test = 90

[train]
kernel = "ard(0.3, 0.3, 100, 100, 100, 100, 100, 100, 100, 100)"
scaling = "none"
posterior = "adf"
n_active = 20
report_every = 5

[[variants]]
name = "informative"

[[variants]]
name = "random"
criterion = "random"

[report]
what = ["test error %", "test NLPP"]
n_active = [10, 20]

[[published]]
variant = "informative"
what = "test error %"
value = 3.5
where = "table 9"

[[published]]
variant = "random"
what = "test error %"
n_active = 10
below = 50
where = "figure 9"

[[goals]]
variant = "informative"
what = "test error %"
at_most = 100
"""


@pytest.fixture
def small(tmp_path):
    """A function that writes the small pipeline with replacements and returns its path."""

    def write(*replacements: tuple[str, str]) -> Path:
        text = SMALL
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "small.toml"
        path.write_text(text)
        return path

    return write


@pytest.fixture(scope="session")
def shipped():
    folder = Path(__file__).parents[2] / "pipelines"
    found = sorted(folder.rglob("*.toml"))
    assert len(found) >= 4
    return found


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch):
    monkeypatch.delenv("SPARSEGP_DATA", raising=False)
