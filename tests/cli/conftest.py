"""Data sets in files, and the program in this process or in one of its own."""

import hashlib
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests import processes

# a signal may end the import of a module, whose file Python then leaves to be collected
WARNINGS = ("-W", "error", "-W", "ignore:unclosed file:ResourceWarning")
COMMAND = (sys.executable, *WARNINGS, "-m", "sparsegp")


def blobs(n, seed, n_classes=3, p=4):
    """Overlapping clusters, so that training errors and ties stay rare."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, size=n)
    centres = np.random.default_rng(99).standard_normal((n_classes, p)) * 1.5
    return centres[y] + rng.standard_normal((n, p)), y


@pytest.fixture(scope="session")
def start():
    """Start the program; returns the process."""

    def start(*arguments, cwd, keys=None, **options):
        return subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            cwd=cwd,
            env=processes.environment() | (keys or {}),
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    return start


@pytest.fixture(scope="session")
def invoke():
    """Run the program in this process."""
    return processes.invoke


@pytest.fixture(scope="session")
def told():
    """Run the program in this process, and return the object that it prints with --json."""
    return processes.told


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A folder of small data sets."""
    folder = tmp_path_factory.mktemp("files")
    X, y = blobs(300, 0)
    X_test, y_test = blobs(100, 1)
    words = np.array(["low", "mid", "up"])
    np.savez(folder / "pair.npz", X_train=X, y_train=y, X_test=X_test, y_test=y_test)
    np.savez(folder / "words.npz", X=X, y=words[y])
    np.savez(folder / "only.npz", X=X_test, y=y_test)
    np.savez(folder / "unlabelled.npz", X=X_test)
    np.savez(folder / "one_class.npz", X=X, y=np.zeros(300, dtype=int))
    np.savez(folder / "narrow.npz", X=X_test[:, :3], y=y_test)
    np.savez(folder / "unseen.npz", X=X_test, y=np.where(y_test == 2, 7, y_test))
    np.savez(folder / "others.npz", X=X_test, y=y_test + 100)
    two, two_test = (np.array(["no", "yes"])[(code == 1).astype(int)] for code in (y, y_test))
    np.savez(folder / "two.npz", X_train=X, y_train=two, X_test=X_test, y_test=two_test)
    rng = np.random.default_rng(2)  # a regression: two of four columns matter
    Z = rng.standard_normal((260, 4))
    z = 50.0 + 10.0 * np.sin(2.0 * Z[:, 0]) + 3.0 * Z[:, 2] + rng.standard_normal(260)
    numbers = {"X_train": Z[:200], "y_train": z[:200], "X_test": Z[200:], "y_test": z[200:]}
    np.savez(folder / "numbers.npz", **numbers)
    bad = X_test.copy()
    bad[17, 2] = np.nan
    bad[40, 0] = np.inf
    np.savez(folder / "nan.npz", X=bad, y=y_test)
    np.savetxt(folder / "rows.csv", np.column_stack([X_test, y_test]), delimiter=",", fmt="%.17g")
    np.savetxt(folder / "inputs.csv", X_test, delimiter=",", fmt="%.17g")
    (folder / "cut.npz").write_bytes((folder / "pair.npz").read_bytes()[:5000])
    return folder


@pytest.fixture(scope="session")
def trained(files, invoke, tmp_path_factory):
    """A finished run on `pair.npz`."""
    run = tmp_path_factory.mktemp("trained") / "run"
    arguments = ("--n-active", 40, "--checkpoint-every", 10, "--quiet")
    invoke("train", files / "pair.npz", "--out", run, *arguments)
    return run


@pytest.fixture(scope="session")
def regressed(files, invoke, tmp_path_factory):
    """A finished run on `numbers.npz`."""
    run = tmp_path_factory.mktemp("regressed") / "run"
    arguments = ("--task", "regression", "--n-active", 30, "--quiet")
    invoke("train", files / "numbers.npz", "--out", run, *arguments)
    return run


def digest(folder):
    """Names and contents of all files in a folder, but those that tell who used it last."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(Path(folder).rglob("*"))
        if file.is_file() and file.name != "lock"
    }


@pytest.fixture
def untouched():
    """Return a context manager that asserts that a folder stays as it is."""

    @contextmanager
    def untouched(folder):
        before = digest(folder)
        yield
        assert digest(folder) == before

    return untouched
