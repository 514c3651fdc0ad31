"""Data frames with gaps, categories and dates: learnt once, encoded the same everywhere."""

import datetime
import re
from functools import partial
from itertools import chain

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow
import pytest

import sparsegp
from sparsegp.data import Encoding, open_dataset, table_from_frame
from sparsegp.data.column import CODE_PARTS, DATE_PARTS, Column
from sparsegp.data.frames import real_numbers
from sparsegp.data.values import dates, texts
from sparsegp.errors import DataError, SettingsError
from tests.processes import invoke, predicted, train_quickly

N = 600


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    city = rng.choice(["Paris", "Rome", "Oslo"], N, p=[0.6, 0.3, 0.1]).astype(object)
    city[:3], city[5:25] = ["Nice", "Nice", "Lyon"], None
    age = np.round(rng.normal(40.0, 10.0, N), 1)
    age[10:30] = np.nan
    days = pd.Timestamp("2020-02-01") + pd.to_timedelta(rng.integers(0, 900, N), "D")
    frame = pd.DataFrame({"age": age, "children": rng.integers(0, 5, N)})
    return frame.assign(member=rng.random(N) < 0.3, city=city, when=days, one=1.0, none=np.nan)


@pytest.fixture(scope="module")
def labels(frame):
    return np.where((frame["city"] == "Paris") ^ (frame["age"] > 40), "yes", "no")


def test_columns_have_names_kinds_and_parts(frame):
    encoding = Encoding.learn(frame, "T")
    assert encoding.names == (
        *("age", "age missing", "children", "member"),
        *("city=Paris", "city=Rome", "city=Oslo", "city: rare", "city missing"),
        *("when: time", "when: day of year (sin)", "when: day of year (cos)"),
        *("when: day of week (sin)", "when: day of week (cos)"),
    )
    assert encoding.groups.tolist() == [0, 0, 1, 2, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4]
    assert encoding.shared.tolist() == [0, 1, 2, 3, 4, 4, 4, 4, 4, 5, 6, 7, 8, 9]
    kinds = ["number", "whole number", "truth", "category", "date"]
    assert [column.kind for column in encoding.columns[:5]] == kinds
    assert [column.note for column in encoding.columns[5:]] == ["one value", "no value"]
    X = encoding.apply(frame, "T")
    assert X.dtype == np.float64
    assert X[10, 0] == frame["age"].median()
    assert X[:, 1].sum() == 20
    assert X[:, 4:9].sum(axis=1).tolist() == [1.0] * N
    assert X[:3, 7].tolist() == [1.0] * 3
    assert X[5:25, 8].tolist() == [1.0] * 20
    np.testing.assert_allclose(X[:, 10] ** 2 + X[:, 11] ** 2, 1.0)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_of_files_are_mended_by_options(kind, tmp_path):
    frame = pd.DataFrame({"a": np.arange(60.0) % 7, "y": np.arange(60) % 2})
    encoding = Encoding.learn(frame[["a"]], "X")
    wrong = frame.astype({"a": str}).replace({"a": {"3.0": "oops"}})
    write = wrong.to_parquet if kind == "parquet" else partial(wrong.to_csv, index=False)
    write(tmp_path / f"b.{kind}")
    rows = open_dataset(tmp_path / f"b.{kind}").train.frame
    for given, remedy in ((rows, "give it as `missing`"), (wrong, "replace it by NaN")):
        with pytest.raises(DataError, match=f"'oops' is not a number: correct it, or {remedy}"):
            np.asarray(encoding.apply(given, "X"))


def test_columns_that_are_called_like_parts_of_others():
    rows = {"x": [1.0, None, 2.5, 3.5] * 9, "x missing": [*"abcb"] * 9, "z": np.arange(36.0)}
    encoding = Encoding.learn(pd.DataFrame(rows), "X")
    assert encoding.scales == ("x", *("x missing",) * 4, "z")
    assert encoding.shared.tolist() == [0, 1, 2, 2, 2, 3]
    rows = {"c": ["x", "y", "z"] * 20, "c=x": np.arange(60) % 5}
    with pytest.raises(DataError, match="X, once encoded, has 2 columns 'c=x': rename"):
        Encoding.learn(pd.DataFrame(rows), "X")


