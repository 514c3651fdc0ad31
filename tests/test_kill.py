"""Runs whose processes are killed at any instant, beside runs on a cluster of somebody else's.

About half of the kills hit the driver, which is then started again with --resume; the others hit a
worker process while the driver goes on. `pytest -s` tells how many there were.
"""

import os
import signal
import time
from contextlib import suppress
from subprocess import DEVNULL, TimeoutExpired

import numpy as np
import psutil
import pytest

import sparsegp
from sparsegp.data import open_dataset
from tests.processes import KERNEL, PATIENCE, invoke, start_python, worker_processes
from tests.runs import assert_same
from tests.runtime.by_hand import Cluster

ROUNDS = ("--no-lazy", "--lookahead", 4, "--checkpoint-every", 20)
LEARN = ("--active-per-class", "--learn", "evidence", "--major-steps", 2, "--minor-steps", 2)
RUNS = {
    "adf": ("--n-active", 140, "--posterior", "adf", "--panel", 1, *ROUNDS),
    "bound": ("--n-active", 200, "--posterior", "adf", "--stub-entries", 150_000, *ROUNDS),
    "all": ("--n-active", 300, "--tolerance", "1e-9", "--kernel", "100*rbf(1)", *ROUNDS),
    "learnt": ("--n-active", 30, *LEARN, "--checkpoint-every", 10),
    "tuned": ("--n-active", 40, "--tune", "--max-trials", 10),
    "auto": ("--n-active", 60, "--kernel", "auto"),
    "gibbs": ("--method", "gibbs(chains=4, samples=25, thin=20, particles=0)"),
}
KILLS = int(os.environ.get("SPARSEGP_KILLS", "1"))
"""Of each run in the long tests."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A scheduler with two workers, and the seconds that they took to start."""
    begin = time.monotonic()
    with Cluster(tmp_path_factory.mktemp("cluster"), nannies=True) as cluster:
        yield cluster, time.monotonic() - begin


def begin(run, arguments):
    """Start the driver of a run, which is new or goes on."""
    how = {"stdout": DEVNULL, "stderr": DEVNULL, "start_new_session": True}
    words = ("-m", "sparsegp", *arguments, "--workers", 2, "--out", run, "--resume")
    return start_python(*words, **how)


def killed(run, arguments, kills, seconds, seed):
    """Kill a run that takes so many seconds again and again; return how often, when it has ended.

    A driver that gives up, since workers are lost too fast, is begun again like one that was
    killed.
    """
    rng, done, driver = np.random.default_rng(seed), 0, begin(run, arguments)
    hit_worker = (rng.permutation(kills) + rng.integers(2)) % 2
    try:
        for _ in range(20 * kills):
            with suppress(TimeoutExpired):
                driver.wait(rng.uniform(0.0, 0.4 * seconds) if done < kills else 600.0)
            status, workers = driver.poll(), worker_processes(driver.pid)
            if status == 0:
                return done
            assert status in {None, 2}
            if status is None and hit_worker[done]:
                if workers:
                    os.kill(workers[rng.integers(len(workers))].pid, signal.SIGKILL)
                    done += 1
                continue
            driver.kill()
            driver.wait()
            done += status is None
            assert not psutil.wait_procs(workers, timeout=PATIENCE)[1], "workers outlive the driver"
            driver = begin(run, arguments)
    finally:
        driver.kill()
        driver.wait()
    pytest.fail("the run never came to its end")


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_killed_at_any_instant(name, cluster, clusters, tmp_path):
    """The result is that of a run that was never killed. Runs are begun until there were enough.

    That run is on a cluster that stays, and is empty afterwards.
    """
    data = {"learnt": "toy", "tuned": "toy", "auto": "wine", "gibbs": "iris"}.get(name, clusters)
    kernel = () if "--kernel" in RUNS[name] else KERNEL
    arguments = ("train", data, *RUNS[name], *kernel, "--quiet")
    began, whole = time.monotonic(), tmp_path / "whole"
    invoke(*arguments, "--scheduler-file", cluster[0].file, "--out", whole)
    seconds = time.monotonic() - began + cluster[1]
    assert len(cluster[0].client.nthreads()) == 2
    assert not any(cluster[0].client.has_what().values())
    expected, X = sparsegp.load(whole), open_dataset(data).train.X.compute()
    done, runs = 0, 0
    while done < KILLS:
        run = tmp_path / f"run-{runs}"
        done += killed(run, arguments, KILLS - done, seconds, [runs, *name.encode()])
        assert_same(sparsegp.load(run), expected, X)
        assert not [path for path in run.iterdir() if path.name[0] == "."]
        runs += 1
        assert runs < KILLS + 3
    print(f"{done} kills of {runs} runs, which take {seconds:.1f} s undisturbed")
