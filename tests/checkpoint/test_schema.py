import numpy as np
import pytest

from sparsegp.checkpoint import check_arrays, restoring
from sparsegp.errors import SettingsError, StoreError

WANTED = {"x": "f d p", "target": "iu d", "precision?": "f d *", "scale": "f"}


@pytest.fixture
def arrays():
    return {"x": np.ones((4, 2)), "target": np.arange(4), "scale": np.array(2.0)}


def test_lengths_of_axes(arrays, tmp_path):
    assert check_arrays(tmp_path, arrays, WANTED) == {"d": 4, "p": 2}
    arrays["precision"] = np.ones((4, 7))
    assert check_arrays(tmp_path, arrays, WANTED) == {"d": 4, "p": 2}


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("x", None, "holds no array 'x'"),
        ("x", np.ones(4), r"must be of kind f and shape \(d, p\)"),
        ("x", np.ones((4, 2), dtype=int), r"it is int64 of shape \(4, 2\)"),
        ("target", np.arange(5), r"shape \(d\), d = 4; it is int64 of shape \(5,\)"),
        ("precision", np.ones((3, 1)), r"'precision' of .* d = 4"),
        ("scale", np.ones(1), r"kind f and shape \(\)"),
        ("x", np.full((4, 2), np.nan), "'x' of .* not finite"),
    ],
)
def test_what_does_not_fit(arrays, tmp_path, name, array, message):
    arrays[name] = array
    if array is None:
        del arrays[name]
    with pytest.raises(StoreError, match=message):
        check_arrays(tmp_path, arrays, WANTED)


@pytest.mark.parametrize("error", [KeyError("k"), TypeError("t"), SettingsError("n\nm")])
def test_errors_of_the_parts_name_the_place(tmp_path, error):
    message = "does not hold what its reader needs"
    with pytest.raises(StoreError, match=message) as caught, restoring(tmp_path):
        raise error
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_others_pass(tmp_path):
    with pytest.raises(StoreError, match=r"^as it was$"), restoring(tmp_path):
        raise StoreError("as it was")
    with pytest.raises(ZeroDivisionError), restoring(tmp_path):
        raise ZeroDivisionError
