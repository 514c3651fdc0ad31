"""Numbers with a currency, a percent sign or a unit, and with marks between thousands."""

import math

import numpy as np
import pandas as pd
import pytest

import sparsegp
from sparsegp.data import open_dataset
from sparsegp.data.numerals import style_of, value_of, with_points
from sparsegp.errors import DataError
from tests.processes import invoke

NUMERALS = {
    "$1,234.50": ("$#", 1234.5),
    "-$5": ("$#", -5.0),
    "$-5": ("$#", -5.0),
    "US$ 1,000,000": ("US$#", 1e6),
    "Rs. 500": ("Rs.#", 500.0),
    "EUR 12": ("EUR#", 12.0),
    "12,000 \u20ac": ("#\u20ac", 12000.0),
    "77.1 %": ("#%", 77.1),
    "\N{MINUS SIGN}3%": ("#%", -3.0),
    ".5 kg": ("#kg", 0.5),
    "10 days": ("#day", 10.0),
    "1 day": ("#day", 1.0),
    "3 s": ("#s", 3.0),
    "12th grade": ("#th grade", 12.0),
    "1 234 567": ("#", 1234567.0),
    "1'234.5": ("#", 1234.5),
}


@pytest.mark.parametrize("word", NUMERALS)
def test_numerals(word):
    style, value = NUMERALS[word]
    assert style_of([word, "0", "1,234.5" if style == "#" else word]) == style
    assert value_of(word, style) == value
    assert value_of("7.5", style) == 7.5
    assert math.isnan(value_of(word, "#lb")) == (style != "#")
    assert math.isnan(value_of("many", style))


@pytest.mark.parametrize(
    "words",
    [
        ["$5", "\u00a35"],
        ["5 kg", "5 g"],
        ["5 kg", "6"],
        ["5%", "0.05"],
        ["5 kg", "many"],
        ["1", "2.5", "1e3"],
        ["(5)", "(6)"],
        ["1,234", "2,345", "10,500"],  # after decimal commas?
        ["1,234", *map(str, range(996, 1009))],
        ["12,34%", "5%"],
        ["1,23,456", "12,3456"],
        ["--5%"],
        ["-(5%)"],
        ["(5%"],
        ["A12"],
        ["1e5%"],
        ["%"],
        ["1-2%", "2-3%"],
        [],
    ],
)
def test_other_words(words):
    assert style_of(words) == ""


def test_commas_between_thousands():
    grouped = ["1,234", "23,456"]
    assert style_of([*grouped, "1", "20", "300", "4", "5"]) == "#"
    assert style_of([*grouped, "1", "20", "300", "4"]) == ""
    for clear in ("1,234,567", "1,234.0", "-1,234.5"):
        assert style_of([*grouped, clear]) == "#"
    assert style_of(["$" + word for word in grouped]) == "$#"
    assert style_of([word + " kg" for word in grouped]) == ""
    assert style_of(["(1,234.5)", "7.5"]) == "#"
    for word in ("900 kg", "1.234 kg"):
        assert style_of(["1.250 kg", "2.375 kg", word]) == ("" if word[0] == "9" else "#kg")
    for word in ("0.125 kg", "1000 kg", "1.5 kg"):
        assert style_of(["1.250 kg", "2.375 kg", "7 kg", word]) == "#kg"
    assert style_of(["$1.250", "$7"]) == ""
    assert value_of("(1,234.5)", "#") == -1234.5


def test_decimal_commas():
    words = ["1.234,50 \u20ac", "1.234.567 \u20ac", "-0,5 \u20ac", "7 \u20ac", None, "a.m."]
    expected = ["1,234.50 \u20ac", "1,234,567 \u20ac", "-0.5 \u20ac", "7 \u20ac", None, "a.m."]
    assert with_points(words) == expected
    assert with_points(["1.234", "1.234.567", "12,5"]) == ["1.234", "1.234.567", "12.5"]
    for words in (["1.234", "1.234.567"], ["1,234", "1,234,567"], ["1.234", "1,234.5"]):
        assert style_of(with_points(words)) == ""


RAW = {"price": "$", "share": "%", "sold": ","}


def raw_table(n=240, comma=False):
    """Return a table with numbers written in several ways, and the same numbers."""
    rng = np.random.default_rng(n)
    plain = pd.DataFrame({"price": np.round(rng.lognormal(7, 1, n), 2)})
    plain["share"] = np.round(rng.uniform(0, 100, n), 1)
    plain["sold"] = rng.integers(0, 5000, n) * rng.integers(0, 2, n)
    raw = pd.DataFrame({"price": plain["price"].map("${:,.2f}".format)})
    raw["share"] = plain["share"].map("{} %".format)
    raw["sold"] = plain["sold"].map("{:,}".format)
    raw.loc[5, "share"] = plain.loc[5, "share"] = None
    y = (plain["price"] * (100 - plain["share"]) > 4e4).to_numpy()
    if comma:
        raw["sold"] = plain["sold"]  # 1.234 would be refused
        raw = raw.map(lambda word: str(word).translate(str.maketrans(".,", ",.")))
        raw["share"] = raw["share"].replace("None", "")
    return raw, plain, np.where(y, "dear", "cheap")


