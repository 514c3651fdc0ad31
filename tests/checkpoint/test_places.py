"""Bundles and generations in a directory, in memory, and in a server of the S3 interface."""

import json
import shutil
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest

import sparsegp
from sparsegp.checkpoint import (
    Generations,
    StorePath,
    folder_bytes,
    is_bundle,
    place_of,
    read_bundle,
    remove_bundle,
    sweep_bundle,
    write_bundle,
)
from sparsegp.checkpoint import arrays as group
from sparsegp.checkpoint.manifest import MANIFEST, Entry, entry_of, parse_manifest, spell_manifest
from sparsegp.errors import StoreError

KIND = "sparsegp-model"


@pytest.fixture(params=["directory", "memory", "s3"])
def root(request, tmp_path):
    """An empty place of each kind."""
    if request.param == "directory":
        return tmp_path
    if request.param == "memory":
        return place_of(f"memory://{uuid4().hex}")
    return place_of(request.getfixturevalue("s3")) / "run"


@pytest.fixture(params=["memory", "s3"])
def store(request):
    """An empty place in a store."""
    if request.param == "memory":
        return place_of(f"memory://{uuid4().hex}")
    return place_of(request.getfixturevalue("s3")) / "run"


def write(place, meta=None, arrays=None):
    write_bundle(place, meta or {}, arrays or {}, kind=KIND, version=1)


def read(place):
    return read_bundle(place, kind=KIND, versions={1})


def names(place):
    """All files below, by their names there."""
    if isinstance(place, StorePath):
        return sorted(place.find())
    return sorted(str(file.relative_to(place)) for file in place.rglob("*") if file.is_file())


def listed(place):
    return parse_manifest((place / MANIFEST).read_bytes(), place)


def delete(place, name):
    if isinstance(place, StorePath):
        place.delete([name])
    else:
        (place / name).unlink()


def move(source, target):
    """Copy all files of one place to another of any kind."""
    for name in names(source):
        if isinstance(target, Path):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes((source / name).read_bytes())


@pytest.fixture
def bundle(root):
    rng = np.random.default_rng(0)
    arrays = {"h": rng.standard_normal((30, 4)), "active": np.arange(30), "empty": np.zeros((0, 3))}
    write(root / "model", {"kernel": "rbf(1.5)", "labels": ["a", "ü"]}, arrays)
    return root / "model"


@pytest.mark.parametrize("rows", [1, 9])
def test_what_is_written_is_read(root, rows, monkeypatch):
    monkeypatch.setattr(group, "CHUNK_BYTES", 8 * 3 * 4)
    monkeypatch.setattr("sparsegp.checkpoint.objects.CHUNK_BYTES", 8 * 3 * 4)
    rng = np.random.default_rng(rows)
    arrays = {"x": rng.standard_normal((rows, 3)), "n": np.array(2, "u1"), "e": np.zeros((0, 2))}
    place, meta = root / "a" / "b", {"n": 3, "nested": {"x": [1.5, None, "ü"]}}
    assert not is_bundle(place)
    write(place, meta, arrays)
    assert is_bundle(place)
    found = read(place)
    assert found.meta == meta
    assert found.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(found.arrays[name], array)
    inside = (place / name for name in names(place))
    assert folder_bytes(place) == sum(len(each.read_bytes()) for each in inside)


def test_a_bundle_is_replaced_whole_and_removed_whole(root, bundle):
    write(bundle, {"n": 2}, {"x": np.ones(2)})
    assert read(bundle).meta == {"n": 2}
    assert list(read(bundle).arrays) == ["x"]
    assert len(names(bundle)) == 5
    write(root / "other", {"n": 3})
    remove_bundle(bundle)
    assert not is_bundle(bundle)
    assert {name.split("/")[0] for name in names(root)} == {"other"}
    remove_bundle(bundle)


def test_every_missing_truncated_longer_or_altered_file_is_found(bundle):
    for name in names(bundle):
        content = (bundle / name).read_bytes()
        flipped = bytes([content[0] ^ 1]) + content[1:]
        for altered in (content[:-1], content + b" ", flipped, b""):
            (bundle / name).write_bytes(altered)
            with pytest.raises(StoreError, match=name):
                read(bundle)
        delete(bundle, name)
        with pytest.raises(StoreError, match=f"{name} is missing"):
            read(bundle)
        (bundle / name).write_bytes(content)
    read(bundle)


