"""One runtime of each kind for the whole session; a real scheduler with two workers over TCP."""

import json
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest

from sparsegp.runtime.base import Runtime
from sparsegp.runtime.clusters import connect, start_local
from sparsegp.runtime.dask import DaskRuntime
from sparsegp.runtime.threads import ThreadRuntime
from tests.processes import PATIENCE
from tests.runtime import blocks
from tests.runtime.by_hand import Cluster

cloudpickle.register_pickle_by_value(blocks)


@pytest.fixture(scope="session")
def scheduler_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster.file


@pytest.fixture(scope="session")
def address(scheduler_file: Path) -> str:
    return str(json.loads(scheduler_file.read_text())["address"])


@pytest.fixture(scope="session")
def thread_runtime() -> Iterator[Runtime]:
    with ThreadRuntime(2) as runtime:
        yield runtime


@pytest.fixture(scope="session")
def local_runtime() -> Iterator[DaskRuntime]:
    """One whose workers can be killed."""
    with start_local(2, PATIENCE) as runtime:
        runtime.rejoin_timeout, runtime.call_timeout = 10.0, PATIENCE
        yield runtime


@pytest.fixture(scope="session")
def tcp_runtime(address: str) -> Iterator[DaskRuntime]:
    with connect(address, n_workers=2, seconds=PATIENCE) as runtime:
        runtime.call_timeout = PATIENCE
        yield runtime


@pytest.fixture(params=["thread", "local", "tcp"])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    runtime: Runtime = request.getfixturevalue(f"{request.param}_runtime")
    runtime.recovery = tuple
    return runtime


@pytest.fixture
def cluster(local_runtime: DaskRuntime) -> DaskRuntime:
    """That runtime, with nothing to recover."""
    local_runtime.recovery = tuple
    return local_runtime
