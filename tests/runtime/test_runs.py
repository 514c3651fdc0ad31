"""Whole runs on workers that are killed, hang, are retired and join: the result stays the same."""

import os
import random
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

import sparsegp
from sparsegp.errors import ClusterError
from sparsegp.progress import Progress
from tests.processes import PATIENCE
from tests.runs import assert_same
from tests.runtime.by_hand import Cluster

SETTINGS = {"n_active": 200, "kernel": "20*rbf(3)", "block_rows": 1024}
LIMITS = {"rejoin_timeout": 1.0, "rebalance_interval": 0.5}
SILENT = {"heartbeat_timeout": 5.0}
"""For workers that are stopped; one that is only slow must not seem to be."""
STAGES = {"select": (8, "worker-1"), "posterior": (5, "worker-2")}
"""At which report something happens, and to whom if it happens to one."""


def replace_all(cluster, _):
    for name in list(cluster.workers):
        cluster.signal(name, signal.SIGKILL)
    cluster.add()
    cluster.add()


def join(cluster, _):
    cluster.add()
    cluster.client.wait_for_workers(len(cluster.workers), timeout=PATIENCE)


HARMS = {
    "kill": lambda cluster, name: cluster.signal(name, signal.SIGKILL),
    "stop": lambda cluster, name: cluster.signal(name, signal.SIGSTOP),
    "retire": lambda cluster, name: cluster.retire(name),
    "replace all": replace_all,
    "join": join,
}


class Harm(Progress):
    """Does something to a cluster, once in each of the stages."""

    def __init__(self, do, cluster):
        self.do, self.cluster, self.reports = do, cluster, Counter()

    def start(self, total, unit, description):
        self.stage = description

    def update(self, done, **figures):
        self.reports[self.stage] += 1
        reports, worker = STAGES.get(self.stage, (0, ""))
        if self.reports[self.stage] == reports:
            self.do(self.cluster, worker)


rng = np.random.default_rng(0)
Y = rng.integers(0, 5, 6000)
X = rng.normal(size=(5, 12))[Y] + rng.normal(size=(len(Y), 12))


@pytest.fixture(scope="module")
def expected():
    return sparsegp.train(X, Y, runtime="threads=2", **SETTINGS)


@pytest.mark.slow
@pytest.mark.parametrize("harm", HARMS)
def test_result_is_identical(harm, expected, tmp_path):
    limits = LIMITS | (SILENT if harm == "stop" else {})
    with Cluster(tmp_path, n_workers=3) as cluster, cluster.runtime(**limits) as runtime:
        progress = Harm(HARMS[harm], cluster)
        model = sparsegp.train(X, Y, runtime=runtime, progress=progress, **SETTINGS)
    assert all(progress.reports[stage] >= reports for stage, (reports, _) in STAGES.items())
    assert_same(model, expected, X[:500])


def disturb(cluster, rng, over):
    """Do something to a worker, now and then, until it is over; one at least stays, or comes."""
    stopped = {}
    while not over.wait(rng.uniform(1.0, 6.0)):
        for name in [name for name, until in stopped.items() if until < time.monotonic()]:
            del stopped[name]
            cluster.signal(name, rng.choice([signal.SIGCONT, signal.SIGKILL]))
        workers = cluster.workers.items()
        well = [n for n, process in workers if process.poll() is None and n not in stopped]
        kinds = ["add"] if len(well) < 2 else ["kill", "stop", "retire", "add"]
        what, name = rng.choice(kinds[:3] if len(well) >= 4 else kinds), rng.choice(well or [""])
        if what == "add":
            cluster.add()
        elif what == "retire":
            cluster.retire(name)
        elif what == "stop":
            cluster.signal(name, signal.SIGSTOP)
            stopped[name] = time.monotonic() + rng.uniform(2, 20)
        else:
            cluster.signal(name, signal.SIGKILL)


@pytest.mark.slow
def test_anything_at_random(expected, tmp_path):
    """Run after run; one that gives up for want of workers is resumed, as its user would do."""
    settings = {**SETTINGS, "lazy": False}  # takes longer, changes no result
    rng, over = random.Random(int(os.environ.get("SPARSEGP_SOAK_SEED", "0"))), threading.Event()
    end, runs = time.monotonic() + float(os.environ.get("SPARSEGP_SOAK_SECONDS", "20")), 0
    with Cluster(tmp_path) as cluster, ThreadPoolExecutor(1) as pool:
        disturbing = pool.submit(disturb, cluster, rng, over)
        try:
            while time.monotonic() < end or not runs:
                with suppress(ClusterError), cluster.runtime(**LIMITS, **SILENT) as runtime:
                    out = tmp_path / f"run-{runs}"
                    model = sparsegp.train(X, Y, runtime=runtime, out=out, resume=True, **settings)
                    assert_same(model, expected, X[:500])
                    runs += 1
        finally:
            over.set()
        disturbing.result()
