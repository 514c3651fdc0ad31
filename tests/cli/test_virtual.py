"""`train --virtual`: a second run with shifted copies of what was active in the first."""

import numpy as np
import pytest

import sparsegp
from tests.data.test_virtual import pictures
from tests.processes import invoke, told


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("images") / "images.npz"
    (X, y), (X_test, y_test) = pictures(200, 0), pictures(80, 1)
    np.savez(path, X_train=X, y_train=y, X_test=X_test, y_test=y_test)
    return path


@pytest.fixture(scope="module")
def first(data, tmp_path_factory):
    run = tmp_path_factory.mktemp("first") / "run"
    learning = ("--learn", "evidence", "--major-steps", 1, "--minor-steps", 3)
    arguments = ("--likelihood", "probit", "--n-active", 20, "--calibration", "none", "--seed", 3)
    invoke("train", data, "--out", run, *arguments, *learning, "--quiet")
    return run


def test_copies_join_the_rows_and_what_was_learnt_stays(data, first, tmp_path, untouched):
    out = tmp_path / "second"
    arguments = ("--virtual", first, "--image", "6x5", "--n-active", 50, "--quiet")
    with untouched(first):
        record = told("train", data, "--out", out, *arguments)
    former, model = sparsegp.load(first), sparsegp.load(out)
    assert record["rows"] == 200 + 4 * 20
    assert record["source"].endswith("and 80 virtual rows")
    assert record["n_active"] == len(model.rows) == 50
    assert record["held_out"] is not None
    assert model.rows.max() >= 200
    assert model.active.kernels == former.active.kernels
    again = invoke("train", data, "--out", out, *arguments, "--resume")
    assert "is finished; nothing to do" in again.stderr
    arrays = np.load(data)
    rows = arrays["X_train"], arrays["y_train"]
    table = sparsegp.virtual_rows(former, rows, "shift", image=(6, 5))
    by_hand = sparsegp.train(table, **sparsegp.same_settings(former, n_active=50))
    np.testing.assert_array_equal(by_hand.rows, model.rows)
    assert by_hand.settings == model.settings


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "30 columns do not make an image of 5x5"),
        ("--image 4x4", "30 columns do not make an image of 4x4"),
        ("--image twelve", "--image must be height and width, such as 16x16, got 'twelve'"),
        ("--image 6x5 --kernel rbf", "kernel must be that of the first run"),
        ("--image 6x5 --tune", "--virtual takes the kernel of its run; leave --tune out"),
        ("--image 6x5 --out {first}", "--out must be another directory than RUN"),
        ("--image 6x5 --out {first}/. --overwrite", "--out must be another directory than RUN"),
    ],
)
def test_what_does_not_fit_is_refused(data, first, tmp_path, arguments, message, untouched):
    out = tmp_path / "second"
    words = arguments.format(first=first).split()
    with untouched(first):
        result = invoke("train", data, "--virtual", first, "--out", out, *words, code=2)
    assert message in result.stderr
    assert not out.exists()
