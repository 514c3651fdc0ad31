"""Peak memory of a run on worker processes: ``python -m tests.runtime.peaks STORE SPEC``.

Prints JSON: the peak of each worker and of the driver when the run and predictions were done, and
with a scratch folder the private peaks of the workers, without pages of files.
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import psutil

from sparsegp.data import open_dataset
from sparsegp.fit import Training
from sparsegp.runtime.clusters import start_local
from sparsegp.settings import TrainSettings
from tests.processes import worker_processes


def peak(pid: int) -> int:
    """Return the greatest resident memory of a process so far, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("a system that does not tell")


class Watch(threading.Thread):
    """Looks at the private memory of processes, which the system does not keep the peak of."""

    def __init__(self, pids: list[int]) -> None:
        super().__init__(daemon=True)
        self.processes = [psutil.Process(pid) for pid in pids]
        self.peaks = dict.fromkeys(pids, 0)
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.02):
            for process in self.processes:
                with suppress(psutil.Error):
                    memory = process.memory_info()
                    private = memory.rss - memory.shared
                    self.peaks[process.pid] = max(self.peaks[process.pid], private)


def measure(store: str, n_workers: int, settings: dict[str, Any], scratch: str | None) -> Any:
    """Train and predict; return peaks."""
    data = open_dataset(store)
    with start_local(n_workers) as runtime:
        pids = [process.pid for process in worker_processes(os.getpid())]
        assert len(pids) == n_workers
        watch = Watch(pids)
        watch.start()
        with Training(
            data.train,
            TrainSettings.given(**settings),
            held_out=data.test,
            runtime=runtime,
            scratch=scratch,
        ) as run:
            run.build()
            run.learn()
            run.select()
            model = run.finish(keep_blocks=False)
        client: Any = runtime._client
        predict: Callable[[Any], Any] = (
            model.predictive_mean_and_variance if model.is_regression else model.predict_log_proba
        )
        with client.as_current() if scratch is None else nullcontext():
            answer = predict(data.train.X)
            client.compute((answer[0] if model.is_regression else answer).sum()).result()
        watch.ended.set()
        return {
            "workers": [peak(pid) for pid in pids],
            "private": list(watch.peaks.values()),
            "driver": peak(os.getpid()),
        }


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], **json.loads(sys.argv[2]))))
