"""`train --driver cluster`: drivers beside a real scheduler; they and commands are killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import psutil
import pytest
from click.testing import CliRunner, Result

import sparsegp
from sparsegp.cli import driver, main
from sparsegp.cli.train import train
from sparsegp.errors import ClusterError
from sparsegp.execution.elsewhere import Outpost, outpost_of
from sparsegp.execution.security import write_certificate
from tests.execution.by_hand import Cluster
from tests.processes import dask_cluster, environment, wait_until

N_ACTIVE = 300
SETTINGS: dict[str, Any] = {
    "n_active": N_ACTIVE, "posterior": "adf", "panel": 1, "lazy": False, "n_nodes": 60,
}  # fmt: skip
OPTIONS = [
    "--n-active",
    "300",
    "--posterior",
    "adf",
    "--panel",
    "1",
    "--no-lazy",
    "--n-nodes",
    "60",
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(3)
    y = rng.integers(0, 4, size=800)
    path = tmp_path_factory.mktemp("data") / "data.npz"
    np.savez(path, X=rng.standard_normal((4, 5))[y] + rng.standard_normal((800, 5)), y=y)
    return path


@pytest.fixture(scope="module")
def expected(data: Path) -> sparsegp.Model:
    with np.load(data) as arrays:
        return sparsegp.train(arrays["X"], arrays["y"], threads=1, **SETTINGS)


def same(run: Path | str, expected: sparsegp.Model, data: Path) -> bool:
    """Compare to the last bit."""
    model = sparsegp.load(run)
    with np.load(data) as arrays:
        found, wanted = (each.predict_log_proba(arrays["X"]) for each in (model, expected))
    return bool(np.array_equal(model.rows, expected.rows)) and found.tobytes() == wanted.tobytes()


def invoke(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def ask(*arguments: object) -> dict[str, Any]:
    """Return what a command prints by --json."""
    found: dict[str, Any] = json.loads(invoke(*arguments, "--json").stdout.splitlines()[-1])
    return found


def words(data: object, run: Path | str, where: list[object]) -> list[object]:
    return ["train", data, "--out", run, *OPTIONS, "--driver", "cluster", *where]


def is_selecting(outpost: Outpost, run: Path) -> bool:
    told = outpost.look(str(run), False)["progress"]
    return bool(told and told["stage"] == "select")


@contextmanager
def started(arguments: list[object]) -> Iterator["subprocess.Popen[str]"]:
    """Run the program in a process of its own, which has ended in the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "sparsegp", *map(str, arguments)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def end_drivers(tmp_path: Path) -> Iterator[None]:
    """End the drivers that a test left, which are nobody's children here."""
    yield
    for process in psutil.process_iter(["cmdline"]):
        if str(tmp_path) in " ".join(process.info["cmdline"] or ()):
            with suppress(psutil.NoSuchProcess):
                process.kill()


pytestmark = pytest.mark.usefixtures("end_drivers")


def test_a_run_outlives_its_command(
    scheduler_file: Path, data: Path, expected: sparsegp.Model, tmp_path: Path
) -> None:
    run, where = tmp_path / "run", ["--scheduler-file", scheduler_file]
    with outpost_of(scheduler_file=str(scheduler_file), workers=False) as outpost:
        with started(words(data, run, where)) as command:
            assert wait_until(partial(is_selecting, outpost, run), 60), command.communicate(None, 1)
            command.kill()
        driver = outpost.look(str(run), False)["driver"]
    assert driver["code"] is None
    assert psutil.Process(driver["pid"]).ppid() != os.getpid()
    record = ask("attach", run, *where)
    assert record["run"] == str(run)
    assert record["n_active"] == N_ACTIVE
    assert same(run, expected, data)


