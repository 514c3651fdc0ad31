"""Numbers with a currency, a percent sign or a unit, and with marks between thousands, in words."""

import json
import math

import numpy as np
import pandas as pd
import pytest

import sparsegp
from sparsegp.data import open_dataset
from sparsegp.data.numerals import form_of, value_of
from sparsegp.errors import DataError
from tests.processes import invoke, predicted, told, train_quickly

NUMERALS = {
    "$1,234.50": ("$#.#", 1234.5),
    "-$5.0": ("$#.#", -5.0),
    "$-5": ("$#", -5.0),
    "US$ 1,000,000": ("US$#.#", 1e6),
    "Rs. 500": ("Rs.#", 500.0),
    "EUR 12": ("EUR#", 12.0),
    "1.000,5 \u20ac": ("#,#\u20ac", 1000.5),
    "1\u202f000,5\xa0\u20ac": ("#,#\u20ac", 1000.5),
    "77.1 %": ("#.#%", 77.1),
    "\N{MINUS SIGN}3%": ("#%", -3.0),
    ".5 kg": ("#.#kg", 0.5),
    "10 days": ("#day", 10.0),
    "1 day": ("#day", 1.0),
    "3 s": ("#s", 3.0),
    "1 234 567.0": ("#.#", 1234567.0),
    "1'234,5": ("#,#", 1234.5),
    "(1,234.5)": ("#.#", -1234.5),
    "11.67 A": ("#.#A", 11.67),
    "5.4mmol/L": ("#.#mmol/L", 5.4),
    "1.5 \N{GREEK SMALL LETTER MU}g/dL": ("#.#\N{GREEK SMALL LETTER MU}g/dL", 1.5),
    "2,5 z\u0142": ("#,#z\u0142", 2.5),
    "1,5 Std.": ("#,#Std.", 1.5),
    "1.000,5 kr.": ("#,#kr.", 1000.5),
    "4.9  kg": ("#.#kg", 4.9),
    "5.4 ms": ("#.#ms", 5.4),
    "1.5 m/s": ("#.#m/s", 1.5),
    "2.5 hours": ("#.#hour", 2.5),
    "98.6 sq ft": ("#.#sq ft", 98.6),
}


@pytest.mark.parametrize("word", NUMERALS)
def test_numerals(word):
    form, value = NUMERALS[word]
    assert form_of([word, "0", word.replace("(", "").replace(")", "")]) == form
    assert value_of(word, form) == value
    assert value_of("7", form) == 7.0
    assert math.isnan(value_of(word, "#lb")) == (form not in {"#.#", "#,#"})
    assert math.isnan(value_of("many", form))


@pytest.mark.parametrize(
    "words",
    [
        # of two units, or some of none
        *(["$5", "\u00a35"], ["5 kg", "5 g"], ["1.5 bar", "2.5 A"], ["1.5 ms", "2.5 m"]),
        *(["1.5 mPa", "2.5 mPas"], ["5 kg", "6"], ["5%", "0.05"], ["5 kg", "many"], []),
        # footnotes, telephone numbers, codes, hours, words
        *(["(1)", "2", "3"], ["+49 969 157 193", "555 123 456"], ["A12"], ["2WD", "4WD"]),
        *(["12 PM", "1 PM"], ["007A", "012A"], ["4th grade"], ["4 doors", "2 doors"]),
        # points and commas that may be decimal marks or not, or are at odds
        *(["1,234", "2,345", "10,500"], ["1.234 kg", "2.345 kg"], ["1.234 \u20ac", "345 \u20ac"]),
        *(["$1.234", "$345"], ["1,234", *map(str, range(996, 1009))], ["12,34.5%", "5%"]),
        *(["1,23,456", "12,3456"], ["1.5%", "1,5%"]),
        # other signs, exponents, ranges
        *(["1", "2.5", "1e3"], ["(5)", "(6)"], ["--5%"], ["-(5%)"], ["(5%"], ["1e5%"], ["%"]),
        *(["1-2%", "2-3%"], ["1.5e-3", "2.5e-3 V"], ["1,5e-03", "2,5e-03"]),
        ["1.5x10^3", "2.5x10^3"],
    ],
)
def test_other_words(words):
    assert form_of(words) == ""


