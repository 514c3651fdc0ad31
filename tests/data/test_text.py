"""Text as people have it: its layout and the kinds of its columns are found out, or given."""

import bz2
import gzip
import lzma
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparsegp
from sparsegp.data import Encoding, open_dataset
from sparsegp.data.labels import encode_with
from sparsegp.data.values import date_form, dates
from sparsegp.errors import DataError, SettingsError
from sparsegp.lists import pairs_in, quote_if_needed, words_in
from sparsegp.report import evaluate
from tests.data import files
from tests.processes import invoke, predicted, told, train_quickly

PEOPLE = """name,age,height,member,since,city,y
"Ann, B.",31,1.62,yes,2020-01-31,Köln,a
"Bob ""x""\nC.",45,,no,2019-12-01,NA,b
Cy,28,1.80,yes,?,Köln,a
Dee,39,1.75,no,2021-07-04,Ulm,b
"""


@pytest.fixture
def read(tmp_path):
    """A function that writes a text, or a data frame as one, and opens it with some options."""

    def read(content, name="a.csv", **given):
        if isinstance(content, pd.DataFrame):
            content = content.to_csv(index=False)
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return open_dataset(tmp_path / name, **given).train

    return read


@pytest.fixture
def warned(read, caplog):
    """A function that reads a text like `read`, learns its encoding, and returns the warnings."""

    def warned(*content, **given):
        caplog.clear()
        read(*content, **given).learnt()
        return caplog.text

    return warned


def frame(table):
    """Return a table as one data frame."""
    return pd.concat(table.frame.parts)


def columns(table):
    """Return what is learnt of the columns of a table."""
    return {each.name: each for each in Encoding.learn(table.frame, "T", table.kinds).columns}


def test_kinds_are_found(read):
    table = read(PEOPLE)
    found, learnt = frame(table), columns(table)
    kinds = {"age": "whole number", "height": "number", "member": "truth", "since": "date"}
    assert {name: learnt[name].kind for name in kinds} == kinds
    assert found["age"].dtype == np.int64
    assert learnt["member"].encode(found["member"])[:, 0].tolist() == [1.0, 0.0, 1.0, 0.0]
    assert found["name"].tolist() == ["Ann, B.", 'Bob "x"\nC.', "Cy", "Dee"]
    assert found["city"].isna().tolist() == [False, True, False, False]
    assert found["since"].isna().tolist() == [False, False, True, False]
    np.testing.assert_array_equal(found["height"], [1.62, np.nan, 1.80, 1.75])
    assert (table.y.tolist(), table.label) == (["a", "b", "a", "b"], "y")


@pytest.mark.parametrize("end", [",,,,,,\n", ',"", ,,,,\n,,,,,,\n', ",,,,,,"])
def test_blank_rows_at_the_end_are_no_rows(read, end):
    expected, found = read(PEOPLE, "b.csv"), read(PEOPLE + end)
    assert columns(found) == columns(expected)
    assert found.y.tolist() == expected.y.tolist()
    with pytest.raises(DataError, match=r"line 7 \(row 4\), column 'y': the label is missing"):
        read(PEOPLE + end.replace(",", ",1", 1))


