"""The regressors beside scikit-learn's exact one, and on data that are no friends of theirs."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sparsegp
from sparsegp import DenseGPRegressor, SparseGPRegressor
from sparsegp.kernels import parse

both = pytest.mark.parametrize("kind", [SparseGPRegressor, DenseGPRegressor])


def sine(n):
    rng = np.random.default_rng(0)
    X = rng.uniform(-5.0, 5.0, (n, 1))
    return X, 30.0 + 4.0 * np.sin(2.0 * X[:, 0]) + 0.8 * rng.standard_normal(n)


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X[:200], y[:200]


def exact(X, y, kernel, optimizer):
    """Return the exact process of scikit-learn on standardised data."""
    process = GaussianProcessRegressor(kernel, optimizer=optimizer, normalize_y=True)
    return make_pipeline(StandardScaler(), process).fit(X, y)


@both
def test_with_all_rows_it_is_exact(kind, diabetes):
    X, y = diabetes
    pipeline = exact(X, y, ConstantKernel(0.7) * RBF(2.5) + WhiteKernel(0.3), None)
    mean, std = pipeline.predict(X, return_std=True)
    own = kind(kernel="0.7*rbf(2.5)", likelihood="gaussian(0.3)", learn="none").fit(X, y)
    found = own.predict(X, return_std=True)
    assert_allclose(found[0], mean, rtol=1e-8)
    assert_allclose(found[1], std, rtol=1e-8)
    latent_mean, latent_variance = own.latent_mean_and_variance(X)
    assert_array_equal(latent_mean, found[0])
    assert_allclose(latent_variance + own.noise_variance_, std**2, rtol=1e-8)
    assert own.noise_variance_ == pytest.approx(0.3 * y.var())
    assert_array_equal(np.sort(own.active_indices_), np.arange(200))
    if kind is DenseGPRegressor:
        evidence = pipeline[-1].log_marginal_likelihood_value_
        assert own.model_.report["log_evidence"] == pytest.approx(evidence, rel=1e-6)


@both
def test_it_learns_what_the_exact_evidence_says(kind):
    X, y = sine(100)
    pipeline = exact(X, y, ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.1), "fmin_l_bfgs_b")
    theirs = pipeline[-1].kernel_
    ours = kind(kernel="1*rbf", learn="evidence").fit(X, y)
    assert ours.noise_variance_ / y.var() == pytest.approx(theirs.k2.noise_level, rel=0.03)
    length_scale = float(str(ours.kernel_).partition("rbf(")[2].rstrip(")"))
    assert length_scale == pytest.approx(theirs.k1.k2.length_scale, rel=0.03)
    grid = np.linspace(-4.5, 4.5, 50)[:, np.newaxis]
    mean, std = ours.predict(grid, return_std=True)
    other_mean, other_std = pipeline.predict(grid, return_std=True)
    assert_allclose(mean, other_mean, atol=0.02 * y.std())
    assert_allclose(std, other_std, rtol=0.03)


def test_few_active_rows_are_nearly_enough():
    X, y = sine(500)
    few, new = SparseGPRegressor(n_active=50).fit(X[:300], y[:300]), slice(300, None)
    whole = SparseGPRegressor().fit(X[:300], y[:300])
    assert few.score(X[new], y[new]) > 0.99 * whole.score(X[new], y[new])
    mean, std = few.predict(X[new], return_std=True)
    assert np.mean(np.abs(y[new] - mean) < 1.96 * std) == pytest.approx(0.95, abs=0.035)
    assert few.noise_variance_ == pytest.approx(0.64, rel=0.15)


@both
def test_constant_labels_and_single_rows(kind):
    X = np.random.default_rng(1).normal(size=(40, 3))
    for n in (1, 2, 40):
        mean, std = kind().fit(X[:n], np.full(n, 7.0)).predict(X, return_std=True)
        assert_allclose(mean, 7.0, rtol=1e-6)
        assert np.isfinite(std).all()


def test_labels_that_say_little(diabetes):
    """From less noise to start with, learning ends where every row is explained by itself."""
    X, y = diabetes
    for half, other in ((slice(100), slice(100, 200)), (slice(100, 200), slice(100))):
        assert SparseGPRegressor(n_active=30).fit(X[half], y[half]).score(X[other], y[other]) > 0.3


def test_fits_as_train_does(diabetes):
    X, y = diabetes
    given = {"n_active": 30, "kernel": "2*matern52", "learn": "none"}
    given |= {"likelihood": "gaussian(0.2)", "criterion": "random"}
    model = sparsegp.train(X, y, task="regression", seed=3, panel=4, **given)
    given |= {"kernel": parse(given["kernel"]), "settings": {"panel": 4}}
    estimator = SparseGPRegressor(**given, random_state=3, precision="float32").fit(X, y)
    assert_array_equal(estimator.predict(X), model.predict(X))
    assert_array_equal(estimator.active_indices_, model.rows)
    assert estimator.kernel_ == str(model.active.kernels[0])


def test_labels_that_are_no_numbers_are_refused(diabetes):
    with pytest.raises(ValueError, match="numbers"):
        SparseGPRegressor().fit(diabetes[0], np.array(["a", "b"] * 100))
    with pytest.raises(ValueError, match=r"y has '\$1' in row 0 .*: write plain numbers"):
        SparseGPRegressor().fit(diabetes[0], np.array(["$1", "$2"] * 100))


@pytest.mark.slow
def test_pipeline_and_search(diabetes):
    X, y = diabetes
    regressor = SparseGPRegressor(n_active=30, major_steps=1, scaling="none")
    pipeline = make_pipeline(StandardScaler(), regressor)
    mean, std = pipeline.fit(X, y).predict(X, return_std=True)
    assert mean.shape == std.shape == (200,)
    grid = {"sparsegpregressor__kernel": ["1*rbf", "1*rbf + 1*linear", "1*ard"]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.3
    weight = np.arange(200.0)
    assert search.score(X, y) == r2_score(y, search.predict(X))
    fitted = pipeline[-1]
    assert fitted.score(X, y, weight) == r2_score(y, fitted.predict(X), sample_weight=weight)


@pytest.mark.slow
def test_a_kernel_that_is_given_back_gives_the_same_fit(searching):
    X, y = sine(300)
    found = SparseGPRegressor(n_active=40, n_jobs=1).fit(X, y)
    given = {"kernel": found.kernel_, "scaling": found.scaling_}
    again = SparseGPRegressor(n_active=40, n_jobs=1, **given).fit(X, y)
    assert again.kernel_ == found.kernel_
    assert_allclose(again.predict(X), found.predict(X), atol=0.05 * y.std())


def test_a_default_that_is_given_changes_nothing():
    X, y = sine(60)
    plain = SparseGPRegressor(kernel="10*rbf").fit(X, y)
    defaults = {"learn": "none", "likelihood": "gaussian", "posterior": "all", "hyperprior": ""}
    for name, value in defaults.items():
        same = SparseGPRegressor(kernel="10*rbf", **{name: value}).fit(X, y)
        assert_allclose(same.predict(X), plain.predict(X), rtol=1e-12)
        assert same.noise_variance_ == plain.noise_variance_


@pytest.mark.parametrize("n", [2, 4])
def test_few_rows_are_not_certain(n):
    """Even if, by chance, all of them are predicted well when left out."""
    for seed in range(12):
        X, y = (each[np.random.default_rng(seed).permutation(200)] for each in sine(200))
        fitted = SparseGPRegressor(kernel="10*rbf(2)").fit(X[:n], y[:n])
        mean, std = fitted.predict(X, return_std=True)
        assert np.square((y - mean) / std).mean() < 1000.0


@pytest.mark.parametrize("n", [20, 30])
def test_intervals_of_few_rows_cover(n):
    """A third of the fits to 20 rows had no noise when only fewer rows were held to be few."""
    rng, covered = np.random.default_rng(0), []
    X = rng.normal(size=(500, 3))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=500)
    for seed in range(16):
        some = np.random.default_rng(seed).permutation(300)[:n]
        fitted = SparseGPRegressor(kernel="10*rbf", n_jobs=1).fit(X[some], y[some])
        mean, std = fitted.predict(X[300:], return_std=True)
        covered.append(np.mean(np.abs(y[300:] - mean) < 1.96 * std))
        assert fitted.noise_variance_ > 1e-4
    assert np.mean(covered) > 0.92


@pytest.mark.parametrize(("targets", "is_told"), [("all", True), ("far", False), ("both", False)])
def test_targets_of_several_orders_of_magnitude(targets, is_told, caplog):
    X = np.random.default_rng(0).standard_normal((300, 2))
    counts = np.floor(np.exp(2.0 * X[:, 0]))
    y = {"all": counts, "far": counts.clip(0, 5) + 5, "both": counts * np.sign(X[:, 1])}[targets]
    SparseGPRegressor(kernel="rbf", n_active=20).fit(X, y)
    assert ("learn their logarithms (of 1 + y if some are zero)" in caplog.text) == is_told
