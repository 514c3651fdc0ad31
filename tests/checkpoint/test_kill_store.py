"""Writers that die before each single change of a store, and stores that are away for a while."""

import json
import re
import signal
import subprocess
import sys
import time
from uuid import uuid4

import numpy as np
import pytest

import sparsegp
from sparsegp.checkpoint import Generations, is_bundle, place_of, read_bundle, write_bundle
from sparsegp.errors import Interrupted, StoreError
from sparsegp.run_directory import RunDirectory
from tests.checkpoint.failing import FailingFileSystem

KIND = "sparsegp-model"


@pytest.fixture
def store():
    yield place_of(f"failing://{uuid4().hex}")
    FailingFileSystem.left = None


def every_instant(write):
    """Let a writer die before its first, second, ... change, to the end; yield after each."""
    for number in range(200):
        FailingFileSystem.left = number
        try:
            write()
        except StoreError:
            died = True
        else:
            died = FailingFileSystem.left == 0
        FailingFileSystem.left = None
        yield died
        if not died:
            assert number > 10
            return
    pytest.fail("the writer never came to its end")


def test_generations_survive_a_writer_that_dies_before_any_change(store, steps):
    acknowledged = 0

    def save():
        nonlocal acknowledged
        generations = Generations(store, keep_last=2)
        generations.sweep()
        step = acknowledged
        for _ in range(2):
            step += 40
            generations.save(step, *steps.content(step))
            acknowledged = step

    for _ in every_instant(save):
        before = acknowledged
        found = Generations(store, 2, on_warning=pytest.fail).load()
        step = found[0] if found else 0
        assert before <= step <= before + 40
        if found:
            steps.check(*found)
        acknowledged = step
    assert Generations(store, 2).steps() == [acknowledged - 40, acknowledged]
    assert len({name.rpartition("arrays.zarr")[0] for name in store.find()}) == 3


def test_a_replaced_bundle_survives_a_writer_that_dies_before_any_change(store, steps):
    write_bundle(store, *steps.content(0), kind=KIND, version=1)
    step = 0

    def replace():
        write_bundle(store, *steps.content(step + 40), kind=KIND, version=1)

    for died in every_instant(replace):
        bundle = read_bundle(store, kind=KIND, versions={1})
        assert bundle.meta["step"] == step + 40 or died
        assert bundle.meta["step"] in (step, step + 40)
        step = bundle.meta["step"]
        steps.check(step, bundle)
    assert step > 0


def test_a_store_that_is_away_is_like_a_full_disk(store):
    told = []
    directory = RunDirectory(store, 2, told.append)
    directory.open({"settings": {}, "data": {}}, resume=False)
    assert directory.save(40, {"n": 1}, {"x": np.ones(2)})
    FailingFileSystem.left = 0
    assert not directory.save(80, {"n": 2}, {"x": np.ones(2)})
    FailingFileSystem.left = 3
    assert not directory.save(120, {"n": 3}, {"x": np.ones(2)})
    FailingFileSystem.left = None
    assert directory.load()[0] == 40
    assert directory.save(160, {"n": 4}, {"x": np.ones(2)})
    assert directory.load()[0] == 160
    directory.close()
    for line, step in zip(told, (80, 120), strict=True):
        assert line.startswith(f"no checkpoint at {step}, the run goes on: cannot ")
        assert "its store failed (ConnectionError: nobody answers)" in line


# -- runs ------------------------------------------------------------------------------------------


def clusters():
    rng = np.random.default_rng(5)
    y = rng.integers(0, 3, size=400)
    return rng.standard_normal((3, 4))[y] * 1.2 + rng.standard_normal((400, 4)), y


SETTINGS = {"n_active": 40, "checkpoint_every": 10, "threads": 1}


def test_a_run_through_an_outage_gives_the_same_model(store, stop_after, monkeypatch):
    X, y = clusters()
    expected = sparsegp.train(X, y, **SETTINGS).predict_proba(X)
    told = []

    class Told(sparsegp.training.progress.Quiet):
        def message(self, text):
            told.append(text)
            FailingFileSystem.left = None

    save, numbers = RunDirectory.save, []

    def away(self, step, meta, arrays):
        numbers.append(step)
        if len(numbers) == 2:
            FailingFileSystem.left = 2
        return save(self, step, meta, arrays)

    monkeypatch.setattr(RunDirectory, "save", away)
    monkeypatch.setattr("sparsegp.training.api.StopRequest", lambda: stop_after(30))
    with pytest.raises(Interrupted, match="go on by --resume"):
        sparsegp.train(X, y, out=store, progress=Told(), **SETTINGS)
    assert any(line.startswith(f"no checkpoint at {numbers[1]}, the run") for line in told)
    monkeypatch.undo()
    with pytest.raises(StoreError, match="holds no finished model"):
        sparsegp.load(store)
    with pytest.raises(StoreError, match="holds another run"):
        sparsegp.train(X, y, out=store, **SETTINGS)
    model = sparsegp.train(X, y, out=str(store), resume=True, **SETTINGS)
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    np.testing.assert_array_equal(sparsegp.load(store).predict_proba(X), expected)


