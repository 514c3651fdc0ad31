"""Data sets in files, and the program in this process or in one of its own."""

from functools import partial

import numpy as np
import pytest
import zarr

from tests.processes import invoke, start_python

# a signal may end the import of a module, whose file Python then leaves to be collected
WARNINGS = ("-W", "error", "-W", "ignore:unclosed file:ResourceWarning")


def blobs(n, seed):
    """Overlapping clusters, so that training errors and ties stay rare."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, size=n)
    centres = np.random.default_rng(99).standard_normal((3, 4)) * 1.5
    return centres[y] + rng.standard_normal((n, 4)), y


@pytest.fixture(scope="session")
def start():
    """Start the program in a process of its own; returns the process."""
    return partial(start_python, *WARNINGS, "-m", "sparsegp")


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
    (folder / "linked.csv").symlink_to("rows.csv")
    order = np.arange(300)
    order[y == 0] = order[y == 0][::-1]
    np.savez(folder / "moved.npz", X=X[order], y=y)
    for name in ("mine.csv", "mine.zarr"):
        (folder / name).mkdir()
        (folder / name / "thesis.tex").write_text("!")
    (folder / "file.zarr").write_text("1,2")
    zarr.open_group(folder / "group.zarr").create_array("labels", data=np.ones(3))
    return folder


def finished(name, *options):
    """Return the fixture of a finished run on a file."""

    @pytest.fixture(scope="session")
    def run(files, tmp_path_factory):
        out = tmp_path_factory.mktemp("finished") / "run"
        invoke("train", files / f"{name}.npz", "--out", out, *options, "--quiet")
        return out

    return run


trained = finished("pair", "--n-active", 40, "--checkpoint-every", 10)
regressed = finished("numbers", "--task", "regression", "--n-active", 30)
of_two = finished("two", "--likelihood", "probit", "--n-active", 40)
