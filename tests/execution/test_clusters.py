"""Opening runtimes: options, addresses and files."""

import json
import os
import socket
import time
from itertools import groupby
from pathlib import Path

import dask.array as da
import numpy as np
import psutil
import pytest
from distributed import Client

from sparsegp.errors import ClusterError, SettingsError
from sparsegp.execution import Part, open_runtime
from sparsegp.execution.base import Runtime
from sparsegp.execution.dask import DaskRuntime
from sparsegp.execution.threads import ThreadRuntime
from tests.execution.blocks import Tally


def test_threads_are_the_default() -> None:
    with open_runtime() as runtime:
        assert isinstance(runtime, ThreadRuntime)
    with open_runtime(threads=3) as runtime:
        assert runtime.n_workers == 3


def test_contradictions_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"only one of .* got threads and workers"):
        open_runtime(threads=2, workers=2)
    with pytest.raises(SettingsError, match="got scheduler and scheduler_file"):
        open_runtime(scheduler="tcp://127.0.0.1:1", scheduler_file="s.json")
    with pytest.raises(SettingsError, match="at least 1, got 0"):
        open_runtime(workers=0)
    with pytest.raises(SettingsError, match="either the address"):
        DaskRuntime.connect()


def test_silent_address_is_named_in_time() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        begin = time.monotonic()
        with pytest.raises(ClusterError, match=address):
            DaskRuntime.connect(address, timeout=1.0)
        assert time.monotonic() - begin < 5


def test_nobody_listens() -> None:
    with pytest.raises(ClusterError, match=r"tcp://127.0.0.1:9"):
        DaskRuntime.connect("tcp://127.0.0.1:9", timeout=0.5)


def test_scheduler_file_must_be_right(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="cannot be read"):
        open_runtime(scheduler_file=tmp_path / "none.json")
    damaged = tmp_path / "damaged.json"
    damaged.write_text("{")
    with pytest.raises(ClusterError, match="holds no scheduler address"):
        open_runtime(scheduler_file=damaged)


def test_too_few_workers(scheduler_file: Path) -> None:
    with pytest.raises(ClusterError, match="but 40 must be there; start workers with"):
        DaskRuntime.connect(None, scheduler_file, n_workers=40, timeout=0.5)


def test_connect_by_address_and_by_file(scheduler_file: Path) -> None:
    address = json.loads(scheduler_file.read_text())["address"]
    for options in ({"scheduler": address}, {"scheduler_file": scheduler_file}):
        with open_runtime(**options) as runtime:
            runtime.build(Tally, [Part(0, {"index": 0})])
            assert runtime.map_blocks("name") == ["block 0"]
            assert address in runtime.describe()


def test_client_of_the_caller_and_persisted_inputs(scheduler_file: Path) -> None:
    with Client(scheduler_file=str(scheduler_file), set_as_default=False) as client:
        X = client.persist(da.arange(8.0, chunks=4))
        with DaskRuntime(client) as runtime:
            runtime.build(Tally, [Part(k, {"index": k, "rows": X.blocks[k]}) for k in range(2)])
            np.testing.assert_array_equal(
                np.concatenate(runtime.map_blocks("values")), np.arange(8.0)
            )
        assert client.status == "running"


def test_workers_share_the_blocks_evenly(local_runtime: Runtime) -> None:
    local_runtime.build(Tally, [Part(k, {"index": k}) for k in range(6)])
    processes = local_runtime.map_blocks("process")
    shares = [len(list(group)) for _, group in groupby(processes)]
    assert len(shares) == len(set(processes)) == local_runtime.n_workers
    assert max(shares) - min(shares) <= 1
    assert os.getpid() not in processes


def test_local_sockets_are_on_loopback(local_runtime: Runtime) -> None:
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    listening = [
        connection.laddr.ip
        for process in family
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert set(listening) == {"127.0.0.1"}
