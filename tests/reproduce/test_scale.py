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
memory = "600MB"
scratch = true
[[variants]]
name = "large"
rows = 8000
columns = 20
held_out = 500
memory = "600MB"
scratch = true
[[variants]]
name = "fewer"
n_active = 10
rows = 2000
columns = 20
held_out = 500
memory = "600MB"
scratch = true
"""

WORKERS = """
kind = "scale"
title = "Workers"
[data]
name = "toy"
n_train = 50
n_test = 10
[train]
n_active = 20
posterior = "adf"
kernel = "rbf"
[[variants]]
name = "one"
rows = 2000
columns = 20
held_out = 500
workers = 1
[[variants]]
name = "two"
rows = 2000
columns = 20
held_out = 500
workers = 2
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


def test_workers_are_processes_whose_seconds_are_compared(pipeline, tmp_path):
    pipeline.write_text(WORKERS)
    rows = reproduce(pipeline, out=tmp_path / "out").rows
    figures = {(row.variant, row.what): row.ours for row in rows}
    assert figures["one", "test error %"] == figures["two", "test error %"]
    for stage in ("read", "select", "posterior"):
        faster = f"{stage}, times as fast as with fewest workers"
        ratio = figures["one", f"{stage}, seconds"] / figures["two", f"{stage}, seconds"]
        assert figures["two", faster] == pytest.approx(ratio)
        assert figures["one", faster] is None
        assert figures["one", f"{stage}, CPU seconds"] is None
    assert figures["one", "private memory / promised"] is None


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
        ('"600MB"', '"much"', "memory must be a size such as 1GB"),
    ],
)
def test_sizes_must_make_sense(old, new, message, pipeline):
    pipeline.write_text(PIPELINE.replace(old, new))
    with pytest.raises(SparseGPError, match=message):
        reproduce(pipeline)


def test_exponent_of_a_power():
    assert exponent([1e5, 2e5, 8e5], [3.0, 12.0, 192.0]) == pytest.approx(2.0)