@pytest.mark.parametrize("comma", [False, True])
def test_files_with_numerals(comma, tmp_path):
    raw, plain, y = raw_table(comma=comma)
    mark = ";" if comma else ","
    for name, table in {"raw": raw, "plain": plain}.items():
        table.assign(y=y).to_csv(tmp_path / f"{name}.csv", index=False, sep=mark)
    how = ("--n-active", 20, "--kernel", "10*rbf")
    for name in ("raw", "plain"):
        decimal = ("--decimal", ".") if name == "plain" else ()
        invoke("train", tmp_path / f"{name}.csv", "--out", tmp_path / name, *decimal, *how)
    models = [sparsegp.load(tmp_path / name) for name in ("raw", "plain")]
    assert [column.kind for column in models[0].encoding.columns][:2] == ["number", "number"]
    X = [open_dataset(tmp_path / "raw.csv").train.encoded_for(models[0]).X.compute()]
    X.append(models[1].encoding.apply(plain, "plain"))
    np.testing.assert_array_equal(*X)
    np.testing.assert_array_equal(*(m.predict_proba(x) for m, x in zip(models, X, strict=True)))
    # the same numbers without signs are read too, others are not
    np.testing.assert_array_equal(models[0].encoding.apply(plain, "plain"), X[1])
    raw.loc[7, "price"] = "\u00a37"
    raw.to_csv(tmp_path / "new.csv", index=False, sep=mark)
    refused = invoke("predict", tmp_path / "raw", tmp_path / "new.csv", "--out", "-", code=2)
    assert "line 9 (row 7), column 'price': '\u00a37' is not a number" in refused.output


@pytest.mark.parametrize("mark", [";", "\t"])
def test_new_files_have_the_decimal_mark_of_the_training_file(mark, tmp_path):
    """As far as their values may have either: 1.234 may be 1234, and 1,234 may too."""
    raw, plain, y = raw_table(comma=True)
    plain["sold"] = np.resize([0.5, 1.25, 1.125], len(plain))
    raw["sold"] = plain["sold"].map("{:g}".format).str.replace(".", ",")
    raw.assign(y=y).to_csv(tmp_path / "raw.csv", index=False, sep=mark)
    how = ("--n-active", 9, "--kernel", "rbf", "--out", tmp_path / "run")
    invoke("train", tmp_path / "raw.csv", *how)
    model = sparsegp.load(tmp_path / "run")
    assert model.decimal == ","
    new = tmp_path / "new.csv"
    new.write_text(mark.join(raw) + "\n" + mark.join(["$1.234", "7 %", "1,125"]))
    known = {"known_decimal": model.decimal, "names": model.inputs, "labels": False}
    x = open_dataset(new, **known).train.encoded_for(model).X.compute()
    assert x[0].tolist() == [1234.0, 7.0, 0.0, 1.125]
    invoke("predict", tmp_path / "run", new, "--out", "-")
    new.write_text(mark.join(raw) + "\n" + mark.join(["$1.234", "7 %", "1.125"]))
    refused = invoke("predict", tmp_path / "run", new, "--out", "-", code=2)
    assert "'1.125' has a point, but the decimal mark is a comma" in refused.output


@pytest.mark.parametrize("kind", [None, "number", "category"])
def test_frames_and_given_kinds(kind, tmp_path):
    raw, plain, y = raw_table()
    raw.assign(y=y).to_csv(tmp_path / "raw.csv", index=False)
    kinds = {} if kind is None else dict.fromkeys(raw, kind)
    encoding = open_dataset(tmp_path / "raw.csv", kinds=kinds).train.learnt().encoding
    assert {column.kind for column in encoding.columns} == {kind or "number"}
    if kind is None:
        model = sparsegp.SparseGPClassifier(kernel="10*rbf", n_active=20).fit(raw, y)
        np.testing.assert_array_equal(model.model_.encoding.apply(raw, "X")[:, 0], plain["price"])
        np.testing.assert_array_equal(model.predict_proba(raw), model.predict_proba(plain))


@pytest.mark.parametrize("comma", [False, True])
def test_targets_of_a_regression(comma, tmp_path):
    raw, plain, _ = raw_table(comma=comma)
    raw = raw[["share", "sold", "price"]]
    raw.to_csv(tmp_path / "raw.csv", index=False, sep=";" if comma else ",")
    target = open_dataset(tmp_path / "raw.csv").train.y
    assert target.dtype.kind == "U"
    how = ("--task", "regression", "--n-active", 20, "--kernel", "10*rbf")
    invoke("train", tmp_path / "raw.csv", "--out", tmp_path / "run", *how)
    numbers = sparsegp.load(tmp_path / "run").numbers
    assert numbers.offset == pytest.approx(plain["price"].mean(), rel=1e-12)
    raw.loc[7, "price"] = "$7 or so"
    raw.to_csv(tmp_path / "raw.csv", index=False, sep=";" if comma else ",")
    with pytest.raises(DataError, match=r"numbers as labels; .*csv has '.*' in row"):
        sparsegp.train(open_dataset(tmp_path / "raw.csv").train, task="regression")


def test_commas_of_files_whose_fields_tabs_separate(tmp_path):
    """As in English tables; where a decimal mark is as likely, it has to be given."""
    rows = pd.DataFrame({"n": [f"{k * k:,}" for k in range(99)], "y": np.arange(99) % 2})
    rows.to_csv(tmp_path / "a.tsv", index=False, sep="\t")
    table = open_dataset(tmp_path / "a.tsv").train.learnt()
    np.testing.assert_array_equal(table.X.compute()[:, 0], np.arange(99.0) ** 2)
    rows[40:].to_csv(tmp_path / "a.tsv", index=False, sep="\t")
    with pytest.raises(DataError, match=r"decimal comma or separators of thousands: .* `decimal`"):
        open_dataset(tmp_path / "a.tsv").train.learnt()
    table = open_dataset(tmp_path / "a.tsv", decimal=",").train.learnt()
    np.testing.assert_array_equal(table.X.compute()[:, 0], np.arange(40.0, 99.0) ** 2 / 1000)
