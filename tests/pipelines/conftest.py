"""A small pipeline, and how it is read and run."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.experiment import read_experiment
from pipelines.run import Work

SMALL = """
title = "Small"
paper = "Nobody (1900)"
seeds = [5, 6]
data.toy = { n_train = 120, n_test = 90 }
picture = "curves"

settings.kernel = "ard(0.3, 0.3, 100, ...)"
settings.scaling = "none"
settings.posterior = "adf"
settings.n_active = 20
settings.report_every = 5

methods.informative = { baseline = "random" }
methods.random = { criterion = "random" }
methods.neighbours = { estimator = "pipelines.baselines.ProbabilisticNeighbour" }

table.columns = ["test error %", "test NLPP less baseline"]
table.n_active = [10, 20]

published = [
  { method = "informative", metric = "test error %", value = 3.5, where = "table 9" },
  { method = "random", metric = "test error %", n_active = 10, value = 50, below = true },
]

goals = [
  { method = "informative", metric = "test error %", at_most = 100 },
  { method = "random", metric = "test error %", near = 0.0, within = 1e-9 },
]
"""


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Write a pipeline, the small one unless another is given, with replacements."""

    def write(*replacements: tuple[str, str], text: str = SMALL) -> Path:
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "small.toml"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def work(written: Callable[..., Path], tmp_path: Path) -> Callable[..., Work]:
    """Read a pipeline that `written` writes, with a folder for its results."""

    def make(*replacements: tuple[str, str], text: str = SMALL, out: str = "out") -> Work:
        path = written(*replacements, text=text)
        return Work(read_experiment(path), None, tmp_path / out)

    return make


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARSEGP_DATA", raising=False)
