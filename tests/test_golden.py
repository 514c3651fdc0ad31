"""Results of small runs through the public interface, kept in golden.json.

They must stay: active rows exactly, probabilities to 1e-6, evidences and kernels to 1e-8, latent
values to 1e-8 of the largest. All arrays are float64, so that other kernels of the BLAS library
change the last bits only; probabilities alone may come from single precision. After a change that
is meant to alter results,

    python tests/test_golden.py --write NAME...

makes the named entries anew (all of them where no name is given).
"""

import json
import re
import sys
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from sklearn import datasets

import sparsegp
from tests.runs import params

FILE = Path(__file__).with_name("golden.json")
N_SHOWN = 3  # held-out rows whose predictions are kept

LEARN = {"learn": "evidence", "major_steps": 2}
PRIOR = "v: lognormal(1, 1); l: lognormal(1, 1)"


@cache
def table(name):
    """Return training rows (X, y) and the inputs of held-out rows."""
    rows = {"digits": 400, "cancer": 500, "moons": 300}.get(name, 140)
    load = {"cancer": "breast_cancer", "levels": "diabetes"}.get(name, name)
    if name == "moons":
        X, y = datasets.make_moons(400, noise=0.2, random_state=0)
    else:
        X, y = getattr(datasets, f"load_{load}")(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = np.asarray(X)[order], np.asarray(y)[order]
    if name == "levels":
        y = np.digitize(y, [90.0, 140.0, 210.0])
    return (X[:rows], y[:rows]), X[rows : rows + N_SHOWN]


def sparse(data, **settings):
    general = {"n_active": 30, "precision": "float64"}
    return data, {**general, "kernel": "50*rbf + 50*matern52", **settings}


def moments(data, likelihood, **settings):
    """Settings of the general informative vector machine."""
    general = {"sites": "moments", "criterion": "information", "posterior": "adf"}
    return sparse(data, **{"kernel": "10*rbf", **general, "likelihood": likelihood, **settings})


def dense(data, method, **settings):
    return data, {"method": method, "kernel": "10*rbf(3)", **settings}


RUNS = {
    "all": sparse("digits", n_active=40),
    "all, kernel as given": sparse("digits", calibration="none", panel=4),
    "all, kernel searched": sparse("cancer", kernel="auto"),
    "all, kernel searched, moons": sparse("moons", kernel="auto"),
    "active": sparse("digits", posterior="active", kernel="10*rbf + linear"),
    "adf": sparse("digits", posterior="adf"),
    "adf, all scores": sparse("wine", posterior="adf", lazy=False, lookahead=1, kernel="10*ard"),
    "panel": sparse("digits", posterior="adf", panel=8),
    "kernel per class": sparse("wine", posterior="adf", kernel_per_class=True, kernel="3*matern32"),
    "information": sparse("wine", posterior="active", criterion="information"),
    "entropy": sparse("iris", posterior="adf", criterion="entropy"),
    "random": sparse("wine", posterior="adf", criterion="random", seed=3),
    "candidates": sparse("digits", posterior="adf", stub_entries=6000, shrink_every=10),
    "probit": moments("cancer", "probit"),
    "probit, biased": moments("cancer", "probit(-0.5)", criterion="entropy", calibration="none"),
    "logistic": moments("cancer", "logistic", panel=4),
    "ordered probit": moments("levels", "ordered_probit"),
    "softmax": moments("iris", "softmax", kernel_per_class=True, n_active=20),
    "gaussian": moments("diabetes", "gaussian(0.3)"),
    "gaussian, all": moments("diabetes", "gaussian", posterior="all"),
    "moments": moments("wine", "multinomial_probit", kernel_per_class=True),
    "pairs": moments("wine", "multinomial_probit", active_per_class=True),
    "pairs, candidates": moments(
        "digits", "multinomial_probit", active_per_class=True, stub_entries=40_000, shrink_every=10
    ),
    "probit, learnt": moments("cancer", "probit", minor_steps=3, **LEARN),
    "gaussian, learnt": moments("diabetes", "gaussian", kernel="1*ard", minor_steps=3, **LEARN),
    "pairs, learnt": moments(
        "wine",
        "multinomial_probit",
        active_per_class=True,
        minor_steps=2,
        hyperprior="v: lognormal(2, 1); bias: normal(0, 0.0001)",
        **LEARN,
    ),
    "laplace": dense("cancer", "laplace", likelihood="logistic"),
    "laplace, softmax": dense("wine", "laplace", likelihood="softmax"),
    "laplace, learnt": dense("iris", "laplace", learn="evidence", steps=3),
    "ep": dense("cancer", "ep"),
    "ep, parallel": dense("cancer", "ep(schedule='parallel', damping=0.5)", likelihood="logistic"),
    "softmax_ep": dense("iris", "softmax_ep(moments='laplace')"),
    "online": dense("iris", "online"),
    "variational": dense("wine", "variational"),
    "gibbs": dense("iris", "gibbs(samples=40, burn_in=10, chains=2)"),
    "exact": dense("diabetes", "exact", likelihood="gaussian(0.3)"),
    "exact, sampled": dense("diabetes", "exact", learn="hmc", steps=4, hyperprior=PRIOR),
}


def results(model, X_test):
    mean, variance = model.latent_mean_and_variance(X_test)
    found = {
        "rows": np.asarray(model.rows).tolist(),
        "kernels": sorted({str(kernel) for kernel in model.kernels}),
        "mean": mean.tolist(),
        "variance": variance.tolist(),
    }
    if model.is_regression:
        _, found["predictive variance"] = map(list, model.predictive_mean_and_variance(X_test))
    else:
        found["probabilities"] = model.predict_proba(X_test).tolist()
    if "log_evidence" in model.report:
        found["log evidence"] = model.report["log_evidence"]
    return found


def trained(name):
    data, settings = RUNS[name]
    rows, X_test = table(data)
    return results(sparsegp.train(*rows, **settings), X_test)


def with_copies():
    """Virtual informative vectors of a first run."""
    rows, X_test = table("digits")
    settings = RUNS["probit"][1] | {"kernel": "10*rbf"}
    rows = (rows[0], rows[1] < 5)
    first = sparsegp.train(*rows, **settings)
    copies = sparsegp.virtual_rows(first, rows, "shift", pixels=1)
    return results(sparsegp.train(copies, **sparsegp.same_settings(first, n_active=40)), X_test)


def tuned():
    """Growing subsamples, and a length scale for every column."""
    (X, y), _ = table("cancer")
    found = sparsegp.tune(X, y, n_active=20, precision="float64", max_trials=12)
    learnt = [trial["kernel"] for trial in found.trials if trial["by_column"]]
    return {"kernels": [found.kernel, *learnt]}


ENTRIES = {name: partial(trained, name) for name in RUNS}
ENTRIES |= {"virtual rows": with_copies, "tune": tuned}


def golden():
    return json.loads(FILE.read_text(encoding="utf-8"))


def numbers(kernels):
    return [float(text) for text in re.findall(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", " ".join(kernels))]


def assert_same(found, kept):
    assert found.keys() == kept.keys()
    assert found.get("rows") == kept.get("rows")
    digits = 1e-5 if found.keys() == {"kernels"} else 1e-8  # a search ends with six
    np.testing.assert_allclose(numbers(found["kernels"]), numbers(kept["kernels"]), rtol=digits)
    for name in found.keys() - {"rows", "kernels"}:
        one, other = np.asarray(found[name]), np.asarray(kept[name])
        tolerance = 1e-6 if name == "probabilities" else 1e-8 * np.abs(other).max()
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("name", params(ENTRIES))
def test_golden(name):
    assert_same(ENTRIES[name](), golden()[name])


def test_no_entry_is_left_over():
    assert golden().keys() == ENTRIES.keys()


def write(names):
    kept = golden() if names else {}
    for name in names or ENTRIES:
        kept[name] = ENTRIES[name]()
    lines = [f"{json.dumps(name)}: {json.dumps(kept[name])}" for name in ENTRIES]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] != ["--write"]:
        raise SystemExit("usage: python tests/test_golden.py --write [NAME...]")
    write(sys.argv[2:])
