"""Labels to codes and back; and numbers of a regression."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sparsegp.data import Numbers, encode, encode_with, table_from_arrays, warn_of_numbers
from sparsegp.data.labels import labels_from_text
from sparsegp.data.targets import as_numbers
from sparsegp.errors import DataError

KINDS = {
    "int": (np.array([3, -1, 3, 7]), [-1, 3, 7]),
    "uint8": (np.array([3, 1, 3, 7], np.uint8), [1, 3, 7]),
    "str": (np.array(["b", "a", "b", "ç"]), ["a", "b", "ç"]),
    "bytes": (np.array([b"b", b"a", b"b"]), ["a", "b"]),
    "objects of bytes": (np.array(["ü".encode(), b"a"], object), ["a", "ü"]),
    "bool": (np.array([True, False, True, True]), [False, True]),
    "whole floats": (np.array([2.0, 1.0, 2.0, 10.0]), [1, 2, 10]),
    "objects": (np.array(["b", "a", "b", "c"], object), ["a", "b", "c"]),
    "objects of bools": (np.array([True, False, True], object), [False, True]),
    "objects of numbers": (np.array([2, np.float64(1.0), 2], object), [1, 2]),
    "mixed": (np.array([10, "a", 2, "a"], object), ["10", "2", "a"]),
    "large": (np.array([10**30, 10**19, 10**30], object), [str(10**19), str(10**30)]),
    "float16": (np.array([2.0, 1.0, 2.0, 10.0], np.float16), [1, 2, 10]),
    "column": (np.array([[2], [1], [2]]), [1, 2]),
}
if hasattr(np.dtypes, "StringDType"):  # from NumPy 2
    KINDS["StringDType"] = np.array(["b", "ç", "b"], np.dtypes.StringDType()), ["b", "ç"]


@pytest.mark.parametrize("kind", KINDS)
def test_encode(kind):
    y, expected = KINDS[kind]
    classes, codes = encode(y, "y")
    assert classes.tolist() == expected
    assert [type(c) for c in classes.tolist()] == [type(c) for c in expected]
    assert codes.dtype == np.int64
    again, unseen = encode_with(classes, y)
    np.testing.assert_array_equal(again, codes)
    assert unseen == []
    unlike = "bytes", "whole floats", "float16", "objects of numbers"  # in writing
    if not kind.endswith(unlike):
        assert [str(c) for c in classes[codes]] == list(map(str, y.ravel().tolist()))


@pytest.mark.parametrize(
    ("classes", "y", "codes", "unseen"),
    [
        ([1, 5], [5, 9, 1, 7, 9], [1, -1, 0, -1, -1], [7, 9]),
        (["1", "a"], [1, 2], [0, -1], [2]),
        ([1, 5], ["5", "x"], [1, -1], ["x"]),
        ([8, 9, 10], ["08", "10", "x"], [0, 2, -1], ["x"]),
    ],
)
def test_unseen_labels(classes, y, codes, unseen):
    found = encode_with(np.array(classes), np.array(y))
    assert (found[0].tolist(), found[1]) == (codes, unseen)
    with pytest.raises(DataError, match=r"y has 0.5 to 1.5; labels in another column need"):
        encode_with(np.array(classes), np.array([0.5, 1.5]))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "Z has no labels"),
        (np.array(["a", "a\0"], object), "without NUL at the end"),
        (np.array([4, 4, 4]), r"one class only, 4, in Z \(3 rows\)"),
        (np.array([1.0, np.nan, np.nan]), "row 1 of Z has nan"),
        (np.array(["a", "b", None], object), "row 2 of Z has None"),
        (np.array(["a", float("nan")], object), "row 1 of Z has nan"),
        (np.array([1, pd.NA], object), "row 1 of Z has <NA>"),
        (np.ma.masked_equal([1, 2, 3], 2), "row 1 of Z has None"),
        (np.array([1, 1 << 63], np.uint64), "64 bits"),
        (np.array([1e19, 1e20]), "64 bits"),
        ([2**53, 2**53 + 1, 1.0], r"below 2\*\*53 as floats"),  # of which two coincide
        (np.array([1.0, 2.5, 1.0]), "whole numbers .* Z has 1.0 to 2.5; .*task=regression"),
        (np.arange(100), "Z has 100 classes in 100 rows.*label_column"),
        (np.arange(400).astype(str), "Z has 400 classes in 400 rows"),
        (np.arange(64).repeat(3), "on average fewer than 5 for each; numbers to predict"),
        (np.array(["a", "b" * 300]), "Z must be text, .* at most 200"),
        (np.array([b"a", b"\xff"]), "Z must be text"),
        (np.array([b"a", b"\xff"], object), "Z must be text"),
        (np.array([0x110000, 65], "<u4").view("<U1"), "Z must be text"),
        (np.array([65, 0xD800], ">u4").view(">U1"), "Z must be text"),
        (np.array([1 + 1j, 2]), "Z are complex128"),
        (np.ones((2, 2)), r"Z are float64 of shape \(2, 2\)"),
    ],
)
def test_refused(y, message):
    with pytest.raises(DataError, match=message):
        encode(y, "Z")


@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        (["1", "2.", "3.0", "+4", "1e2"], [1, 2, 3, 4, 100]),
        *(([str(2**60 + 1)], [2**60 + 1]), (["1", "2.5"], [1, 2.5])),
        *((words, words) for words in (["1", "b"], ["007", "10"], [str(10**20), str(10**20 + 1)])),
    ],
)
def test_labels_written_as_text(texts, labels):
    assert labels_from_text(texts, "Z").tolist() == labels


def test_numbers():
    y = np.array([1.0, 2.0, 6.0])
    numbers = Numbers.of(y, "Z")
    target = numbers.encode(y, "Z")
    assert (target.mean(), target.std()) == pytest.approx((0.0, 1.0))
    np.testing.assert_allclose(numbers.decode(target), y)
    assert as_numbers(np.array(["08", "10"]), "Z").tolist() == [8.0, 10.0]
    assert as_numbers(np.array(["36600000000000000000", "10"]), "Z").tolist() == [3.66e19, 10.0]
    assert as_numbers(np.array(["$1,234.50", "$20", "-$3"]), "Z").tolist() == [1234.5, 20.0, -3.0]
    assert as_numbers(np.array(["1.234,5 €", "7 €"]), "Z").tolist() == [1234.5, 7.0]
    for same in ([4, 4], [0.1] * 6):
        assert Numbers.of(np.array(same), "Z").scale == 1.0
    for bad, message in {
        (1.0, np.inf): "inf, in row 1",
        ("1.5", "a", "2"): "regression needs numbers as labels; Z has 'a' in row 1 ",
        ("1", "2"): "Z has '1' in row 0 ",
        ("$1.5", "2 kg"): r"Z has '\$1.5' in row 0 .*: write plain numbers of one unit",
        ("$1.5", "unknown", "2 kg"): "Z has 'unknown' in row 1 .*: correct it",
        (1e-170, 2e-170): "standard deviation at least 1e-100, found mean 1.5e-170",
        (1e120, 2e120): "at most 1e\\+100, ",
    }.items():
        with pytest.raises(DataError, match=message):
            Numbers.of(np.array(bad), "Z")
    with pytest.raises(DataError, match="Z has no labels"):
        numbers.encode(None, "Z")


def test_numbers_in_words_have_the_form_of_training():
    numbers = Numbers.of(np.array(["$1,500", "$2.50", "$20"], dtype=object), "Z")
    assert numbers.form == "$#.#"
    found = numbers.decode(numbers.encode(np.array(["$1,250", "7", "-$3"]), "Z"))
    np.testing.assert_allclose(found, [1250.0, 7.0, -3.0])
    np.testing.assert_allclose(numbers.decode(numbers.encode([1, 2.5], "Z")), [1.0, 2.5])
    for other in ("7 kg", "\N{EURO SIGN}7"):
        with pytest.raises(DataError, match=f"Z has '{other}' in row 1 "):
            numbers.encode(np.array(["$5", other]), "Z")
    with pytest.raises(DataError, match=r"Z has '\$5' in row 0 "):
        Numbers.of(np.array([1.0, 2.0]), "Z").encode(np.array(["$5", "$6"]), "Z")


MANY = np.arange(64).repeat(6)


@pytest.mark.parametrize(
    ("y", "is_regression", "message"),
    [
        (MANY % 20, False, ""),
        (MANY.astype(str), False, ""),
        (MANY, False, "Z has 64 numbers as labels, each a class; numbers to predict need a reg"),
        (MANY, True, ""),
        (MANY % 20 / 2, True, ""),
        (MANY % 20, True, "Z has only 20 numbers as labels, and this is a regression; classes"),
    ],
)
def test_many_numbers_as_classes_and_few_in_a_regression_raise_a_warning(
    y, is_regression, message, caplog
):
    warn_of_numbers(y, "Z", is_regression=is_regression)
    assert message in caplog.text
    assert bool(caplog.text) == bool(message)


def test_words_that_differ_only_in_case_or_spaces_raise_a_warning(caplog):
    words = np.array(["pos", "neg", "Pos", "POS ", "other"] * 9)
    table = table_from_arrays(np.ones((45, 1)), words)
    replace(table, classes=table.codes()[0]).codes()
    (message,) = caplog.messages
    assert "case or spaces, each a class: 'POS ', 'Pos', 'pos'; write them alike" in message


@pytest.mark.parametrize("texts", [["1_1", "11", "2_3"], ["\uff11", "1"], ["\u0663", "3"]])
def test_only_plain_digits_are_numbers(texts):
    assert labels_from_text(texts, "y").tolist() == texts


def test_whole_numbers_are_the_same_however_they_are_written():
    found, unseen = encode_with(np.array([0, 1, 8]), np.array(["8.0", "08", "0.0", "1e0", "x"]))
    assert (found.tolist(), unseen) == ([2, 2, 0, 1, -1], ["x"])
