"""Labels to codes and back, and to JSON."""

import json

import numpy as np
import pytest

from sparsegp.data import classes_from_json, classes_to_json, encode, encode_with
from sparsegp.data.labels import labels_from_text
from sparsegp.errors import DataError

KINDS = {
    "int": (np.array([3, -1, 3, 7]), [-1, 3, 7]),
    "uint8": (np.array([3, 1, 3, 7], np.uint8), [1, 3, 7]),
    "str": (np.array(["b", "a", "b", "c"]), ["a", "b", "c"]),
    "bool": (np.array([True, False, True, True]), [False, True]),
    "whole floats": (np.array([2.0, 1.0, 2.0, 10.0]), [1, 2, 10]),
    "floats": (np.array([2.5, 1.0, 2.5, 10.0]), [1.0, 2.5, 10.0]),
    "objects": (np.array(["b", "a", "b", "c"], object), ["a", "b", "c"]),
    "objects of bools": (np.array([True, False, True], object), [False, True]),
    "objects of numbers": (np.array([2, np.float64(1.0), 2], object), [1, 2]),
    "mixed": (np.array([10, "a", 2, "a"], object), ["10", "2", "a"]),
}


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
    stored = classes_from_json(json.loads(json.dumps(classes_to_json(classes))))
    assert stored.dtype.kind == classes.dtype.kind
    np.testing.assert_array_equal(stored, classes)
    if kind != "mixed":
        np.testing.assert_array_equal(classes[codes], y)


def test_unseen_labels():
    codes, unseen = encode_with(np.array([1, 5]), np.array([5, 9, 1, 7, 9]))
    assert codes.tolist() == [1, -1, 0, -1, -1]
    assert unseen == [7, 9]
    codes, unseen = encode_with(np.array(["1", "a"]), np.array([1, 2]))
    assert codes.tolist() == [0, -1]
    assert unseen == [2]
    codes, unseen = encode_with(np.array([1, 5]), np.array(["5", "x"]))
    assert codes.tolist() == [1, -1]
    assert unseen == ["x"]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "Z has no labels"),
        (np.array([4, 4, 4]), "one class only, 4, in all 3 rows of Z"),
        (np.array(["a", "a"]), "one class only, 'a'"),
        (np.array([1.0, np.nan, np.nan]), "row 1 of Z has nan"),
        (np.array(["a", "b", None], object), "row 2 of Z has None"),
        (np.array(["a", float("nan")], object), "row 1 of Z has nan"),
        (np.array([1, 1 << 63], np.uint64), "does not fit 64 bits"),
    ],
)
def test_refused(y, message):
    with pytest.raises(DataError, match=message):
        encode(y, "Z")


def test_marks_of_data_frames_for_missing_values():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(DataError, match="row 1 of Z has <NA>"):
        encode(np.array([1, pandas.NA], object), "Z")
    with pytest.raises(DataError, match="row 0 of Z has nan"):
        encode_with(np.array([1, 2]), np.array([np.nan, 1.0]), "Z")


def test_stored_classes_of_several_types():
    with pytest.raises(DataError, match="one type; found int, str"):
        classes_from_json([1, "a"])
    with pytest.raises(DataError, match="found nothing"):
        classes_from_json([])


def test_labels_written_as_text():
    assert labels_from_text(["1", "2.", "3.0"]).tolist() == [1, 2, 3]
    assert labels_from_text([str(2**60 + 1)]).tolist() == [2**60 + 1]
    assert labels_from_text(["1", "2.5"]).tolist() == [1, 2.5]
    assert labels_from_text(["1", "b"]).tolist() == ["1", "b"]
    large = [str(10**20), str(10**20 + 1)]
    assert labels_from_text(large).tolist() == large


def test_whole_numbers_that_are_too_large_stay_apart():
    for labels in ([1e19, 1e20, 1e19], [10**19, 10**20, 10**19], [10**30, 1, 10**30]):
        classes, codes = encode(np.array(labels, dtype=object), "y")
        assert len(classes) == 2
        assert codes[0] == codes[2] != codes[1]
    classes, codes = encode(np.array([1e19, 1e20]), "y")
    assert classes.tolist() == [1e19, 1e20]


@pytest.mark.parametrize(
    "labels",
    [
        np.array([b"a", b"\xff"]),
        np.array([0x110000, 65], "<u4").view("<U1"),
        np.array([65, 0xD800], ">u4").view(">U1"),
    ],
    ids=["bytes", "beyond", "half"],
)
def test_what_is_no_text(labels):
    with pytest.raises(DataError, match="labels of y must be text"):
        encode(labels, "y")
