import logging

import numpy as np
import pytest

from sparsegp.checkpoint import Generations, files, write_bundle
from sparsegp.errors import SettingsError, StoreError


def save(generations, *steps):
    for step in steps:
        generations.save(step, {"step": step}, {"x": np.arange(step % 1000)})


def damage(root, step):
    path = root / f"{step:08d}/arrays.zarr/x/c.0"
    content = bytearray(path.read_bytes())
    content[3] ^= 16
    path.write_bytes(content)


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def make(tmp_path, warnings):
    return lambda keep_last=3: Generations(tmp_path / "run", keep_last, on_warning=warnings.append)


def test_nothing_yet(make, tmp_path):
    assert make().load() is None
    make().sweep()
    (tmp_path / "run").mkdir()
    (tmp_path / "run/notes").write_text("mine")
    (tmp_path / "run/120").mkdir()
    assert make().load() is None
    assert make().steps() == []


@pytest.mark.parametrize("keep_last", [0, -1])
def test_keep_last_is_checked(tmp_path, keep_last):
    with pytest.raises(SettingsError, match=f"at least 1, got {keep_last}"):
        Generations(tmp_path, keep_last)


def test_negative_steps_are_refused(make):
    with pytest.raises(ValueError, match="negative"):
        save(make(), -1)


@pytest.mark.parametrize("keep_last", [1, 2, 5])
def test_the_newest_are_kept_and_the_newest_is_loaded(make, tmp_path, keep_last):
    generations = make(keep_last)
    save(generations, 0, 40, 80, 120, 123456789)
    expected = [0, 40, 80, 120, 123456789][-keep_last:]
    assert generations.steps() == expected
    assert sorted(item.name for item in (tmp_path / "run").iterdir()) == [
        f"{step:08d}" for step in expected
    ]


def test_load_gives_the_newest(make, warnings):
    save(make(), 40, 80, 120)
    step, bundle = make().load()
    assert step == 120
    assert bundle.meta == {"step": 120}
    np.testing.assert_array_equal(bundle.arrays["x"], np.arange(120))
    assert warnings == []


def test_damaged_ones_are_passed_over_with_a_warning_each(make, tmp_path, warnings):
    save(make(), 40, 80, 120)
    damage(tmp_path / "run", 80)
    (tmp_path / "run/00000120/manifest.json").unlink()
    step, bundle = make().load()
    assert (step, bundle.meta) == (40, {"step": 40})
    assert len(warnings) == 2
    assert "00000120/manifest.json is missing" in warnings[0]
    assert "00000080/arrays.zarr/x/c.0 is altered" in warnings[1]


def test_no_good_one_is_an_error_with_all_reasons(make, tmp_path, warnings):
    save(make(), 40, 80)
    damage(tmp_path / "run", 40)
    damage(tmp_path / "run", 80)
    with pytest.raises(StoreError, match=r"no checkpoint .*00000080/.*00000040/"):
        make().load()
    assert warnings == []


def test_another_kind_of_bundle_is_passed_over(make, tmp_path, warnings):
    save(make(), 40)
    write_bundle(tmp_path / "run/00000080", {}, {}, kind="sparsegp-model", version=1)
    assert make().load()[0] == 40
    assert "must be a sparsegp-checkpoint" in warnings[0]


def test_after_a_fall_back_the_good_one_outlives_the_damaged(make, tmp_path):
    save(make(), 40, 80, 120)
    damage(tmp_path / "run", 80)
    damage(tmp_path / "run", 120)
    generations = make(2)
    assert generations.load()[0] == 40
    save(generations, 100)
    assert generations.steps() == [40, 100]
    assert make().load()[0] == 100


def test_an_incomplete_one_of_the_same_number_is_replaced(make, tmp_path):
    save(make(), 40)
    path = tmp_path / "run/00000040"
    (path / "manifest.json").unlink()
    (path / "arrays.zarr").rename(path / "lost")
    save(make(), 40)
    assert make().load()[0] == 40


def test_the_last_saved_is_the_newest(make):
    save(make(), 40, 80, 120, 60)
    assert make().steps() == [40, 60]
    assert make().load()[0] == 60


def test_one_that_was_being_replaced_counts(make, tmp_path):
    save(make(), 40, 80)
    path = tmp_path / "run/00000080"
    path.rename(files.beside(path, "old"))
    assert make().load()[0] == 80
    make().sweep()
    assert path.exists()


def test_sweep_removes_only_strays_of_ours(make, tmp_path):
    save(make(), 40)
    run = tmp_path / "run"
    stray = files.beside(run / "00000080", "tmp")
    (stray / "arrays.zarr").mkdir(parents=True)
    files.beside(run / "00000040", "old").mkdir()
    others = {".x.tmp", "00000080.tmp", ".00000080.1234.tmp", files.beside(run / "m", "tmp").name}
    for name in others:
        (run / name).mkdir()
    make().sweep()
    assert {item.name for item in run.iterdir()} == others | {"00000040"}
    assert make().load()[0] == 40


def test_an_old_one_that_cannot_go_is_a_warning(make, monkeypatch, warnings):
    generations = make(1)
    save(generations, 40)

    def refuse(path):
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr("sparsegp.checkpoint.store.discard", refuse)
    save(generations, 80)
    assert len(warnings) == 1
    assert "00000040: Device or resource busy" in warnings[0]
    assert make().load()[0] == 80


def test_a_save_that_does_not_check_deletes_nothing(make, monkeypatch, tmp_path):
    save(make(), 40, 80)
    generations = make(1)

    def lose(path, meta, arrays, **_):
        path.mkdir()

    monkeypatch.setattr("sparsegp.checkpoint.generations.write_bundle", lose)
    with pytest.raises(StoreError, match="00000060"):
        save(generations, 60)
    assert generations.steps() == [40, 60, 80]
    assert make().load()[0] == 80


def test_warnings_go_to_the_log_by_default(tmp_path, caplog):
    generations = Generations(tmp_path, 2)
    save(generations, 40, 80)
    damage(tmp_path, 80)
    with caplog.at_level(logging.WARNING):
        assert generations.load()[0] == 40
    assert "00000080" in caplog.text


def test_a_root_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    generations = Generations(tmp_path / "file", 1)
    for call in (generations.load, generations.sweep, lambda: save(generations, 40)):
        with pytest.raises(StoreError, match="file"):
            call()