def test_rows_and_parts_may_come_in_any_order(frame):
    expected = Encoding.learn(frame, "T")
    order = np.random.default_rng(1).permutation(N)
    lazy = dd.from_pandas(frame.iloc[order].reset_index(drop=True), npartitions=4)
    for other in (frame.iloc[order], lazy):
        assert Encoding.learn(other, "T") == expected
    turned = frame[frame.columns[::-1]]
    np.testing.assert_array_equal(expected.apply(turned, "T"), expected.apply(frame, "T"))
    found = expected.apply(lazy, "T").compute()
    np.testing.assert_array_equal(found, expected.apply(frame.iloc[order], "T"))


def test_a_model_knows_its_columns(frame, labels, tmp_path):
    settings = {"n_active": 30}
    model = sparsegp.train(frame, labels, out=tmp_path / "run", **settings)
    again, expected = sparsegp.load(tmp_path / "run"), model.predict_proba(frame)
    assert again.encoding == model.encoding
    assert again.names == model.encoding.names
    lazy = dd.from_pandas(frame, npartitions=3)
    for rows in (frame, frame[frame.columns[::-1]].drop(columns=["one", "none"])):
        np.testing.assert_array_equal(again.predict_proba(rows), expected)
    np.testing.assert_allclose(again.predict_proba(lazy).compute(), expected, rtol=1e-12)
    found = sparsegp.train(lazy, labels, **settings)
    np.testing.assert_array_equal(found.predict_proba(frame), expected)
    other = frame.replace({"city": {"Rome": "Bari"}})
    with pytest.raises(SettingsError, match="other settings or data"):
        sparsegp.train(other, labels, out=tmp_path / "run", resume=True, **settings)
    shown = invoke("inspect", tmp_path / "run").output
    for line in (
        r"age +number +3\.33 %",
        r"city +category +3\.33 % +Paris \(\d+\), Rome \(\d+\), Oslo \(\d+\); 2 rare",
        r"one +number +left out: one value",
    ):
        assert re.search(line, shown)
    with pytest.raises(DataError, match="missing: age, when; found: children"):
        model.predict_proba(frame.drop(columns=["age", "when"]))
    message = "a data frame with the columns .*, or an array of the 14 encoded"
    with pytest.raises(DataError, match=message):
        model.predict_proba(frame.to_numpy()[:, :3])


