"""What tests of several parts share."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: matrices of tests are small
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or processes of tests compile the package anew

import numpy as np
import pytest

from sparsegp.runtime import Runtime, open_runtime
from sparsegp.settings import sparse
from tests.s3 import s3, s3_keys, s3_server  # noqa: F401 - fixtures

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # as in a job in the background of a shell; programs that tests start would ignore it too
    signal.signal(signal.SIGINT, signal.default_int_handler)


KERNEL = sparse.DEFAULT_KERNEL
USUAL_KERNEL, sparse.USUAL_KERNEL = sparse.USUAL_KERNEL, KERNEL
"""Tests that name no kernel are about something else than the search for one, which they have by
the fixture `searching`."""


@pytest.fixture
def searching(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no kernel is named it is searched for, as for everybody."""
    monkeypatch.setattr(sparse, "USUAL_KERNEL", USUAL_KERNEL)


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six overlapping clusters in a file, 3500 rows to train on and 500 held out."""
    rng = np.random.default_rng(5)
    y = rng.integers(0, 6, size=4000)
    X = rng.standard_normal((6, 5))[y] * 1.2 + rng.standard_normal((4000, 5))
    path = tmp_path_factory.mktemp("clusters") / "clusters.npz"
    np.savez(path, X_train=X[:3500], y_train=y[:3500], X_test=X[3500:], y_test=y[3500:])
    return path


@pytest.fixture(scope="module")
def workers() -> Iterator[Runtime]:
    """Two worker processes."""
    with open_runtime("workers=2") as runtime:
        yield runtime


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SimpleNamespace]:
    """A file system of 2 MiB with its function to make it read-only."""
    point = tmp_path / "disk"
    point.mkdir()

    def mount(*options: str) -> bool:
        command = ["mount", "-t", "tmpfs", *options, "tmpfs", str(point)]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    try:
        mounted = mount("-o", "size=2m")
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("a small file system cannot be mounted here")
    yield SimpleNamespace(path=point, make_read_only=lambda: mount("-o", "remount,ro"))
    subprocess.run(["umount", "--lazy", str(point)], check=True)  # a reader may not be done