def test_a_word_behind_many_numbers_is_a_unit_and_behind_few_if_they_are_known_to_be_numbers():
    words = [f"{n} mmHg" for n in range(100, 130)]
    assert form_of(words) == "#mmHg"
    assert form_of(words[:20]) == form_of([*words, "120 kPa"]) == ""
    assert form_of([f"{n:03}A" for n in range(30)]) == ""
    assert form_of(["1 door", "4 doors"], asked=True) == "#door"
    for odd in ("1.5e5 m", "1.30 PM", "1.5 of 3"):
        assert form_of([odd, "2.5" + odd[3:]], asked=True) == ""


def test_commas_between_thousands():
    grouped = ["1,234", "23,456"]
    assert form_of([*grouped, "1", "20", "300", "4", "5"]) == "#.#"
    assert form_of([*grouped, "1", "20", "300", "4"]) == ""
    for clear in ("1,234,567", "1,234.0", "-1,234.5"):
        assert form_of([*grouped, clear]) == "#.#"
    for clear in ("0,5", "1.234,5"):
        assert form_of([*grouped, clear]) == "#,#"
    assert form_of(["$" + word for word in grouped]) == "$#.#"
    assert form_of([word + " kg" for word in grouped]) == ""


def test_a_form_knows_its_decimal_mark():
    """With another mark a word is refused if it may be another number."""
    assert value_of("7,369 \u20ac", "#,#\u20ac") == value_of("7,369", "#,#\u20ac") == 7.369
    assert value_of("7,369 \u20ac", "#.#\u20ac") == 7369.0
    assert value_of("7.369 \u20ac", "#,#\u20ac") == 7369.0
    assert value_of("1.5 \u20ac", "#\u20ac") == value_of("1,5 \u20ac", "#\u20ac") == 1.5
    assert value_of("1e-05", "#,#%") == 1e-5
    assert value_of("7.36", "#,#\u20ac") == value_of("7.36", "#,#") == 7.36
    assert value_of("7.369", "#,#") == 7369.0
    for word, form in {"7.369": "#,#%", "7.369 %": "#%", "7,369 %": "#%", "1,5%": "#.#%"}.items():
        assert math.isnan(value_of(word, form))


def raw_table(comma=False):
    """Return a table with numbers written in several ways, and the same numbers."""
    rng, n = np.random.default_rng(240), 240
    plain = pd.DataFrame({"price": np.round(rng.lognormal(7, 1, n), 2)})
    plain["share"] = np.round(rng.uniform(0, 100, n), 1)
    plain["sold"] = rng.integers(0, 5000, n) * rng.integers(0, 2, n)
    raw = pd.DataFrame({"price": plain["price"].map("${:,.2f}".format)})
    raw["share"] = plain["share"].map("{} %".format)
    raw["sold"] = plain["sold"].map("{:,}".format)
    raw.loc[5, "share"] = plain.loc[5, "share"] = None
    y = (plain["price"] * (100 - plain["share"]) > 4e4).to_numpy()
    if comma:
        raw["sold"] = plain["sold"]  # 1.234 beside 7 would be refused
        raw = raw.map(lambda word: str(word).translate(str.maketrans(".,", ",.")))
        raw["share"] = raw["share"].replace("None", "")
    return raw, plain, np.where(y, "dear", "cheap")


@pytest.mark.parametrize("comma", [False, True])
def test_files_with_numerals(comma, tmp_path):
    raw, plain, y = raw_table(comma=comma)
    mark = ";" if comma else ","
    for name, table in {"raw": raw, "plain": plain}.items():
        table.assign(y=y).to_csv(tmp_path / f"{name}.csv", index=False, sep=mark)
    options = {"raw": (), "plain": ("--decimal", ".")}
    runs = [train_quickly(tmp_path / f"{name}.csv", *more) for name, more in options.items()]
    models = [sparsegp.load(run) for run in runs]
    assert [column.kind for column in models[0].encoding.columns][:2] == ["number", "number"]
    X = [open_dataset(tmp_path / "raw.csv").train.encoded_for(models[0]).X.compute()]
    X.append(models[1].encoding.apply(plain, "plain"))
    np.testing.assert_array_equal(*X)
    np.testing.assert_array_equal(*(m.predict_proba(x) for m, x in zip(models, X, strict=True)))
    # the same numbers without signs are read too, others are not
    np.testing.assert_array_equal(models[0].encoding.apply(plain, "plain"), X[1])
    raw.loc[7, "price"] = "\u00a37"
    raw.to_csv(tmp_path / "new.csv", index=False, sep=mark)
    refused = invoke("predict", runs[0], tmp_path / "new.csv", "--out", "-", code=2)
    said = "line 9 (row 7), column 'price': '\u00a37' is not a number, bare or in the form $#"
    assert said in refused.output


