"""Runs on rows that are larger than the memory given to them."""

import pytest

from sparsegp.errors import SparseGPError
from sparsegp.reproduce import reproduce
from sparsegp.reproduce.kinds.scale import exponent

PIPELINE = """
kind = "scale"
title = "Scale"
[data]
name = "toy"
n_train = 50
n_test = 10
[train]
n_active = 40
posterior = "adf"
kernel = "rbf"
[[variants]]
name = "small"
rows = 2000
columns = 20
held_out = 500
memory = "400MB"
scratch = true
[[variants]]
name = "large"
rows = 8000
columns = 20
held_out = 500
memory = "400MB"
scratch = true
[[variants]]
name = "fewer"
n_active = 10
rows = 2000
columns = 20
held_out = 500
memory = "400MB"
scratch = true
"""


@pytest.fixture
def pipeline(tmp_path):
    path = tmp_path / "scale.toml"
    path.write_text(PIPELINE)
    return path


def test_two_sizes(pipeline, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    rows = reproduce(pipeline, out=tmp_path / "out").rows
    figures = {(row.variant, row.what): row.ours for row in rows}
    for variant, count in (("small", 2000), ("large", 8000)):
        assert figures[variant, "data, MiB"] == pytest.approx(count * 20 * 4 / 2**20)
        assert 50 < figures[variant, "private memory, MiB"] < figures[variant, "memory given, MiB"]
        assert 0.0 < figures[variant, "private memory / promised"] < 1.15
        least = figures[variant, "least test error %"]
        assert 5.0 < least < figures[variant, "test error %"] < 60.0
        assert figures[variant, "least test NLPP"] < figures[variant, "test NLPP"]
        seconds = figures[variant, "seconds"]
        assert figures[variant, "rows / s"] == pytest.approx(count / seconds)
    assert figures["small", "growth with rows"] is None
    assert figures["large", "growth with rows"] is not None
    assert figures["large", "growth with active rows"] is None
    assert figures["small", "growth with active rows"] is not None
    assert figures["fewer", "growth with active rows"] is None
    assert list((tmp_path / "temporary").iterdir()) == []


def test_memory_that_is_not_enough_is_an_error(pipeline, tmp_path):
    """The run is refused, with settings that would fit."""
    pipeline.write_text(
        PIPELINE.replace("scratch = true", "scratch = false").replace(
            "n_active = 40", "n_active = 7000"
        )
    )
    with pytest.raises(SparseGPError, match=r"takes .* GB of memory.*what would fit: --n-active"):
        reproduce(pipeline, out=tmp_path / "out", cells="large-0")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("columns = 20", "columns = 3", "columns must be at least 4, got 3"),
        ('"400MB"', '"much"', "memory must be a size such as 1GB"),
    ],
)
def test_sizes_must_make_sense(old, new, message, pipeline):
    pipeline.write_text(PIPELINE.replace(old, new))
    with pytest.raises(SparseGPError, match=message):
        reproduce(pipeline)


def test_exponent_of_a_power():
    assert exponent([1e5, 2e5, 8e5], [3.0, 12.0, 192.0]) == pytest.approx(2.0)