def test_a_driver_killed_and_one_stopped(
    scheduler_file: Path, data: Path, expected: sparsegp.Model, tmp_path: Path
) -> None:
    address = json.loads(scheduler_file.read_text())["address"]
    run, where = tmp_path / "run", ["--scheduler", address]
    record = ask(*words(data, run, where), "--detach", "--checkpoint-every", 20)
    assert record["attach"] == f"sparsegp attach {run} --scheduler={address}"
    with outpost_of(scheduler=address, workers=False) as outpost:
        assert wait_until(partial(is_selecting, outpost, run), 60)
    again = invoke(*words(data, run, where), code=2)
    assert f"process {record['pid']} drives {run} already" in again.stderr
    os.kill(record["pid"], signal.SIGKILL)
    result = invoke("attach", run, *where, "--quiet", code=2)
    said = f"error: the run {run} does not go on: the driver was ended by signal 9 (Killed) at "
    assert result.stderr.startswith(said)
    assert f"go on by the same command with --resume; its output is in {run}.log" in result.stderr
    invoke(*words(data, run, where), "--detach", "--checkpoint-every", 20, "--resume")
    result = invoke("attach", run, *where, "--stop", code=75)
    assert "stopped by SIGTERM" in result.stderr.splitlines()[-1]
    result = invoke(*words(data, run, where), "--resume")
    assert "trained on" in result.stdout
    assert f"attach        {record['attach']}" in result.stderr
    assert same(run, expected, data)


def test_a_run_in_a_store(s3: str, data: Path, expected: sparsegp.Model, tmp_path: Path) -> None:
    """The scheduler is started with the keys of the server in its environment."""
    run = f"{s3}/run"
    with dask_cluster(tmp_path) as scheduler_file:
        where = ["--scheduler-file", scheduler_file]
        begun = ask(*words(data, run, where), "--detach")
        record = ask("attach", run, *where)
    assert begun["run"] == record["run"] == run
    assert same(run, expected, data)
    assert "select" in Path(begun["log"]).read_text()


def test_what_is_wrong_there_comes_back_in_one_line(scheduler_file: Path, tmp_path: Path) -> None:
    arguments = words(tmp_path / "none.npz", tmp_path / "run", ["--scheduler-file", scheduler_file])
    result = invoke(*arguments, "--quiet", code=2)
    [line] = result.stderr.splitlines()
    assert line.startswith(f"error: no such file '{tmp_path / 'none.npz'}'; DATA is a file or one")
    assert line.endswith(f"its output is in {tmp_path / 'run.log'})")
    arguments = words("digits", Path("/proc/none/run"), ["--scheduler-file", scheduler_file])
    result = invoke(*arguments, code=2)
    [line] = result.stderr.splitlines()
    assert line.startswith("error: on the machine of the scheduler at tcp://127.0.0.1:")
    assert "/proc/none" in line


