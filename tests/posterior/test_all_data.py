"""The all-data posterior against dense variational inference, finite differences and itself."""

import sys
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sparsegp
from sparsegp import dense
from sparsegp.data import open_dataset, table_from_arrays
from sparsegp.errors import Interrupted
from sparsegp.posterior import ActiveRows, Calibration
from sparsegp.posterior.objective import SpanObjective
from sparsegp.settings import TrainSettings
from tests.differences import central
from tests.runs import Stopper, assert_same, selected

EXACT = {
    "posterior": "all",
    "precision": "float64",
    "calibration": "none",
    "tolerance": 1e-19,
    "scaling": "none",
}
DIGITS = open_dataset("digits").train
X, Y = DIGITS.X.compute() / 16.0, DIGITS.y


@pytest.fixture(autouse=True)
def validated(monkeypatch):
    """Give tables of some hundred rows validation rows, as larger ones have."""
    monkeypatch.setattr("sparsegp.settings.sparse.FEW_TO_VALIDATE", 300)


@pytest.mark.parametrize(
    ("likelihood", "per_class", "posterior"),
    [
        ("multinomial_probit", False, "all"),
        ("multinomial_probit", False, "active"),
        ("multinomial_probit", True, "all"),
        ("softmax", False, "all"),
    ],
)
def test_with_all_rows_active_it_is_dense_variational_inference(likelihood, per_class, posterior):
    keep = np.flatnonzero(Y < 4)[:80]
    x, y, new = X[keep], Y[keep], X[200:260]
    kernel = "rbf(1.5); 2*rbf(2); rbf(2.5); 1.5*rbf(2)" if per_class else "2*rbf(2)"
    how = {**EXACT, "posterior": posterior, "likelihood": likelihood, "kernel_per_class": per_class}
    model = sparsegp.train(x, y, n_active=80, kernel=kernel, n_nodes=24, **how)
    noise = np.eye(80) / model.likelihood.metric_curvature
    assert sorted(model.rows) == list(range(80))
    whole = dense.Problem(x, y, model.active.kernels, model.likelihood, 4)
    mode = dense.Laplace().fit(whole)  # at which GR eq. 4.6 ends, too
    expected = dense.Mixture(mode.components, x).latent(x)[0]
    assert_allclose(model.latent_mean_and_variance(x)[0], expected, atol=1e-6)
    variance = model.latent_mean_and_variance(new)[1]
    for c, own in enumerate(model.active.kernels):  # that of regression
        gain = np.linalg.solve(own(x, x) + noise, own(x, new))
        expected = own.diag(new) - (own(x, new) * gain).sum(axis=0)
        assert_allclose(variance[:, c], expected, atol=1e-5)  # L_B is kept in float32


@contextmanager
def problem(**settings):
    """Yield the objective after a selection, and the run that holds its rows."""
    chosen = TrainSettings(n_active=12, kernel="2*rbf(2)", **EXACT, **settings)
    with selected((X, Y), chosen) as run:
        objective = SpanObjective(ActiveRows.of(run.block_settings, run.active), run)
        objective.joined = True
        yield objective, run


@pytest.mark.parametrize("per_class", [False, True])
def test_gradient_is_that_of_the_objective(per_class):
    how = {"likelihood": "multinomial_probit", "kernel_per_class": True, "n_nodes": 24}
    with problem(**how if per_class else {}) as (objective, run):
        rng = np.random.default_rng(0)
        c = rng.normal(size=objective.start().shape)
        value, gradient = objective.value_and_gradient(c)
        ways = rng.normal(size=(3, *c.shape))

        def along(t):
            return objective.value_and_gradient(c + np.tensordot(t, ways, 1))[0]

        expected = np.tensordot(ways, gradient, c.ndim)
        assert_allclose(central(along, np.zeros(3), 1e-4), expected, rtol=1e-5)
        if not per_class:
            mean = run.stub().T.compute() @ c[0]
            zero = np.zeros((len(mean), 1))
            log_z = run.block_settings.likelihood.log_z(mean, zero, run.data.target)
            penalty = np.vdot(c[0], objective.penalty[0] @ c[0]) / 2.0
            assert_allclose(value, log_z.sum() - penalty, rtol=1e-7)


