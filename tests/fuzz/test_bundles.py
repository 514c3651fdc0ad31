"""Checkpoints and models: a change is refused by its checksum, a forgery by what it declares."""

import json
import os
import shutil
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
from sparsegp.checkpoint import read_bundle, write_bundle
from sparsegp.checkpoint.manifest import MANIFEST, entry_of, spell_manifest
from sparsegp.errors import SparseGPError, StoreError
from tests.fuzz.damage import DEEP, altered, altered_folder, nasty
from tests.fuzz.limits import campaign, outcome

KIND = "sparsegp-checkpoint"
LONG = int(os.environ.get("SPARSEGP_FUZZ", "500"))
"""Bundles of each kind in the long campaign."""


def contents(folder):
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@cache
def checkpoint():
    arrays = {"h": np.arange(12.0).reshape(4, 3), "active": np.arange(4), "empty": np.zeros((0, 3))}
    arrays |= {"flag": np.array([True, False]), "one": np.array(2, "f4")}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "b"
        write_bundle(path, {"kernel": "rbf(1.5)", "n": [1, 2]}, arrays, kind=KIND, version=1)
        return contents(path)


@cache
def model():
    """The files of a small model, rows, and what it predicts there."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), rng.integers(0, 3, 40)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        fitted = sparsegp.SparseGPClassifier(n_active=5, posterior="adf").fit(X, y)
        fitted.model_.save(path)
        return contents(path), X, fitted.predict_proba(X)


def sealed(files):
    """Return the files with a manifest that fits them."""
    listed = {name: entry_of(data) for name, data in files.items() if data is not None}
    listed.pop(MANIFEST, None)
    return files | {MANIFEST: spell_manifest(listed)}


@st.composite
def forged(draw):
    """A checkpoint whose JSON says something else, with a manifest that fits it."""
    files = dict(checkpoint())
    name = draw(st.sampled_from(sorted(name for name in files if name != MANIFEST)))
    if name.endswith(".json"):
        value = json.loads(files[name])
        value = (
            draw(altered(value))
            if draw(st.booleans())
            else value | {draw(st.sampled_from(sorted(value))): draw(nasty)}
        )
        files[name] = draw(st.sampled_from([json.dumps(value), json.dumps(value), DEEP])).encode()
    else:
        files[name] = draw(st.binary(max_size=60))
    return sealed(files)


@st.composite
def forged_model(draw):
    """A model whose JSON says something else, with a manifest that fits it."""
    files = dict(model()[0])
    value = json.loads(files["meta.json"])
    parts = {name: part for name, part in value.items() if isinstance(part, dict)}
    if draw(st.booleans()) and parts:
        name = draw(st.sampled_from(sorted(parts)))
        value[name] = draw(altered(parts[name]))
    else:
        value = draw(altered(value))
    files["meta.json"] = json.dumps(value).encode()
    return sealed(files)


@st.composite
def misnamed(draw):
    """A checkpoint whose manifest lists files with other names or sizes."""
    files = dict(checkpoint())
    listed = json.loads(files[MANIFEST])["files"]
    name = draw(st.sampled_from(sorted(listed)))
    other = draw(st.sampled_from(["../x", "/etc/hostname", "a/../../x", "", ".", "a\0", "\ud800"]))
    listed[draw(st.sampled_from([other, name]))] = draw(
        st.sampled_from([listed[name], None]) | nasty
    )
    dumped = json.dumps(listed, indent=1) + "\n"
    seal = entry_of(dumped.encode()).sha256
    manifest = json.dumps({"files": listed, "sha256": seal}, indent=1) + "\n"
    return files | {MANIFEST: manifest.encode()}


def placed(files, read):
    """Read a folder of these files; None becomes a link that leads out of it."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                (folder.parent / f"{folder.name}-elsewhere").write_bytes(checkpoint()["meta.json"])
                path.symlink_to(folder.parent / f"{folder.name}-elsewhere")
            else:
                path.write_bytes(content)
        return outcome(lambda: read(folder), folder.name)
    finally:
        shutil.rmtree(folder)
        (folder.parent / f"{folder.name}-elsewhere").unlink(missing_ok=True)


def check_damaged(files):
    found = placed(files, lambda path: read_bundle(path, kind=KIND, versions={1}))
    changed = any(files.get(name) != content for name, content in checkpoint().items())
    assert isinstance(found, StoreError) == changed, found


def check_forged(files):
    found = placed(files, lambda path: read_bundle(path, kind=KIND, versions={1}))
    if isinstance(found, Exception):
        assert isinstance(found, StoreError)
        return
    held = sum(array.nbytes for array in found.arrays.values())
    assert held <= sum(map(len, files.values()))
    assert all(array.dtype.kind in "biufc" for array in found.arrays.values())
    assert json.loads(json.dumps(found.meta, allow_nan=False)) == found.meta


def check_model(files):
    whole, X, expected = model()
    found = placed(files, lambda path: sparsegp.load(path).predict_proba(X))
    if any(files.get(name) != content for name, content in whole.items()):
        assert isinstance(found, StoreError), found
    else:
        np.testing.assert_array_equal(found, expected)


def check_forged_model(files):
    _, X, _ = model()
    found = placed(files, sparsegp.load)
    if isinstance(found, Exception):
        assert isinstance(found, StoreError), found
        return
    with np.errstate(all="ignore"):  # scalings and kernels may say anything that is a number
        predicted = outcome(lambda: found.predict_proba(X), "")
    if not isinstance(predicted, Exception):
        known = predicted[np.isfinite(predicted).all(axis=1)]
        np.testing.assert_allclose(known.sum(axis=1), 1.0)
    else:
        assert isinstance(predicted, SparseGPError), predicted


@cache
def kinds():
    return {
        "damaged": (altered_folder(checkpoint()), check_damaged),
        "forged": (forged(), check_forged),
        "forged model": (forged_model(), check_forged_model),
        "misnamed": (misnamed(), check_forged),
        "model": (altered_folder(model()[0]), check_model),
    }


@pytest.fixture(scope="module", autouse=True)
def imported():
    """Libraries are imported before memory is limited, and undamaged bundles are read."""
    check_damaged(checkpoint())
    check_model(model()[0])


KINDS = ["damaged", "forged", "forged model", "misnamed", "model"]


@pytest.mark.parametrize("kind", KINDS)
def test_bundles(kind):
    campaign(*kinds()[kind], 30)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_bundles(kind):
    campaign(*kinds()[kind], LONG)
