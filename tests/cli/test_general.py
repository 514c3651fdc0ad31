"""Regressions and learnt models on the command line."""

import csv

import numpy as np
import pytest
import zarr


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """A regression in a file: two of four columns matter."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((260, 4))
    y = 50.0 + 10.0 * np.sin(2.0 * X[:, 0]) + 3.0 * X[:, 2] + rng.standard_normal(260)
    path = tmp_path_factory.mktemp("numbers") / "numbers.npz"
    np.savez(path, X_train=X[:200], y_train=y[:200], X_test=X[200:], y_test=y[200:])
    return path


@pytest.fixture(scope="module")
def run(invoke, numbers, tmp_path_factory):
    folder = tmp_path_factory.mktemp("regression") / "run"
    settings = ("--task", "regression", "--kernel", "1*ard", "--n-active", 60, "--report-every", 20)
    learning = ("--learn", "evidence", "--major-steps", 3, "--minor-steps", 4)
    result = invoke("train", numbers, "--out", folder, *settings, *learning, "--quiet")
    assert "a regression" in result.output
    assert "training mse" in result.output
    assert "r2" in result.output
    return folder


def test_evaluate(invoke, run, numbers, last_json):
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


@pytest.mark.parametrize("ending", [".csv", ".npz", ".zarr"])
def test_predict_writes_mean_and_variance(invoke, run, numbers, tmp_path, ending):
    out = tmp_path / f"p{ending}"
    invoke("predict", run, numbers, "--out", out, "--latent")
    if ending == ".csv":
        with out.open(newline="") as file:
            header, *lines = csv.reader(file)
        assert header == ["row", "label", "variance", "latent_mean", "latent_variance"]
        values = np.array(lines, dtype=float)
        label, variance, mean, spread = values[:, 1:].T
    else:
        found = np.load(out) if ending == ".npz" else zarr.open_group(str(out), mode="r")
        assert "classes" not in set(found)
        label = found["labels"][:]
        variance, mean, spread = (
            found[name][:, 0] for name in ("variance", "latent_mean", "latent_variance")
        )
    assert len(label) == 60
    np.testing.assert_allclose(label, mean)
    assert (variance > spread).all()
    np.testing.assert_allclose(variance - spread, (variance - spread)[0], rtol=1e-6)
    refused = invoke(
        "predict", run, numbers, "--out", tmp_path / "r.csv", "--reject-below", 0.5, code=2
    )
    assert "--reject-below is for classifiers" in refused.stderr


def test_inspect_shows_the_steps(invoke, run, last_json):
    text = invoke("inspect", run).output
    assert "step 3: criterion" in text
    assert "heldout_mse" in text
    record = last_json(invoke("inspect", run, "--json").stdout)
    assert [len(step["criterion"]) > 1 for step in record["learning"]] == [True] * 3
    assert "learning" not in record["posterior"]


def test_two_classes_with_latent_values(invoke, files, tmp_path):
    data = np.load(files / "pair.npz")
    path = tmp_path / "two.npz"
    np.savez(path, X=data["X_train"], y=np.array(["no", "yes"])[(data["y_train"] == 1).astype(int)])
    arguments = ("--likelihood", "probit", "--n-active", 30, "--quiet")
    invoke("train", path, "--out", tmp_path / "run", *arguments)
    invoke("predict", tmp_path / "run", path, "--out", tmp_path / "p.csv", "--latent")
    with (tmp_path / "p.csv").open(newline="") as file:
        header, *lines = csv.reader(file)
    assert header == ["row", "label", "p_no", "p_yes", "latent_mean", "latent_variance"]
    assert len(lines) == 300
    assert {line[1] for line in lines} == {"no", "yes"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--task", "regression"), "a regression needs numbers as labels"),
        (("--task", "sorting"), "task must be classification or regression, got 'sorting'"),
        (("--likelihood", "probit"), "needs exactly 2 classes, got 3"),
        (("--likelihood", "gaussian", "--task", "classification"), "is not for task="),
        (("--learn", "evidence"), "learn=evidence needs sites=moments"),
    ],
)
def test_what_does_not_go_together_is_one_line(invoke, files, tmp_path, arguments, message):
    result = invoke("train", files / "words.npz", "--out", tmp_path / "run", *arguments, code=2)
    assert message in result.stderr
    assert not (tmp_path / "run").exists()
