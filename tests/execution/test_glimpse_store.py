"""What is seen of runs in stores; runs of other processes are in tests/cli/test_attach.py."""

import os
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

import sparsegp
from sparsegp.checkpoint import StorePath, lock_of, place_of
from sparsegp.execution.glimpse import in_store, look, stop
from sparsegp.report.journal import Ending, Journal
from tests.processes import wait_until


@pytest.fixture
def place() -> StorePath:
    found = place_of(f"memory://{uuid4().hex}/run")
    assert isinstance(found, StorePath)
    return found


@pytest.fixture
def held(place: StorePath) -> Iterator[StorePath]:
    """A run whose lease this process holds."""
    with lock_of(place):
        (place / "run.json").write_bytes(b"{}")
        yield place


def test_nothing_is_there(place: StorePath) -> None:
    seen = look(str(place), True)
    assert (seen["exists"], seen["finished"], seen["progress"], seen["holder"]) == (
        False,
        False,
        None,
        "",
    )
    assert not stop(str(place))


def test_the_journal_of_a_run_is_seen(place: StorePath) -> None:
    journal = Journal(place)
    journal.open()
    with lock_of(place):
        (place / "run.json").write_bytes(b"{}")
        journal.begin("read")
        journal.start(7, "rows", "select")
        journal.update(3, loss=0.5)

        def told() -> Any:
            return look(str(place), False)["progress"]

        assert wait_until(lambda: told() is not None, 30)
        [work] = told()["works"]
        assert (work["total"], work["last"][1], work["figures"]) == (7, 3, {"loss": 0.5})
        assert look(str(place), True)["holder"].startswith(f"process {os.getpid()} on ")
        journal.close(Ending(75, "stopped"))
    seen = look(str(place), True)
    assert seen["progress"]["ending"]["code"] == 75
    assert (seen["exists"], seen["finished"], seen["holder"]) == (True, False, "")


def test_only_the_holder_of_a_run_that_is_not_finished_writes(held: StorePath) -> None:
    late = Journal(held)
    late.open()
    late.close(Ending(0))
    assert look(str(held), False)["progress"] is None


def test_a_finished_run(place: StorePath) -> None:
    rng = np.random.default_rng(0)
    sparsegp.train(rng.standard_normal((30, 2)), np.arange(30) % 2, n_active=4, out=str(place))
    assert look(str(place), True)["finished"]


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000])
def test_progress_that_is_not_whole_is_none(held: StorePath, content: bytes) -> None:
    (held / "progress.json").write_bytes(content)
    assert look(str(held), False)["progress"] is None


def test_what_is_in_a_store() -> None:
    assert [in_store(name) for name in ("s3://b/run", "run", "/a/run", "file:///a/run")] == [
        True,
        False,
        False,
        False,
    ]
