"""The commands with runs in a store; those with a server are in tests/store."""

from uuid import uuid4

import pytest

import sparsegp
from sparsegp.store import folder_of
from tests.processes import invoke, told

TRAIN = ("--n-active", 40, "--checkpoint-every", 10, "--quiet")


@pytest.fixture
def run():
    return f"memory://{uuid4().hex}/run"


def test_a_run_in_a_store(run, trained, files, tmp_path):
    data = files / "pair.npz"
    record = told("train", data, "--out", run, *TRAIN)
    assert (record["run"], record["model"]) == (run, f"{run}/model.zarr.zip")
    files = folder_of(run).sizes()
    assert record["model_bytes"] == files["model.zarr.zip"]
    assert invoke("evaluate", run, data).stdout == invoke("evaluate", trained, data).stdout
    invoke("predict", run, data, "--out", tmp_path / "p.csv")
    in_store, on_disk = (told("inspect", place) for place in (run, trained))
    assert in_store["state"] == "finished"
    assert in_store["active_rows"] == on_disk["active_rows"]
    assert in_store["sizes"].keys() == on_disk["sizes"].keys()
    for resume in ((), ("--resume",)):
        assert "is finished" in invoke("train", data, "--out", run, *TRAIN, *resume).stderr
    invoke("train", data, "--out", run, *TRAIN, "--overwrite", "--seed", 1)
    assert sparsegp.load(run).settings["seed"] == 1


def test_a_tuning_in_a_store(run, files):
    arguments = ("tune", files / "pair.npz", "--out", run, "--max-trials", 2, "--n-active", 10)
    first = told(*arguments, "--quiet")
    assert folder_of(f"{run}/tuning").sizes()
    again = told(*arguments, "--quiet", "--resume")
    assert (again["kernel"], again["trials"]) == (first["kernel"], first["trials"])
    assert told("inspect", run)["state"] == "tuned, not trained"
    other = invoke(*arguments, "--seed", 1, code=2)  # a finished search stands for its settings
    assert "seed was 0 and is now 1" in other.stderr
