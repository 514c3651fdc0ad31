"""`partial_fit`: a fit that goes on with new rows alone."""

import pickle
import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pyarrow
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.metrics import log_loss

from sparsegp import SparseGPClassifier, SparseGPRegressor


def stripes(seed, n=400):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return X, np.array(["left", "middle", "right"])[np.digitize(X[:, 0] + X[:, 1], [-0.6, 0.6])]


def classifier(**parameters):
    return SparseGPClassifier(kernel="30*matern32", n_jobs=1, **{"n_active": 80, **parameters})


def fitted_in(parts, classes, **parameters):
    """A classifier that has learnt from some pairs of rows and labels, one after the other."""
    found = classifier(**parameters)
    for X, y in parts:
        found.partial_fit(X, y, classes=classes)
    return found


def named(X):
    return pd.DataFrame(X, columns=list("abc"))


def test_parts_are_nearly_as_good_as_all_rows_at_once():
    parts, (X, y) = [stripes(seed) for seed in range(4)], stripes(9, 1000)
    fitted = fitted_in(parts, {"right", "left", "middle"})
    whole = classifier().fit(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    assert fitted.score(X, y) > whole.score(X, y) - 0.02
    assert fitted.score(X, y) > classifier().fit(*parts[0]).score(X, y)
    assert fitted.n_active_ == 80
    assert (fitted.active_indices_ < 1600).all()
    first, second = (np.concatenate([X for X, _ in parts]), fitted.model_.scaling)
    held = second.apply(first[fitted.active_indices_])
    assert np.allclose(held, fitted.model_.active.x, atol=1e-5)


def test_it_grows_up_to_n_active_and_classes_may_come_later():
    X, y = stripes(0)
    few = np.flatnonzero(y != "middle")[:40]
    fitted = classifier().partial_fit(X[few], y[few], classes=np.unique(y))
    assert fitted.n_active_ == 40
    assert fitted.predict_proba(X).shape == (400, 3)
    fitted.partial_fit(X, y)
    assert fitted.n_active_ == 80
    assert fitted.score(*stripes(1)) > 0.85
    fitted.set_params(n_active=9).partial_fit(X[:50], y[:50])
    assert fitted.n_active_ == 80, "it never shrinks"


def test_a_fit_goes_on():
    X, y = stripes(0)
    frame = named(X).assign(d=np.where(X[:, 2] > 0.0, "u", "v"))
    fitted = classifier().fit(frame, y)
    before = fitted.score(frame, y)
    fitted.partial_fit(frame[::-1], y[::-1])
    assert fitted.score(frame, y) >= before - 0.02
    assert_array_equal(fitted.feature_names_in_, frame.columns)


def test_what_must_hold():
    X, y = stripes(0)
    with pytest.raises(ValueError, match="give classes"):
        classifier().partial_fit(X, y)
    with pytest.raises(ValueError, match="must be among"):
        classifier().partial_fit(X, y, classes=["left", "right"])
    assert not hasattr(classifier(posterior="adf"), "partial_fit")
    assert not hasattr(classifier(settings={"active_per_class": True}), "partial_fit")
    fitted = classifier().fit(X, y)
    with pytest.raises(ValueError, match="leave them out"):
        fitted.partial_fit(X, y, classes=["left", "right"])
    with pytest.raises(ValueError, match="must be among"):
        fitted.partial_fit(X[:5], ["left"] * 4 + ["up"])
    with pytest.raises(ValueError, match="features"):
        fitted.partial_fit(X[:, :2], y)


def test_numbers(searching):
    rng = np.random.default_rng(5)
    X = rng.uniform(-2.0, 2.0, size=(600, 2))
    y = 100.0 + 10.0 * np.sin(2.0 * X[:, 0]) + rng.normal(size=600)
    regressor = SparseGPRegressor(n_active=40, n_jobs=1)
    for part in np.split(np.arange(300), [50, 250]):
        regressor.partial_fit(X[part], y[part])
    assert regressor.n_active_ == 40
    assert (regressor.active_indices_ < 300).all()
    whole = SparseGPRegressor(n_active=40, n_jobs=1).fit(X[:300], y[:300])
    assert regressor.score(X[300:], y[300:]) > whole.score(X[300:], y[300:]) - 0.02
    for wrong in ({"posterior": "adf"}, {"learn": "evidence"}):
        assert not hasattr(SparseGPRegressor(**wrong), "partial_fit")
    assert hasattr(SparseGPRegressor(kernel="10*rbf"), "partial_fit")
    with pytest.raises(ValueError, match="features"):
        regressor.partial_fit(X[:, :1], y)


@pytest.mark.parametrize("first", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_what_few_rows_choose_does_not_last(first):
    """Kept for ever, the noise and prior variance of twenty rows had intervals that cover 19 %."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3))
    mean = np.sin(2.0 * X[:, 0]) + X[:, 1]
    y, labels = mean + 0.1 * rng.normal(size=1000), mean > 0.0
    parts = np.split(np.arange(400), [first, *range(50, 400, 50)])
    numbers = SparseGPRegressor(kernel="10*rbf", n_active=150, n_jobs=1)
    of_classes = SparseGPClassifier(kernel="10*rbf", n_active=150, n_jobs=1)
    for part in parts:
        numbers.partial_fit(X[part], y[part])
        of_classes.partial_fit(X[part], labels[part], classes=[False, True])
    mean, deviation = numbers.predict(X[400:], return_std=True)
    assert numbers.score(X[400:], y[400:]) > 0.95
    assert np.mean(np.abs(mean - y[400:]) < 2.0 * deviation) > 0.85
    assert log_loss(labels[400:], of_classes.predict_proba(X[400:])) < 0.2


@pytest.mark.parametrize("kind", [np.asarray, csr_matrix, named])
def test_the_first_rows_are_fitted_together(kind):
    (X, y), weights = stripes(0, 120), np.arange(1.0, 61.0)
    fitted, whole = classifier(n_active=40), classifier(n_active=40)
    for part, of_rows in ((slice(60), None), (slice(60, 120), weights)):
        given = X[part].copy()
        fitted.partial_fit(kind(given), y[part], np.unique(y), of_rows)
        given[:] = np.nan  # rows that are kept are copies
    fitted = pickle.loads(pickle.dumps(fitted))
    whole.fit(kind(X), y, np.concatenate([np.ones(60), weights]))
    assert_array_equal(fitted.predict_proba(kind(X)), whole.predict_proba(kind(X)))
    more, labels = stripes(1, 200)
    assert fitted.partial_fit(kind(more), labels).active_indices_.max() > 120
    fitted.partial_fit(kind(more[:50]), labels[:50])  # all rows before are represented
    assert fitted.model_.report["rows"] == 370


@pytest.mark.parametrize("parts", [2, 9])
def test_classes_may_come_one_after_the_other(parts):
    """What rows of one class choose would last for ever: ten times the NLPP of all at once."""
    (X, y), new = stripes(0, 1000), stripes(9, 1000)
    rows = np.array_split(np.argsort(y, kind="stable"), parts)
    found = fitted_in([(X[part], y[part]) for part in rows], np.unique(y))
    whole = classifier().fit(X, y)
    nlpp = [log_loss(new[1], each.predict_proba(new[0])) for each in (found, whole)]
    assert nlpp[0] < 1.2 * nlpp[1]


@pytest.mark.parametrize("columns", [list("ab"), list("abc"), ["c"]])
def test_frames_may_begin_with_rows_that_are_alike(columns):
    X, y = stripes(0, 100)
    frame = named(X).assign(c=np.where(X[:, 2] > 0.0, "u", "v"))[columns]
    whole = classifier().fit(frame, y)
    found = fitted_in([(frame[:1], y[:1]), (frame[1:], y[1:])], np.unique(y))
    assert_array_equal(found.predict_proba(frame), whole.predict_proba(frame))
    with pytest.raises(ValueError, match="columns that vary"):
        classifier().fit(frame[:1].loc[[0, 0]], y[:2])


def test_categories_may_have_new_levels_in_nearly_every_row_at_first(caplog):
    rng = np.random.default_rng(0)
    shop, name = rng.integers(0, 150, 2200), pd.Series(np.arange(2200)).map("row {}".format)
    frame = pd.DataFrame({"shop": shop, "name": name, "x": rng.normal(size=2200)})
    frame["shop"] = frame["shop"].map("shop {}".format)
    y = rng.normal(size=150)[shop] + 0.3 * frame["x"] > 0.0
    rows = np.split(np.arange(1200), [40, 80, 400, 800])
    parts = [(frame.iloc[part], y[part]) for part in rows]
    found = fitted_in(parts, [False, True], n_active=150)
    assert "name (too many levels so far)" in caplog.text
    whole = classifier(n_active=150).fit(frame[:1200].drop(columns="name"), y[:1200])
    new = frame[1200:].drop(columns="name")
    assert found.score(frame[1200:], y[1200:]) > whole.score(new, y[1200:]) - 0.05
    with pytest.raises(ValueError, match="in nearly every row"):
        classifier().fit(frame, y)


@pytest.mark.parametrize("n", [40, 400])
@pytest.mark.parametrize("of", ["copies", "no weight", "one target"])
def test_rows_that_say_little_are_too_few(of, n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=1000)
    y[:400] = 0.0 if of == "one target" else y[:400]
    first = np.resize(np.arange(6), 400) if of == "copies" else np.arange(400)
    weights = np.ones(400) if of != "no weight" else (np.arange(400) < 6).astype(float)
    regressor = SparseGPRegressor(kernel="10*rbf", n_active=100, n_jobs=1)
    regressor.partial_fit(X[first], y[first], weights)
    regressor.partial_fit(X[400 : 400 + n], y[400 : 400 + n])
    rows = np.r_[first, 400 : 400 + n]
    whole = clone(regressor).fit(X[rows], y[rows], np.r_[weights, np.ones(n)])
    assert_array_equal(regressor.predict(X), whole.predict(X))


def test_rows_that_say_hardly_more_are_not_fitted_again():
    (X, y), labels = stripes(0, 500), ["left", "middle", "right", "up"]
    fitted = classifier().partial_fit(X[:400], y[:400], classes=labels)
    scaling = fitted.model_.scaling
    assert fitted.partial_fit(X[400:], y[400:]).model_.scaling is scaling
    regressor = SparseGPRegressor(kernel="10*rbf", n_active=20, n_jobs=1)
    scaling = regressor.partial_fit(X[:400], np.ones(400)).model_.scaling
    assert regressor.partial_fit(X[400:], np.ones(100)).model_.scaling is scaling


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize(
    ("first", "others"),
    [
        (csr_matrix, [np.asarray]),
        (np.asarray, [csr_matrix]),
        (named, [np.asarray, csr_matrix, lambda X: named(X).astype(str)]),
    ],
)
def test_new_rows_take_the_form_of_the_first(first, others):
    (X, y), new = stripes(0, 200), first(stripes(9)[0])
    labels = ["left", "middle", "right"]
    begun = [classifier().partial_fit(first(X[:100]), y[:100], labels) for _ in (first, *others)]
    expected = begun[0].partial_fit(first(X[100:]), y[100:])
    for found, form in zip(begun[1:], others, strict=True):
        found.partial_fit(form(X[100:]), y[100:])
        assert_allclose(found.predict_proba(new), expected.predict_proba(new), rtol=1e-9)
        assert hasattr(found, "feature_names_in_") == hasattr(expected, "feature_names_in_")


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_frames_of_other_types_become_arrays(form):
    (X, y), labels = stripes(0, 120), ["left", "middle", "right"]
    frame = named(X[60:]).astype({"a": "string", "b": "Float64"}).assign(c=X[60:, 2] > 0.0)
    with warnings.catch_warnings(action="ignore"):  # of names
        found = classifier().partial_fit(form(X[:60]), y[:60], labels).partial_fit(frame, y[60:])
    X[60:, 2] = X[60:, 2] > 0.0
    expected = classifier().partial_fit(form(X), y, labels)
    assert_allclose(found.predict_proba(X), expected.predict_proba(X), rtol=1e-6)


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        (pd.to_datetime(["2024-04-03", "2024-05-06"]), ["03/04/2024", "05/06/2024"], "not a date"),
        (pd.to_datetime(["2024-04-03", "2024-05-06"]), [1.0, 2.0], "is not a date"),
        ([1.0, 2.0], pd.to_timedelta([1.0, 2.0], unit="s"), "is not a"),
        (np.array([1, 2], "uint8"), ["1", ""], "'' is not a number"),
        ([1.0, 2.0], [[1], [2]], "row 0"),
        ([1.0, 2.0], [np.inf, 2.0], "X has a .* row 0, .* inf is not"),
        (["u", "v"], [[1], [2]], "X has a .* row 0, .*1] is of type list"),
        (["u", "v"], pd.to_datetime(["2024-04-03"] * 2), "of earlier calls .* row 0, .* 'u' is of"),
    ],
)
def test_values_that_a_column_cannot_hold_are_refused(first, then, said):
    labels = np.arange(40) % 2
    frames = [pd.DataFrame({"a": pd.Series(each).repeat(20)}) for each in (first, then)]
    found = classifier().partial_fit(frames[0], labels, classes=[0, 1])
    with pytest.raises(ValueError, match=said):
        found.partial_fit(frames[1], labels)


def test_many_classes_and_labels_in_words():
    """Labels are compared as words if only one side consists of words, as elsewhere."""
    X = np.random.default_rng(0).normal(size=(250, 2))
    y = np.digitize(X[:, 0], np.linspace(-1.5, 1.5, 24))
    found = fitted_in([(X[:125], y[:125]), (X[125:], y[125:].astype(str))], range(25))
    expected = classifier().partial_fit(X, y, classes=range(25))
    assert_array_equal(found.predict_proba(X), expected.predict_proba(X))


@pytest.mark.parametrize("form", [bool, int, str])
def test_classes_may_be_objects(form):
    X, y = stripes(0, 60)
    labels = pd.Series(y == "left").astype(form).astype(object)
    found = fitted_in([(X, labels)] * 2, labels.unique())
    assert_array_equal(found.classes_, classifier().fit(X, labels).classes_)
    assert found.score(X, labels) > 0.8


@pytest.mark.parametrize("classes", [[1, None], np.array([1, "a"], object)])
def test_classes_must_be_of_one_type(classes):
    with pytest.raises(ValueError, match="labels must be all"):
        classifier().partial_fit(np.ones((2, 1)), [1, 1], classes=classes)


@pytest.mark.parametrize("first", ["text", "time", "dates"])
@pytest.mark.parametrize("then", ["text", "time", "dates"])
def test_times_of_day_are_not_mixed_with_dates(first, then):
    days, y = pd.Series(pd.date_range("2024-01-01", periods=40, freq="7h")), np.arange(40) % 2
    forms = {"text": days.dt.strftime("%H:%M"), "time": days.dt.time, "dates": days}
    found = classifier().partial_fit(pd.DataFrame({"t": forms[first]}), y, classes=[0, 1])
    if (first == "dates") != (then == "dates"):
        with pytest.raises(ValueError, match=r"'t': dates have (a|no) day beside the time"):
            found.partial_fit(pd.DataFrame({"t": forms[then]}), y)
    else:
        assert found.partial_fit(pd.DataFrame({"t": forms[then]}), y).n_features_in_ == 1


def test_later_dates_have_the_form_of_the_first():
    days, y = pd.Series(pd.date_range("2024-01-01", periods=80, freq="31h")), np.arange(80) % 2
    words = [days.dt.strftime(form) for form in ("%Y-%m-%d %H:%M:%S", "%d.%m.%Y %H:%M:%S")]
    for first, other in (words, words[::-1]):
        found = classifier().partial_fit(pd.DataFrame({"t": first}), y, classes=[0, 1])
        if other is words[0]:  # ISO 8601 is read anyway
            found.partial_fit(pd.DataFrame({"t": other}), y)
        else:
            with pytest.raises(ValueError, match=r"'01\.01\.2024 .* is unlike '2024-01-01"):
                found.partial_fit(pd.DataFrame({"t": other}), y)
        assert found.model_.names[0] == "t: time"


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (lambda days: days.dt.strftime("%H:%M"), lambda days: days.dt.strftime("%I:%M %p")),
        (lambda days: "$" + days.dt.hour.astype(str), lambda days: days.dt.hour),
        (lambda days: "$" + days.dt.hour.astype(str), lambda days: days.dt.hour.astype(str)),
        (lambda days: days.astype(str), lambda days: days.dt.hour / 8),
    ],
)
def test_later_values_are_written_as_the_first(first, then):
    days, y = pd.Series(pd.date_range("2024-01-01", periods=80, freq="31h")), np.arange(80) % 2
    found = classifier().partial_fit(pd.DataFrame({"t": first(days)}), y, classes=[0, 1])
    with pytest.raises(ValueError, match="of earlier calls: write them alike"):
        found.partial_fit(pd.DataFrame({"t": then(days)}), y)
    assert found.partial_fit(pd.DataFrame({"t": first(days)}), y).n_features_in_ == 1


@pytest.mark.parametrize(
    "form",
    [
        lambda x: f"{x:,.2f}",
        lambda x: f"{x:.1f}".replace(".", ",").removesuffix(",0"),
        lambda x: "0" if x < 2 else f"{x:.1f} kg",
        lambda x: f"({500 - x:.2f})" if x < 500 else f"{x:.2f}",
    ],
)
def test_numbers_in_words_may_come_in_parts(form):
    """Some are bare, as all may be in one table."""
    numbers = 10 ** np.random.default_rng(0).uniform(0, 5, (3, 80))
    parts = [(pd.DataFrame({"x": map(form, x)}), (x > 400).astype(int)) for x in numbers]
    found = fitted_in(parts, [0, 1])
    assert found.model_.encoding.columns[0].form
    assert found.score(*parts[-1]) > 0.9


@pytest.mark.parametrize("first", [["3 years", "1 year"], ["5mg", "10mg"], ["$10", "$20"]])
def test_few_words_of_numbers_may_become_a_category(first):
    frames = [pd.DataFrame({"c": words * 20}) for words in (first, [first[0], "other"])]
    found = fitted_in([(frame, np.arange(40) % 2) for frame in frames], [0, 1])
    assert found.model_.encoding.columns[0].kind == "category"


@pytest.mark.parametrize("dtype", ["bool", "boolean"])
@pytest.mark.parametrize("then", [np.int64, np.float64, bool])
def test_truth_values_and_numbers_go_together(dtype, then):
    y, numbers = np.arange(80) % 2, (np.arange(80) % 7).astype(then)
    columns = pd.Series(y == 1, dtype=dtype), numbers
    found = fitted_in([(pd.DataFrame({"c": column}), y) for column in columns], [0, 1])
    assert found.model_.names in {None, ("c",)}


def test_times_of_any_type_go_together():
    days, y = pd.Series(pd.date_range("2024-01-01", periods=80)), np.arange(80) % 2
    forms = [days, days.dt.to_period("D"), days.astype(pd.ArrowDtype(pyarrow.date32()))]
    words, models = days.astype(str), []
    for pair in [*((days, form) for form in forms), (days, words), (words, days)]:
        found = fitted_in([(pd.DataFrame({"t": each}), y) for each in pair], [0, 1])
        models.append(found.predict_proba(pd.DataFrame({"t": days})))
        assert_array_equal(models[0], models[-1])


@pytest.mark.parametrize("then", ["age 18-25", "Room 12-05", "at 10:30-05"])
def test_words_that_end_like_time_zones_are_words(then):
    y, words = np.arange(60) % 2, [["under 18", "over 60"], [then, "over 60"]]
    for first, other in (words, words[::-1]):
        found = fitted_in([(pd.DataFrame({"w": w * 30}), y) for w in (first, other)], [0, 1])
        assert found.score(pd.DataFrame({"w": other * 30}), y) == 1.0


@pytest.mark.parametrize("first", ["text", "dates"])
@pytest.mark.parametrize("then", ["text", "dates"])
@pytest.mark.parametrize("is_zoned", [True, False])
def test_times_have_zones_where_those_before_had(is_zoned, first, then):
    days = pd.Series(pd.date_range("2024-01-01", periods=40, freq="7h"))
    y, forms = np.arange(40) % 2, list[dict[str, pd.Series]]()
    for each in (days, days.dt.tz_localize("Asia/Tokyo")):
        forms.append({"text": each.astype(str), "dates": each})
    found = classifier().partial_fit(pd.DataFrame({"t": forms[is_zoned][first]}), y, classes=[0, 1])
    found.partial_fit(pd.DataFrame({"t": forms[is_zoned][then]}), y)
    with pytest.raises(ValueError, match=r"'t': dates have (a|no) time zone, and those of"):
        found.partial_fit(pd.DataFrame({"t": forms[not is_zoned][then]}), y)


@pytest.mark.parametrize("then", [["u", "v"], [True, False], [1.0, 2.0], ["2024-04-03", None]])
def test_columns_may_have_no_values_at_first(then):
    labels = np.arange(40) % 2
    frame = pd.DataFrame({"a": pd.Series(then * 20), "b": 1.0 * labels})
    objects = frame.astype({"a": object})
    whole = pd.concat([objects.assign(a=None), objects])
    whole = classifier().fit(whole, np.tile(labels, 2))
    for nothing in (np.nan, None, pd.NaT):
        found = fitted_in([(frame.assign(a=nothing), labels), (frame, labels)], [0, 1])
        assert_array_equal(found.predict_proba(frame), whole.predict_proba(frame))


@pytest.mark.parametrize(
    "wrong", [{"n_active": 0}, {"n_active": 2.5}, {"n_active": "x"}, {"kernel": "nonsense("}]
)
def test_parameters_are_checked_as_by_fit(wrong):
    X, y = stripes(0, 400)
    fitted = classifier().fit(X, y)
    said = {}
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError) as error:  # noqa: PT011 - the same text of both
            getattr(fitted.set_params(**wrong), method)(X, y)
        said[method] = str(error.value)
    assert said["fit"] == said["partial_fit"]


FEW = np.zeros((3, 3))


@pytest.mark.parametrize("n", [50, 350])
def test_refused_rows_change_nothing(n):
    (rows, labels), new = stripes(0, n), stripes(1, 60)
    found, expected = (classifier().partial_fit(rows, labels, np.unique(labels)) for _ in range(2))
    for X, y, weights, said in (
        (FEW, ["left", "middle", "up"], None, "labels must be among the classes known so far"),
        (da.from_array(FEW), ["left", "middle", "up"], None, "labels must be among the classes"),
        (FEW, ["left"] * 3, [1.0, 1.0], r"3 rows and weights of shape \(2,\)"),
        (FEW, ["left"] * 3, [1.0, -1.0, 1.0], "in row 1"),
        (FEW[:, :1], ["left"] * 3, None, "1 feature"),
    ):
        with pytest.raises(ValueError, match=said):
            found.partial_fit(X, y, sample_weight=weights)
    found.partial_fit(*new)
    assert_array_equal(found.predict_proba(rows), expected.partial_fit(*new).predict_proba(rows))


def test_a_class_without_rows_is_warned_of(monkeypatch, caplog):
    monkeypatch.setattr("sparsegp.estimator.sparse.MOST_ROWS", 500)
    X, y = stripes(0, 600)
    classifier().partial_fit(X, y, classes=["left", "middle", "right", "up"])
    assert "too few rows of class 'up' in the first 600, which chose the kernel" in caplog.text


def test_a_category_of_numbers_stays_one_beside_plain_numbers():
    X, y = stripes(0)
    frame = named(X).assign(code=np.arange(len(X)) % 3)
    first = frame[:100].astype({"code": "category"})
    fitted = fitted_in([(first, y[:100]), (frame[100:], y[100:])], np.unique(y))
    assert {"code=0", "code=1", "code=2"} <= {*fitted.model_.names}
