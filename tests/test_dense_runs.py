"""Runs of dense methods, by the API and the command line."""

import pytest
from sklearn.datasets import load_breast_cancer, load_iris

import sparsegp
from sparsegp.dense import METHODS
from sparsegp.errors import SettingsError
from tests.runs import assert_same


@pytest.mark.parametrize("method", [*METHODS])
def test_a_model_from_disk_predicts_the_same(tmp_path, method):
    kernels = "1*rbf; 2*rbf; 3*rbf"
    X, y = (load_breast_cancer if method == "ep" else load_iris)(return_X_y=True)
    X, y = X[::5, :4], (X[::5, 0] if method == "exact" else y[::5])
    text = "gibbs(chains=2, samples=8, burn_in=4, thin=1)" if method == "gibbs" else method
    several = {} if method in {"ep", "exact"} else {"kernel_per_class": True, "kernel": kernels}
    model = sparsegp.train(X, y, method=text, **several)
    model.save(tmp_path / "model")
    again = sparsegp.load(tmp_path / "model")
    assert_same(again, model, X)


def test_sampled_kernels_are_a_mixture(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:40, :4], y[:40]
    options = {"method": "laplace", "learn": "hmc", "steps": 8}
    with pytest.raises(SettingsError, match="must have a hyperprior"):
        sparsegp.train(X, y, **options)
    model = sparsegp.train(X, y, **options, hyperprior="v: lognormal(0, 4); l: lognormal(0, 1)")
    assert model.report["components"] == 32
    assert len({str(each.kernels[0]) for each in model.mixture.components}) > 5
    model.save(tmp_path / "model")
    assert_same(sparsegp.load(tmp_path / "model"), model, X)