WRITTEN = {
    "a.csv.gz": lambda text: gzip.compress(text.encode()),
    "a.csv.bz2": lambda text: bz2.compress(text.encode()),
    "a.data.xz": lambda text: lzma.compress(text.encode()),
    "a.csv.zip": lambda text: files.zip_bytes({"a.csv": text.encode()}),
    "folder.csv.zip": lambda text: files.zip_bytes(
        {"d/": b"", "d/b.csv": text.encode(), "__MACOSX/d/b": b"icon"}
    ),
    "bom.csv": lambda text: text.encode("utf-8-sig"),
    "utf-16.txt": lambda text: text.encode("utf-16"),
    "latin.csv": lambda text: text.encode("latin-1"),
    "windows.csv": lambda text: text.replace("\n", "\r\n").encode(),
    "mac.csv": lambda text: text.replace("\n", "\r").encode(),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_encodings_and_compression(name, read, tmp_path, caplog):
    text = "größe,city,y\n1.5,Köln,a\n2.5,Ulm,b\n"
    found = frame(read(WRITTEN[name](text), name))
    assert found.columns.tolist() == ["größe", "city"]
    assert found["city"].tolist() == ["Köln", "Ulm"]
    assert caplog.messages == [
        f"{tmp_path / name} is not UTF-8 text and is read as cp1252; give `encoding` if wrong"
    ] * (name == "latin.csv")
    with pytest.raises(DataError, match=r"not text|empty"):
        read(WRITTEN["utf-16.txt"](text)[2:])
    again = read(WRITTEN["utf-16.txt"](text)[2:], encoding="utf-16-le")
    pd.testing.assert_frame_equal(frame(again), found)


LAID_OUT = {
    "size;city;y\n1,5;Ulm, old;a\n-2,25;Bonn;b\n": {},
    "size\tcity\ty\n1.5\tUlm, old\ta\n-2.25\tBonn\tb\n": {},
    "size|city|y\n1.5|Ulm, old|a\n-2.25|Bonn|b\n": {},
    'size city y\n1.5 "Ulm, old" a\n-2.25 Bonn b\n': {},
    "size:city:y\n1,5:Ulm, old:a\n-2,25:Bonn:b\n": {"delimiter": ":", "decimal": ","},
    "sep=:\r\nsize:city:y\r\n1,5:Ulm, old:a\r\n-2,25:Bonn:b\r\n": {"decimal": ","},
    '"sep=\t"\n\nsize\tcity\ty\n1.5\tUlm, old\ta\n-2.25\tBonn\tb\n': {},
    "sep=;;;\n# size;city;y\n1,5;Ulm, old;a\n-2,25;Bonn;b\n": {},
    "SEP=,\n1,5;Ulm, old;a\n-2,25;Bonn;b\n": {"header": False, "delimiter": ";"},
    "1,5;Ulm, old;a\n-2,25;Bonn;b\n": {"header": False},
    "size;;\n1,5;Ulm, old;a\n-2,25;Bonn;b\n": {"header": True},
    "size;;y\n1,5;Ulm, old;a\n-2,25;Bonn;b\n": {},
    "# size|city|y\n1.5|Ulm, old|a\n-2.25|Bonn|b\n": {},
    "2;Ulm, old;a\n1,5;Ulm, old;a\n-2,25;Bonn;b\n": {"header": True},
}


@pytest.mark.parametrize("text", LAID_OUT)
def test_layouts(text, read):
    found = frame(read(text, "a.txt", **LAID_OUT[text]))
    assert found.iloc[:, 0].tolist() == [1.5, -2.25]
    assert found.iloc[:, 1].tolist() == ["Ulm, old", "Bonn"]


DATES = {
    "2020-01-31 2020-02-28": "2020-01-31",
    "2020-01-31T10:00 2020-02-28T11:30:15": "2020-01-31T10:00",
    "2020-01-31T10:00:00+02:00 2020-02-28T11:30:15Z": "2020-01-31T08:00",
    "31.01.2020 28.02.2020": "2020-01-31",
    "01/31/2020 02/03/2020": "2020-01-31",
    "31/01/2020 02/03/2020": "2020-01-31",
    "31-Jan-2020 02-Mar-2020": "2020-01-31",
    "01-May-2020 02-Sep-2020": "2020-05-01",
    "MAY_1,_2020_12:43_AM Feb_28,_2020_11:00_PM": "2020-05-01T00:43",
    "31-JAN-20 02-MAR-20": "2020-01-31",
    "31jan2020 02feb2020": "2020-01-31",
    "31-JAN-20_03:38_PM 02-FEB-20_11:00_AM": "2020-01-31T15:38",
    "01/31/2020_03:38_PM 02/28/2020_11:00_am": "2020-01-31T15:38",
    "Jan_31,_2020_12:43_AM Feb_28,_2020_11:00_PM": "2020-01-31T00:43",
    "2020-01-31_10:29:00PM 2020-02-28_1:00:00AM": "2020-01-31T22:29",
    "01/02/2020 03/02/2020": None,  # of which form?
    "01/31/2020 31/01/2020": None,
    "2020-01-31 2020-02-30": None,
    "Ulm Bonn": None,
}


@pytest.mark.parametrize("words", DATES)
def test_dates(words, read):
    each = [word.replace("_", " ") for word in words.split()]
    text = "when,y\n" + "".join(f'"{word}",{n}\n' for n, word in enumerate(each))
    table = read(text)
    found, learnt = frame(table)["when"], columns(table)["when"]
    if (first := DATES[words]) is not None:
        day = pd.Timestamp(first)
        hour = day.hour + day.minute / 60
        time = 2020 + (day.day_of_year - 1 + hour / 24) / 366
        expected = [time, day.day_of_year - 1, day.day_of_week, hour]
        assert (learnt.kind, dates(found, learnt.form)[0].tolist()) == ("date", expected)
    else:
        assert (learnt.kind, found.tolist()) == ("category", each)
        with pytest.raises(DataError, match=r"column 'when': '.*' is not a date that can be read"):
            read(text, kinds="when=date").learnt()


@pytest.mark.parametrize(
    "form", ["%H:%M %d/%m/%Y", "%I:%M %p, %d %b %Y", "%H:%M:%S.%f %d/%m/%Y", "%H:%M %Y%m%d"]
)
@pytest.mark.parametrize("first", ["2020-01-02", "2020-01-14 14:14", "2020-09-09 09:30"])
def test_a_time_may_stand_before_the_date(first, form, read, caplog):
    when = pd.Series(pd.date_range(first, periods=90, freq="7h"))
    table = read(pd.DataFrame({"t": when.dt.strftime(form), "y": [*"ab"] * 45}))
    np.testing.assert_array_equal(dates(frame(table)["t"], columns(table)["t"].form), dates(when))
    assert table.learnt().names[0] == "t: time"
    assert not caplog.text


@pytest.mark.parametrize("form", ["%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S%p"])
def test_times_of_day_are_on_a_circle_too(form, read):
    hours = pd.date_range("2020-01-01", periods=90, freq="33min")
    words = [f"{word},{n % 2}" for n, word in enumerate(hours.strftime(form))]
    table = read("\n".join(["at,y", *words])).learnt()
    assert table.names == ("at: time", "at: hour (sin)", "at: hour (cos)")
    time, sine, cosine = table.X.compute().T
    turned = np.arctan2(sine, cosine) % (2 * np.pi) / np.pi * 12 % 24
    for found in ((time - 1900) * 365 * 24, turned):
        np.testing.assert_allclose(found, hours.hour + hours.minute / 60, atol=1e-6)
    with pytest.raises(DataError, match="'25:00' is not a time of day, such as 14:35, as others"):
        read("at,y\n25:00,0\n11:00,1\n").encoded_for(table).X.compute()


def test_columns_that_are_read_as_times_of_day_are_named(read, caplog):
    """They could be durations; the first word need not be a time."""
    rows = [f"{1 + n % 9}:{10 + n % 50},{n % 2}" for n in range(60)]
    text = "\n".join(["song,y", *rows])
    read(text).learnt()
    assert "columns that are read as times of day: song; convert durations to" in caplog.text
    for where, long in ((0, "closed"), (60, "27:10")):
        rows.insert(where, f"{long},1")
        with pytest.raises(DataError, match=f"line {where + 2} .*'{long}' is not a time of day"):
            read("\n".join(["song,y", *rows])).learnt()
        rows.pop(where)


@pytest.mark.parametrize("mark", ["-", ".", "/"])
def test_years_of_two_digits_may_be_in_front(mark, read):
    """They are told by the days, which are then from the middle of months alone."""
    form, monthly = f"%d{mark}%m{mark}%y", pd.date_range("2012-01-01", periods=150, freq="MS")
    days = pd.date_range("2012-01-01", "2024-12-20", periods=150)
    for each in (days, monthly, monthly - pd.Timedelta("1D")):
        table = pd.DataFrame({"t": each.strftime(form), "y": [*"ab"] * 75})
        assert each is monthly or columns(read(table))["t"].form == form  # else months may be days
        table["t"] = each.strftime(f"%y{mark}%m{mark}%d")
        with pytest.raises(DataError, match=r"'1[12]\D..\D..' and .* like dates that can be read"):
            read(table).learnt()
    few = pd.Series(pd.date_range("2012-03-11", periods=150, freq="h"))  # of a week
    assert date_form(few.dt.strftime(form)) == form
    assert not date_form(few.dt.strftime(f"%y{mark}%m{mark}%d"))
    middle = monthly + pd.Timedelta("14D")
    assert date_form(middle.strftime(form).to_series()) == form
    assert not date_form(middle.strftime(f"%y{mark}%m{mark}%d").to_series())


@pytest.mark.parametrize(
    ("word", "what"),
    [
        (lambda n: f"0{1 + n % 9}/0{1 + n // 9 % 9}/2024", "dates .*: write them as 2024-12-31"),
        (lambda n: f"0{1 + n % 9}.0{1 + n // 9 % 9}.2024 10:00", "dates that can be read in more"),
        (lambda n: f"{30 + n}:{n % 60:02d}", "durations: convert them to numbers"),
        (lambda n: f"{n} days 0{n % 9}:00:00", "durations: convert them to numbers"),
        (lambda n: f"8_{n:03d}", "numbers with separators of thousands: remove"),
        (lambda n: f'"{n},5{"x" * (n % 5 == 4)}"', "numbers with a decimal comma: give `decimal`"),
        (lambda n: f"{n}.1{'p' if n % 5 == 4 else '%'}", "percentages: write plain numbers"),
        (lambda n: f"{'£' if n % 5 == 4 else '$'}{n}.5", "amounts of money: .* one currency"),
        (lambda n: f"{n} {'g' if n % 5 == 4 else 'kg'}", "numbers with a unit: .* one unit"),
        (lambda n: f"{n}.1{'M' if n % 5 == 4 else 'k'}", "numbers with a unit: write plain"),
        (lambda n: f"'{n}", "numbers after an apostrophe, as spreadsheets write text: remove it"),
        (lambda n: f"{n + 160:#x}", "hexadecimal numbers: convert them"),
        (lambda n: f"({n})", "negative numbers in parentheses: write a minus sign"),
        (lambda n: f"{n}{'-' * (n % 2)}", "numbers or, as '1-', negative numbers with a minus at"),
    ],
)
def test_words_that_look_like_something_else(word, what, read, caplog):
    few, many = (
        "\n".join(["a,b,y", *(f"{word(n % n_words)},{n % 7},{n % 2}" for n in range(80))])
        for n_words in (6, 80)
    )
    first = re.escape(repr(word(0).strip('"')))
    such = f"{first} and most others look like {what}"
    read(few, kinds="a=category").learnt()
    assert not caplog.text
    read(few).learnt()
    assert re.search(f"'a', where {such}", caplog.text)
    with pytest.raises(DataError, match=such):
        read(many).learnt()


FEW_NAMES = {
    "pairs of numbers: make two columns of them": lambda n: f"{90 + n}/{60 + n // 2}",
    "numbers with words behind them: write plain": lambda n: (
        f"{n}.5 {'n.d.' if n == 7 else 'mol/L'}"
    ),
    "most others begin with digits and have few rows: if they are numbers or dates": lambda n: (
        f"{n}' {n % 9}"
    ),
}


@pytest.mark.parametrize("what", FEW_NAMES)
@pytest.mark.parametrize(("n_words", "is_told"), [(6, False), (80, True)])
def test_few_words_of_some_forms_may_be_names(what, n_words, is_told, read, caplog):
    rows = (f"{FEW_NAMES[what](n % n_words)},{n % 7},{n % 2}" for n in range(160))
    read("\n".join(["a,b,y", *rows])).learnt()
    assert (what in caplog.text) == is_told


def test_decimal_commas_beside_points(read, caplog):
    text = "a;b;y\n" + "".join(f"{n % 3},{n:03d};1.{2 + n % 2}57;{n % 2}\n" for n in range(80))
    table = read(text).learnt()
    assert table.X[79].compute().tolist() == [1.079, 1.357]
    assert "read as numbers: a (#,#); have codes read as words by `kinds` NAME=" in caplog.text
    table = read(text, decimal=",").learnt()
    assert [column.kind for column in table.encoding.columns] == ["number", "category"]
    message = "'b', where '1.257' and most others look like numbers with a point: write a comma"
    assert message in caplog.text
    assert "pandas" not in caplog.text


def test_words_beside_numbers_are_told_apart(read, caplog):
    words = ["c", *(f"{n}.5" for n in range(7)), "c"]
    rows = "".join(f"{words[n % 9]},{n % 7},{n % 2}\n" for n in range(180))
    read("a,b,y\n" + rows).learnt()
    message = "'a', where 'c' differs, but '0.5' and most others look like numbers: give words such"
    assert message in caplog.text


def test_minus_signs_of_typography_are_read_like_hyphens(read):
    rows = [f"{n % 5 - 2};{n - 40},{n % 10};{'-2' if n % 2 else 'a'};{n % 2}" for n in range(80)]
    text = "\n".join(["a;b;c;y", *rows])
    plain, found = (frame(read(each)) for each in (text, text.replace("-", "\N{MINUS SIGN}")))
    assert [plain[name].dtype.kind for name in "ab"] == ["i", "f"]
    pd.testing.assert_frame_equal(found, plain, check_dtype=False)
    steps = ",".join(map(str, range(-9, 3)))
    text = f"{steps},y\n" + "".join(f"{n}," * 12 + f"u{n % 2}\n" for n in range(9))
    assert len(read(text.replace("-", "\N{MINUS SIGN}")).y) == 9


@pytest.mark.parametrize("numbers", [["-1,5", "2,25e-1", "3"], ["-1", "1,0", "2"]])
def test_labels_are_numbers_of_the_same_marks_as_inputs(read, numbers):
    text = "a;y\n" + "".join(f"{n},5;{numbers[n % 3]}\n" for n in range(30))
    expected = np.resize([float(each.replace(",", ".")) for each in numbers], 30)
    for written in (text, text.replace("-", "\N{MINUS SIGN}")):
        y = read(written).y
        assert y.tolist() == expected.tolist()
        assert y.dtype.kind == "fi"["1,0" in numbers]


def test_labels_beside_decimal_commas_that_are_no_such_numbers(read):
    text = "a;y\n" + "".join(f"{n},5;{'12'[n % 2]}\n" for n in range(30))
    y = read(re.sub(";([12])", r";0\1,0", text), decimal=",").y
    assert np.unique(y).tolist() == ["01,0", "02,0"]
    message = "line 2 .row 0., column 'y': '1.346' has a point, but the decimal mark is a comma"
    with pytest.raises(DataError, match=message):
        read(re.sub(";([12])", r";\1.346", text), decimal=",")


def test_words_for_missing_values_are_those_of_the_training_file(tmp_path):
    dash = "\N{EN DASH}"
    words = ("red", "unknown")
    rows = [f"{n % 7 if n % 9 else dash};{words[n % 2]};{n % 3 % 2}" for n in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["a;c;y", *rows]), encoding="utf-8")
    invoke("train", tmp_path / "a.csv", "--out", tmp_path / "run", "--missing", "unknown")
    model = sparsegp.load(tmp_path / "run")
    assert model.names == ("a", "a missing", "c missing")
    found = told("evaluate", tmp_path / "run", tmp_path / "a.csv")
    table = open_dataset(tmp_path / "a.csv", missing="unknown").train.encoded_for(model)
    expected = evaluate(model.predict_log_proba(table.X.compute()), table.y, model.classes)
    assert found["nlpp"] == pytest.approx(expected.nlpp)
    unlabelled = "\n".join(["a;c", *(row[:-2] for row in rows)])
    (tmp_path / "a.csv").write_text(unlabelled, encoding="utf-8")
    refused = invoke("evaluate", tmp_path / "run", tmp_path / "a.csv", code=2)
    assert "a.csv needs the column 'y' of labels, or another --label-column" in refused.output


