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
        assert 0 < figures[variant, "ms a round"] <= figures[variant, "ms a round, 95 %"]
    assert figures["workers", "ms a round and worker"] == figures["workers", "ms a round"] / 2
    assert figures["threads", "ms a round"] < figures["workers", "ms a round"]


def test_numbers_must_make_sense(pipeline):
    pipeline.write_text(PIPELINE.replace("workers = 2", "workers = -2"))
    with pytest.raises(SparseGPError, match="must be at least 0, got -2"):
        reproduce(pipeline)