def test_unknown_levels_are_rare(frame, caplog):
    table = table_from_frame(frame, source="T")
    encoding = table.learnt().encoding
    new = frame.assign(city=["Bern", "Rome"] * (N // 2), age=np.nan)
    found = table_from_frame(new, source="new").encoded(encoding).X.compute()
    assert found[:, 7].tolist() == [1.0, 0.0] * (N // 2)
    such = f"({N // 2} rows, such as 'Bern') are treated as rare"
    assert f"new: unknown values in 'city' {such}" in caplog.text
    caplog.clear()
    encoding.apply(new.assign(member=None), "again")
    (message,) = caplog.messages
    assert message.startswith("again has missing values where training rows had none, ")
    no_gaps = Encoding.learn(frame.fillna({"city": "Rome"}), "T")
    assert no_gaps.apply(frame, "T")[5:25, no_gaps.names.index("city: rare")].tolist() == [1.0] * 20
    two = Encoding.learn(frame.assign(city=["a", "a", "b"] * (N // 3)), "T")
    assert "city=b" in two.names
    assert "city=a" not in two.names
    assert not two.apply(new, "T")[::2, two.names.index("city=b")].any()
    assert "such as 'Bern') are treated as 'a'" in caplog.text


def test_numbers_alone_are_not_encoded(frame):
    numbers = frame[["children", "one"]]
    for rows in (numbers, dd.from_pandas(numbers, npartitions=2)):
        table = table_from_frame(rows).learnt()
        assert table.encoding is None
        np.testing.assert_array_equal(table.X.compute(), numbers.astype(float))


def test_new_levels_where_all_levels_were_rare(labels, caplog):
    frame = pd.DataFrame({"a": [f"n{n % 400}" for n in range(N)]})
    encoding = table_from_frame(frame, labels).learnt().encoding
    assert len(encoding.names) == len(CODE_PARTS)
    new = pd.DataFrame({"a": ["n3", "other", None]})
    found = table_from_frame(new, source="new").encoded(encoding).X.compute()
    assert found[0].any()
    assert not found[1:].any()
    assert "unknown values in 'a' (2 rows, such as 'other') are treated as no level" in caplog.text


def test_all_unfit_columns_are_named_at_once(frame):
    wrong = frame.assign(
        age=frame["age"].where(frame.index != 7, np.inf),
        code=[f"n{i}" for i in range(N)],
        text=[f"{'so it goes ' * 3}{i}" for i in range(N)],
        took=pd.Timedelta("1s"),
    )
    with pytest.raises(DataError) as caught:
        Encoding.learn(wrong, "T", {"city": "date", "children": "date"})
    for part in (
        "T has 6 columns that cannot be used",
        "row 7, column 'age': inf is not a finite number",
        "row 0, column 'city': 'Nice' is not a date",
        "column 'children': 0 is not a date",
        "column 'code': values such as 'n0' differ in nearly every row: leave it out, in pandas by "
        "drop(columns=...), or make it the index by set_index;",
        "column 'text': values such as 'so it goes so it goes so it goes 0' differ",
        "column 'took': Timedelta('0 days 00:00:01') is of type Timedelta",
        "inf is not a finite number: correct it;",
    ):
        assert part in str(caught.value)
    with pytest.raises(DataError, match=r"kinds must be one of.*got city=word"):
        Encoding.learn(frame, "T", {"city": "word"})
    with pytest.raises(DataError, match="has no town"):
        Encoding.learn(frame, "T", {"town": "date"})


@pytest.mark.parametrize("form", ["", "%d/%m/%Y %H"])
def test_dates_are_times_in_years_and_points_on_circles(form):
    days = pd.Series([pd.Timestamp("2024-01-01 06:00"), pd.Timestamp("2023-07-03 12:00"), None])
    parts = tuple(chain(*DATE_PARTS))
    encoding = Encoding((Column("d", "date", (*parts, " missing"), 0.1, 2020.0, form=form),))
    frame = pd.DataFrame({"d": days.dt.strftime(form) if form else days})
    noon = [2023.0 + 183.5 / 365, 0, -1, 0, 1, 0, -1, 0]
    expected = [[2024 + 0.25 / 366, 0, 1, 0, 1, 1, 0, 0], noon, [2020, *[0] * 6, 1]]
    np.testing.assert_allclose(encoding.apply(frame, "T"), expected, atol=1e-12)


def test_models_of_before_have_whole_years():
    encoding = Encoding((Column("d", "date", (": year",), 0.5, 2020.5),))
    frame = pd.DataFrame({"d": [pd.Timestamp("2024-12-31 23:00"), pd.NaT]})
    assert encoding.apply(frame, "T").tolist() == [[2024.0], [2020.5]]


DAYS = pd.date_range("2020-01-01", periods=60, freq="D")
CODED = pd.ArrowDtype(pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))


@pytest.mark.parametrize(
    ("values", "kind", "names"),
    [
        ([True, None, False], None, ["", " missing"]),
        (pd.array([1, None, 2], "Int64"), None, ["", " missing"]),
        (["x", 1, None], None, ["=1", "=x", " missing"]),
        ([*[9, 10, 11] * 40, "other"], None, ["=9", "=10", "=11", "=other"]),
        ([*["9", "10.5", "11"] * 40, "other"], None, ["=9", "=10.5", "=other"]),
        ([*[9, 10.5] * 60, "x"], None, ["=9", "=10.5", "=x"]),
        (["1", "2.5", None], "number", ["", " missing"]),
        (pd.Categorical([1, 2, 3]), None, ["=1", "=2", "=3"]),
        ([1.0, 2.0, 3.0], "category", ["=1", "=2", "=3"]),
        ([datetime.time(7), datetime.time(8, 0, 1, 5)], None, [": time", ": hour (sin)"]),
        (DAYS[:3].date, None, [": time", ": day of week (sin)", ": day of week (cos)"]),
        (["2020-01-01", "2021-01-01T12:00+06:00"], "date", [": time", ": hour (sin)"]),
        (
            ["13/4/2021", "1/2/2021", "2021-05-06", None],
            "date",
            [": day of week (sin)", " missing"],
        ),
        (["yes", "No", None], None, ["", " missing"]),
        (["001", "002", "003"], None, ["=001", "=002", "=003"]),
        (DAYS[:3].astype(pd.ArrowDtype(pyarrow.timestamp("ns"))), None, [": time"]),
        (DAYS[:3].astype(pd.ArrowDtype(pyarrow.date32())), None, [": day of week (sin)"]),
        (pd.array([*"abc"]).astype(CODED), None, ["=a", "=b", "=c"]),
    ],
)
def test_what_columns_hold(values, kind, names):
    frame = pd.concat([pd.DataFrame({"": values})] * 20)
    encoding = Encoding.learn(frame, "T", {"unnamed 0": kind} if kind else None)
    assert {f"unnamed 0{name}" for name in names} <= {*encoding.names}
    assert np.isfinite(encoding.apply(frame[:7], "T")).all()


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ([[1], [2], [3]], None, r"row 0, column 'a': \[1\] is of type list: convert it or leave"),
        ([1j, 2j, 3j], None, "is of type complex"),
        (
            pd.Series([10**400, 1, 2], dtype=object),
            None,
            "row 0, column 'a': 10{30}.* is not a finite number",
        ),
        ([1, 2, 3], "date", "row 0, column 'a': 1 is not a date .*, such as 2024-12-31"),
        (
            *(["1", "x", None], "number"),
            r"row 1, column 'a': 'x' is not a number: correct it, or replace it by NaN, or have "
            r"its column read as words, in pandas by astype\('category'\)$",
        ),
        ([*range(30), "low", None], None, "row 30, column 'a': 'low' is not a number"),
        ([*np.arange(30) / 2, "low"], None, "row 30, column 'a': 'low' is not a number"),
        ([*map(str, range(30)), "?"], None, r"row 30, column 'a': '\?' is not a number"),
        ([7, 7, 7], None, "columns that vary; those of T have one value, or none: a"),
        (pd.period_range("2020", periods=3, freq="D"), None, "Period: convert it by dt.to_t"),
        ([datetime.time(7), datetime.time(8), "x"], "date", "row 2, .*'x' is not a date"),
        ([None] * 3, None, r"none: a \(no value\)"),
        ([pd.NA] * 3, None, r"none: a \(no value\)"),
        (pd.array([None] * 3, "string"), None, r"none: a \(no value\)"),
        (pd.array([None] * 3, pd.ArrowDtype(pyarrow.null())), None, r"none: a \(no value\)"),
        (pd.array([None] * 3, "period[D]"), None, r"none: a \(no value\)"),
    ],
)
def test_what_columns_cannot_hold(values, kind, message):
    frame = pd.concat([pd.DataFrame({"a": values})] * 20)
    with pytest.raises(DataError, match=message):
        Encoding.learn(frame, "T", {"a": kind} if kind else None)


@pytest.mark.parametrize("dtype", [None, object])
@pytest.mark.parametrize("values", [[1 + 2j, 3], DAYS, DAYS.date, DAYS - DAYS[0]])
def test_what_a_model_does_not_take_for_numbers(values, dtype):
    encoding = Encoding.learn(pd.DataFrame({"a": np.arange(9.0)}), "T")
    rows = pd.DataFrame({"a": pd.Series(values, dtype=dtype)})
    such = r"\(1\+2j\) is not a finite number|.* is not a number: correct it, or train again with"
    with pytest.raises(DataError, match=f"row 0, column 'a': ({such})"):
        encoding.apply(rows, "T")
    with pytest.raises(DataError, match="in row 0, column 'a'"):
        real_numbers(rows.astype(str), "T")


def test_texts_that_follow_dates_without_a_format_are_read_in_iso_8601():
    """Rather than as their batch suggests."""
    encoding = Encoding.learn(pd.DataFrame({"a": DAYS}), "T")
    rows = pd.DataFrame({"a": DAYS.strftime("%Y-%m-%d")})
    dates = pd.DataFrame({"a": DAYS})
    np.testing.assert_array_equal(encoding.apply(rows, "T"), encoding.apply(dates, "T"))
    with pytest.raises(DataError, match="'13/04/2020' is not a date"):
        encoding.apply(pd.DataFrame({"a": ["13/04/2020", "03/04/2020"]}), "T")


HOURS = pd.Series(pd.date_range("2024-03-01", periods=90, freq="7h"))
IN_NEW_YORK = HOURS.dt.tz_localize("UTC").dt.tz_convert("America/New_York")
ZONED = [
    *(IN_NEW_YORK, IN_NEW_YORK.astype(str), IN_NEW_YORK.astype(object)),
    *(IN_NEW_YORK.dt.strftime(form) for form in ("%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H%M%S%z")),
    IN_NEW_YORK.astype("timestamp[ns, America/New_York][pyarrow]"),
]


def assert_tells_apart(same, other, what):
    """Learn the first of the same times; all are encoded alike then, and another is refused."""
    frames = [pd.DataFrame({"t": each}) for each in same]
    encoding = Encoding.learn(frames[0], "T")
    again = Encoding.from_json(encoding.to_json())
    for each in frames:
        np.testing.assert_array_equal(again.apply(each, "T"), encoding.apply(frames[0], "T"))
    with pytest.raises(DataError, match=f"'t': dates have {what}"):
        again.apply(pd.DataFrame({"t": other}), "T")


@pytest.mark.parametrize("zoned", ZONED, ids=range(len(ZONED)))
@pytest.mark.parametrize("plain", [HOURS, HOURS.astype(str)], ids=["dates", "text"])
def test_new_dates_have_time_zones_where_those_of_training_had(plain, zoned):
    utc = [HOURS.dt.tz_localize(zone) for zone in ("UTC", "Etc/GMT")]
    assert_tells_apart([plain, *utc], zoned, "a time zone, and .* have none")
    assert_tells_apart([zoned, *ZONED, *utc], plain, "no time zone, and .* have one")


CLOCKS = [
    *(HOURS.dt.strftime(form) for form in ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f")),
    *(HOURS.dt.time, HOURS.astype("timestamp[us][pyarrow]").dt.time),
]


@pytest.mark.parametrize("clock", CLOCKS, ids=["text", "seconds", "fractions", "time", "arrow"])
@pytest.mark.parametrize(
    "full", [HOURS, HOURS.astype(str), HOURS.dt.date], ids=["dt", "str", "day"]
)
def test_new_times_have_days_where_those_of_training_had(full, clock):
    assert_tells_apart([full], clock, "no day beside the time, and .* have one")
    assert_tells_apart([clock, CLOCKS[1]], full, "a day beside the time, and .* have none")
    encoding = Encoding.learn(pd.DataFrame({"t": clock}), "T")
    with pytest.raises(DataError, match="row 7, column 't': 'noon' is not a time of day"):
        encoding.apply(pd.DataFrame({"t": [*CLOCKS[0][:7], "noon"]}), "T")


def test_dates_with_and_without_time_zones_fit_all(caplog):
    mixed = [HOURS[:9].astype(str), IN_NEW_YORK[9:].astype(str)]
    utc = HOURS.dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    zones = {"both": (mixed, mixed[::-1]), "": ([utc], [utc[1:], utc[:1].str[:-1]])}
    for zone, parts in ((zone, parts) for zone, several in zones.items() for parts in several):
        frame = pd.DataFrame({"t": pd.concat(parts, ignore_index=True)})
        encoding = Encoding.learn(frame, "T")
        assert encoding == Encoding.learn(dd.from_pandas(frame, npartitions=3), "T")
        assert encoding.to_json()[0].get("zone", "") == zone
        assert ("with and without time zones" in caplog.text) == bool(zone)
        caplog.clear()
        for other in (HOURS.astype(str), IN_NEW_YORK.astype(str), HOURS[:0]):
            assert len(encoding.apply(pd.DataFrame({"t": other}), "T")) == len(other)
    in_utc, back = dates(HOURS), np.r_[81:90, :81]
    np.testing.assert_array_equal(dates(pd.concat(mixed)), in_utc)  # whatever stands in front
    np.testing.assert_array_equal(dates(pd.concat(mixed[::-1]))[back], in_utc)
    for one, other in ((HOURS, IN_NEW_YORK), (IN_NEW_YORK, HOURS)):
        encoding = Encoding.learn(pd.DataFrame({"t": one}), "T")
        some = pd.concat([one[:80], other[80:]]).astype(str)
        with pytest.raises(DataError, match=r"'t': dates have (a|no) time zone, and those"):
            encoding.apply(pd.DataFrame({"t": some}), "T")


@pytest.mark.parametrize("end", ["Z", " UTC", "GMT", "+00:00", "-0000"])
def test_utc_has_several_names(end):
    words = HOURS.dt.strftime(f"%Y-%m-%d %H:%M:%S{end}")
    np.testing.assert_array_equal(dates(words), dates(HOURS))


def test_words_that_are_dates_are_taken_for_them():
    frame = pd.DataFrame({"a": [*DAYS[1:].astype(str), None], "b": np.arange(60)})
    encoding = Encoding.learn(frame, "T")
    assert encoding.columns[0].kind == "date"
    assert Encoding.learn(dd.from_pandas(frame, npartitions=3), "T") == encoding
    frame.loc[7, "a"] = "2020-13-01"
    with pytest.raises(DataError, match="row 7, column 'a': '2020-13-01' is not a date"):
        Encoding.learn(frame, "T")
    frame["a"] = [f"n{n}" for n in range(60)]
    with pytest.raises(
        DataError, match=r"column 'a': values such as .* differ in nearly every row"
    ):
        Encoding.learn(frame, "T")
    assert Encoding.learn(frame, "T", {"a": "category"}).columns[0].parts
    with pytest.raises(DataError, match="numbers as text: convert them, in pandas by astype"):
        Encoding.learn(frame.assign(a=frame["b"].astype(str)), "T")
    frame["a"] = [f"n{n % 45}" for n in range(60)]
    assert Encoding.learn(frame, "T").columns[0].kind == "category"


def test_numbers_as_text_are_categories_with_a_warning(frame, labels, caplog):
    """Whole numbers may be codes."""
    n = np.arange(len(frame))
    rows = pd.DataFrame({"code": (n % 7).astype(str), "x": [f"{k % 7 / 8:.3f}" for k in n]})
    rows["size"] = np.array(["1", "2", "3", "4", "big"])[n % 5]
    rows["loss"] = [f"\N{MINUS SIGN}{k}.5" if k % 2 else f"{k}.5" for k in n % 9]
    model = sparsegp.train(rows, labels, n_active=10, kernel="rbf")
    kinds = [column.kind for column in model.encoding.columns]
    assert kinds == ["category", "category", "category", "number"]
    (message,) = [text for text in caplog.messages if "taken for categories" in text]
    assert "'x', where '0.000' and most others look like numbers as text: convert" in message
    assert "'size', where '1' and most others look like numbers: replace words such as " in message
    assert "such as 'big' by NaN if they stand for missing values" in message
    assert "'code'" not in message
    assert "'loss'" not in message


def test_levels_and_gaps_stay_0_and_1(frame, labels):
    for rule in ("standard", "quantile"):
        model = sparsegp.train(frame, labels, n_active=20, scaling=rule)
        X = model.encoding.apply(frame, "T")
        scaled = model.scaling.apply(X)
        kept = model.encoding.indicates
        assert kept.sum() == 7
        np.testing.assert_array_equal(scaled[:, kept], X[:, kept])
        np.testing.assert_allclose(scaled[:, ~kept].std(axis=0), 1.0, rtol=0.05)


@pytest.mark.parametrize("trained", ["csv", "parquet"])
def test_truth_values_of_any_file(trained, frame, labels, tmp_path):
    rows = frame[["children", "member"]].assign(label=labels)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.to_parquet(tmp_path / "rows.parquet")
    run = train_quickly(tmp_path / f"rows.{trained}")
    model = sparsegp.load(run)
    for ending in ("csv", "parquet"):
        found = open_dataset(tmp_path / f"rows.{ending}").train.encoded_for(model).X.compute()
        np.testing.assert_array_equal(found, rows[["children", "member"]].astype(float))
        invoke("evaluate", run, tmp_path / f"rows.{ending}")
    how = ("--label-column", "member", "--overwrite")
    of_truth = train_quickly(tmp_path / f"rows.{trained}", *how)
    lines = predicted(of_truth, tmp_path / "rows.csv").splitlines()
    assert lines[0] == "row,label,p_False,p_True"
    assert {line.split(",")[1] for line in lines[1:]} <= {"False", "True"}


def test_numbers_are_no_truth_values_but_for_0_and_1(frame):
    rows = frame[["children", "member"]]
    encoding = Encoding.learn(rows, "T")
    expected = encoding.apply(rows, "T")
    for numbers in (int, float, np.int8):
        found = encoding.apply(rows.astype({"member": numbers}), "T")
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(DataError, match=r"column 'member'.* 2 "):
        encoding.apply(rows.assign(member=np.arange(N) % 3), "T")


def test_true_is_another_level_than_1():
    values = [True, 1, 1.0, "a", None, np.False_, 0, "1"]
    codes, found = texts(pd.Series(values, dtype=object))
    assert [found[code] if code >= 0 else None for code in codes] == [
        "True", "1", "1", "a", None, "False", "0", "1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "first", "step", "what"),
    [
        *(
            (name, 7, 9, "numbers its rows")
            for name in ("Unnamed: 0", "user_id", "__index_level_0__")
        ),
        ("row", 1, 1, "numbers its rows"),
        ("code", 2**60, 9**3, "has numbers with more digits than count"),
        ("code", 7, 9, None),
        ("when", 20240501, 1, "convert them, in pandas by to_datetime"),
    ],
)
@pytest.mark.parametrize("of", [pd.DataFrame, pyarrow.table, partial(dd.from_dict, npartitions=3)])
def test_numbers_of_a_frame_that_are_no_measurements(of, name, first, step, what, caplog):
    numbers = first + step * np.arange(30)
    Encoding.learn(of({name: numbers, "a": np.arange(30) % 7}), "T")
    assert what in caplog.text if what else not caplog.messages


def test_nan_of_arrow_is_missing():
    values = pyarrow.array([1.0, float("nan"), None, 3.0] * 5)
    frame = pd.DataFrame({"a": pd.arrays.ArrowExtensionArray(values)})
    encoding = Encoding.learn(frame, "T")
    assert encoding.names == ("a", "a missing")
    assert encoding.apply(frame, "T")[:4].tolist() == [
        [1.0, 0.0],
        [2.0, 1.0],
        [2.0, 1.0],
        [3.0, 0.0],
    ]


@pytest.mark.parametrize("columns", [["a", "b, too", "c"], [0, 1, 2]])
def test_gaps_where_training_had_none_are_filled_by_the_median(columns, tmp_path, caplog):
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(N, 3)) + np.arange(3.0), columns=columns)
    y, gaps = np.where(X.iloc[:, 0] > 0, "yes", "no"), X.copy()
    gaps.iloc[:4, 1] = np.nan
    filled = gaps.fillna(X.median())
    sparsegp.train(X, y, n_active=20, kernel="10*rbf", out=tmp_path / "run")
    model = sparsegp.load(tmp_path / "run")
    for rows in (gaps, gaps.iloc[:7].astype(object), dd.from_pandas(gaps, npartitions=3)):
        found, expected = model.predict_proba(rows), model.predict_proba(filled.to_numpy())
        np.testing.assert_allclose(found, expected[: len(np.asarray(found))], rtol=1e-12)
    shown = columns[1] if columns[1] == 1 else '"b, too"'
    assert f"training rows had none, which are filled in: {shown} in 4 rows" in caplog.text
    estimator = sparsegp.SparseGPClassifier(n_active=20, kernel="10*rbf").fit(X, y)
    np.testing.assert_array_equal(estimator.predict_proba(gaps), estimator.predict_proba(filled))
    with pytest.raises(DataError, match="X must be finite: 4 values are not"):
        model.predict_proba(gaps.to_numpy())


@pytest.mark.parametrize("header", [True, False])
def test_files_with_gaps_where_training_had_none(header, tmp_path):
    rng, run = np.random.default_rng(2), tmp_path / "run"
    rows = pd.DataFrame(rng.normal(size=(400, 3)), columns=["a", "b", "c"]).round(3)
    rows["y"] = rows["a"] > 0
    gaps = rows.copy()
    gaps.loc[:4, "b"] = np.nan
    tables = {"rows": rows, "gaps": gaps, "filled": gaps.fillna({"b": rows["b"].median()})}
    for name, table in tables.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False, header=header)
    gaps.to_csv(tmp_path / "bare.csv", index=False, header=False)  # columns are known by place
    how = ("--n-active", 20, "--kernel", "10*rbf", "--test", tmp_path / "gaps.csv")
    said = invoke("train", tmp_path / "rows.csv", *how, "--out", run).stderr
    assert said.count("has missing values where training rows had none") == 1
    found = [predicted(run, tmp_path / f"{name}.csv") for name in ("filled", "gaps", "bare")]
    assert found == found[:1] * 3


def test_unknown_values_in_parquet_files_are_counted(tmp_path, caplog):
    n = np.arange(120)
    known = pd.DataFrame({"x": n % 7 / 2, "city": np.resize(["Bonn", "Ulm"], 120), "y": n % 3 % 2})
    new = known.copy()
    new.loc[:2, "city"], new.loc[50:, "x"] = "Jena", None
    for name, table in (("known", known), ("new", new)):
        table.to_parquet(tmp_path / f"{name}.parquet", row_group_size=40)
    run = train_quickly(tmp_path / "known.parquet")
    assert "treated as" not in caplog.text
    said = invoke("evaluate", run, tmp_path / "new.parquet").stderr
    assert said.count("unknown values in 'city' (3 rows, such as 'Jena') are treated as") == 1
    assert said.count("which are filled in: x in 70 rows") == 1


def test_markers_of_missing_values_in_parquet_files(tmp_path):
    hours = pd.date_range("2024-01-01", periods=120, freq="33min").strftime("%H:%M")
    frame = pd.DataFrame({"at": hours, "n": np.arange(120) % 7, "z": np.arange(120) % 7 / 2})
    frame.loc[1, "at"] = "unknown"
    frame.assign(y=[*"ab"] * 60).to_parquet(tmp_path / "a.parquet", row_group_size=50)
    with pytest.raises(DataError, match="row 1, column 'at': 'unknown' is not a time of day"):
        open_dataset(tmp_path / "a.parquet").train.learnt()
    table = open_dataset(tmp_path / "a.parquet", missing=["unknown", "3"]).train.learnt()
    assert [column.missing for column in table.encoding.columns] == [1 / 120, 17 / 120, 17 / 120]
    again = open_dataset(tmp_path / "a.parquet", known_missing=table.missing).train
    np.testing.assert_array_equal(again.encoded(table.encoding).X, table.X)


def test_ids_in_parquet_files_that_hold_several_values(tmp_path):
    frame = pd.DataFrame({"x": np.arange(60) % 7, "who": [[n % 9] for n in range(60)]})
    frame.assign(y=[*"ab"] * 30).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"ids must be integers or strings.*'who'.* in row 0"):
        open_dataset(tmp_path / "a.parquet", id_column="who")
    with pytest.raises(DataError, match=r"column 'who': array\(\[0\]\) is not a date"):
        open_dataset(tmp_path / "a.parquet", kinds={"who": "date"}).train.learnt()
