"""Sums of answers, added where the blocks are."""

import sys
from pathlib import Path

import cloudpickle
import numpy as np
import pytest

from sparsegp.execution.base import Runtime
from tests.execution.blocks import die_once, parts

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Counts:
    """Answers with whole numbers, whose sum does not depend on the order."""

    def __init__(self, index: int) -> None:
        self.index = index

    def share(self, factor: int) -> np.ndarray:
        return factor * np.arange(3.0) * 10.0**self.index

    def share_or_die(self, mark: str, only: int) -> np.ndarray:
        if self.index == only:
            die_once(mark)
        return self.share(1)

    def fail(self, only: int) -> np.ndarray:
        if self.index == only:
            raise ValueError(f"from {only}")
        return self.share(1)


def test_sum_of_some_blocks(runtime: Runtime) -> None:
    runtime.build(Counts, parts(5))
    assert runtime.sum_blocks(range(5), "share", 2).tolist() == [0, 22222, 44444]
    assert runtime.sum_blocks([1, 4], "share", 1).tolist() == [0, 10010, 20020]
    assert runtime.sum_blocks([0], "share", 1).tolist() == [0, 1, 2]


def test_what_a_block_raises_names_it(runtime: Runtime) -> None:
    runtime.build(Counts, parts(4))
    with pytest.raises(ValueError, match="from 2") as caught:
        runtime.sum_blocks(range(4), "fail", 2)
    assert any("raised by block 2 in fail" in note for note in caught.value.__notes__)


def test_each_block_counts_once_although_a_worker_is_lost(cluster: Runtime, tmp_path: Path) -> None:
    cluster.build(Counts, parts(4))
    found = cluster.sum_blocks(range(4), "share_or_die", str(tmp_path / "mark"), 3)
    assert (tmp_path / "mark").exists()
    assert found.tolist() == [0, 1111, 2222]