@pytest.mark.parametrize("mark", [" ", "\t"])
def test_a_header_without_the_name_of_the_first_column(mark, read):
    """As R's write.table writes it."""
    lines = ['"a" "c" "y"', *(f'"{n}" {n / 8} "some word" "u{n % 2}"' for n in range(1, 31))]
    text = "\n".join(lines)
    if mark == "\t":
        text = re.sub(' (?=["\\d])', mark, text)
    table = read(text, "a.dat", id_column="unnamed 0")
    assert (table.names, *table.beside["unnamed 0"][:2]) == (("a", "c"), "1", "2")
    assert table.y.tolist() == ["u1", "u0"] * 15
    with pytest.raises(DataError, match="line 2 has 4 fields; 3 are expected"):
        read(text, "a.dat", header=False)


@pytest.mark.parametrize(
    ("first", "end"), [("a\tc\ty", "\t"), ("1.5\tx\tu0", "\tu1"), ("30 x", "")]
)
def test_other_short_first_rows_are_no_header(first, end, read):
    rows = [f"{n / 8}\tx{n % 3}\tu{n % 2}{end}" for n in range(30)]
    with pytest.raises(DataError, match=r"line 2 has [34] fields; [123]"):
        read("\n".join([first, *rows]), "a.tsv")


ROWS = pd.DataFrame({"a": np.arange(60) % 7, "y": np.arange(60) % 2})