def test_weights_do_not_depend_on_prior_scales_seen_before():
    """A resumed run has not seen those that needed more jitter."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(600, 1))
    y = (np.sin(3.0 * X[:, 0]) + 0.3 * rng.normal(size=600) > 0.0).astype(int)
    settings = TrainSettings(n_active=60, kernel="50*rbf")
    with selected((X, y), settings) as run:
        found, jitters = [], []
        for scales in ((0.1,), (10.0, 0.1)):
            objective = SpanObjective(ActiveRows.of(run.block_settings, run.active), run)
            for scale in scales:
                objective.set_scale(scale)
                jitters.append(max(jitter for _, jitter in objective.metric()))
            found.append(objective.weights(objective.start(), Calibration()).reduction)
    assert jitters[1] > jitters[0] == jitters[2]
    assert_array_equal(found[0], found[1])


def test_state_of_an_ascent_carries_over_to_another_prior_scale():
    with problem() as (objective, _):
        ascent = objective.begin()
        for _ in range(3):
            ascent.step(objective.value_and_gradient, objective.solve)
        objective.set_scale(10.0)
        carried = objective.carry(ascent, 1.0)
        for past in range(3):
            state = carried.rewind(past)
            value, gradient = objective.value_and_gradient(state.point)
            assert_allclose(state.value, value, rtol=1e-10)
            assert_allclose(state.gradient, gradient, atol=1e-7)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_part_of_the_rows_has_their_objective_and_all_validation_rows(weighted):
    columns, weights = 100, np.linspace(0.5, 1.5, 700) if weighted else None
    settings = TrainSettings(n_active=20, kernel="2*rbf(2)", precision="float64", scaling="none")
    table = replace(table_from_arrays(X[:700], Y[:700]), weights=weights)
    with selected(table, settings) as run:
        objective = SpanObjective(ActiveRows.of(run.block_settings, run.active), run)
        c = np.random.default_rng(0).normal(size=objective.start().shape)
        objective.fit(c)
        whole = objective.validation
        objective.set_scale(1.0, columns)
        value, gradient = objective.fit(c)
        M, likelihood = run.stub().compute(), run.block_settings.likelihood
        counts = (np.arange(700) % 256 < columns) & ~run.validation
        log_z, p = likelihood.mean_gradient(M.T @ c[0], run.data.target)
        w = counts * (1.0 if weights is None else run.weights)
    assert_allclose(objective.validation, whole, rtol=1e-12)
    assert_allclose(value, w @ log_z, rtol=1e-9)
    assert_allclose(gradient[0], M @ (p * w[:, np.newaxis]), atol=1e-7)


def test_a_part_of_the_rows_is_the_same_in_any_blocks():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(41_000, 2))
    y = (np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=len(X)) > 0.0).astype(int)
    models = [
        sparsegp.train(X, y, n_active=24, kernel="10*rbf", block_rows=size, runtime=runtime)
        for size, runtime in ((8192, "threads=2"), (45_000, "threads=1"))
    ]
    assert len(models[0].weights.report["validation_nlpp"]) > 2
    assert_array_equal(*(model.predict_log_proba(X[:500]) for model in models))


def test_resumed_in_mid_posterior_equals_uninterrupted(tmp_path, monkeypatch):
    module = sys.modules["sparsegp.posterior.all_data"]  # the package has the function
    monkeypatch.setattr(module, "PART_ROWS", 200)
    x, y = X[:900], Y[:900]
    settings = {"n_active": 60, "posterior": "all", "panel": 60}
    expected = sparsegp.train(x, y, **settings)
    for reports in (1, 13, 30):
        how = {"out": tmp_path / str(reports), **settings}
        with pytest.raises(Interrupted, match="continue with `resume=True`"):
            sparsegp.train(x, y, **how, progress=Stopper(reports, "posterior"))
        assert_same(sparsegp.train(x, y, resume=True, **how), expected, x)
