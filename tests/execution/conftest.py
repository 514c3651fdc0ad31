"""One runtime of each kind for the whole session; a real scheduler with two workers over TCP."""

from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest

from sparsegp.execution.base import Runtime, nothing_to_replay
from sparsegp.execution.dask import DaskRuntime, Limits
from sparsegp.execution.threads import ThreadRuntime
from tests.execution import blocks
from tests.processes import dask_cluster

cloudpickle.register_pickle_by_value(blocks)

LIMITS = Limits(call_seconds=30, rejoin_seconds=10)


@pytest.fixture(scope="session")
def scheduler_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with dask_cluster(tmp_path_factory.mktemp("cluster")) as path:
        yield path


@pytest.fixture(scope="session")
def thread_runtime() -> Iterator[Runtime]:
    with ThreadRuntime(2) as runtime:
        yield runtime


@pytest.fixture(scope="session")
def local_runtime() -> Iterator[Runtime]:
    with DaskRuntime.local(2, LIMITS) as runtime:
        yield runtime


@pytest.fixture(scope="session")
def tcp_runtime(scheduler_file: Path) -> Iterator[Runtime]:
    with DaskRuntime.connect(None, scheduler_file, LIMITS, n_workers=2) as runtime:
        yield runtime


def _fresh(request: pytest.FixtureRequest) -> Runtime:
    runtime: Runtime = request.getfixturevalue(f"{request.param}_runtime")
    runtime.recovery = nothing_to_replay
    return runtime


@pytest.fixture(params=["thread", "local", "tcp"])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    return _fresh(request)


@pytest.fixture(params=["local", "tcp"])
def cluster(request: pytest.FixtureRequest) -> Runtime:
    """A runtime whose workers can be killed."""
    return _fresh(request)