def test_a_column_that_numbers_the_rows(warned):
    numbered = ROWS[::2].to_csv()
    assert not warned(numbered, drop="unnamed 0")
    assert not warned(ROWS.rename(columns={"a": ""}))
    assert "in the input 'unnamed 0'; give it as `id_column`, or `drop` it" in warned(numbered)


@pytest.mark.parametrize(
    ("name", "numbers", "is_told"),
    [
        *(("row", range(1, 61), True), ("row", range(60), True)),
        *(("row", range(2, 62), False), ("row", range(1, 121, 2), False)),
        *((name, np.arange(60) * 7 % 60 * 9, True) for name in ("id", "Shop ID", "shopId")),
        ("id", np.arange(60) * 6 % 60, False),  # not all different
        *((name, np.arange(60) * 7 % 60 * 9, False) for name in ("paid", "width", "idle")),
        ("paid", np.arange(60) * 7 % 60, False),  # too few to be sure
    ],
)
def test_a_named_column_that_numbers_the_rows(name, numbers, is_told, warned):
    """As the first one, in order; by its name; or as distinct numbers in a small range."""
    table = ROWS.copy()
    table.insert(0 if name == "row" else 1, name, numbers)
    message = f"numbers its rows in the input '?{name}'?; give it as"
    assert bool(re.search(message, warned(table))) == is_told
    assert not warned(table, kinds={name: "number"})


