"""Virtual rows: what copies are, whose labels they have, and what a second run makes of them."""

from functools import partial

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.ndimage import shift as moved_by_scipy

import sparsegp
from sparsegp.data import table_from_arrays
from sparsegp.data.virtual import shift
from sparsegp.errors import DataError, SettingsError, UnknownNameError
from sparsegp.likelihoods import Probit
from sparsegp.settings import TrainSettings
from tests.runs import selected


def pictures(n, seed):
    """Return noisy 6x5 images of a bar, upright (1) or not (0)."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, size=n)
    X = 0.3 * rng.standard_normal((n, 6, 5))
    X[y == 1, 1:5, 2] += 1.0
    X[y == 0, 3, 1:4] += 1.0
    return X.reshape(n, 30), y


@pytest.fixture(scope="module")
def data():
    return pictures(400, 0)


@pytest.fixture(scope="module")
def first(data):
    settings = {"learn": "evidence", "major_steps": 2, "minor_steps": 3}
    return sparsegp.train(*data, likelihood="probit", n_active=30, **settings)


@pytest.mark.parametrize("pixels", [1, 2, 4])
def test_shifts_are_those_of_scipy(pixels):
    X = np.random.default_rng(1).integers(1, 256, size=(7, 30)).astype(np.uint8)
    directions = ((-1, 0), (1, 0), (0, -1), (0, 1))
    for found, (down, right) in zip(shift(X, pixels, (6, 5)), directions, strict=True):
        by = (0, down * pixels, right * pixels)
        expected = moved_by_scipy(X.reshape(7, 6, 5), by, order=0, cval=X.min())
        assert_array_equal(found, expected.reshape(7, 30), strict=True)
    assert_array_equal(shift(X[:, :25])[0], shift(X[:, :25], image=(5, 5))[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "not make an image of 5x5; if rows are images, give their height"),
        ({"image": (-5, -6)}, "an image of -5x-6"),
        ({"image": (6, 5), "pixels": 5}, "by 1 to 4 pixels for images of 6x5, got 5"),
        ({"image": (6, 5), "pixels": 0}, "got 0"),
    ],
)
def test_what_does_not_fit_an_image_is_refused(arguments, message):
    with pytest.raises(SettingsError, match=message):
        shift(np.zeros((2, 30), dtype=np.uint8), **arguments)


def test_copies_follow_the_rows_and_know_their_originals(data, first):
    X, y = data
    words = np.array(["lying", "upright"])[y]
    lazy = table_from_arrays(da.from_array(X, chunks=(64, 30)), words, "bars")
    table = sparsegp.virtual_rows(first, lazy, "shift", image=(6, 5))
    active = np.sort(first.rows)
    assert_array_equal(table.X.compute(), np.concatenate([X, *shift(X[active], image=(6, 5))]))
    assert_array_equal(table.y, np.concatenate([words, *[words[active]] * 4]))
    assert_array_equal(table.origin, np.concatenate([np.arange(400), *[active] * 4]))
    assert table.source == "bars and 120 virtual rows"


def test_a_second_run_and_copies_of_copies(data, first):
    table = sparsegp.virtual_rows(first, data, "shift", image=(6, 5))
    settings = sparsegp.same_settings(first, n_active=60)
    assert settings["likelihood"] == f"probit({first.active.likelihood.bias!r})"
    second = sparsegp.train(table, **settings)
    assert len(second.rows) == 60
    assert (second.rows >= 400).any()
    assert second.active.kernels == first.active.kernels
    assert second.active.likelihood == first.active.likelihood != Probit()
    assert second.settings["learn"] == "none"
    assert sparsegp.same_settings(second)["likelihood"] == settings["likelihood"]
    again = sparsegp.virtual_rows(second, table, lambda X, times: [times * X], times=3)
    active = np.sort(second.rows)
    assert_array_equal(again.origin, np.concatenate([table.origin, table.origin[active]]))
    assert_array_equal(again.X.compute()[len(table.X) :], 3 * table.X.compute()[active])


def test_validation_rows_have_no_copies_among_the_others(data, first):
    table = sparsegp.virtual_rows(first, data, lambda X: [X + i for i in range(1, 12)])
    settings = TrainSettings.given(**sparsegp.same_settings(first, n_active=40))
    with selected(table, settings) as run:
        chosen, active = run.validation, run.active.rows
    assert not set(table.origin[chosen]) & set(table.origin[~chosen])
    assert not chosen[active].any()
    assert chosen.sum() == settings.n_validation(len(chosen))  # others fill up what is left
    assert (table.origin[chosen] != np.flatnonzero(chosen)).any()


def test_other_rows_and_bad_copies_are_refused(data, first):
    X, y = data
    make = partial(sparsegp.virtual_rows, first)
    for other in ((X[:, :29], y), (X[::-1], y[::-1]), (X[:20], y[:20])):
        with pytest.raises(DataError, match="hold the active rows of the model, of 30 columns"):
            make(other, "shift", image=(6, 5))
    for wrong in (X, (X,), (X, y, y, y), "rows"):
        with pytest.raises(SettingsError, match="rows must be a pair of inputs and labels"):
            make(wrong, "shift")
    with pytest.raises(DataError, match="X has no labels"):
        make((X, None), "shift", image=(6, 5))
    with pytest.raises(DataError, match=r"the shape of its rows, \(30, 30\), got .*3\)"):
        make(data, lambda rows: [rows[:, :3]])
    with pytest.raises(DataError, match=r"the shape of its rows, .* got 0 of shapes \[\]"):
        make(data, lambda rows: [])
    with pytest.raises(UnknownNameError, match="unknown transformation 'turn'; known: shift"):
        make(data, "turn")


def test_settings_that_contradict_are_refused(first):
    assert sparsegp.same_settings(first, scaling="standard")["scaling"] == "standard"
    for name, value in {"kernel": "rbf", "likelihood": "probit", "learn": "evidence"}.items():
        with pytest.raises(SettingsError, match=f"{name} must be that of the first run, '.*'; lea"):
            sparsegp.same_settings(first, **{name: value})
