"""What a round costs, measured on real workers."""

import pytest

from sparsegp.errors import SparseGPError
from sparsegp.reproduce import reproduce

PIPELINE = """
kind = "rounds"
title = "Rounds"
[data]
name = "toy"
n_train = 50
n_test = 10
[train]
n_active = 1
[[variants]]
name = "threads"
rounds = 20
[[variants]]
name = "workers"
workers = 2
rounds = 20
message_bytes = 100000
[[variants]]
name = "one"
workers = 1
rounds = 20
[[variants]]
name = "four"
workers = 4
simulated = true
compute_ms = 100.0
spread = 0.0
"""


@pytest.fixture
def pipeline(tmp_path):
    path = tmp_path / "rounds.toml"
    path.write_text(PIPELINE)
    return path


def test_rounds_of_threads_and_workers(pipeline, tmp_path):
    rows = reproduce(pipeline, out=tmp_path / "out").rows
    figures = {(row.variant, row.what): row.ours for row in rows}
    for variant in ("threads", "workers"):
        quantiles = [figures[variant, f"ms a round{which}"] for which in (", 5 %", "", ", 95 %")]
        assert 0 < quantiles[0] <= quantiles[1] <= quantiles[2]
        assert figures[variant, "driver, CPU ms a call"] > 0
    assert figures["workers", "ms a round and worker"] == figures["workers", "ms a round"] / 2
    assert figures["threads", "ms a round"] < figures["workers", "ms a round"]
    foretold = {variant: figures[variant, "ms a round, foretold"] for variant, _ in figures}
    assert foretold["threads"] is None
    assert 0 < foretold["one"] < foretold["workers"]
    assert 100.0 < foretold["four"] < 200.0


def test_numbers_must_make_sense(pipeline):
    pipeline.write_text(PIPELINE.replace("workers = 2", "workers = -2"))
    with pytest.raises(SparseGPError, match="must be at least 0, got -2"):
        reproduce(pipeline)