def test_what_cannot_be_is_refused_before_anything_starts(tmp_path: Path, data: Path) -> None:
    kinds = {"local": "", "ssh": "hosts: [a]", "slurm": "memory: 1GB", "kubernetes": ""}
    for kind, more in kinds.items():
        (tmp_path / f"{kind}.yaml").write_text(f"kind: {kind}\nworkers: 1\n{more}\n")
    there, out = ["--driver", "cluster"], ["--out", "/run"]
    to = [*there, "--scheduler", "tcp://127.0.0.1:9"]
    for arguments, said in (
        (["digits", "--detach"], "--detach goes with --driver cluster"),
        (["digits", *there], "a driver elsewhere needs a scheduler that outlives this command"),
        (["digits", *there, "--workers", 2], "a driver elsewhere needs a scheduler"),
        (["digits", *to, "--workers", 2], "give only one of threads, workers, scheduler"),
        (["digits", *to], "--driver cluster needs --out"),
        (
            ["digits", *to, "--out", "run"],
            "--out must be an absolute path, as it is one of the sch",
        ),
        (["a.npz", *to, *out], "DATA must be an absolute path"),
        (["/X.npy,y.npy", *to, *out], "DATA must be an absolute path"),
        (["/a.npz", *to, *out, "--test", "b.npz"], "--test must be an absolute path"),
        (["digits", *to, *out, "--scratch", "tmp"], "--scratch must be an absolute path"),
        (["digits", *to, *out, "--virtual", "old"], "--virtual must be an absolute path"),
        (["digits", *to, *out, "--n-active", 0], "n_active must be"),
        (["digits", *to, *out, "--max-trials", 3], "limits a tuning"),
        *(
            (["digits", *there, *out, "--cluster", tmp_path / f"{kind}.yaml"], advice)
            for kind, advice in (
                ("local", "start a scheduler that stays"),
                ("ssh", "start a scheduler that stays"),
                ("slurm", "submit cluster/slurm/allocation.sh"),
                ("kubernetes", "by cluster/kubernetes/job.yaml"),
            )
        ),
    ):
        result = invoke("train", *arguments, code=2)
        [line] = result.stderr.splitlines()
        assert said in line, arguments
        assert line.startswith("error: ")
    result = invoke("attach", "run", "--scheduler", "tcp://127.0.0.1:9", code=2)
    assert result.stderr.startswith("error: RUN must be an absolute path")


def test_the_words_for_the_driver_mean_the_same() -> None:
    """All options that can be given, spelt again, are understood as they were."""
    options = [
        "/mine.csv", "--test", "/new.csv", "--out", "/run", "--n-active", "7", "--no-lazy",
        "--label-column", "-1", "--kernel", "2*rbf + 0.1*linear", "--tune", "--resume", "--json",
        "--quiet", "--driver", "cluster", "--scheduler", "tcp://a:1", "--scratch", "/tmp", "--map",
        "--keep-best", "0.25", "--kernel-per-class", "--stub-memory", "4GB", "--detach",
    ]  # fmt: skip
    given = train.make_context("train", options)
    name, *spelt = driver.words_of(given)
    assert name == "train"
    again = train.make_context("train", spelt)
    kept = {key: value for key, value in given.params.items() if key not in driver.OWN}
    assert kept == {key: again.params[key] for key in kept}
    assert all(not again.params[key] for key in driver.OWN)


def test_every_path_is_known_as_one() -> None:
    """An option that names something on a disk is checked before a driver elsewhere is given it."""
    kinds = {"DATA", "DIR", "FILE", "RUN"}
    found = {
        param.name
        for param in train.params
        if isinstance(param, click.Argument) or param.metavar in kinds
    }
    assert found == {*driver.PATHS, "tls", "scheduler_file", "cluster"}


@pytest.mark.slow
def test_a_scheduler_that_ends_is_told(tmp_path: Path) -> None:
    with Cluster(tmp_path, 1) as cluster:
        outpost = Outpost(cluster.client, seconds=1.0)
        assert outpost.look(str(tmp_path), True)["exists"]
        cluster.scheduler.kill()
        cluster.scheduler.wait()
        with pytest.raises(ClusterError, match="does not answer any more"):
            outpost.look(str(tmp_path), False)


@pytest.mark.slow
def test_the_certificate_of_the_scheduler_serves_its_drivers(
    data: Path, expected: sparsegp.Model, tmp_path: Path
) -> None:
    pytest.importorskip("cryptography")
    made = write_certificate(tmp_path / "tls")
    files = {"--tls-ca-file": made.ca, "--tls-cert": made.cert, "--tls-key": made.key}
    options = [str(word) for pair in files.items() for word in pair]
    run = tmp_path / "run"
    with dask_cluster(tmp_path, *options, "--protocol", "tls") as scheduler_file:
        where = ["--scheduler-file", scheduler_file, "--tls", tmp_path / "tls"]
        assert ask(*words(data, run, where))["n_active"] == N_ACTIVE
        assert ask("attach", run, *where)["run"] == str(run)
    assert same(run, expected, data)
