"""A tuning as a whole: the same choice however it is run or cut short."""

import functools
from contextlib import nullcontext

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import sparsegp
from sparsegp import memory, tune
from sparsegp.data import table_from_arrays
from sparsegp.errors import DataError, Interrupted, SettingsError, StoreError
from sparsegp.estimator import SparseGPClassifier
from sparsegp.fit import prepare
from sparsegp.fit.trial import draw_sample, stratified_order
from sparsegp.free_memory import free_memory_of, shortage
from sparsegp.learning.space import MAX_ROUGH_COLUMNS
from sparsegp.runtime import open_runtime
from sparsegp.settings import TrainSettings
from sparsegp.store import read_records
from tests.runs import Stopper, nlpp

small = functools.partial(tune, max_trials=8, n_active=60, runtime="threads=1")


def of(tuned):
    """All that must not depend on how a tuning was run: everything but seconds."""
    trials = [{**trial, "seconds": None} for trial in tuned.trials]
    return [*tuned.chosen.items(), tuned.nlpp, tuned.ended, trials]


@pytest.mark.slow
def test_same_choice_however_often_it_is_stopped(data, tmp_path):
    """Trials on record are not made again: their seconds stay."""
    expected, how = small(*data), {"out": tmp_path, "resume": True}
    learnt = [(trial["by_column"], trial["metric"]) for trial in expected.trials]
    quick, each = [(False, "none")] * 8, [(True, "none")] * 2
    assert learnt == [*quick, *each, (False, "full")]
    assert all(word in str(expected.trials[8:10]) for word in ("ard(", "laplace("))
    found = small(*data, max_seconds=1e-9, **how)
    assert (len(found.trials), found.ended, found.nlpp) == (0, "max_seconds", None)
    assert found.kernel.startswith("50.0*rbf(")  # the one that was given
    for reports in (3, 2):
        with pytest.raises(Interrupted, match="continue with `resume=True`"):
            small(*data, **how, progress=Stopper(reports))
    stopped = read_records(tmp_path)["trials"]
    assert 0 < len(stopped) < 8
    found = small(*data, max_seconds=1e9, **how, runtime="threads=2")
    assert (of(found), found.ended) == (of(expected), "all rungs")
    assert all(trial in found.trials for trial in stopped)
    assert read_records(tmp_path)["trials"] == list(found.trials)
    assert small(*data, **how) == found


def test_every_beginning_has_the_proportions_of_the_whole():
    target = np.random.default_rng(0).choice(4, p=[0.6, 0.3, 0.08, 0.02], size=1000)
    order = stratified_order(target, 0)
    assert_array_equal(np.sort(order), np.arange(1000))
    shares = np.bincount(target) / 1000
    for rows in range(1, 1001):
        assert np.abs(np.bincount(target[order[:rows]], minlength=4) - rows * shares).max() <= 3
    assert (stratified_order(target, 1) != order).any()


@pytest.mark.parametrize("n", [300, 2600])
def test_the_sample_is_of_rows_of_the_table_each_once(n):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, 3)) * [1.0, 10.0, 0.1], rng.integers(0, 3, size=n)
    settings = TrainSettings()
    data = prepare(table_from_arrays(X, y), None, settings)
    sample = draw_sample(data, {"auto": data.scaling}, settings, 20000)
    numbers = {row.tobytes(): i for i, row in enumerate(X)}
    rows = [numbers[row.tobytes()] for row in sample.X]
    assert sorted(rows) == list(range(n))
    assert_array_equal(sample.target, y[rows])
    shorter = draw_sample(data, {"auto": data.scaling}, settings, 1000)
    assert_array_equal(shorter.X, sample.X[-1000:])  # those that are held out last of all


def test_trained_after_tuning_in_one_directory(data, tmp_path):
    run = tmp_path / "run"
    kernel = small(*data, out=run, max_seconds=1e-9).kernel
    model = sparsegp.train(*data, kernel=kernel, n_active=60, runtime="threads=1", out=run)
    assert model.settings["kernel"] == kernel
    again = small(*data, out=run, resume=True)  # the choice stands, as a run has begun with it
    assert (again.kernel, again.ended) == (kernel, "max_seconds")


