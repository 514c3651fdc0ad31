"""Runs whose processes are killed at any instant, and runs on a cluster of somebody else's.

Half of the kills hit the driver, which is then started again with --resume; the others hit a worker
process while the driver goes on. `pytest -s` tells what every kill hit, and when.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from click.testing import CliRunner
from distributed import Client

from sparsegp.cli import main
from tests.processes import dask_cluster, environment, worker_processes

ROUNDS = ("--no-lazy", "--lookahead", 4, "--checkpoint-every", 20)
ADF = ("--posterior", "adf", "--panel", 1, *ROUNDS)
ALL = ("--posterior", "all", "--tolerance", "1e-9", "--kernel", "100*rbf(1)", *ROUNDS)
SHORTER = ("--tolerance", "1e-6")
GIVEN_UP = "times without an answer"
"""What a driver may say that lost the same worker again and again."""
Outcome = tuple[list[int], dict[str, np.ndarray]]


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", *map(str, arguments)]


def train(*arguments: object) -> dict[str, Any]:
    """Train in a process of its own, undisturbed; return the record of the run."""
    done = subprocess.run(
        command("sparsegp", "train", *arguments, "--quiet", "--json"),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return record


def invoke(*arguments: object) -> str:
    """Run the program in this process; return what it printed."""
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result.stdout


def outcome(run: Path, data: Path) -> Outcome:
    """Return the active rows, and the predictions with latent means and variances."""
    rows: list[int] = json.loads(invoke("inspect", run, "--json").splitlines()[-1])["active_rows"]
    out = run.with_suffix(".npz")
    invoke("predict", run, data, "--out", out, "--latent")
    with np.load(out) as arrays:
        return rows, dict(arrays)


def assert_same(found: Outcome, expected: Outcome) -> None:
    assert found[0] == expected[0]
    assert found[1].keys() == expected[1].keys()
    for name, array in found[1].items():
        assert array.dtype == expected[1][name].dtype
        assert array.tobytes() == expected[1][name].tobytes(), name


# -- kills -----------------------------------------------------------------------------------------


@dataclass
class Steps:
    """How far a run is, by its checkpoints: inclusions, and rounds of the posterior after them.

    Rounds are numbered from `n_active` again after a resume.
    """

    run: Path
    n_active: int
    done: int = 0
    newest: tuple[int, int] = (0, 0)

    def look(self) -> int:
        found = (0, 0)
        for path in self.run.glob("checkpoints/[0-9]*"):
            with suppress(FileNotFoundError):
                found = max(found, (path.stat().st_mtime_ns, int(path.name)))
        if found > self.newest:
            step, former = found[1], self.newest[1]
            self.done += step - (former if step > former else min(step - 1, self.n_active))
            self.newest = found
        return self.done


class Series:
    """One run with two workers, and what is done to it.

    Parameters
    ----------
    run : Path
        Its directory.
    arguments : tuple
        Of `train`.
    steps : Steps
    """

    def __init__(self, run: Path, arguments: tuple[object, ...], steps: Steps) -> None:
        self.arguments, self.run, self.steps = arguments, run, steps
        self.errors = run.with_suffix(".err")
        self.begin = time.monotonic()
        self.kills, self.surrenders = 0, 0
        self.workers: dict[int, psutil.Process] = {}
        self.start()

    def start(self) -> None:
        with self.errors.open("ab") as errors:
            self.driver = subprocess.Popen(
                command("sparsegp", "train", *self.arguments, "--out", self.run, "--resume"),
                env=environment(),
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )

    def revive(self) -> None:
        """Start the driver again if it gave up for want of workers."""
        code = self.driver.poll()
        if code is None:
            return
        text = self.errors.read_text()[-3000:]
        assert code == 2, f"ended with {code} after {self.kills} kills: {text}"
        last = text.splitlines()[-1]
        assert GIVEN_UP in last, text
        print(f"given up, to be resumed: {last}")
        self.surrenders += 1
        self.start()

    def find_workers(self) -> list[psutil.Process]:
        found = worker_processes(self.driver.pid)
        self.workers |= {child.pid: child for child in found}
        return sorted(found, key=lambda child: child.pid)

    def wait(self, seconds: float, furthest: float) -> None:
        """Wait so long, or until the run is so far."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.steps.look() < furthest:
            self.revive()
            time.sleep(0.01)

    def kill(self, victim: str, pid: int) -> None:
        age = time.time() - psutil.Process(self.driver.pid).create_time()
        os.kill(pid, signal.SIGKILL)
        self.kills += 1
        print(
            f"kill {self.kills:2}: {victim} {pid} at {time.monotonic() - self.begin:5.1f} s, "
            f"driver {age:4.1f} s old, newest checkpoint {self.steps.newest[1]}"
        )

    def kill_driver(self) -> None:
        self.revive()
        self.kill("driver", self.driver.pid)
        self.driver.wait(10)
        self.start()

    def kill_worker(self, rng: np.random.Generator) -> bool:
        """Kill one of the workers; False if there are none yet."""
        workers = self.find_workers()
        if workers:
            self.kill("worker", workers[rng.integers(len(workers))].pid)
        return bool(workers)

    def end(self) -> None:
        """Let the run end in peace; nothing stays behind."""
        while self.driver.wait(300) != 0:
            self.revive()
        _, alive = psutil.wait_procs(list(self.workers.values()), timeout=30)
        assert not alive
        assert not [path for path in (self.run / "checkpoints").iterdir() if path.name[0] == "."]
        print(
            f"{self.kills} kills; {self.errors.read_text().count(' rebuilt, ')} lost workers "
            f"replaced, {self.surrenders} times given up and resumed; finished after "
            f"{time.monotonic() - self.begin:.1f} s"
        )


