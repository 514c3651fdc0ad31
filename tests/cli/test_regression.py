"""Regressions and learnt models on the command line."""

import pytest


@pytest.fixture(scope="module")
def run(invoke, files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("regression") / "run"
    settings = ("--task", "regression", "--kernel", "1*ard", "--n-active", 60, "--report-every", 20)
    learning = ("--learn", "evidence", "--major-steps", 3, "--minor-steps", 4)
    result = invoke(
        "train", files / "numbers.npz", "--out", folder, *settings, *learning, "--quiet"
    )
    assert "a regression" in result.output
    assert "training mse" in result.output
    assert "r2" in result.output
    return folder


def test_evaluate(invoke, run, files, last_json):
    numbers = files / "numbers.npz"
    figures = last_json(invoke("evaluate", run, numbers, "--json").stdout)
    assert figures["n"] == 60
    assert figures["mse"] < 6.0
    assert figures["r2"] > 0.9
    assert 0.8 <= figures["coverage"] <= 1.0
    text = invoke("evaluate", run, numbers).output
    assert "of the 95 % intervals" in text
    assert "confusion" not in text
    refused = invoke("evaluate", run, numbers, "--plots", run / "plots", code=2)
    assert "--plots draws pictures of classifiers" in refused.stderr


def test_inspect_shows_the_steps(invoke, run, last_json):
    text = invoke("inspect", run).output
    assert [line.split()[0] for line in text.splitlines()[-7:-4]] == ["1", "2", "3"]
    assert "heldout_mse" in text
    record = last_json(invoke("inspect", run, "--json").stdout)
    assert [len(step["criterion"]) > 1 for step in record["learning"]] == [True] * 3
    assert "learning" not in record["posterior"]