def arrays_of(place):
    return read_bundle(place, kind=KIND, versions={1}).arrays


@pytest.fixture
def program(s3_keys, environment, tmp_path):
    """Start the program in a process of its own, in an empty folder."""

    def start(*arguments):
        return subprocess.Popen(
            [sys.executable, "-m", "sparsegp", *map(str, arguments)],
            env=environment | s3_keys,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def finished(process, code=0):
    out, err = process.communicate(timeout=300)
    assert process.returncode == code, err
    return out, err


@pytest.mark.slow
def test_a_driver_killed_at_any_instant(s3, program, tmp_path):
    """SIGKILL, and SIGKILL again; each time a fresh process goes on with nothing but the store."""
    train = ("train", "digits", "--n-active", 160, "--checkpoint-every", 20)
    finished(program(*train, "--out", "here", "--quiet"))
    run, rng, killed = place_of(s3) / "run", np.random.default_rng(3), 0
    generations = Generations(run / "checkpoints", 2, on_warning=pytest.fail)
    while not is_bundle(run / "model") and killed < 4:
        process, before = program(*train, "--out", run, "--resume"), generations.steps()
        while process.poll() is None and generations.steps() == before:
            time.sleep(0.2)
        time.sleep(rng.uniform(0, 1.0))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        found = generations.load()
        assert found is not None
        assert found[0] >= max(before, default=0)
    assert killed >= 2
    if not is_bundle(run / "model"):
        out, _ = finished(program("inspect", run, "--json"))
        assert json.loads(out)["state"] == "unfinished"
    finished(program(*train, "--out", run, "--resume", "--quiet"))
    here, there = (arrays_of(where / "model") for where in (tmp_path / "here", run))
    assert here.keys() == there.keys()
    for name, array in here.items():
        assert array.tobytes() == there[name].tobytes(), name
    for where, out in (("here", "a.csv"), (run, "b.csv")):
        finished(program("predict", where, "digits", "--out", out))
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert (run / "history.csv").read_text().startswith("n_active,")
    assert not list((run / "lease").find())


@pytest.mark.slow
def test_a_tuning_in_a_store(s3, program, tmp_path):
    tune = ("tune", "toy", "--max-trials", 8, "--n-active", 50)
    here, _ = finished(program(*tune, "--out", "here", "--json"))
    run = place_of(s3) / "tuned"
    process = program(*tune, "--out", run, "--json")
    while len((run / "tuning").glob("[0-9]*.json")) < 3:
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    there, _ = finished(program(*tune, "--out", run, "--resume", "--json"))
    found, expected = json.loads(there), json.loads(here)
    assert found["kernel"] == expected["kernel"]
    assert [trial["nlpp"] for trial in found["trials"]] == [
        trial["nlpp"] for trial in expected["trials"]
    ]
    out, _ = finished(program("inspect", run, "--json"))
    assert json.loads(out)["state"] == "tuned, not trained"
    _, err = finished(program("train", "toy", "--tune", "--out", run), code=2)
    assert err.startswith(f"error: {run} holds another tuning; ")


@pytest.mark.slow
def test_errors_are_one_line(s3, s3_keys, program):
    for arguments, message in (
        (("train", "toy", "--out", f"{s3}-not/run"), "cannot write .*: no such bucket"),
        (("evaluate", f"{s3}/nothing", "toy"), r"manifest\.json is missing"),
        (("inspect", f"{s3}/nothing"), r"manifest\.json is missing"),
        (("train", "toy", "--out", f"{s3}/a*"), "must be a plain URL"),
    ):
        out, err = finished(program(*arguments, *(["--quiet"] * (arguments[0] == "train"))), 2)
        assert out == ""
        assert re.fullmatch(rf"error: .*{message}.*\n", err)
