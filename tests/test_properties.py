"""What holds whatever the data: properties of whole models, and another program's figures."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

import sparsegp
from sparsegp.ivm.criteria import CRITERIA, Change, Marginals
from sparsegp.likelihoods.parse import parse as parse_likelihood
from sparsegp.likelihoods.sites import SiteRule
from tests.runs import BINARY, KINDS, params

few = settings(max_examples=3, deadline=None, derandomize=True)
many = settings(max_examples=20, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)

SIGNALLING = {np.dtype("f4"): 0x7F800001, np.dtype("f8"): 0x7FF0000000000001}
"""The bits of signalling NaN."""

GENERAL = {"calibration": "none", "precision": "float64"}
FALLING = ["one by one", "kernel per class", "sites per class", "pairs", "probit", "logistic"]
FALLING += ["ordered", "regression"]


def rows(seed, kind, n=40):
    """Rows of three overlapping clusters, or two of them, or numbers."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % (2 if kind in BINARY else 3)
    X = rng.normal(size=(n, 3)) + rng.normal(size=(3, 3))[codes] * rng.uniform(0.0, 3.0)
    return X, codes + rng.normal(size=n) if kind == "regression" else codes


@pytest.mark.parametrize("kind", FALLING)
@few
@given(seed=seeds)
def test_variances_fall_with_each_inclusion(kind, seed):
    X, y = rows(seed, kind)
    X_new = np.concatenate([X, np.random.default_rng(seed).normal(size=(10, 3)) * 3.0])
    before, former = np.inf, np.empty(0)
    for n_active in (1, 4, 10):
        how = {**KINDS[kind], **GENERAL, "n_active": n_active, "panel": 1}
        model = sparsegp.train(X, y, runtime="threads=1", **how)
        variance = model.latent_mean_and_variance(X_new)[1]
        assert (variance > 0.0).all()
        assert (variance <= before * (1.0 + 1e-12)).all()
        assert_array_equal(model.rows[: len(former)], former)  # the others stay
        before, former = variance, model.rows


@pytest.mark.parametrize("kind", params(kind for kind in KINDS if "method" not in KINDS[kind]))
def test_no_memory_counts_before_it_is_written(kind, monkeypatch):
    """Such as the padding of the last tile: neither in a result nor in a warning."""
    (X, y), empty = rows(1, kind, 150), np.empty

    def filled(*args, **kwargs):
        array = empty(*args, **kwargs)
        if array.dtype in SIGNALLING:  # a copy of it is quiet, a product warns
            array.view(f"u{array.itemsize}")[...] = SIGNALLING[array.dtype]
        return array

    weights = None if "major_steps" in KINDS[kind] else np.linspace(0.5, 1.5, len(X))
    clean = sparsegp.train(X, y, sample_weight=weights, **KINDS[kind])
    expected = clean.latent_mean_and_variance(X)
    monkeypatch.setattr(np, "empty", filled)
    dirty = sparsegp.train(X, y, sample_weight=weights, **KINDS[kind])
    for found, values in zip(dirty.latent_mean_and_variance(X), expected, strict=True):
        assert_array_equal(found, values)


@pytest.mark.parametrize("name", ["entropy", "information"])
@pytest.mark.parametrize(
    "likelihood",
    ["probit(0.3)", "logistic", "gaussian(0.2)", "ordered_probit", "softmax", "multinomial_probit"],
)
@many
@given(seed=seeds, spread=st.floats(0.0, 30.0), scale=st.floats(1e-3, 1e3))
def test_an_inclusion_never_loses_information(likelihood, name, seed, spread, scale):
    rng, n = np.random.default_rng(seed), 20
    chosen = parse_likelihood(likelihood)
    n_classes = 2 if likelihood.startswith(("probit", "logistic")) else 4
    member = chosen.start(n_classes, 12)
    n_latent = member.n_latent(n_classes)
    target = rng.normal(size=n) if chosen.family.numeric else rng.integers(n_classes, size=n)
    mean = spread * rng.normal(size=(n, n_latent))
    variance = scale * rng.uniform(0.01, 1.0, size=(n, n_latent))
    now = Marginals(np.arange(n), target, mean, variance)
    sites = SiteRule(member, "moments").sites(now.mean, now.variance, now.target)
    criterion = CRITERIA[name]()
    assert isinstance(criterion, Change)
    gain = criterion.changes(now, sites)
    assert np.isfinite(gain).all()
    assert (gain >= 0.0).all()


PERMUTED = {
    "shared": {**KINDS["one by one"], **GENERAL, "n_active": 12},
    "per class": {**KINDS["sites per class"], **GENERAL, "n_active": 12},
    "all": {"n_active": 12, "kernel": "3*rbf", **GENERAL},
    "crossed": {"n_active": 12, "kernel": "3*rbf", "precision": "float64"},
    "crossed, one by one": {"n_active": 12, "precision": "float64", "lookahead": 1, "panel": 1},
}


@pytest.mark.parametrize("kind", PERMUTED)
@few
@given(seed=seeds, names=st.permutations(range(3)))
def test_permuted_classes_permute_the_columns(kind, seed, names):
    X, y = rows(seed, "clusters")
    one = sparsegp.train(X, y, runtime="threads=1", **PERMUTED[kind])
    other = sparsegp.train(X, np.array(names)[y], runtime="threads=1", **PERMUTED[kind])
    assert_array_equal(other.rows, one.rows)
    error = 2e-3 if "crossed" in kind else 1e-6  # of probabilities by cross-validation
    assert one.calibration.prior_scale == other.calibration.prior_scale
    assert_allclose(other.predict_proba(X)[:, names], one.predict_proba(X), atol=error)


@few
@given(seed=seeds, variance=st.floats(0.1, 50.0), length_scale=st.floats(0.3, 10.0))
def test_laplace_is_that_of_scikit_learn(seed, variance, length_scale):
    """Two classes, logistic likelihood; it averages by a mixture of five error functions."""
    X, y = rows(seed, "logistic", n=60)
    X_new = rows(seed + 1, "logistic")[0]
    kernel = ConstantKernel(variance) * RBF(length_scale)
    theirs = GaussianProcessClassifier(kernel, optimizer=None, max_iter_predict=1000).fit(X, y)
    how = {"method": "laplace", "likelihood": "logistic", "scaling": "none"}
    ours = sparsegp.train(X, y, kernel=f"{variance!r}*rbf({length_scale!r})", **how)
    expected = theirs.log_marginal_likelihood_value_
    assert_allclose(ours.report["log_evidence"], expected, rtol=1e-6)
    assert_allclose(ours.predict_proba(X_new), theirs.predict_proba(X_new), atol=2e-3)
    if hasattr(theirs, "latent_mean_and_variance"):  # from version 1.7 on
        mean, latent_variance = theirs.latent_mean_and_variance(X_new)
        found = ours.latent_mean_and_variance(X_new)
        assert_allclose(found[0][:, 0], mean, atol=1e-4)
        assert_allclose(found[1][:, 0], latent_variance, rtol=1e-4, atol=1e-6)