def test_dollars_may_have_points_beside_decimal_commas(tmp_path):
    """The form of the column counts, in a file that is learnt from."""
    sold = np.arange(1001, 1061)
    table = pd.DataFrame({"sold": [f"${each:,}" for each in sold], "rate": "3,25"})
    table.loc[7, "rate"] = "2,5"
    table.assign(y=sold % 2).to_csv(tmp_path / "new.csv", index=False, sep=";")
    X = open_dataset(tmp_path / "new.csv", label_column="y").train.learnt().X.compute()
    np.testing.assert_array_equal(X[:, 0], sold)


def test_new_files_have_decimal_marks_of_their_own(tmp_path):
    """Also those of a model that knows numbers with points."""
    raw, _, y = raw_table()
    raw.assign(y=y).to_csv(tmp_path / "raw.csv", index=False)
    run = train_quickly(tmp_path / "raw.csv", "--label-column", "y")
    marks = str.maketrans(".,", ",.")
    other = raw.map(lambda word: str(word).translate(marks), na_action="ignore")
    other.to_csv(tmp_path / "other.csv", index=False, sep=";")
    found = predicted(run, tmp_path / "other.csv", "--decimal", ",")
    assert found == predicted(run, tmp_path / "raw.csv")


@pytest.mark.parametrize("trained", ["points", "commas"])
def test_test_files_have_decimal_marks_of_their_own_too(trained, tmp_path):
    """1.234 kg are a ton where training rows had decimal commas, unless a point is given."""
    weight, rate = np.linspace(1.001, 9.5, 60).round(3), np.linspace(0.25, 0.99, 60).round(2)
    frame = pd.DataFrame({"w": [f"{w:.3f} kg" for w in weight], "r": rate.astype(str)})
    frame.loc[59, "w"] = "9.5 kg"
    for name, mark in (("points", "."), ("commas", ",")):
        words = frame.map(lambda word, mark=mark: word.replace(".", mark))
        some = slice(None) if name == trained else slice(10)
        words.assign(y=np.where(weight > 1.5, "heavy", "light"))[some].to_csv(
            tmp_path / f"{name}.csv", index=False, sep=";" if mark == "," else ","
        )
    new = tmp_path / f"{'commas' if trained == 'points' else 'points'}.csv"
    how = ("--n-active", 30, "--kernel", "10*rbf", "--out", tmp_path / "run", "--test", new)
    result = invoke("train", tmp_path / f"{trained}.csv", *how, "--json")
    is_told = "points in the column w separate thousands, as in training" in result.stderr
    assert (json.loads(result.stdout)["error"] > 0.0) == is_told == (trained == "commas")
    again = told("evaluate", tmp_path / "run", new, *["--decimal", "."] * is_told)
    assert again["error"] == 0.0


def test_commas_in_new_files_of_a_model_of_decimal_commas(tmp_path):
    price = 1000.25 + 17.0 * np.arange(120)
    frame = pd.DataFrame({"w": [f"{each:.2f} €".replace(".", ",") for each in price]})
    frame["y"] = np.where(price > 2000.0, "high", "low")
    frame.to_csv(tmp_path / "a.csv", index=False, sep=";")
    run = train_quickly(tmp_path / "a.csv")
    said = "commas in the column w are decimal, as in training; if not, remove them"
    for form, is_told in (("{:,.0f}", True), ("{:,.0f} €", True), ("{:,.2f}", False)):
        frame["w"] = [form.format(each) for each in price]
        frame.to_csv(tmp_path / "b.csv", index=False)
        result = invoke("evaluate", run, tmp_path / "b.csv", "--json")
        assert is_told == (json.loads(result.stdout)["error"] > 0.0) == (said in result.stderr)
        assert "points in the column" not in result.stderr


