"""`train --virtual`: a second run with shifted copies of what was active in the first."""

import numpy as np

import sparsegp
from tests.data.test_virtual import pictures
from tests.processes import invoke, told


def test_copies_join_the_rows_and_what_was_learnt_stays(tmp_path, untouched):
    data, first, out = (tmp_path / name for name in ("images.npz", "first", "second"))
    (X, y), (X_test, y_test) = pictures(200, 0), pictures(80, 1)
    np.savez(data, X_train=X, y_train=y, X_test=X_test, y_test=y_test)
    learning = ("--learn", "evidence", "--major-steps", 1, "--minor-steps", 3)
    arguments = ("--likelihood", "probit", "--n-active", 20, "--calibration", "none", "--seed", 3)
    invoke("train", data, "--out", first, *arguments, *learning, "--quiet")
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
    table = sparsegp.virtual_rows(former, (X, y), "shift", image=(6, 5))
    by_hand = sparsegp.train(table, **sparsegp.same_settings(former, n_active=50))
    np.testing.assert_array_equal(by_hand.rows, model.rows)
    assert by_hand.settings == model.settings
