"""Virtual rows: what copies are, whose labels they have, and what a second run makes of them."""

from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.ndimage import shift as moved_by_scipy

import sparsegp
from sparsegp.data import table_from_arrays
from sparsegp.data.virtual import KEPT, TRANSFORMS, shift
from sparsegp.errors import DataError, SettingsError, UnknownNameError
from sparsegp.fit import Training
from sparsegp.fit.prepare import choose_validation_rows
from sparsegp.likelihoods import Probit
from sparsegp.runtime import open_runtime
from sparsegp.settings import TrainSettings
from sparsegp.types import Doubles, Integers

Data = tuple[Doubles, Integers]
DIRECTIONS = ((-1, 0), (1, 0), (0, -1), (0, 1))


def pictures(n: int, seed: int, reach: int = 0) -> Data:
    """Return noisy 6x5 images of a bar, upright (1) or not (0), moved by up to `reach` pixels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, size=n)
    X = 0.3 * rng.standard_normal((n, 6, 5))
    for i, upright in enumerate(y):
        down, right = rng.integers(-reach, reach + 1, size=2)
        rows, columns = (slice(1, 5), 2) if upright else (3, slice(1, 4))
        bar = np.zeros((6, 5))
        bar[rows, columns] = 1.0
        X[i] += moved_by_scipy(bar, (down, right), order=0)
    return X.reshape(n, 30), y


@pytest.fixture(scope="module")
def data() -> Data:
    return pictures(400, 0)


@pytest.fixture(scope="module")
def first(data: Data) -> sparsegp.Model:
    settings: dict[str, Any] = {"learn": "evidence", "major_steps": 2, "minor_steps": 3}
    return sparsegp.train(*data, likelihood="probit", n_active=30, **settings)


@pytest.mark.parametrize("pixels", [1, 2, 4])
def test_shifts_are_those_of_scipy(pixels: int) -> None:
    X = np.random.default_rng(1).normal(size=(7, 30))
    for found, (down, right) in zip(shift(X, pixels, (6, 5)), DIRECTIONS, strict=True):
        by = (0, down * pixels, right * pixels)
        expected = moved_by_scipy(X.reshape(7, 6, 5), by, order=0, cval=X.min())
        assert_array_equal(found, expected.reshape(7, 30))


def test_shifts_keep_the_type_and_a_square_is_inferred() -> None:
    X = np.arange(9, dtype=np.uint8).reshape(1, 9)
    up, down, left, right = shift(X)
    assert up.dtype == np.uint8
    assert_array_equal(up[0], [3, 4, 5, 6, 7, 8, 0, 0, 0])
    assert_array_equal(down[0], [0, 0, 0, 0, 1, 2, 3, 4, 5])
    assert_array_equal(left[0], [1, 2, 0, 4, 5, 0, 7, 8, 0])
    assert_array_equal(right[0], [0, 0, 1, 0, 3, 4, 0, 6, 7])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "no image of 5x5; give its height and width"),
        ({"image": (5, 5)}, "30 columns are no image of 5x5"),
        ({"image": (-5, -6)}, "no image of -5x-6"),
        ({"image": (6, 5), "pixels": 5}, "by 1 to 4 pixels for images of 6x5, got 5"),
        ({"image": (6, 5), "pixels": 0}, "got 0"),
    ],
)
def test_what_does_not_fit_an_image_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        shift(np.zeros((2, 30), dtype=np.uint8), **arguments)


def test_training_rows_then_copies_with_their_labels(data: Data, first: sparsegp.Model) -> None:
    X, y = data
    words = np.array(["lying", "upright"])[y]
    lazy = table_from_arrays(da.from_array(X, chunks=(64, 30)), words, "bars")
    table = sparsegp.virtual_rows(first, lazy, "shift", image=(6, 5))
    active = np.sort(first.rows)
    copies = shift(X[active], image=(6, 5))
    assert_array_equal(table.X.compute(), np.concatenate([X, *copies]))
    assert_array_equal(table.y, np.concatenate([words, *[words[active]] * 4]))
    assert table.source == "bars and 120 virtual rows"


def test_every_copy_knows_its_original(data: Data, first: sparsegp.Model) -> None:
    table = sparsegp.virtual_rows(first, data, "shift", image=(6, 5))
    assert table.origin is not None
    X, n = table.X.compute(), len(table.X) - 120
    assert_array_equal(table.origin[:n], np.arange(n))
    originals = X[table.origin[n:]]
    for number, (down, right) in enumerate(DIRECTIONS):
        some = slice(30 * number, 30 * (number + 1))
        moved = shift(originals[some], image=(6, 5))
        inside = np.zeros((6, 5), dtype=bool)  # what has not come in at an edge
        inside[max(down, 0) : 6 + min(down, 0), max(right, 0) : 5 + min(right, 0)] = True
        found = X[n:][some][:, inside.ravel()]
        assert_array_equal(found, moved[number][:, inside.ravel()])


def test_copies_of_copies_know_the_first_original(data: Data, first: sparsegp.Model) -> None:
    table = sparsegp.virtual_rows(first, data, "shift", image=(6, 5))
    second = sparsegp.train(table, **sparsegp.same_settings(first, n_active=60))
    assert (second.rows >= 400).any()
    again = sparsegp.virtual_rows(second, table, lambda X: [-X])
    assert table.origin is not None
    assert again.origin is not None
    assert_array_equal(again.origin[:520], table.origin)
    assert_array_equal(again.origin[520:], table.origin[np.sort(second.rows)])


def test_validation_rows_have_no_copies_among_the_others(data: Data, first: sparsegp.Model) -> None:
    table = sparsegp.virtual_rows(first, data, lambda X: [1.01 * X] * 11)
    assert table.origin is not None
    n = len(table.origin)
    settings = TrainSettings.given(**sparsegp.same_settings(first, n_active=40))
    with open_runtime("threads=1") as runtime, Training(table, settings, runtime=runtime) as run:
        run.build()
        run.select()
        assert not set(table.origin[run.validation]) & set(table.origin[~run.validation])
        assert not run.validation[run.active.rows].any()
        x = np.concatenate([part for part, _ in run.map_blocks("validation_rows")])
    assert len(x) == run.validation.sum() <= settings.n_validation(n)
    assert run.validation.sum() == settings.n_validation(n)  # others fill up what is left
    assert (table.origin[run.validation] != np.flatnonzero(run.validation)).any()


def test_rows_without_copies_are_kept_for_validation_as_ever() -> None:
    settings = TrainSettings(seed=3)
    found = choose_validation_rows(1000, settings)
    order = np.random.default_rng([3, 1000]).permutation(1000)
    assert_array_equal(np.flatnonzero(found), np.sort(order[:100]))


def test_any_function_of_the_rows(data: Data, first: sparsegp.Model) -> None:
    def mirrored(X: Doubles, times: int = 1) -> list[Doubles]:
        return [X.reshape(-1, 6, 5)[:, :, ::-1].reshape(X.shape)] * times

    X, y = data
    active = np.sort(first.rows)
    table = sparsegp.virtual_rows(first, data, mirrored, times=2)
    assert_array_equal(
        table.X.compute()[400:430].reshape(30, 6, 5), X[active].reshape(30, 6, 5)[:, :, ::-1]
    )
    assert_array_equal(table.y[430:], y[active])
    same = sparsegp.virtual_rows(first, data, partial(mirrored, times=2))
    assert_array_equal(same.X.compute(), table.X.compute())


def test_one_entry_adds_a_transformation(data: Data, first: sparsegp.Model) -> None:
    @TRANSFORMS.register("negative")
    def negative(X: Doubles) -> list[Doubles]:
        return [-X]

    try:
        table = sparsegp.virtual_rows(first, data, "negative")
    finally:
        del TRANSFORMS._members["negative"]
    assert_array_equal(table.X.compute()[400:], -data[0][np.sort(first.rows)])


def test_other_rows_and_bad_copies_are_refused(data: Data, first: sparsegp.Model) -> None:
    X, y = data
    make = partial(sparsegp.virtual_rows, first)
    with pytest.raises(DataError, match="X must hold the active rows of the model, of 30 columns"):
        make((X[:, :29], y), "shift")
    for other in ((X[::-1], y[::-1]), (X[:20], y[:20])):
        with pytest.raises(DataError, match="must hold the active rows of the model"):
            make(other, "shift", image=(6, 5))
    with pytest.raises(DataError, match="X has no labels"):
        make((X, None), "shift", image=(6, 5))
    with pytest.raises(DataError, match=r"the shape of its rows, \(30, 30\), got .*3\)"):
        make(data, lambda rows: [rows[:, :3]])
    with pytest.raises(DataError, match=r"arrays of the shape of its rows, .* got \[\]"):
        make(data, lambda rows: [])
    with pytest.raises(UnknownNameError, match="unknown transformation 'turn'; known: shift"):
        make(data, "turn")


def test_the_second_run_has_what_the_first_has_learnt(data: Data, first: sparsegp.Model) -> None:
    settings = sparsegp.same_settings(first, n_active=80)
    assert settings["likelihood"] == f"probit({first.active.likelihood.bias!r})"
    table = sparsegp.virtual_rows(first, data, "shift", image=(6, 5))
    second = sparsegp.train(table, **settings)
    assert len(second.rows) == 80
    assert second.active.kernels == first.active.kernels
    assert second.active.likelihood == first.active.likelihood != Probit()
    assert second.settings["learn"] == "none"
    assert sparsegp.same_settings(second)["likelihood"] == settings["likelihood"]


def test_settings_that_contradict_are_refused(first: sparsegp.Model) -> None:
    assert sparsegp.same_settings(first, scaling="standard")["scaling"] == "standard"
    for name, value in {"kernel": "rbf", "likelihood": "probit", "learn": "evidence"}.items():
        assert name in KEPT
        with pytest.raises(SettingsError, match=f"{name} must be that of the first run, '.*'; lea"):
            sparsegp.same_settings(first, **{name: value})


def test_settings_of_other_models_train_them_again(data: Data) -> None:
    """With the rows and the settings of a run, its active rows come out again."""
    X, y = data
    numbers = X[:, 7] + 0.1 * X[:, 12]
    runs: list[tuple[Any, dict[str, Any]]] = [
        (y, {"n_active": 20}),
        (y, {"active_per_class": True, "n_active": 20, "kernel": "10*rbf; 5*rbf(2)"}),
        (y, {"likelihood": "softmax", "active_per_class": True, "n_active": 20}),
        (numbers, {"task": "regression", "learn": "evidence", "major_steps": 1, "n_active": 20}),
    ]
    for labels, settings in runs:
        model = sparsegp.train(X, labels, **settings)
        again = sparsegp.train(X, labels, **sparsegp.same_settings(model))
        assert_array_equal(again.rows, model.rows)
        assert again.active.kernels == model.active.kernels
        assert again.active.likelihood == model.active.likelihood
        np.testing.assert_allclose(
            again.latent_mean_and_variance(X[:9])[0], model.latent_mean_and_variance(X[:9])[0]
        )


def test_copies_teach_what_does_not_matter(data: Data) -> None:
    """Bars that move are told apart better by a model that has seen copies that moved."""
    settings: dict[str, Any] = {"likelihood": "probit", "calibration": "none", "scaling": "none"}
    X, y = pictures(1000, 1, reach=1)
    first = sparsegp.train(*data, n_active=40, **settings)

    def moved(rows: Doubles) -> list[Doubles]:
        images = rows.reshape(-1, 6, 5)
        copies = (moved_by_scipy(images, (0, *by), order=0, cval=0.0) for by in DIRECTIONS)
        return [copy.reshape(rows.shape) for copy in copies]

    table = sparsegp.virtual_rows(first, data, moved)
    second = sparsegp.train(table, **sparsegp.same_settings(first, n_active=100))
    more = sparsegp.train(*data, n_active=100, **settings)
    wrong = [float(np.mean(model.predict(X) != y)) for model in (first, more, second)]
    assert wrong[2] < 0.7 * min(wrong[:2])


def test_stored_models_serve_as_well(data: Data, tmp_path: Path) -> None:
    model = sparsegp.train(*data, likelihood="probit", n_active=20, out=tmp_path / "run")
    stored = sparsegp.load(tmp_path / "run")
    tables = [sparsegp.virtual_rows(m, data, "shift", image=(6, 5)) for m in (model, stored)]
    assert_array_equal(tables[0].X.compute(), tables[1].X.compute())
    assert sparsegp.same_settings(model) == sparsegp.same_settings(stored)
