"""The folder of a run: whose it is, which checkpoints are kept, and what is passed over."""

import json
import os
from types import SimpleNamespace
from uuid import uuid4

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import sparsegp
from sparsegp.errors import SettingsError, StoreError
from sparsegp.progress import Progress
from sparsegp.store import (
    MODEL,
    Directory,
    RunDirectory,
    folder_of,
    read_progress,
    read_run,
    write_file,
)
from tests.processes import checkpoints
from tests.runs import Stopper, assert_same, data_for, train
from tests.store.test_folders import get, put
from tests.store.writer import RUN


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def begin(place, warnings):
    """Claim the run, for this process or for one that the lock does not keep out."""

    def begin(keep_last=3, resume=True, run=RUN):
        found = RunDirectory(place, keep_last, warnings.append)
        found.open(run, resume)
        return found

    return begin


def directory(place, overwrite=False):
    """Return the folder of a run that warns of nothing."""
    return RunDirectory(place, 1, pytest.fail, overwrite)


def save(run, *steps):
    return [run.save(step, {"step": step}, {"x": np.arange(step % 1000)}) for step in steps]


def damage(place, step):
    folder, name = folder_of(place), f"checkpoint-{step:08d}.zarr.zip"
    damaged = bytearray(get(folder, name))
    damaged[len(damaged) // 2] ^= 16
    put(folder, name, damaged)


def test_a_run_from_beginning_to_end(begin):
    run = begin(resume=False)
    assert run.load() is None
    assert not run.is_finished()
    assert save(run, 40, 80) == [True, True]
    write_file(run.folder, "model.zarr.zip", MODEL, {}, {})
    assert run.is_finished()
    run.close()
    step, stored = begin().load()
    assert (step, stored.meta) == (80, {"step": 80})
    np.testing.assert_array_equal(stored.arrays["x"], np.arange(80))


def test_whose_it_is(begin, place, warnings):
    begin(resume=False).close()
    for refused in (lambda: begin(resume=False), lambda: directory(place)):
        with pytest.raises(StoreError, match="holds an unfinished run"):
            refused().require_no_unfinished_run(resume=False)
    with pytest.raises(SettingsError, match=r"n was 1 and is now 2; the .* \(rows 5, now 6\)"):
        begin(run={"settings": {"n": 2}, "data": {"rows": 6}})
    for text in (b"", b"[" * 100_000, b"[1]", b'{"settings": 3, "data": {}}', b"\xff", b"1" * 5000):
        put(folder_of(place), "run.json", text)
        with pytest.raises(StoreError, match=r"run\.json is damaged .*, or start again with `over"):
            begin()
    if "://" not in place:
        os.truncate(f"{place}/run.json", 1 << 40)
        with pytest.raises(StoreError, match="more than"):
            begin()
    assert warnings == []


def test_settings_that_came_later_have_their_defaults(begin, place):
    begin().close()
    known = {**RUN, "settings": {**RUN["settings"], "later": 2}}
    with pytest.raises(SettingsError, match="later was not given and is now 2"):
        begin(run=known)
    with pytest.raises(SettingsError, match="later was 1 and is now 2"):
        directory(place).open(known, True, {"later": 1})
    directory(place).open(known, True, {"later": 2})


def test_a_run_that_fails_before_its_first_checkpoint_leaves_no_trace(tmp_path):
    X, y, _ = data_for("probit", 60)
    how = {"method": "laplace", "learn": "hmc", "kernel": "10*rbf", "out": tmp_path / "run"}
    with pytest.raises(SettingsError, match="hyperprior"):
        sparsegp.train(X, y, **how)
    assert not {*os.listdir(tmp_path / "run")} - {"lock"}
    sparsegp.train(X, y, method="laplace", kernel="10*rbf", out=tmp_path / "run")


def test_neither_does_one_for_which_memory_does_not_suffice(tmp_path):
    class Full(Progress):
        def start(self, total, unit, description):
            raise MemoryError

    X, y, _ = data_for("probit", 60)
    how = {"kernel": "10*rbf", "out": tmp_path / "run"}
    with pytest.raises(MemoryError):
        sparsegp.train(X, y, progress=Full(), **how)
    assert not {*os.listdir(tmp_path / "run")} - {"lock"}


@pytest.mark.parametrize("overwrite", [True, False])
def test_what_a_search_finds_in_its_way(overwrite, begin, place):
    """Nothing is deleted before it is known that the run can have the folder afterwards."""
    run = directory(place, overwrite)
    put(folder_of(f"{place}/tuning"), "notes", b"mine")
    with pytest.raises(StoreError, match=r"tuning holds notes, which is not a file of a run"):
        run.prepare_for_search()
    folder_of(f"{place}/tuning").delete("notes")
    begin().close()
    put(folder_of(place), "notes", b"mine")
    if overwrite:
        with pytest.raises(StoreError, match="holds notes, which is not a file of a run"):
            run.prepare_for_search()
        folder_of(place).delete("notes")
    run.prepare_for_search()
    assert ("run.json" in folder_of(place).sizes()) is not overwrite


def test_a_search_under_way_keeps_its_folder(place):
    """A run with a kernel of its own neither deletes the search nor takes its folder."""
    search, message = directory(f"{place}/tuning"), "is held by process|holds an unfinished search"
    search.open(RUN, resume=False)
    with pytest.raises(StoreError, match=message):
        directory(place).open(RUN, resume=False)
    if "://" not in place:  # an object store cannot be locked
        for delete in (RunDirectory.prepare_for_search, lambda run: run.open(RUN, resume=False)):
            with pytest.raises(StoreError, match=r"tuning/lock is held by process"):
                delete(directory(place, overwrite=True))
    search.close()
    with pytest.raises(StoreError, match="holds an unfinished search"):
        directory(place).open(RUN, resume=True)
    search.save(1, {"trials": [], "chosen": {"kernel": "rbf"}}, {})
    run = directory(place)
    run.open(RUN, resume=False)
    run.close()
    assert {"run.json", "checkpoint-00000001.zarr.zip"} <= search.folder.sizes().keys()
    directory(place, overwrite=True).open(RUN, resume=False)
    assert search.folder.sizes().keys() <= {"lock"}


@pytest.mark.parametrize("place", ["directory"], indirect=True)  # stores cannot be locked
def test_a_run_under_way_is_not_called_unfinished(begin, place):
    run = begin()
    for message in ("is held by process", "holds an unfinished run; continue it"):
        with pytest.raises(StoreError, match=message):
            directory(place).require_no_unfinished_run(resume=False)
        run.close()


@pytest.mark.parametrize("place", ["directory"], indirect=True)  # stores cannot be locked
def test_what_another_process_writes_while_it_holds_the_lock(begin, place, monkeypatch):
    """It is neither taken for one's own nor left behind by `overwrite`."""
    lock = Directory.lock

    def late(folder):
        handle = lock(folder)
        put(folder, "run.json", json.dumps({"settings": {"n": 2}, "data": {"rows": 5}}).encode())
        write_file(folder, "model.zarr.zip", MODEL, {}, {})
        return handle

    monkeypatch.setattr(Directory, "lock", late)
    with pytest.raises(SettingsError, match="n was 2 and is now 1"):
        begin()
    run = directory(place, overwrite=True)
    run.open(RUN, resume=False)
    assert not run.is_finished()
    assert read_run(run.folder)[0] == RUN["settings"]


@pytest.mark.parametrize("place", ["directory"], indirect=True)  # of which stores have none
def test_nothing_is_deleted_where_a_file_is_in_the_way_of_the_search(begin, place):
    begin().close()
    put(folder_of(place), "tuning", b"a file")
    with pytest.raises(StoreError, match="tuning must be a directory"):
        directory(place, overwrite=True).prepare_for_search()
    assert "run.json" in folder_of(place).sizes()


def test_checkpoints_without_a_run_are_overwritten_before_a_search(place):
    search = directory(f"{place}/tuning")
    search.open(RUN, resume=False)
    save(search, 1)
    search.close()
    search.folder.delete("run.json")
    directory(place, overwrite=True).prepare_for_search()
    directory(f"{place}/tuning").open(RUN, resume=False)


def test_the_newest_are_kept(begin, place):
    run = begin(2)
    save(run, 0, 40, 80, 120, 123456789)
    assert checkpoints(place) == [120, 12345678]
    save(run, 60)
    assert checkpoints(place) == [60]  # the others are of a course that was given up
    with pytest.raises(SettingsError, match="at least 1, got 0"):
        begin(0)


def test_damaged_ones_are_passed_over(begin, place, warnings):
    run = begin(9)
    save(run, 40, 80, 120, 160)
    run.close()
    damage(place, 120)
    write_file(folder_of(place), "checkpoint-00000160.zarr.zip", MODEL, {}, {})
    write_file(folder_of(place), "checkpoint-00000200.zarr.zip", "sparsegp-checkpoint", {}, {})
    run = begin(2)
    assert run.load()[0] == 80
    assert len(warnings) == 3
    assert "checkpoint-00000200.zarr.zip is of a run with other settings or data" in warnings[0]
    assert "must be a sparsegp-checkpoint" in warnings[1]
    assert "checkpoint-00000120.zarr.zip is damaged" in warnings[2]
    assert save(run, 120) == [True]  # takes the place of the damaged one
    assert checkpoints(place) == [80, 120]
    assert run.load()[0] == 120
    for step in (80, 120):
        damage(place, step)
    with pytest.raises(StoreError, match=r"no checkpoint .*00000120.*00000080"):
        run.load()


@pytest.mark.parametrize("place", ["memory", "s3"], indirect=True)
def test_of_two_drivers_in_a_store_one_goes_on(begin, place, warnings):
    first = begin()
    save(first, 40)
    second = begin()
    assert second.load()[0] == 40
    save(second, 80)
    with pytest.raises(StoreError, match="another process goes on"):
        save(first, 80)
    third = begin()
    save(third, 120)
    with pytest.raises(StoreError, match="another process goes on"):  # it is behind
        save(second, 100)
    save(third, 160)
    assert checkpoints(place) == [80, 120, 160]
    with pytest.raises(StoreError, match="holds an unfinished run"):
        begin(resume=False)
    assert warnings == []


def test_progress(place):
    run = directory(place)
    assert read_progress(place) is None
    run.open(RUN, resume=False)
    run.write_progress({"stage": "select"})
    run.write_progress({"stage": "too soon"})
    assert read_progress(place) == {"stage": "select"}
    put(folder_of(place), "progress.json", b"[")
    assert read_progress(place) is None


@pytest.fixture
def store(monkeypatch):
    """A store that answers nothing while `away`; does what is asked and fails if `answer_lost`."""
    store = SimpleNamespace(url=f"memory://{uuid4().hex}", away=False, answer_lost=False)

    def failing(function):
        def call(*args, **kwargs):
            if store.away:
                raise ConnectionError("nobody answers")
            found = function(*args, **kwargs)
            if store.answer_lost and function.__name__ == "pipe_file":
                raise ConnectionError("the answer was lost")
            return found

        return call

    for function in (MemoryFileSystem.pipe_file, MemoryFileSystem.find):
        monkeypatch.setattr(MemoryFileSystem, function.__name__, failing(function))
    return store


def test_a_store_that_is_away_is_like_a_full_disk(store, warnings):
    run = RunDirectory(store.url, 2, warnings.append)
    run.open(RUN, resume=False)
    assert save(run, 40) == [True]
    store.away = True
    assert save(run, 80) == [False]
    store.away = False
    assert run.load()[0] == 40
    store.answer_lost = True
    assert save(run, 120) == [True]
    assert run.load()[0] == 120
    assert len(warnings) == 1
    assert "its store failed (ConnectionError: nobody answers)" in warnings[0]


def test_a_run_through_an_outage_gives_the_same_model(store):
    """It is over with the first checkpoint that could not be written."""
    X, y, X_new = data_for("all", 300)
    messages = []

    class Outage(Stopper):
        def message(self, text):
            messages.append(text)
            store.away = False

    outage = Outage(3, do=lambda: setattr(store, "away", True))
    model = train("all", X, y, out=store.url, progress=outage, checkpoint_every=8)
    assert any(line.startswith("no checkpoint at 16, the run") for line in messages)
    assert_same(model, train("all", X, y), X_new)
    assert_same(sparsegp.load(store.url), model, X_new)
