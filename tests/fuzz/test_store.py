"""Checkpoints and models: a change is refused by its checksum, a forgery by what it declares."""

import json
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

if sys.platform != "linux":
    pytest.skip("memory is limited by what Linux offers", allow_module_level=True)

import sparsegp
from sparsegp.errors import SparseGPError, StoreError
from sparsegp.store import CHECKPOINT, folder_of, read_file, write_file
from tests.fuzz.damage import DEEP, altered, cut_and_flipped, nasty
from tests.fuzz.limits import campaign, campaigns, outcome, traced  # noqa: F401 - a fixture
from tests.store.archives import forge, members_of

NAME = "file.zarr.zip"


@cache
def checkpoint():
    """The members of a small checkpoint."""
    arrays = {"h": np.arange(12.0).reshape(4, 3), "active": np.arange(4), "empty": np.zeros((0, 3))}
    arrays |= {"flag": np.array([True, False]), "one": np.array(2, "f4")}
    with tempfile.TemporaryDirectory() as folder:
        write_file(folder_of(folder), NAME, CHECKPOINT, {"kernel": "rbf(1.5)", "n": [1]}, arrays)
        return members_of(Path(folder) / NAME)


@cache
def model(method):
    """The bytes of a small model, its members, rows, and what it predicts there."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), np.array(["a", "b", "c"])[rng.integers(0, 3, 40)]
    kind = {"method": "laplace"} if method == "laplace" else {"n_active": 5, "posterior": method}
    with tempfile.TemporaryDirectory() as folder:
        fitted = sparsegp.train(X, y, **kind)
        fitted.save(Path(folder) / NAME)
        path = Path(folder) / NAME
        return path.read_bytes(), members_of(path), X, fitted.predict_proba(X)


def is_json(content):
    try:
        return isinstance(json.loads(content), dict | list)
    except ValueError:
        return False


@st.composite
def altered_members(draw, members):
    """Members one of which says something else."""
    name = draw(st.sampled_from(sorted(key for key in members if members[key])))
    content = members[name]
    if name.endswith("zarr.json"):
        value = json.loads(content)
        change = altered(value["attributes"]["meta"]) if name == "zarr.json" else altered(value)
        found = draw(st.one_of(change, altered(value), nasty))
        if name == "zarr.json" and draw(st.booleans()):
            found = value | {"attributes": value["attributes"] | {"meta": found}}
        content = draw(st.sampled_from([json.dumps(found)] * 9 + [DEEP])).encode()
    elif is_json(content):
        content = json.dumps(draw(altered(json.loads(content)))).encode()
    else:
        width = draw(st.sampled_from([8, 8, 4]))
        numbers = np.frombuffer(content, f"f{width}" if len(content) % width == 0 else "u1").copy()
        place = draw(st.integers(0, len(numbers) - 1))
        floats = st.sampled_from([0, 255, 1e-300, 1e30, 1e300, np.inf, -1, np.nan])
        with np.errstate(all="ignore"):
            numbers[place] = draw(floats if numbers.dtype.kind == "f" else st.integers(0, 255))
        content = numbers.tobytes()
    return members | {name: content}


def placed(write, read):
    """Read a file that `write` made."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        write(Path(folder) / NAME)
        return outcome(lambda: read(Path(folder) / NAME), NAME)


def check_forged(members):
    found = placed(
        lambda path: forge(path, members),
        lambda path: read_file(folder_of(path.parent), path.name, CHECKPOINT),
    )
    if isinstance(found, Exception):
        assert isinstance(found, StoreError)
        return
    assert sum(array.nbytes for array in found.arrays.values()) <= sum(map(len, members.values()))
    assert all(array.dtype.kind in "biuf" for array in found.arrays.values())


def check_model(content):
    _, _, X, expected = model("all")
    found = placed(
        lambda path: path.write_bytes(content), lambda path: sparsegp.load(path).predict_proba(X)
    )
    if not isinstance(found, StoreError):
        np.testing.assert_array_equal(found, expected)


def check_forged_model(members):
    X = model("all")[2]
    found = placed(lambda path: forge(path, members), sparsegp.load)
    if isinstance(found, Exception):
        assert isinstance(found, StoreError), found
        return
    predicted = outcome(lambda: found.predict_proba(X), "")
    if isinstance(predicted, Exception):
        assert isinstance(predicted, SparseGPError), predicted
    else:
        assert np.isfinite(predicted).all()
        np.testing.assert_allclose(predicted.sum(axis=1), 1.0)


@pytest.fixture(scope="module", autouse=True)
def imported():
    """Libraries are imported before memory is limited, and undamaged files are read."""
    check_forged(checkpoint())
    check_model(model("all")[0])


@campaigns(10, 40)
@pytest.mark.parametrize("kind", ["checkpoint", "model", "adf", "all", "laplace"])
def test_files(kind, examples):
    """A checkpoint, the bytes of a model, and the members of models of three methods."""
    if kind == "checkpoint":
        campaign(altered_members(checkpoint()), check_forged, examples)
    elif kind == "model":
        campaign(cut_and_flipped(model("all")[0]), check_model, examples)
    else:
        campaign(altered_members(model(kind)[1]), check_forged_model, examples)
