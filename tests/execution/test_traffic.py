"""The model of calls and bytes, against what passes between a driver and a worker over TCP."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from sparsegp.data import table_from_arrays
from sparsegp.estimate.memory import Shape
from sparsegp.estimate.traffic import Traffic, ascent_traffic, selection_traffic
from sparsegp.execution.dask import DaskRuntime
from sparsegp.settings import TrainSettings
from sparsegp.training import Training
from tests.execution.by_hand import Cluster
from tests.execution.proxy import Proxy, free_port

N, P, CLASSES, D = 6000, 40, 4, 160


class Counter(Proxy):
    """A proxy that counts calls and bytes.

    On a connection of dask a call is answered before the next one comes, so a call is counted
    whenever data go to the worker after data came from it.
    """

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.traffic = Traffic()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, there = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers |= {writer, there}
        asked: list[bool] = [False]
        await asyncio.gather(
            self._counted(reader, there, asked, True), self._counted(answers, writer, asked, False)
        )

    async def _counted(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        asked: list[bool],
        question: bool,
    ) -> None:
        try:
            while data := await reader.read(1 << 16):
                self.traffic += Traffic(
                    calls=int(question and not asked[0]),
                    sent=len(data) * question,
                    received=len(data) * (not question),
                )
                asked[0] = question
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.close()


def difference(after: Traffic, before: Traffic) -> Traffic:
    return Traffic(
        0,
        after.calls - before.calls,
        after.sent - before.sent,
        after.received - before.received,
    )


@pytest.mark.parametrize("panel", [16, pytest.param(64, marks=pytest.mark.slow)])
def test_calls_and_bytes(panel: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, N)
    X = rng.standard_normal((CLASSES, P))[y] + rng.standard_normal((N, P))
    settings = TrainSettings(n_active=D, panel=panel, calibration="none", tolerance=1e-3)
    port = free_port()
    with Counter(port) as counter, Cluster(tmp_path, n_workers=1) as cluster:
        cluster.add_behind(port, counter.address)
        cluster.client.wait_for_workers(2, timeout=60)
        with (
            DaskRuntime.connect(None, cluster.file, n_workers=2) as runtime,
            Training(table_from_arrays(X, y), settings, runtime=runtime) as run,
        ):
            run.build()
            began = counter.traffic
            selection = run.selection()
            while len(run.active) < D:
                selection.round(D)
            selected = counter.traffic
            rounds = run.finish().report["rounds"]
            finished = counter.traffic
            blocks = runtime.n_blocks / 2
    shape = Shape(P, D, CLASSES, 1, settings)
    found, told = difference(selected, began), selection_traffic(shape, N, 2, blocks)
    assert found.calls == told.calls
    assert found.sent == pytest.approx(told.sent, rel=0.1)
    assert found.received == pytest.approx(told.received, rel=0.35)  # who holds candidates: chance
    found, told = difference(finished, selected), ascent_traffic(shape, rounds, blocks)
    assert found.calls == pytest.approx(told.calls, abs=rounds)
    assert found.sent == pytest.approx(told.sent, rel=0.1)
    assert found.received == pytest.approx(told.received, rel=0.1)