def test_other_settings_or_data_are_refused(data, tmp_path):
    X, y = data
    small(X, y, out=tmp_path, max_seconds=1e-9)
    other = X.copy()
    other[200, 1] += 1e-6
    cases = [
        (X, y, {"seed": 1}, r"other settings or data: seed was 0 and is now 1"),
        (X, y, {"max_trials": 20}, r"max_trials was 8 and is now 20"),
        (X, y, {"kernel": "3*rbf"}, r"kernel was '50\*rbf .*"),
        (X[1:], y[1:], {}, r"columns, changed \(rows 250, now 249\);"),
        (X, np.roll(y, 1), {}, "names of their columns, changed; give the former"),
        (other, y, {}, "names of their columns, changed; give the former"),
    ]
    for rows, labels, change, pattern in cases:
        with pytest.raises(SettingsError, match=pattern):
            small(rows, labels, out=tmp_path, resume=True, **change)


def test_directories_of_others_are_refused(data, tmp_path):
    small(*data, out=tmp_path / "tuned", max_seconds=1e-9)
    with pytest.raises(StoreError, match="holds an unfinished run; continue it with `resume=True`"):
        small(*data, out=tmp_path / "tuned")
    sparsegp.train(*data, n_active=20, runtime="threads=1", out=tmp_path / "run")
    with pytest.raises(StoreError, match="holds a run without a search for its kernel"):
        small(*data, out=tmp_path / "run")
    with pytest.raises(StoreError, match="give that run's `kernel`, `overwrite=True`"):
        small(*data, out=tmp_path / "run", resume=True)
    tuning = tmp_path / "tuned" / "tuning"
    for file in (tuning / "run.json", *tuning.glob("checkpoint*")):
        content = file.read_bytes()
        file.write_bytes(content[:-9])
        with pytest.raises(StoreError, match=file.name):
            small(*data, out=tmp_path / "tuned", resume=True)
        file.write_bytes(content)


@pytest.mark.parametrize(
    ("given", "pattern"),
    [
        (
            {"likelihood": "probit"},
            "got likelihood=probit with posterior=adf and sites=moments: change these",
        ),
        ({"task": "regression", "likelihood": "gaussian(0.2)"}, "rows for likelihood=softmax"),
        ({"method": "ep"}, "tuning is for method=ivm, got method=ep, which learns its kernel"),
        ({"resume": True}, "give out"),
        ({"n_active": 10**6}, "n_active=1000000 exceeds the 250 training rows"),
    ],
)
def test_senseless_wishes_are_refused(given, pattern, data):
    with pytest.raises(SettingsError, match=pattern):
        small(*data, **given)


def test_too_few_rows_are_refused():
    with pytest.raises(DataError, match="at least 5 rows"):
        tune(np.eye(4), np.arange(4) % 2, runtime="threads=1")


X = np.exp(2.0 * np.random.default_rng(1).standard_normal((800, 5)))
Y = ((X[:, 0] > 1.0) ^ (X[:, 3] > 1.5)).astype(int)
"""Labels by thresholds of two of five columns, one of which has outliers."""


def auto_and_default(X, y, n_active):
    """Return a model of the first 300 rows, and the NLPP of the others by it and the default."""
    models = [
        sparsegp.train(X[:300], y[:300], kernel=kernel, n_active=n_active, runtime="threads=1")
        for kernel in ("auto", "50*rbf + 50*matern52")
    ]
    return models[0], *(nlpp(model, X[300:], y[300:]) for model in models)


@pytest.mark.slow
def test_auto_leads_the_default_kernel_where_columns_are_unlike():
    model, auto, default = auto_and_default(X, Y, 80)
    assert auto < 0.7 * default
    assert model.settings["scaling"] == "quantile"
    assert set(np.argsort(model.relevances)[-2:]) == {0, 3}


@pytest.mark.slow
def test_what_is_learnt_again_is_chosen_and_the_same_in_another_process(tmp_path):
    X = np.random.default_rng(1).standard_normal((2000, 2))
    rows = X, (np.sin(6.0 * X[:, 0]) + X[:, 1] > 0.0).astype(int)
    found = tune(*rows, max_trials=None, n_active=60, runtime="threads=1")
    last = [trial for trial in found.trials if trial["again"]]
    others = found.trials[: -len(last)]
    sizes = [(t["first"], t["rows"], t["n_active"], t["failure"]) for t in last]
    assert sizes == [(1000, 1000, 150, "")] * (len(last) - 1) + [(0, 2000, 300, "")]
    assert found.kernel == last[-1]["kernel"]
    assert found.nlpp in [trial["nlpp"] for trial in others]  # of rows that were held out
    stopped = {"max_trials": None, "n_active": 60, "out": tmp_path}
    with pytest.raises(Interrupted):
        tune(*rows, **stopped, progress=Stopper(len(others) - 1), runtime="threads=1")
    assert of(tune(*rows, **stopped, resume=True, runtime="workers=1")) == of(found)