@pytest.mark.parametrize("unit", ["$", " kg"])
@pytest.mark.parametrize("mark", ["\t", ";"])
def test_a_model_reads_its_own_training_file_as_before(unit, mark, tmp_path):
    """Also if commas separate thousands, and might be decimal for all that the file shows."""
    sold = np.random.default_rng(0).lognormal(7, 1, 200).round()
    words = [f"{unit}{n:,.0f}" if unit == "$" else f"{n:,.0f}{unit}" for n in sold]
    frame = pd.DataFrame({"a": [f"{n:,.0f}" for n in sold[::-1]], "x": words})
    frame["y"] = np.where(sold > 1100, "hi", "lo")
    frame.to_csv(tmp_path / "a.csv", index=False, sep=mark)
    run = train_quickly(tmp_path / "a.csv")
    assert told("evaluate", run, tmp_path / "a.csv")["error"] < 0.1


@pytest.mark.parametrize("mark", ["\t", ";"])
def test_commas_of_thousands_are_such_with_any_delimiter(mark, tmp_path):
    sold = np.random.default_rng(0).lognormal(7, 1, 200).round()
    frame = pd.DataFrame({"x": [f"{n:,.0f}" for n in sold], "y": np.where(sold > 1100, "hi", "lo")})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "b.csv", index=False, sep=mark)
    run = train_quickly(tmp_path / "a.csv")
    assert told("evaluate", run, tmp_path / "b.csv")["error"] < 0.1
    frame["z"] = "0,25"
    frame.to_csv(tmp_path / "c.csv", index=False, sep=mark)
    said = invoke("evaluate", run, tmp_path / "c.csv").stderr
    assert "commas in the column x are decimal, as in other columns; if not" in said


def test_points_that_may_separate_thousands_in_new_files(tmp_path, caplog):
    sold = np.arange(60) * 37
    frame = pd.DataFrame({"sold": sold, "y": np.where(sold > 1000, "hi", "lo")})
    frame.to_csv(tmp_path / "a.csv", index=False)
    words = [f"{n:,}".replace(",", ".") for n in sold]
    frame.assign(sold=words).to_csv(tmp_path / "b.csv", index=False, sep=";")
    run = train_quickly(tmp_path / "a.csv", "--test", tmp_path / "b.csv")
    said = "points in the column sold may separate thousands"
    assert said in caplog.text
    assert said in invoke("evaluate", run, tmp_path / "b.csv").stderr
    assert said in invoke("predict", run, tmp_path / "b.csv", "--out", "-").stderr


def test_commas_in_all_new_numbers_are_doubted(tmp_path):
    sold = np.random.default_rng(0).integers(1000, 9000, 100)
    frame = pd.DataFrame({"a": [f"{n:,}" for n in sold], "b": sold % 7})
    frame.assign(y=np.where(sold > 5000, "hi", "lo")).to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "b.csv", index=False, sep=";")
    run = train_quickly(tmp_path / "a.csv")
    result = invoke("predict", run, tmp_path / "b.csv", "--out", "-")
    assert "commas in the column a may separate thousands; if so, remove them" in result.stderr


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


@pytest.mark.parametrize("mark", [",", ";"])
@pytest.mark.parametrize("other", ["points", "commas"])
def test_commas_that_also_delimit_fields_separate_thousands(mark, other, tmp_path, caplog):
    """Unless another column has decimal commas: they could be either, and so are refused."""
    rng = np.random.default_rng(5)
    sold, rate = rng.integers(1000, 999999, 60), rng.uniform(0, 9, 60).round(1)
    table = pd.DataFrame({"sold": [f"{each:,}" for each in sold], "rate": rate.astype(str)})
    if mark == ",":
        table["kg"] = table["sold"] + " kg"
    if other == "commas":
        table["rate"] = table["rate"].str.replace(".", ",")
        table.loc[7, "rate"] = None
    table.assign(y=np.arange(60) % 2).to_csv(tmp_path / "new.csv", index=False, sep=mark)
    found = open_dataset(tmp_path / "new.csv", label_column="y").train
    if {mark: other} in ({",": "commas"}, {";": "points"}):
        with pytest.raises(DataError, match=r"column 'sold'.*decimal comma or separators"):
            found.learnt()
        return
    X, unit = found.learnt().X.compute(), 1 if mark == "," else 1000
    np.testing.assert_array_equal(X[8:, :2], np.column_stack([sold / unit, rate])[8:])
    assert ("commas in the column sold are read as separators" in caplog.text) == (unit == 1)
