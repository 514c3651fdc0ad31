"""`sparsegp estimate` for the tasks that `train` knows."""

import json

import numpy as np
import pytest


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    path = tmp_path_factory.mktemp("numbers") / "numbers.npz"
    X = np.random.default_rng(0).normal(size=(300, 4))
    np.savez(path, X=X, y=X[:, 0] + 0.1 * X[:, 1])
    return path


def test_a_regression(numbers, invoke):
    arguments = ("estimate", numbers, "--task", "regression", "--n-active", 30)
    record = json.loads(invoke(*arguments, "--json").stdout)
    assert (record["rows"], record["classes"], record["kernels"]) == (300, 0, 1)
    assert record["n_active"] == 30
    assert "300 rows, 4 columns, a regression" in invoke(*arguments).stdout
    named = invoke("estimate", numbers, "--likelihood", "gaussian", "--n-active", 30, "--json")
    assert json.loads(named.stdout)["blocks"] == record["blocks"]


def test_settings_that_suit_the_likelihood(files, invoke):
    """As `train` takes them: other likelihoods come with their sites."""
    for options in (("--likelihood", "ordered_probit"), ("--task", "classification")):
        record = json.loads(invoke("estimate", files / "pair.npz", *options, "--json").stdout)
        assert record["classes"] == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--task", "regression"), "a regression needs numbers as labels"),
        (("--task", "love"), "love"),
        (("--likelihood", "probit", "--task", "regression"), "is not for task=regression"),
        (("--likelihood", "probit"), "needs exactly 2 classes, got 3"),
    ],
)
def test_what_does_not_fit_is_one_line(options, message, files, invoke):
    result = invoke("estimate", files / "words.npz", *options, code=2)
    (line,) = result.stderr.splitlines()
    assert message in line
