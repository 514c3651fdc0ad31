"""Training as a whole: what it takes, what it refuses, and what comes out of it."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import sparsegp
from sparsegp.errors import Interrupted, NumericalError, SettingsError, StoreError
from sparsegp.progress import Progress
from sparsegp.settings import TrainSettings
from sparsegp.store import CHECKPOINT, folder_of, read_file, write_file
from tests.runs import KINDS, Stopper, assert_same, data_for, nlpp, params, selected, train

ADF = {"posterior": "adf", "kernel": "10*rbf"}


def held_out(kind):
    """Split the rows of a kind of run into those to train on and others."""
    X, y, _ = data_for(kind)
    order = np.random.default_rng(1).permutation(len(X))
    n = 450 if "bound" in kind else 300  # so many that the bound is felt
    some, others = order[:n], order[n : n + 200]
    return X[some], y[some], X[others], y[others]


# -- what comes out --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", params(kind for kind in KINDS if "method" not in KINDS[kind]))
def test_it_learns_and_the_curve_tells_so(kind):
    """The curve is that of the marginals, before the posterior and its calibration."""
    X, y, X_test, y_test = held_out(kind)
    few = {"major_steps": 1} if "learn" in KINDS[kind] else {}
    model = train(kind, X, y, test=(X_test, y_test), **few)
    last, found = model.history[-1], model.predict(X_test)
    if model.is_regression:
        error, least = np.mean((found - y_test) ** 2), y_test.var()
        curve = last["heldout_mse"]
    else:
        assert_allclose(model.predict_proba(X_test).sum(axis=1), 1.0, rtol=1e-12)
        error, curve = np.mean(found != y_test), last["heldout_error"]
        least = 1.0 - np.unique(y_test, return_counts=True)[1].max() / len(y_test)
    assert error < 0.75 * least  # than the mean, or the most frequent class
    plain = model.settings["posterior"] == "adf" and model.calibration.temperature == 1.0
    if plain and "learn" not in KINDS[kind] and kind != "bound, active":
        assert_allclose(curve, error, rtol=1e-4, atol=0.006)
        if "train_error" in last:
            assert_allclose(last["train_error"], np.mean(model.predict(X) != y), atol=0.006)
        rough = kind == "softmax"  # three nodes a class: probabilities sum to one only nearly
        expected = nlpp(model, X_test, y_test)
        assert_allclose(last["heldout_nlpp"], expected, rtol=0.1 if rough else 0.01)


@pytest.mark.parametrize("kind", ["probit", "ordered", "pairs"])
def test_calibration_mends_probabilities_that_are_too_soft(kind):
    X, y, X_test, y_test = held_out(kind)
    plain, learned = (train(kind, X, y, calibration=name) for name in ("none", "learned"))
    assert plain.calibration.variance_weight == 1.0
    assert learned.calibration.variance_weight < 1.0
    assert nlpp(learned, X_test, y_test) < nlpp(plain, X_test, y_test)


def test_state_is_shown_as_dask_arrays():
    X, y, _ = data_for("all", 1200)
    settings = TrainSettings(
        n_active=30, posterior="adf", precision="float64", kernel="2*rbf(3)", scaling="none"
    )
    with selected((X, y), settings, block_rows=512) as run:
        stub, means, variances = run.stub(), run.means(), run.variances()
        assert stub.chunks == ((30,), (512, 512, 176))
        assert means.chunks == ((512, 512, 176), (3,))
        stub, means, variances = stub.compute(), means.compute(), variances.compute()
        model = run.finish()
    expected = model.latent_mean_and_variance(X)
    assert_allclose(means, expected[0], atol=1e-9)
    assert_allclose(variances[:, 0], expected[1][:, 0], atol=1e-9)
    assert_allclose(variances[:, 0], 2.0 - np.square(stub).sum(axis=0), atol=1e-10)


def test_the_curve_leaves_out_what_is_not_known():
    """Of training rows nothing is reported any more when some of them have left."""
    X, y, X_test, y_test = held_out("bound")
    model = train("bound", X, y, test=(X_test, y_test), report_every=5)
    known = ["train_error" in record for record in model.history]
    assert known == sorted(known, reverse=True)
    assert set(known) == {True, False}
    assert all({"heldout_error", "heldout_nlpp"} <= set(record) for record in model.history)


# -- what is refused, and what goes wrong ----------------------------------------------------------


def test_runs_with_other_settings_or_data_are_not_resumed(tmp_path):
    X, y, _ = data_for("all")
    weights = 1.0 + np.arange(len(y)) % 3
    settings = {"n_active": 40, "lookahead": 4, "sample_weight": weights, **ADF}
    how = {"out": tmp_path, "resume": True}
    with pytest.raises(Interrupted):
        sparsegp.train(X, y, **settings, out=tmp_path, progress=Stopper(3))
    with pytest.raises(SettingsError, match="n_active was 40 and is now not given"):
        sparsegp.train(X, y, **{**settings, "n_active": None}, **how)
    for rows, w in (((X[::-1], y[::-1]), weights), ((X, y), weights[::-1])):
        with pytest.raises(SettingsError, match="the training data, or names"):
            sparsegp.train(*rows, **{**settings, "sample_weight": w}, **how)
    with pytest.raises(StoreError, match="holds an unfinished run"):
        sparsegp.train(X, y, **settings, out=tmp_path)


@pytest.mark.parametrize("kind", ["all", "regression, all", "exact"])
def test_finished_runs_are_for_the_same_rows_in_their_order_and_names_only(kind, tmp_path):
    """Also if they are not active and ranges and means, or standardised targets, stay the same."""
    X, y, _ = data_for(kind)
    copies = 0 if kind == "all" else 1  # which are sorted
    X, y = (np.concatenate([rows, rows[:copies]]) for rows in (X, y))
    frame = pd.DataFrame(X, columns=list("abcd"))
    model, swapped = train(kind, frame, y, out=tmp_path), frame.copy()
    last = np.delete(np.arange(len(X)), model.rows[:24])[-2:]  # all rows of "exact" are active
    swapped.iloc[last, 0] = frame.iloc[last[::-1], 0].to_numpy()
    renamed = frame.set_axis(list("bacd"), axis=1)
    for other in ((swapped, y), (renamed, y), (frame, 2.0 * y), (frame[::-1], y[::-1])):
        with pytest.raises(SettingsError, match="the training data, or names of their columns"):
            train(kind, *other, out=tmp_path, resume=True)
    assert train(kind, frame, y, out=tmp_path).names == tuple("abcd")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "reports"),
    [("one by one", 3), ("all", 8), ("bound", 4), ("learnt, pairs", 20), ("laplace", 2)],
)
def test_forged_checkpoints_are_refused(kind, reports, tmp_path):
    X, y, _ = data_for(kind)
    with pytest.raises(Interrupted):
        train(kind, X, y, out=tmp_path, progress=Stopper(reports))
    folder, (*older, path) = folder_of(tmp_path), sorted(tmp_path.glob("checkpoint-*"))
    for each in older:
        each.unlink()
    stored, taken = read_file(folder, path.name, CHECKPOINT), list[str]()
    forged = [
        (key, {name: value for name, value in stored.meta.items() if name != key}, stored.arrays)
        for key in ("rounds", "learning", "in_step")
        if kind != "laplace"
    ]
    for key in stored.arrays.keys() - {"state.near"}:  # where a search sets out changes no result
        array = np.atleast_1d(stored.arrays[key])
        shorter = (array[:-1], array[..., :-1])[: stored.arrays[key].ndim]
        forged += [(key, stored.meta, stored.arrays | {key: short}) for short in shorter]
    for what, meta, arrays in forged:
        write_file(folder, path.name, CHECKPOINT, meta, arrays)
        try:
            train(kind, X, y, out=tmp_path, resume=True)
        except StoreError:
            continue
        taken.append(what)
        path.with_name("model.zarr.zip").unlink()
    assert not taken


def test_active_rows_are_some_of_the_candidates_and_rare_classes_have_theirs():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(5000, 3)), rng.integers(0, 2, 5000)
    rare = np.array([700, 2900, 4400])
    y[rare] = 2
    with selected((X, y), TrainSettings(n_active=20, kernel="10*rbf", seed=5)) as run:
        candidates, model = run.block_settings.candidates, run.finish()
    assert 400 <= len(candidates) <= 400 + 3 + 2 * 67
    assert not run.validation[candidates].any()
    assert np.isin(rare[~run.validation[rare]], candidates).all()
    assert np.isin(model.rows, candidates).all()


def test_as_many_candidates_as_rows_are_all_rows():
    X, y, X_test = data_for("all")
    models = [train("all", X, y, n_active=20, candidates=count) for count in (800, 10**6)]
    assert_same(*models, X_test)
    few = train("all", X, y, n_active=20, candidates=40)
    assert not np.array_equal(few.rows, models[0].rows)


@pytest.mark.slow
@pytest.mark.usefixtures("searching")
@pytest.mark.parametrize(
    "how", [{}, {"kernel": "rbf", "metric": "full(rounds=1)"}], ids=["search", "metric"]
)
def test_candidates_bound_the_active_rows_whose_number_is_not_given(how):
    X, y, _ = data_for("all")
    X, y = np.tile(X[:, :1], (2, 1)), np.tile(y, 2)  # as many as a search may make active
    assert len(train("all", X, y, **{"n_active": None, "candidates": 40, **how}).rows) == 40


REFUSED = {
    "fewer candidates than active rows": {"n_active": 60, "candidates": 59},
    "candidates of another posterior": {**ADF, "candidates": 100},
    "sites for another likelihood": {"likelihood": "probit", "sites": "variational"},
    "posterior for other sites": {"likelihood": "probit", "posterior": "all"},
    "criterion without a score a class": {"active_per_class": True, "criterion": "predictive"},
    "one kernel for sites that differ": {"sites": "moments"},
    "learning for other sites": {"learn": "evidence"},
    "strategy for one latent value": {**KINDS["learnt, pairs"], "strategy": "exact"},
    "hyperprior that cannot be read": {**KINDS["learnt, pairs"], "hyperprior": "v = 3"},
    "learning without a marginal likelihood": {"method": "gibbs", "learn": "evidence"},
    "method for another likelihood": {"method": "exact", "likelihood": "probit"},
    "method for another task": {"method": "laplace", "task": "regression"},
}


@pytest.mark.parametrize("case", REFUSED)
def test_settings_that_do_not_fit_are_refused_in_one_line(case):
    X, y, _ = data_for("pairs")
    with pytest.raises(SettingsError) as refusal:
        sparsegp.train(X, y, **REFUSED[case])
    assert "\n" not in str(refusal.value)


def test_a_hyperprior_of_what_a_kernel_lacks_is_refused_before_rows_are_selected(tmp_path):
    X, y, _ = data_for("pairs")
    how = KINDS["learnt, pairs"] | {"kernel": "rbf", "hyperprior": "v: lognormal(-1, 1)"}
    with pytest.raises(SettingsError, match="must be of a parameter that is learnt"):
        sparsegp.train(X, y, out=tmp_path, checkpoint_every=1, **how)
    assert not [*tmp_path.glob("checkpoint*")]


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name in ("runtime", "out", "scratch") for value in (5, b"x", [], "a\0b")]
    + [(name, value) for name in ("block_rows", "checkpoint_every") for value in (1.5, "1", True)]
    + [("progress", value) for value in (5, 0, True, "bar", Progress)]
    + [("test", 5), ("test", "digits"), ("test", (np.ones((2, 2)),))]
    + [("max_trials", 1.5), ("max_seconds", "a"), ("resume", "no"), ("overwrite", "no")],
)
def test_arguments_of_other_types_are_refused_by_name(name, value):
    (X, y, _), call = data_for("pairs"), sparsegp.tune if "max" in name else sparsegp.train
    with pytest.raises(SettingsError, match=f"{name if name != 'out' else 'a run'}.* must be "):
        call(X, y, n_active=5, **{name: value})


@pytest.mark.parametrize("wrong", [{"runtime": 2}, {"threads": 2}, {"workers": 2}])
def test_a_wrong_place_of_a_run_is_answered_by_how_to_say_it(wrong):
    X, y, _ = data_for("pairs")
    with pytest.raises(SettingsError, match=r"(threads|workers)=[2N]"):
        sparsegp.train(X, y, n_active=5, **wrong)


@pytest.mark.slow
def test_variances_lost_by_rounding_end_a_selection_in_good_order():
    """Without noise float32 cannot tell what is left of the variances; nothing else goes wrong."""
    X, _, X_test = data_for("regression")
    y, y_test = (5.0 * np.sin(2.0 * rows[:, 0]) for rows in (X, X_test))
    progress, messages = Progress(), list[str]()
    progress.message = messages.append
    how = {"kernel": "10*rbf", "likelihood": "gaussian(1e-10)", "n_active": 700}
    model = train("regression", X, y, test=(X_test, y_test), progress=progress, **how)
    assert len(model.rows) < 700
    assert f"{len(model.rows)} rows included" in messages[0]
    assert np.mean(np.square(model.predict(X_test) - y_test)) < 5e-3 * y_test.var()
    assert all(np.isfinite(list(record.values())).all() for record in model.history)


@pytest.mark.parametrize("kind", ["logistic", "laplace"])
def test_underflow_is_no_error_where_numpy_raises(kind):
    X, y, X_test = data_for(kind)
    with np.errstate(all="raise"):
        model = train(kind, X, y)
        assert np.isfinite(model.predict_proba(100.0 * X_test)).all()


@pytest.mark.parametrize("size", [1e5, 1e7])
def test_large_inputs_of_a_linear_kernel_lose_their_variances_in_good_order(size):
    X = size * np.random.default_rng(0).normal(size=(600, 5))
    y = (X[:, 0] > X[:, 1]).astype(int)
    model = train("all", X, y, kernel="linear", scaling="none", n_active=50)
    assert 5 <= len(model.rows) < 50
    assert np.mean(model.predict(X) == y) == 1.0


@pytest.mark.parametrize("how", [{}, {"method": "exact"}])
def test_models_that_could_not_be_read_are_not_written(how, tmp_path, monkeypatch):
    monkeypatch.setattr("sparsegp.state.MAX_MAGNITUDE", 2.0)
    X = np.random.default_rng(0).normal(size=(120, 2))
    how |= {"task": "regression", "kernel": "0.001*rbf", "learn": "none", "out": tmp_path / "run"}
    with pytest.raises(NumericalError, match=r"must be finite .* holds values that are not"):
        sparsegp.train(X, X[:, 0] + X[:, 1] ** 2, **how)
    assert not (tmp_path / "run" / "model.zarr.zip").exists()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_metrics_that_are_not_finite_end_a_run():
    X = np.random.default_rng(0).normal(size=(120, 2))
    y = X[:, 0] + X[:, 1] ** 2
    how = {"task": "regression", "learn": "none", "precision": "float64"}
    with pytest.raises(NumericalError, match="train_mse must be finite, got nan with"):
        sparsegp.train(X, y, kernel="laplace(1e-308)", **how)
    test = X[:3], [1e200, 0.0, 0.0]
    with pytest.raises(NumericalError, match=r"heldout_mse must be .* labels nearer to those of"):
        sparsegp.train(X, y, kernel="rbf", test=test, **how)


@pytest.mark.parametrize("task", [{}, {"task": "classification"}])
def test_many_integer_classes_are_questioned_unless_the_task_is_given(task, caplog):
    X, y = np.random.default_rng(0).normal(size=(210, 2)), np.arange(210) % 21
    sparsegp.train(X, y, kernel="rbf(1)", n_active=21, calibration="none", **task)
    assert ("21 numbers as labels" in caplog.text) == (not task)


def test_the_order_of_texts_is_said(caplog):
    X, y, _ = data_for("ordered")
    train("ordered", X, y)
    assert not caplog.messages
    train("ordered", X, np.array(["low", "mid", "high"])[y])
    (message,) = caplog.messages
    assert "in alphabetical order, high, low, mid; if wrong, number them" in message


def test_a_class_of_a_single_row_raises_a_warning(caplog):
    """Unless the row stands for several."""
    X = np.random.default_rng(0).normal(size=(200, 2))
    y = np.where(X[:, 0] > 0.0, "yes", "no").astype(object)
    y[7] = "Maybe"
    how = {"kernel": "10*rbf", "n_active": 20}
    for class_weight in ("", "balanced"):
        sparsegp.train(X, y, class_weight=class_weight, **how)
        assert "X has classes of a single row: Maybe; correct them if" in caplog.text
        caplog.clear()
    for weight in (0.0, 3.0):
        sparsegp.train(X, y, sample_weight=np.where(y == "Maybe", weight, 1.0), **how)
    assert "single row" not in caplog.text