def test_a_bundle_replaced_while_it_is_read_is_read_again(root, monkeypatch):
    place, decode, replacements = root / "model", group.decoded, [2]
    write(place, {"n": 1}, {"x": np.zeros(3)})

    def replace_first(source, files):
        if replacements:
            write(place, {"n": replacements.pop()}, {"x": np.ones(3)})
        return decode(source, files)

    monkeypatch.setattr("sparsegp.checkpoint.store.decoded", replace_first)
    found = read(place)
    assert found.meta == {"n": 2}
    np.testing.assert_array_equal(found.arrays["x"], np.ones(3))
    replacements.extend(range(10))
    with pytest.raises(StoreError, match="was replaced 5 times"):
        read(place)


def test_a_reader_goes_on_to_the_new_bundle_when_the_old_objects_go(store, monkeypatch):
    """The manifest was read before the replacement, the objects that it lists after that."""
    place, get = store / "model", StorePath.get
    write(place, {"n": 1}, {"x": np.zeros(3)})
    replacements = [2]

    def replace_first(self, limits):
        if replacements and "" not in limits:
            write(place, {"n": replacements.pop()}, {"x": np.ones(3)})
        return get(self, limits)

    monkeypatch.setattr(StorePath, "get", replace_first)
    assert read(place).meta == {"n": 2}


def test_what_is_no_bundle_is_never_replaced(root):
    if isinstance(root, Path):
        (root / "photos").mkdir()
    (root / "photos" / "cat.png").write_bytes(b"meow")
    (root / "letter").write_bytes(b"dear")
    for name in ("photos", "letter"):
        with pytest.raises(StoreError, match="not a bundle"):
            write(root / name)
    assert names(root) == ["letter", "photos/cat.png"]


def test_bundles_are_copied_between_directories_and_stores(store, tmp_path):
    arrays = {"x": np.arange(7.0)}
    write(tmp_path / "here", {"n": 1}, arrays)
    move(tmp_path / "here", store / "there")
    write(store / "first", {"n": 2}, arrays)
    move(store / "first", tmp_path / "back")
    for place, n in ((store / "there", 1), (tmp_path / "back", 2)):
        found = read(place)
        assert found.meta == {"n": n}
        np.testing.assert_array_equal(found.arrays["x"], arrays["x"])
        write(place, {"n": 3}, arrays)
        assert read(place).meta == {"n": 3}
        assert len(names(place)) == 5


# -- generations -----------------------------------------------------------------------------------


def save(generations, *steps):
    for step in steps:
        generations.save(step, {"step": step}, {"x": np.arange(step % 1000)})


def damage(place):
    """Alter the chunk of a checkpoint."""
    name = next(name for name in names(place) if name.endswith("x/c.0"))
    content = (place / name).read_bytes()
    (place / name).write_bytes(content[:3] + bytes([content[3] ^ 16]) + content[4:])


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def make(root, warnings):
    return lambda keep_last=3: Generations(root / "run", keep_last, on_warning=warnings.append)


def test_the_newest_are_kept_and_the_newest_is_loaded(make, root, warnings):
    assert make().load() is None
    make().sweep()
    save(make(2), 0, 40, 80, 123456789, 120)
    assert make().steps() == [80, 120]
    step, found = make().load()
    assert (step, found.meta) == (120, {"step": 120})
    np.testing.assert_array_equal(found.arrays["x"], np.arange(120))
    assert {name.split("/")[0] for name in names(root / "run")} == {"00000080", "00000120"}
    assert warnings == []


def test_damaged_ones_are_named_and_outlived_by_the_good(make, root, warnings):
    save(make(), 40, 80, 120)
    damage(root / "run" / "00000080")
    name = next(name for name in names(root / "run" / "00000120") if name.endswith("meta.json"))
    delete(root / "run" / "00000120", name)
    generations = make(2)
    assert generations.load()[0] == 40
    assert len(warnings) == 2
    assert f"00000120/{name} is missing" in warnings[0]
    assert "x/c.0 is altered" in warnings[1]
    save(generations, 100)
    assert generations.steps() == [40, 100]
    assert make().load()[0] == 100
    for step in (40, 100):
        damage(root / "run" / f"{step:08d}")
    with pytest.raises(StoreError, match=r"no checkpoint .*00000100/.*00000040/"):
        make().load()


def test_the_same_number_again(make, root):
    save(make(), 40, 80)
    damage(root / "run" / "00000080")
    save(make(), 80)
    assert make().load()[0] == 80