def kill_at_random(series: Series, kills: int, longest: float, total: int) -> None:
    """Kill drivers and workers in random order, each before its share of the run is done."""
    rng = np.random.default_rng(kills)
    victims = ["driver", "worker"] * (kills // 2)
    rng.shuffle(victims)
    for i, victim in enumerate(victims):
        furthest = total * (i + 1) / (kills + 1)
        series.wait(rng.uniform(0.0, longest), furthest)
        if victim == "driver":
            series.kill_driver()
        else:
            while not series.kill_worker(rng):
                series.wait(rng.uniform(0.0, longest), furthest)
    series.end()


@pytest.mark.parametrize(
    ("kills", "n_active", "arguments"),
    [
        pytest.param(6, 100, ADF, id="6 kills"),
        pytest.param(4, 60, (*ALL, *SHORTER), id="4 kills, posterior all"),
        pytest.param(30, 1000, ADF, id="30 kills", marks=pytest.mark.slow),
        pytest.param(30, 600, ALL, id="30 kills, posterior all", marks=pytest.mark.slow),
    ],
)
def test_killed_at_any_instant(
    kills: int, n_active: int, arguments: tuple[object, ...], clusters: Path, tmp_path: Path
) -> None:
    """With a run that was never killed, to which it comes down in the end."""
    arguments = (clusters, "--n-active", n_active, *arguments, "--workers", 2)
    begin = time.monotonic()
    taken = train(*arguments, "--out", tmp_path / "whole")["seconds"]
    rounds = taken["select"] + taken["posterior"]
    start = time.monotonic() - begin - rounds
    steps = max(int(path.name) for path in (tmp_path / "whole" / "checkpoints").iterdir())
    print(f"\n{kills} kills of: train {' '.join(map(str, arguments[1:]))}")
    print(f"never killed: {start:.1f} s to start and end, {rounds:.1f} s for {steps} rounds")
    run = tmp_path / "run"
    series = Series(run, (*arguments, "--quiet"), Steps(run, n_active))
    try:
        kill_at_random(series, kills, start + 2 * rounds / kills, steps)
    finally:
        series.driver.kill()
        series.driver.wait(10)
    assert series.kills == kills
    assert_same(outcome(run, clusters), outcome(tmp_path / "whole", clusters))


# -- a cluster of somebody else's ------------------------------------------------------------------


@pytest.fixture(scope="module")
def scheduler_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A `dask scheduler` and two `dask worker`, each a process of its own."""
    with dask_cluster(tmp_path_factory.mktemp("cluster")) as path:
        with Client(scheduler_file=str(path), set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        yield path


def test_scheduler_and_workers_started_by_hand(
    scheduler_file: Path, clusters: Path, tmp_path: Path
) -> None:
    """Told by its address or by its file; the result is that of threads, to the last bit."""
    settings = (clusters, "--n-active", 150, "--posterior", "active")
    train(*settings, "--threads", 2, "--out", tmp_path / "threads")
    expected = outcome(tmp_path / "threads", clusters)
    address = json.loads(scheduler_file.read_text())["address"]
    assert address.startswith("tcp://")
    for name, where in {
        "address": ("--scheduler", address),
        "file": ("--scheduler-file", scheduler_file, "--block-rows", 512),
    }.items():
        train(*settings, *where, "--out", tmp_path / name)
        assert_same(outcome(tmp_path / name, clusters), expected)
    with Client(address, set_as_default=False) as client:  # still there, and empty
        assert len(client.nthreads()) == 2
        assert not any(client.has_what().values())