def test_classes_on_two_sides_of_a_plane_get_a_linear_kernel():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 8))
    y = (rng.random(1000) < 1 / (1 + np.exp(-X @ rng.normal(size=8)))).astype(int)
    model, linear, default = auto_and_default(X, y, 60)
    assert "linear" in model.settings["kernel"]
    assert linear < default


def test_auto_is_a_brief_tuning_and_resumed_as_one(tmp_path):
    few, y = X[:100], Y[:100]
    auto = {"kernel": "auto", "n_active": 50}
    choice = tune(few, y, max_trials=None, runtime="threads=1", **auto)
    chosen = {**choice.chosen, "n_active": 50}
    expected = sparsegp.train(few, y, **chosen, runtime="threads=1")
    for reports in (3, 9):
        with pytest.raises(Interrupted, match="continue with `resume=True`"):
            sparsegp.train(few, y, **auto, out=tmp_path, resume=True, progress=Stopper(reports))
    model = sparsegp.train(few, y, **auto, out=tmp_path, resume=True, runtime="threads=2")
    again = sparsegp.train(few, y, **auto, out=tmp_path)  # finished: nothing is done
    for each in (model, again):
        assert each.settings == expected.settings
        assert_array_equal(each.predict_proba(few), expected.predict_proba(few))


def test_it_is_the_default_and_overwritten_with_its_run(tmp_path, searching):
    few, y = X[:100], Y[:100]
    auto = {"n_active": 50, "out": tmp_path, "runtime": "threads=1"}
    first = sparsegp.train(few, y, **auto, kernel="auto")
    with pytest.raises(SettingsError, match="seed was 0"):
        sparsegp.train(few, y, **auto, seed=1)
    assert sparsegp.train(few, y, **auto).settings == first.settings
    for name, wrong in (("class_weight", {"none": 2.0}), ("block_rows", 0)):
        with pytest.raises(SettingsError, match=f"{name} must "):  # and nothing is deleted
            sparsegp.train(few, y, **auto, **{name: wrong}, overwrite=True)
    assert_array_equal(sparsegp.load(tmp_path).rows, first.rows)
    again = sparsegp.train(few, y, **auto, seed=1, overwrite=True)
    assert again.settings["seed"] == 1
    assert (tmp_path / "tuning" / "run.json").exists()
    fitted = SparseGPClassifier(n_active=50).fit(few, y)
    assert (fitted.kernel_, fitted.scaling_) == (first.settings["kernel"], "quantile")
    assert fitted.n_active_ == 50
    assert sparsegp.train(few, y, n_active=50, posterior="active", stub_entries=10**6)


@pytest.mark.parametrize("columns", [50, 51])
def test_labels_that_look_like_noise_may_depend_on_few_of_many_columns(columns):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((250, columns)), rng.integers(2, size=250)
    learns = pytest.raises(Interrupted) if columns > 50 else nullcontext()
    with learns:  # after nine trials, one with learnt scales, and a report before and between
        how = {"n_active": 20, "criterion": "predictive", "progress": Stopper(13)}
        tune(X, y, max_trials=None, runtime="threads=1", **how)


CASES = {"few rows": (89, 4), "pixels": (120, 60), "few wide rows": (89, MAX_ROUGH_COLUMNS + 1)}
SEARCHED = {"one range": (60, None), "weights": (5, np.full(120, 2.0)), "genes": (60, None)}
"""Columns and weights of rows; ranks and simulated designs have one range as pixels have, and genes
resemble their neighbours too."""


@pytest.mark.parametrize("case", CASES)
def test_it_declines_where_nothing_would_come_of_it(case, searching):
    rng, n, p = np.random.default_rng(2), *CASES[case]
    X = rng.random((n, p))
    if case == "pixels":
        X = 0.5 * (X + np.roll(X, 1, axis=1))
        X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    y = (X[:, 0] > 0.5).astype(int)
    assert not tune(X, y, max_trials=None, runtime="threads=1").trials
    sparsegp.train(X[:4], [0, 1, 0, 1], runtime="threads=1")  # too few to hold any out
    model = sparsegp.train(X[:80], y[:80], runtime="threads=1")
    kernel = {"few rows": "30.0*laplace", "pixels": "50.0*rbf"}.get(case, "10.0 + ")
    assert model.settings["kernel"].startswith(kernel)


