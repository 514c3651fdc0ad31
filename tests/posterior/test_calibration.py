"""The temperature of moment-matched sites, in fitting and in predicting, where there are biases."""

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from scipy.special import log_ndtr

import sparsegp
from sparsegp.kernels import RBF
from sparsegp.likelihoods import MultinomialProbit, Probit
from sparsegp.posterior.all_data import log_z_and_slopes
from sparsegp.posterior.base import ActiveRows, Calibration
from sparsegp.posterior.calibration import PRIOR, fit, fit_by_slopes, with_calibration
from sparsegp.posterior.predict import Posterior
from sparsegp.posterior.sites import regression
from tests.differences import central

BIAS = -3.0


@pytest.mark.parametrize("truth", [0.5, 2.5])
def test_temperature_of_latent_value_and_bias_is_found(truth):
    """Labels drawn at a temperature: with the bias as it was, another one would be fitted."""
    rng = np.random.default_rng(2)
    sites, active_x = 4.0 * rng.normal(size=(30, 1)), rng.normal(size=(30, 2))
    some = np.zeros(30, np.int64), sites, np.full((30, 1), 4.0)
    active = ActiveRows([9.0 * RBF(1.0)], Probit(BIAS), active_x, *some)
    x = rng.normal(size=(20000, 2))
    mean, variance = Posterior(active, regression(active, active.site)).latent(x)
    p = np.exp(log_ndtr((mean[:, 0] + BIAS) / truth / np.sqrt(1.0 + 0.3 * variance[:, 0])))
    target = (rng.random(len(x)) < p).astype(np.int64)
    of_rows = np.where(rng.random(len(x)) < 0.5, 0.3, 1.7)
    rows = Mock(validation_weights=of_rows)
    rows.map_blocks.return_value = [(x, target)]
    weights = with_calibration(active, rows, regression(active, active.site))
    assert weights.calibration.temperature == pytest.approx(truth, rel=0.1)
    z = (2.0 * target - 1.0) * (mean[:, 0] + BIAS) / weights.calibration.temperature
    z /= np.sqrt(1.0 + weights.calibration.variance_weight * variance[:, 0])
    nlpp = -(of_rows * log_ndtr(z)).mean()
    assert weights.report["validation_nlpp"] == pytest.approx(nlpp, rel=1e-12)


@pytest.mark.parametrize("temperature", [1.0, 0.7, 4.0])
def test_predictions_divide_the_bias_too(temperature):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] > 0.8).astype(int)
    how = {"n_active": 30, "calibration": "none", "precision": "float64"}
    model = sparsegp.train(X, y, likelihood=f"probit({BIAS})", **how)
    weights = replace(model.weights, calibration=Calibration(temperature, 0.4))
    tempered = replace(model, weights=weights)
    mean, variance = tempered.latent_mean_and_variance(X)
    z = (mean[:, 0] + BIAS) / temperature / np.sqrt(1.0 + 0.4 * variance[:, 0])
    found = tempered.predict_log_proba(X)
    np.testing.assert_allclose(found, np.stack([log_ndtr(-z), log_ndtr(z)], axis=1), rtol=1e-9)
    np.testing.assert_array_equal(tempered.predict(X), model.predict(X))  # as whole z is divided


@pytest.mark.parametrize("n_variances", [1, 3])
def test_slopes_are_right_and_lead_to_a_calibration_no_worse(n_variances):
    rng = np.random.default_rng(5)
    mean, variance = 3.0 * rng.normal(size=(400, 3)), rng.gamma(2.0, size=(400, n_variances))
    target = (mean + 2.0 * rng.normal(size=mean.shape)).argmax(axis=1)

    def log_z(temperature, weight):
        return log_z_and_slopes(MultinomialProbit(12), mean, variance, target, temperature, weight)

    def reached(at):
        distance = (np.log(at) - PRIOR[0]) / PRIOR[1]
        return float(log_z(*at)[0].sum() - distance @ distance / 2.0)

    slow = fit(lambda *at: log_z(*at)[0])
    assert reached(fit_by_slopes(log_z, PRIOR)) > reached(slow) - 1e-3
    slopes = central(lambda logs: log_z(*np.exp(logs))[0].sum(), np.log([1.3, 0.4]), 0.01)
    assert log_z(1.3, 0.4)[1] == pytest.approx(slopes, rel=2e-3)