@pytest.mark.parametrize("numbers", [np.arange(60) * 7 % 60 * 9, -np.arange(60) - 2**52])
def test_a_first_column_without_a_name_numbers_the_rows(numbers, warned):
    """As an index that was written, even if the rows are some of many, or shuffled."""
    table = ROWS.copy()
    table.insert(0, "", numbers)
    assert "numbers its rows in the input 'unnamed 0'" in warned(table)
    repeated = warned(table.assign(**{"": numbers // 100 * 100}))
    assert "numbers its rows" not in repeated


@pytest.mark.filterwarnings("error")
def test_numbers_that_span_all_integers_do_not_number_the_rows(warned):
    numbers = (np.linspace(-1.0, 1.0, 300) * (2**53 - 1)).astype(np.int64) * 2**10
    assert len(np.unique(numbers)) == 300
    many = pd.DataFrame({"a": numbers, "y": np.arange(300) % 2})
    assert "numbers its rows" not in warned(many)


def test_distinct_numbers_in_a_small_range_number_the_rows(warned):
    many = pd.DataFrame({"a": np.arange(300) % 9, "paid": np.arange(300) * 7 % 300 + 1000})
    many["y"] = np.arange(300) % 2
    assert "numbers its rows in the input paid" in warned(many)
    assert not warned(many.assign(paid=many["paid"] * 3))


@pytest.mark.parametrize(("rate", "is_told"), [("{},8", True), ("{},87 %", True), ("{}.8", False)])
def test_points_beside_decimal_commas(rate, is_told, warned):
    rows = [f"{20 + n}.{n + 100};{rate.format(n)};{n % 2}\n" for n in range(60)]
    found = warned("income;rate;y\n" + "".join(rows))
    assert ("points in the column income may separate thousands" in found) == is_told


@pytest.mark.parametrize("place", ["sold", "y"])
def test_points_that_may_separate_thousands(place, warned):
    numbers = np.arange(60) * 37
    texts = {
        True: [f"{n:,}".replace(",", ".") for n in numbers],
        False: [str(n / 1000) for n in numbers],
        None: [f"{1 + n / 1000:.3f}" for n in numbers],  # all of which have three digits
    }
    for is_told, words in texts.items():
        rows = ROWS.rename(columns={"a": "sold"}) / [4, 1]
        text = rows.assign(**{place: words}).to_csv(index=False, sep=";")
        for mark, written in {"points": text, "commas": text.replace(".", ",")}.items():
            found = f"{mark} in the column {place} may separate" in warned(written)
            assert found == bool(is_told)
    words = [word.replace("-", "\N{MINUS SIGN}") for word in ["-1.234", "17", "-999"] * 20]
    rows = rows.assign(**{place: words})
    text = rows.to_csv(index=False, sep=";")
    assert f"points in the column {place} may separate" in warned(text)
    if place == "sold":
        text = rows.assign(x=1.5 * np.arange(60))[["x", place, "y"]].to_csv(index=False, sep=";")
        assert not warned(text, id_column=place)
        assert not warned(text, kinds={place: "category"})


def test_zeros_in_front_of_numbers(read, warned, caplog):
    codes = [f"{n:05}" for n in np.arange(60) * 571 % 20011]
    rows, message = ROWS.assign(zip=codes)[["zip", "a", "y"]], "zeros in front of numbers in the "
    assert f"{message}input zip; for codes give `kinds` zip=cat" in warned(rows)
    assert len(caplog.messages) == 1
    for kind in ("number", "category"):
        assert not warned(rows, kinds={"zip": kind})
    gaps = rows.assign(zip=np.where(np.arange(60) % 7, codes, "-999"))
    assert f"{message}input zip" in warned(gaps, missing="-999")
    caplog.clear()
    read(pd.concat([rows] * 20 + [rows.assign(zip="A01")]))
    assert "zeros in front" not in caplog.text


def test_numbers_that_look_like_dates(read, warned, caplog):
    days = pd.Series(pd.date_range("1999-11-20", periods=60, freq="11D"))
    rows = pd.DataFrame({"on": days.dt.strftime("%Y%m%d"), "n": np.arange(60) // 2 * 2 + 20240500})
    rows.loc[3, "on"] = None
    rows["y"] = np.arange(60) % 2
    message = "20241231 in the input on; if they are dates, give `kinds` on=date"
    assert message in warned(rows)
    assert len(caplog.messages) == 1
    assert not warned(rows, kinds="on=date")
    table = read(rows, kinds="on=date").learnt()
    times = table.X.compute()[:, table.names.index("on: time")]
    assert np.delete(np.floor(times), 3).tolist() == np.delete(days.dt.year, 3).tolist()
    assert not caplog.messages


@pytest.mark.parametrize(("start", "is_told"), [(2**60, True), (2**53 - 40, False)])
def test_numbers_with_more_digits_than_count(start, is_told, warned):
    rows = [f"{start + 7 * i % 40},{i % 3},{i % 2}" for i in range(60)]
    found = warned("\n".join(["a,b,y", *rows]))
    assert ("numbers with more digits than count in the input a; " in found) == is_told


def test_what_is_given(read):
    rows = "".join(f"{n:05d},{n % 7},{n % 2},k{n}\n" for n in range(40))
    text = "zip,x,y,key\n" + rows
    given = {"label_column": "y", "drop": "x", "id_column": "key"}
    plain = read(text, **given)
    assert plain.names == ("zip",)
    assert plain.beside["key"].tolist() == [f"k{n}" for n in range(40)]
    found = frame(read(text, kinds={"zip": "category"}, **given))
    assert found["zip"].tolist() == [f"{n:05d}" for n in range(40)]
    found = frame(read(rows, kinds="0=category", drop=["1", "-1"]))
    assert found.columns.tolist() == ["x0"]
    assert [*read(text, id_column=0).beside] == ["zip"]
    found = frame(read(text, missing=["00003"], **given))
    assert np.flatnonzero(found["zip"].isna()).tolist() == [3]
    for wrong, message in {
        "kinds": ({"zip": "word"}, "KIND one of number, .*'zip=word'"),
        "drop": (["zap"], r"no column to drop 'zap'; its columns: zip, x"),
        "id_column": ("zap", "no id column 'zap'"),
        "delimiter": (",,", "`delimiter` must be one character"),
        "decimal": (",", "`decimal` must be . or , and not the delimiter"),
        "encoding": ("utf-9", "unknown encoding: utf-9.; give its `encoding`"),
    }.items():
        with pytest.raises(DataError, match=message[1]):
            read(text, **{wrong: message[0]})


def test_all_bad_columns_are_told_at_once(read):
    rows = [f'{n},"a\nb",{n / 2},{n % 3 > 1},1' for n in range(100)]
    rows[7], rows[60] = '7,"a",x!,True,1', 'abc,"a\nb",30,True,1'
    text = "\n".join(["a,b,c,d,y", *rows]) + "\n"
    with pytest.raises(DataError) as caught:
        read(text, kinds="d=number").learnt()
    message = str(caught.value)
    assert "line 122 (row 60), column 'a': 'abc' is not a number" in message
    assert "line 16 (row 7), column 'c': 'x!' is not a number" in message
    assert "column 'd': 'False' is not a number" in message
    assert "as `missing`, or have its column read as words by `kinds` a=category;" in message
    lines = text.splitlines()
    assert (lines[121 - 1], lines[16 - 1]) == ('abc,"a', '7,"a",x!,True,1')
    found = frame(read(text, kinds="a=category", missing="x!"))
    assert found["a"].tolist()[59:61] == ["59", "abc"]
    assert np.isnan(found["c"][7])
    days = "".join(f"2020-01-{1 + n % 28:02d},{n}\n" for n in range(99))
    of_january = re.sub(r"2020-01-(\d\d)", r"\1.01.20", days)
    for text, day in ((days, "2020-01-32"), (of_january, "32.01.20")):
        with pytest.raises(DataError, match=rf"line 100 .*'{day}' is not a date"):
            read(f"{text}{day},0\n").learnt()
    mixed = "".join(f"{n % 5 or 'low'},{n}\n" for n in range(100))
    assert columns(read(mixed))["x0"].kind == "category"  # a word in each five


def head(*names):
    return ",".join(map(str, names)) + "\n"


WAVES = tuple(map(str, range(400, 420, 2)))
SPECTRA = "".join(head(*(n * k % 7 for k in range(10)), "ab"[n % 2]) for n in range(50))
NAMED = "".join(f"s{n},{line}" for n, line in enumerate(SPECTRA.splitlines(keepends=True)))
SAME = head(*range(1, 11), "a") * 40
HEADERS = {
    "1,2,3,label\n" + "4,5,6,0\n7,8,9,1\n" * 20: (("1", "2", "3"), "is taken for the header"),
    "0,1,label\n" + "4,5,no\n7,8,yes\n" * 20: (("0", "1"), "is taken for the header"),
    "4,5,maybe\n" + "4,5,no\n7,8,yes\n" * 20: (None, "is taken for values"),
    head(*WAVES, "label") + SPECTRA: (WAVES, "is taken for the header"),
    head(*WAVES, "label") + SPECTRA[: len(SPECTRA) // 10]: (WAVES, "is taken for the header"),
    head("n", *range(10), "c") + NAMED: (("n", *"0123456789"), "is taken for the header"),
    head(*range(10), "c") + SAME: ((*"0123456789",), "is taken for the header"),
    head(*range(2, 12), "c") + SAME: (None, "is taken for values"),
    "a,2,3,label\n" + "4,5,6,0\n7,8,9,1\n" * 20: (None, "line 1: 'a', 'label' is unlike"),
    "1.5,5,x6,0\n" + "4,5,6,0\n7,8,9,1\n" * 20: (None, "line 1: 'x6' is unlike"),
    "city,street,y\n" + "Ulm,A 1,u\nBonn,B 2,v\n" * 3: (("city", "street"), "for the header"),
    "city,street,yes\n" + "Ulm,A 1,no\nBonn,B 2,yes\n" * 20: (None, "is taken for values"),
    "city,street,y\n" + "Ulm,A 1,no\nBonn,B 2,yes\n" * 20: (("city", "street"), ""),
    "age,city,y\n" + "4,Ulm,no\n7,Bonn,yes\n" * 20: (("age", "city"), ""),
    "4,Ulm,no\n" + "4,Ulm,no\n7,Bonn,yes\n" * 20: (None, ""),
    "4,?,no\n" + "4,5,no\n7,8,yes\n" * 20: (None, ""),
    ",a,y\n" + "0,5,no\n1,8,yes\n" * 20: (("unnamed 0", "a"), ""),
}


@pytest.mark.parametrize("text", HEADERS, ids=lambda text: text[:10].strip())
def test_headers(text, read, caplog):
    names, message = HEADERS[text]
    n = len(text.splitlines())
    if "unlike" in message:
        with pytest.raises(DataError, match=message):
            read(text)
    else:
        table = read(text)
        assert len(table.y) == n - (names is not None)
        assert table.names == names
        assert [message in each for each in caplog.messages] == [True] * bool(message)
    kinds = dict.fromkeys(map(str, range(text.split("\n")[0].count(",") + 1)), "category")
    for header in (True, False):
        caplog.clear()
        assert len(read(text, header=header, kinds=kinds).y) == n - header
        assert not caplog.messages


NUMBERS = st.one_of(
    st.floats(allow_nan=False), st.integers(-(2**63), 2**63 - 1), st.integers(-(10**30), 10**30)
)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 4).flatmap(
        lambda p: st.lists(st.lists(NUMBERS, min_size=p, max_size=p), min_size=1, max_size=9)
    ),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from([".", ","]),
)
def test_numbers_come_back_to_the_bit(rows, delimiter, decimal):
    if delimiter == ",":
        decimal = "."
    X = pd.DataFrame([[float(each) for each in row] for row in rows]).add_prefix("c")
    written = X.assign(y=[n % 2 for n in range(len(X))])
    text = written.to_csv(index=False, sep=delimiter, decimal=decimal)
    files.put("memory://property/a.csv", text.encode())
    table = open_dataset("memory://property/a.csv", decimal=decimal).train
    assert table.X.compute().tobytes() == np.ascontiguousarray(X.to_numpy()).tobytes()


def test_predictions_with_ids_of_any_source(tmp_path, monkeypatch):
    rng, n = np.random.default_rng(0), 120
    rows = pd.DataFrame({"id": [f"k{i}" for i in range(n)], "zip": rng.choice(["007", "7"], n)})
    rows["age"], rows["city"] = rng.integers(18, 90, n), rng.choice(["Ulm", "Bonn"], n)
    rows["y"] = np.where((rows["age"] > 50) ^ (rows["city"] == "Ulm"), "yes", "no")
    rows.loc[5, "age"] = None
    monkeypatch.chdir(tmp_path)
    rows.to_csv("train.csv.gz", index=False)
    rows.drop(columns="y")[["city", "zip", "id", "age"]].to_csv("new.csv", index=False, sep=";")
    rows.to_parquet("new.parquet")
    rows[["y", "age", "id", "zip", "city"]].to_parquet("turned.parquet")
    rows.assign(y="").to_csv("blank.csv", index=False)
    ids = ["--id-column", "id"]
    options = [*ids, "--n-active", 20, "--out", "r", "--test", "turned.parquet"]
    record = told("train", "train.csv.gz", "--kinds", "zip=category", *options)
    figures = told("evaluate", "r", "train.csv.gz")
    assert (record["n"], record["nlpp"]) == (n, pytest.approx(figures["nlpp"]))
    known = told("inspect", "r")
    assert known["label"] == "y"
    assert [column["name"] for column in known["inputs"]] == ["zip", "age", "city"]
    found = predicted("r", "train.csv.gz")  # of which the model knows the ids
    assert found.splitlines()[0] == "row,id,label,p_no,p_yes"
    assert found.splitlines()[8].startswith("7,k7,")
    for rows in ("train.csv.gz", "new.csv", "new.parquet", "blank.csv"):
        assert predicted("r", rows, *ids) == found
    monkeypatch.setattr("sparsegp.cli.tables.LINES", 7)
    text = (tmp_path / "new.csv").read_text()
    assert invoke("predict", "r", "-", *ids, "--out", "-", text=text).stdout == found
    assert "row 3 (id k3): " in invoke("explain", "r", "new.csv", "--rows", 3).stdout
    refused = invoke("evaluate", "r", "blank.csv", code=2).stderr
    assert "line 2 (row 0), column 'y': the label is missing" in refused
    for options in ([], ids):  # ids are no labels
        refused = invoke("evaluate", "r", "new.csv", *options, code=2).stderr
        assert "needs the column 'y' of labels" in refused


def test_decimal_commas_among_words_are_read_alike_by_a_model(tmp_path):
    sizes = ("1,5", "XL", "7,5 mm")
    rows = "".join(f"{n},5;{sizes[n % 3]};{n % 2}\n" for n in range(60))
    (tmp_path / "rows.csv").write_text("a;size;y\n" + rows)
    for more in ((), ("--kinds", "size=category")):
        run = train_quickly(tmp_path / "rows.csv", "--overwrite", *more)
        assert "unknown" not in invoke("evaluate", run, tmp_path / "rows.csv").output


@pytest.mark.parametrize(
    "words",
    [
        pd.Series(pd.date_range("2024-03-01", periods=80, freq="7h")).astype(str),
        pd.Series(["north hill", "south"] * 40),
    ],
    ids=["dates", "words"],
)
def test_new_rows_of_one_column_need_no_name(words, tmp_path):
    labels = np.where(words > words[40], "a", "b")
    pd.DataFrame({"w": words, "y": labels}).to_csv(tmp_path / "a.csv", index=False)
    run = train_quickly(tmp_path / "a.csv")
    words.to_csv(tmp_path / "named.csv", index=False, header=["w"])
    words.to_csv(tmp_path / "bare.csv", index=False, header=False)
    assert predicted(run, tmp_path / "named.csv") == predicted(run, tmp_path / "bare.csv")


@pytest.mark.parametrize("labels", ["1,0 -1,0 word", "1 \N{MINUS SIGN}1 word", "1 -1 word"])
def test_labels_beside_a_word_are_numbers_if_those_of_a_model_are(labels, read):
    text = "a;y\n" + "".join(f"0,5;{label}\n" for label in labels.split())
    assert read(text).y.tolist() == labels.split()
    y = read(text, known_labels=("-1", "1")).y
    codes, unseen = encode_with(np.array([-1, 1]), y)
    assert (codes.tolist(), unseen) == ([1, 0, -1], ["word"])


@pytest.mark.parametrize("label", [0, 2])
def test_a_label_without_a_name_stays_where_it_was(label, tmp_path):
    """Whatever numbers are the names of other files, with and without labels."""
    rows = pd.DataFrame({"a": np.arange(60) % 7, "b": np.arange(60) % 5})
    rows.insert(label, "y", np.arange(60) % 7 > 3)
    rows.to_csv(tmp_path / "bare.csv", index=False, header=False)
    run = train_quickly(tmp_path / "bare.csv", "--label-column", label)
    expected = predicted(run, tmp_path / "bare.csv")
    for start in (0, 1):
        for name, some in {"all": rows, "inputs": rows.drop(columns="y")}.items():
            names = [*map(str, range(start, start + len(some.columns)))]
            some.to_csv(tmp_path / f"{name}.csv", index=False, header=names)
            assert predicted(run, tmp_path / f"{name}.csv", "--header") == expected


def test_blank_lines_of_one_column_are_no_rows_left_out(tmp_path):
    ROWS[["a", "y"]].to_csv(tmp_path / "a.csv", index=False)
    run, new = train_quickly(tmp_path / "a.csv"), tmp_path / "new.csv"
    for text in ('a\n1\n""\n3\n\n\n', "\na\n1\n2\n3\n"):
        new.write_text(text)
        assert predicted(run, new).count("\n") == 1 + 3
    new.write_text("a\n1\n\n3\n")
    for data, text in {new: None, "-": new.read_text()}.items():
        refused = invoke("predict", run, data, "--out", "-", code=2, text=text).stderr
        assert "line 3 is blank, in a file of one column" in refused
    ROWS[["a", "y"]].assign(a=np.where(ROWS["a"] > 0, "x\n\nz", "w")).to_csv(new, index=False)
    run = train_quickly(new)
    new.write_text('a\n"x\n\nz"\nw\n')
    assert predicted(run, new).count("\n") == 1 + 2


def test_decimal_commas_of_one_column_might_delimit_a_label(tmp_path):
    text = "".join(f"{n // 10},{n % 10}\n" for n in range(80))
    rows = [f"{line};{'ab'[n > 40]}" for n, line in enumerate(text.split())]
    (tmp_path / "a.csv").write_text("x;y\n" + "\n".join(rows))
    (tmp_path / "new.csv").write_text(text)
    run, new = train_quickly(tmp_path / "a.csv"), tmp_path / "new.csv"
    refused = invoke("predict", run, new, "--out", "-", code=2).stderr
    assert "0,0 may be one number or two" in refused
    found = predicted(run, new, "--delimiter", ";")
    assert found.count(",a,") == 41
    assert predicted(run, new, "--delimiter", ",") != found


@pytest.mark.parametrize(("n_labels", "are_read"), [(2, True), (10, False)])
def test_digits_may_be_labels_or_decimals(n_labels, are_read, tmp_path):
    """Decimals that are all among two labels would be a coincidence."""
    lines = [f"{n},{n % n_labels}" for n in range(80)]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    run, rows = train_quickly(tmp_path / "a.csv"), tmp_path / "a.csv"
    result = invoke("predict", run, rows, "--out", "-", code=0 if are_read else 2)
    assert ("may be one number or two" in result.stderr) != are_read
    assert predicted(run, rows, "--delimiter", ",").count("\n") == 81
    assert "nlpp" in told("evaluate", run, rows)


def test_pairs_and_words_are_read_as_they_were_written():
    for word in ('he said "hi", once', '"quoted"', 'an inch: 1"', "a, b", "plain"):
        assert words_in(f"first,{quote_if_needed(word)},last") == ["first", word, "last"]
    assert pairs_in('a=1,"b, c=2"') == {"a": "1", "b, c": "2"}
    with pytest.raises(SettingsError, match="may be given once, got 'a' twice in a=1,b=2,a=3"):
        pairs_in("a=1,b=2,a=3")


def test_names_and_words_with_a_comma_are_in_quotes(read, tmp_path):
    text = 'size,"town, land",code,answer\n' + "".join(
        f'{n % 7},"{"Rome, Italy" if n % 3 else "Paris, France"}",{n % 5},{n % 2}\n'
        for n in range(60)
    )
    table = read(text, drop='"town, land",size', kinds='"code"=category')
    assert (table.names, table.kinds) == (("code",), {"code": "category"})
    dropped = read(text, kinds='"town, land=category",code=number', drop="size")
    assert dropped.kinds == {"town, land": "category", "code": "number"}
    text = text.replace("\n3,", '\n"no, data",', 1)
    with pytest.raises(DataError, match=r"line 5 \(row 3\), column 'size': 'no, data' is not a"):
        read(text).learnt()
    assert "size missing" in read(text, missing='x,"no, data"').learnt().names
    how = ("--n-active", "9", "--kernel", "10*rbf", "--missing", '"no, data"')
    said = invoke("train", tmp_path / "a.csv", "--out", tmp_path / "run", *how).stdout
    assert "60 rows, 3 columns encoded as 4, 2 classes" in said
    shown = invoke("inspect", tmp_path / "run").output
    assert re.search("^columns +3, encoded as 4$", shown, re.M)
    assert '"Rome, Italy" (40), "Paris, France" (20)' in shown


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("names", [range(4), range(1, 5)])
def test_column_numbers_are_a_header(names, index, read, caplog):
    """As pandas writes an array."""
    values = np.random.default_rng(0).normal(size=(30, 3)).round(3)
    table = pd.DataFrame(
        np.column_stack([values, values[:, 0] > 0.0]).astype(object), columns=names
    )
    found = read(table.to_csv(index=index)).learnt()
    assert len(found.X) == 30
    assert found.label == str(names[-1])
    assert "is taken for the header" in caplog.text
    assert ("numbers its rows" in caplog.text) == index


@pytest.mark.parametrize(("first", "most", "shift"), [(0, 4, 0), (1, 1000, 0), (1, 1000, 0.5)])
def test_whole_numbers_are_no_column_numbers(first, most, shift, read):
    """Nor is any first row for a model."""
    rows = np.random.default_rng(0).integers(0, most, size=(30, 4)).astype(object)
    rows[0], rows[1:] = range(first, first + 4), rows[1:] + shift
    content = "".join("{},{},{},{}\n".format(*row) for row in rows)
    known = {"n_features": 4} if shift else {}
    assert len(read(content, **known).X) == 30
