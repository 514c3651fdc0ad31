"""Runs that do not fit are refused before they start, with settings that would fit."""

import os
import re
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import distributed
import numpy as np
import psutil
import pytest

import sparsegp
from sparsegp.data import table_from_arrays
from sparsegp.errors import SettingsError
from sparsegp.estimate import Places, estimate, remedies, require_room
from sparsegp.estimate.fit import words
from sparsegp.runtime import open_runtime
from sparsegp.runtime.dask import DaskRuntime
from sparsegp.runtime.memory import Room, _containers, read_size
from sparsegp.settings import TrainSettings
from tests.processes import worker_processes

SIZES = {"n": 200_000, "p": 50, "n_classes": 4, "n_active": 1000}
DRIVER = Room("this process", "laptop", 10**12)


def machines(count, free, **named):
    return [Room(f"worker {i}", f"node {i}", free, **named) for i in range(count)]


def rows(n=3000, p=10):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n)
    return rng.standard_normal((3, p))[y] + rng.standard_normal((n, p)), y


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"precision": "float64"},
        {"posterior": "adf"},
        {"posterior": "adf", "active_per_class": True, "sites": "moments"},
    ],
)
@pytest.mark.parametrize("share", [0.8, 0.95])
def test_what_is_advised_fits(options, share):
    """Each remedy, read as a user would, gives an estimate that is within the memory."""
    if "active_per_class" in options:
        options = {**options, "kernel_per_class": True, "criterion": "information"}
    settings = TrainSettings(n_active=1000, **options)
    sizes = {**SIZES, "settings": settings, "n_workers": 4}
    free = int(share * estimate(**sizes).worker_bytes)
    places = Places(DRIVER, machines(4, free))
    assert places.shortage(estimate(**sizes)).startswith(f"{words(estimate(**sizes).worker_bytes)}")
    found = list(remedies(places, **sizes))
    kinds = {text.split()[0 if text.startswith("--") else 1] for text in found}
    assert {"--n-active", "--scratch", "workers,"} <= kinds
    assert ("--precision" in kinds) == (options.get("precision") == "float64")
    assert ("--stub-memory" in kinds) == (options.get("posterior") == "adf")
    for text in found:
        assert not told(text, sizes, places), text


def told(text, sizes, places):
    """Return what a remedy leaves short."""
    number = re.search(r"\d+", text)
    if text.startswith("--n-active"):
        more = {**sizes, "n_active": int(number[0]) + 1}
        assert places.shortage(estimate(**more))  # no greater one fits
        sizes = {**sizes, "n_active": int(number[0])}
    elif text.startswith("--scratch"):
        sizes = {**sizes, "scratch": True}
    elif text.startswith("--precision"):
        sizes = {**sizes, "settings": replace(sizes["settings"], precision="float32")}
    elif text.startswith("--stub-memory"):
        entries = read_size(text.split()[1]) // 4
        sizes = {**sizes, "settings": replace(sizes["settings"], stub_entries=entries)}
    else:
        sizes, places = {**sizes, "n_workers": int(number[0])}, places.with_workers(int(number[0]))
    return places.shortage(estimate(**sizes))


def test_processes_of_a_machine_share_its_memory():
    settings = TrainSettings(n_active=1000)
    found = estimate(**SIZES, settings=settings, n_workers=2)
    free = int(1.5 * found.worker_bytes)
    apart = Places(DRIVER, machines(2, free))
    together = Places(DRIVER, [replace(room, place="node 0") for room in apart.workers])
    assert apart.shortage(found) == ""
    assert re.search(r"2 processes on node 0, where .* free", together.shortage(found))
    assert not any(
        "workers" in text
        for text in remedies(
            Places(replace(DRIVER, place="node 0", free=free), together.workers),
            **SIZES,
            settings=settings,
            n_workers=2,
        )
    )  # more of them here would bring no memory


