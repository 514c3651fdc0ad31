"""The commands with runs in a store; those with a server are in tests/store."""

from uuid import uuid4

import pytest

from sparsegp.store import folder_of

TRAIN = ("--n-active", 40, "--checkpoint-every", 10, "--quiet")


@pytest.fixture
def run():
    return f"memory://{uuid4().hex}/run"


def test_a_run_in_a_store(run, trained, files, invoke, last_json, tmp_path):
    data = files / "pair.npz"
    told = last_json(invoke("train", data, "--out", run, *TRAIN, "--json").stdout)
    assert (told["run"], told["model"]) == (run, f"{run}/model.zarr.zip")
    assert told["model_bytes"] == folder_of(run).sizes()["model.zarr.zip"]
    for command in (("evaluate",), ("predict", "--out", tmp_path / "p.csv", "--force")):
        found = []
        for place in (run, trained):
            said = invoke(command[0], place, data, *command[1:]).stdout
            found.append((said, command[1:] and (tmp_path / "p.csv").read_text()))
        assert found[0] == found[1]
    record = last_json(invoke("inspect", run, "--json").stdout)
    here = last_json(invoke("inspect", trained, "--json").stdout)
    assert record["state"] == "finished"
    assert record["active_rows"] == here["active_rows"]
    assert record["sizes"].keys() == here["sizes"].keys()
    with folder_of(run).open("history.csv") as file:
        there = file.read().decode().splitlines()
    here = (trained / "history.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in there] == [line.split(",")[0] for line in here]
    result = invoke("train", data, "--out", run, *TRAIN, code=2)
    assert result.stderr == (
        f"error: {run} holds another run; choose another --out, or go on with it by --resume\n"
    )
    assert "is finished" in invoke("train", data, "--out", run, *TRAIN, "--resume").stderr


def test_a_tuning_in_a_store(run, files, invoke, last_json):
    arguments = ("tune", files / "pair.npz", "--out", run, "--max-trials", 2, "--n-active", 10)
    first = last_json(invoke(*arguments, "--json", "--quiet").stdout)
    assert folder_of(f"{run}/tuning").sizes()
    again = last_json(invoke(*arguments, "--json", "--quiet", "--resume").stdout)
    assert (again["kernel"], again["trials"]) == (first["kernel"], first["trials"])
    assert last_json(invoke("inspect", run, "--json").stdout)["state"] == "tuned, not trained"
    assert "holds another" in invoke(*arguments, code=2).stderr


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("memory://nothing", "memory://nothing/model.zarr.zip is missing"),
        ("nothing://a/b", "Protocol not known: nothing"),
        ("memory://a*", "must be a plain URL"),
    ],
)
def test_errors_are_one_line(url, message, files, invoke):
    result = invoke("evaluate", url, files / "pair.npz", code=2)
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