@pytest.mark.parametrize("case", SEARCHED)
def test_other_rows_are_searched(case, searching):
    columns, weights = SEARCHED[case]
    X = np.random.default_rng(2).random((120, columns))
    y = (X[:, 0] > 0.5).astype(int)
    if case == "genes":
        X = np.rint(X) + np.roll(np.rint(X), 1, axis=1)
    assert tune(X, y, sample_weight=weights, max_trials=None, runtime="threads=1").trials


def noisy_days(n, seed):
    """Labels that depend on one of a hundred days, and are noisy; the other column is noise."""
    chances = 1.0 / (1.0 + np.exp(-2.0 * np.random.default_rng(7).normal(size=100)))
    rng = np.random.default_rng(seed)
    day = rng.integers(100, size=n)
    return np.column_stack([day, rng.normal(size=n)]), (rng.random(n) < chances[day]).astype(int)


def noisy_points(n, seed):
    """Labels that depend on which of 300 points a row is, and are noisy."""
    rng = np.random.default_rng(7)
    points, means = np.round(rng.normal(size=(300, 2)), 3), 1.5 * rng.normal(size=300)
    rng = np.random.default_rng(seed)
    place = rng.integers(300, size=n)
    return points[place], (rng.random(n) < 1.0 / (1.0 + np.exp(-means[place]))).astype(int)


def test_of_repeated_inputs_one_row_each_may_become_active_in_trials_too():
    X, y = noisy_points(4000, 0)
    how = {"n_active": 150, "runtime": "threads=1"}
    found = tune(X, y, max_trials=None, **how)
    assert [trial["selects"] for trial in found.trials[-2:]] == [False, True]
    assert found.criterion is None
    random, selected = (
        nlpp(
            sparsegp.train(X, y, **how | found.chosen | {"criterion": name}), *noisy_points(4000, 1)
        )
        for name in ("random", "predictive")
    )
    assert selected < random


def test_active_rows_are_random_where_the_least_probable_ones_are_noise():
    X, y = noisy_days(4000, 0)
    how = {"n_active": 300, "scaling": "quantile", "runtime": "threads=1"}
    found = tune(X, y, max_trials=None, **how)
    assert found.criterion == found.chosen["criterion"] == "random"
    last = [(trial["rung"], trial["selects"]) for trial in found.trials[-2:]]
    assert last == [(6, False), (6, True)]
    X_new, y_new = noisy_days(4000, 1)
    random, selected = (
        nlpp(sparsegp.train(X, y, **how | found.chosen | {"criterion": name}), X_new, y_new)
        for name in ("random", "predictive")
    )
    assert random < 0.9 * selected
    for given in ({"criterion": "predictive"}, {"posterior": "adf"}):
        some = {"max_trials": 3, **how, "n_active": 30}
        kept = tune(X[:2000], y[:2000], **some, **given)
        assert kept.criterion is None
        assert {trial["rung"] for trial in kept.trials} <= {1, 2, 4, 5}


def test_counts_of_words_may_stay_unscaled(searching):
    rng = np.random.default_rng(0)
    X = rng.poisson(0.1 * rng.exponential(size=MAX_ROUGH_COLUMNS + 1), size=(100, 2001))
    y = (X @ rng.standard_normal(X.shape[1]) > 0).astype(int)
    for columns, rules in ((2001, {"auto", "none"}), (400, {"auto", "none", "quantile"})):
        found = tune(X[:, :columns], y, max_trials=None, n_active=50, runtime="threads=1")
        assert {trial["scaling"] for trial in found.trials} == rules


def test_so_many_rows_become_active_as_fit_the_memory():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 2))
    y, brief = (X[:, 0] > 0).astype(int), {"runtime": "threads=1", "max_seconds": 1e-9}
    assert tune(X, y, max_trials=None, **brief).n_active == 1000
    with open_runtime("threads=1") as runtime:
        settings = TrainSettings(n_active=4000)
        shapes = [memory.Shape(n, 2, 2, 4000, settings, 0) for n in (10**4, 10**10)]
        lacking = [shortage(each, free_memory_of(each, runtime)) for each in shapes]
    assert [bool(each) for each in lacking] == [False, True]