def test_a_limit_of_each_process():
    settings = TrainSettings(n_active=1000)
    found = estimate(**SIZES, settings=settings, n_workers=2)
    tight = machines(2, 10**12, resident=10**8, limit=int(0.9 * found.worker_bytes))
    assert "worker 0, which may have" in Places(DRIVER, tight).shortage(found)
    wide = [replace(room, limit=int(1.1 * found.worker_bytes)) for room in tight]
    assert Places(DRIVER, wide).shortage(found) == ""
    small = replace(DRIVER, limit=found.driver_bytes // 2)
    assert "this process, which may have" in Places(small, wide).shortage(found)


def test_nothing_fits():
    settings = TrainSettings(n_active=1000)
    places = Places(replace(DRIVER, free=1000))
    assert list(remedies(places, **SIZES, settings=settings)) == []


@pytest.mark.parametrize("version", ["1", "2"])
def test_containers_inside_containers(version, tmp_path):
    """The step of a job has no limit of its own, the job has one."""
    top = tmp_path / "groups" / ("memory" if version == "1" else "")
    step = top / "job" / "step"
    step.mkdir(parents=True)
    names = {
        "1": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        "2": ("memory.max", "memory.current", "inactive_file"),
    }[version]
    none = "max" if version == "2" else str(2**63 - 4096)
    for folder, limit, usage in ((step, none, 100), (step.parent, "5000", 1500)):
        (folder / names[0]).write_text(f"{limit}\n")
        (folder / names[1]).write_text(f"{usage}\n")
        (folder / "memory.stat").write_text(f"{names[2]} 500\nanon 1000\n")
    (tmp_path / "cgroup").write_text("0::/job/step\n" if version == "2" else "5:memory:/job/step\n")
    assert list(_containers(tmp_path, tmp_path / "groups")) == [(4000, str(step.parent))]


def test_a_job_for_threads_is_refused_before_it_reads(tmp_path, environment):
    """With the limit of the system on the memory of the process."""
    X, y = rows()
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    program = (
        "import resource, sys; from sparsegp.cli import main; import sparsegp.fit\n"
        "text = open('/proc/self/status').read().split('VmData:')[1]\n"
        "limit = int(text.split()[0]) * 1024 + 150_000_000\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "train", "rows.npz", "--n-active", "2500", "--quiet"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert re.match(r"error: this run takes .* in this process, which may have .*; what", line)
    most = int(re.search(r"--n-active (\d+)", line)[1])
    assert 0 < most < 2500
    assert not (tmp_path / "sparsegp-run-rows").exists()


@pytest.mark.slow
def test_workers_with_small_limits_refuse_a_job():
    """Limits of Dask, and of the system on one of the workers."""
    X, y = rows()
    options = {"memory_limit": "300MB", "processes": True, "threads_per_worker": 1}
    with (
        distributed.LocalCluster(n_workers=2, dashboard_address=None, **options) as cluster,
        distributed.Client(cluster, direct_to_workers=True, set_as_default=False) as client,
    ):
        runtime = DaskRuntime(client)
        with pytest.raises(SettingsError, match=r"in worker tcp.*may have 240 MB; what would fit"):
            sparsegp.train(X, y, n_active=2600, runtime=runtime)
        assert runtime.n_blocks == 0
        model = sparsegp.train(X, y, n_active=50, posterior="adf", runtime=runtime)
        assert len(model.rows) == 50
        victim = worker_processes(os.getpid())[0]
        data = Path(f"/proc/{victim.pid}/status").read_text().split("VmData:")[1].split()[0]
        limit = int(data) * 1024 + 20_000_000
        psutil.Process(victim.pid).rlimit(resource.RLIMIT_DATA, (limit, limit))
        with pytest.raises(SettingsError, match=r"in worker tcp.*may have 1\d\d MB"):
            sparsegp.train(X, y, n_active=1000, runtime=runtime)
        runtime.close()


def test_a_job_larger_than_this_machine_is_refused_at_once():
    X, y = rows(20000)
    began = time.monotonic()
    with (
        open_runtime("threads=1") as runtime,
        pytest.raises(SettingsError, match=r"on .*, where .* free; what would fit: --n-active"),
    ):
        sparsegp.Training(
            table_from_arrays(np.broadcast_to(X, X.shape), y),
            TrainSettings(n_active=17000, precision="float64", kernel_per_class=True, panel=64),
            runtime=runtime,
        )
    assert time.monotonic() - began < 60


def test_a_job_that_may_not_fit_is_warned_of(caplog):
    """An estimate is a promise not to take more; what is refused cannot fit."""
    settings = TrainSettings(n_active=1000)
    found = estimate(**SIZES, settings=settings)
    for share, outcome in ((1.01, ""), (0.95, "may take"), (0.4, "takes")):
        caplog.clear()
        places = Places(replace(DRIVER, limit=int(share * found.driver_bytes)))
        if outcome == "takes":
            with pytest.raises(
                SettingsError, match=r"^this run takes .*; what (would|may) fit: --n-act"
            ):
                require_room(places, **SIZES, settings=settings)
        else:
            require_room(places, **SIZES, settings=settings)
        assert ("this run may take" in caplog.text) == (outcome == "may take")