def test_unfinished_ones_are_told_and_swept(store):
    warnings = []
    generations = Generations(store, 3, on_warning=warnings.append)
    save(generations, 40, 80, 120)
    stray = f"{uuid4().hex}/arrays.zarr/x/c.0"
    store.put({f"00000040/{stray}": b"?", f"00000160/{stray}": b"?", "notes": b"mine"})
    store.delete(["00000120/manifest.json"])
    assert generations.steps() == [40, 80]
    assert generations.load()[0] == 80
    assert warnings == []
    before = names(store)
    generations.sweep()
    assert ["00000120 was not finished" in warnings[0], "00000160" in warnings[1]] == [True, True]
    gone = [name for name in before if name not in names(store)]
    assert {name.split("/")[0] for name in gone} == {"00000040", "00000120", "00000160"}
    assert generations.load()[0] == 80
    damage(store / "00000080")
    (store / "00000080" / MANIFEST).write_bytes(b"{}")
    assert not sweep_bundle(store / "00000080")
    assert len(names(store / "00000080")) == 5


# -- hostile stores --------------------------------------------------------------------------------


def reseal(place, change):
    """Write a manifest that fits the objects, after a change of what it lists."""
    entries = {name: entry_of((place / name).read_bytes()) for name in listed(place)}
    (place / MANIFEST).write_bytes(spell_manifest(change(entries)))


@pytest.mark.parametrize("name", ["../x", "/etc/hostname", "a/../../x", "", ".", "a\0", "a//b"])
def test_names_that_lead_elsewhere(store, name):
    write(store, {"n": 1}, {"x": np.zeros(3)})
    reseal(store, lambda entries: entries | {name: Entry(1, "0" * 64)})
    with pytest.raises(StoreError, match="names a file outside its directory"):
        read(store)


@pytest.mark.parametrize("size", [-1, "5", 1.5, None, True, 10**15, 3])
def test_sizes_that_are_none(store, size):
    write(store, {"n": 1}, {"x": np.zeros(3)})
    reseal(
        store,
        lambda entries: {name: Entry(size, entry.sha256) for name, entry in entries.items()},
    )
    with pytest.raises(StoreError, match=r"has no size|held in memory|is truncated or altered"):
        read(store)


@pytest.mark.parametrize(
    "change",
    [{"shape": [10**12, 3]}, {"codecs": [{"name": "bytes"}, {"name": "numcodecs.pickle"}]}],
)
def test_arrays_that_are_not_what_is_declared(store, change):
    write(store, {"n": 1}, {"x": np.zeros((4, 3))})
    name = next(name for name in names(store) if name.endswith("x/zarr.json"))
    content = json.loads((store / name).read_bytes()) | change
    (store / name).write_bytes(json.dumps(content).encode())
    reseal(store, dict)
    with pytest.raises(StoreError, match=r"arrays\.zarr cannot be read: "):
        read(store)


def test_a_manifest_that_lists_itself_does_not_harm_its_successor(store):
    write(store, {"n": 1})
    reseal(store, lambda entries: entries | {MANIFEST: Entry(1, "0" * 64)})
    write(store, {"n": 2})
    assert read(store).meta == {"n": 2}


def test_a_description_that_is_not_listed_is_not_read(store):
    write(store, {"n": 1})
    reseal(store, lambda entries: {k: v for k, v in entries.items() if "meta" not in k})
    with pytest.raises(StoreError, match="is not the description of a bundle"):
        read(store)


def test_a_manifest_that_is_too_large(store, monkeypatch):
    write(store)
    monkeypatch.setattr(StorePath.read_bytes, "__defaults__", (100,))
    with pytest.raises(StoreError, match=r"manifest\.json is altered: at most 100 bytes"):
        read(store)


# -- models ----------------------------------------------------------------------------------------


def test_models_and_estimators(root, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)), rng.integers(0, 3, 60)
    fitted = sparsegp.SparseGPClassifier(n_active=8, posterior="adf").fit(X, y)
    expected = fitted.predict_proba(X)
    for _ in range(2):
        fitted.model_.save(root / "m")
        fitted.save(root / "e")
    np.testing.assert_array_equal(sparsegp.load(str(root / "m")).predict_proba(X), expected)
    np.testing.assert_array_equal(sparsegp.load(str(root / "e")).predict_proba(X), expected)
    found = sparsegp.SparseGPClassifier.load(str(root / "e"))
    np.testing.assert_array_equal(found.predict_proba(X), expected)
    assert found.get_params() == fitted.get_params() | {"random_state": found.random_state}
    move(root / "m", tmp_path / "copy")
    np.testing.assert_array_equal(sparsegp.load(tmp_path / "copy").predict_proba(X), expected)
    shutil.rmtree(tmp_path / "copy")
    with pytest.raises(StoreError, match="copy does not exist"):
        sparsegp.load(tmp_path / "copy")
