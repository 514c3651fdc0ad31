"""The bound on stub entries on the command line."""

import json

import numpy as np
import pytest

from sparsegp.cli.options import settings_of
from sparsegp.errors import SettingsError
from tests.cli.conftest import blobs

ADF = ("--posterior", "adf", "--n-active", 40, "--shrink-every", 10)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("bound") / "blobs.npz"
    X, y = blobs(900, 1)
    X_test, y_test = blobs(100, 2)
    np.savez(path, X_train=X, y_train=y, X_test=X_test, y_test=y_test)
    return path


@pytest.mark.parametrize(
    ("size", "precision", "expected"),
    [("4 gb", "float64", 5 * 10**8), ("1.5MB", "float32", 375_000), ("GB", "float32", None)],
)
def test_sizes(size, precision, expected):
    if expected is None:
        with pytest.raises(SettingsError, match="must be a size such as 4GB or 500MB, got 'GB'"):
            settings_of({"stub_memory": size})
    else:
        found = settings_of({"stub_memory": size, "precision": precision})
        assert found == {"stub_entries": expected, "precision": precision}


def test_training_under_a_bound(data, invoke, tmp_path):
    runs = []
    for name, bound in (("a", ("--stub-entries", 20_000)), ("b", ("--stub-memory", "80kB"))):
        out = ("--out", tmp_path / name, "--quiet", "--json")
        result = invoke("train", data, *ADF, *bound, *out)
        runs.append(json.loads(result.stdout.splitlines()[-1]))
    first, second = runs
    assert first["settings"] == second["settings"]
    assert first["settings"]["stub_entries"] == 20_000
    assert first["nlpp"] == second["nlpp"]
    assert "train_error" not in first  # nothing is known of rows that have left
    assert first["error"] < 0.4
    words = invoke("inspect", tmp_path / "a").stdout
    assert "stub_entries=20000" in words
    assert "heldout_error" in words


def test_estimates_know_the_bound(data, invoke):
    def found(*options):
        return json.loads(invoke("estimate", data, *ADF, *options, "--json").stdout)

    free, bounded = found(), found("--stub-memory", "80kB")
    assert bounded["blocks"]["stub"] < 0.7 * free["blocks"]["stub"]
    assert bounded["kernel_flops"] < free["kernel_flops"]
