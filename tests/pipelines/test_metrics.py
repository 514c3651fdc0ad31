"""Metrics against those of scikit-learn, and counted by hand."""

import numpy as np
import pytest
from sklearn.metrics import log_loss

from pipelines.data import Data
from pipelines.metrics import Predictions, of_record, reject_curves

CLASSES = np.array(["a", "b", "c"])
P = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.5, 0.4, 0.1], [0.2, 0.2, 0.6], [0.9, 0.1, 0.0]])
Y = np.array(["a", "b", "b", "c", "a"])
DATA = Data("t", None, np.array(["a", "a", "b", "c"]), None, Y)


def test_metrics_of_probabilities():
    with np.errstate(divide="ignore"):
        found = Predictions(CLASSES, P.argmax(axis=1), np.log(P)).figures(DATA)
    nlpp = log_loss(Y, P, labels=CLASSES)
    assert found["test error %"] == pytest.approx(20.0)
    assert found["test NLPP"] == pytest.approx(nlpp)
    assert found["test probability"] == pytest.approx(np.exp(-nlpp))
    assert found["test log likelihood, all rows"] == pytest.approx(-5 * nlpp)
    shares = np.array([0.5, 0.25, 0.25, 0.25, 0.5])
    own = P[np.arange(5), [0, 1, 1, 2, 0]]
    assert found["test information bits"] == pytest.approx(np.mean(np.log2(own) - np.log2(shares)))
    # the least certain row, the third, is wrong: without it nothing is
    assert found["test error %, 20% rejected"] == 0.0
    assert found["test error %, 10% rejected"] == pytest.approx(20.0)


def test_classes_without_probabilities():
    found = Predictions(CLASSES, np.array([0, 0, 1, 2, 1]), None).figures(DATA)
    assert found["test error %"] == pytest.approx(40.0)
    assert {name.split("%")[0] for name in found} == {"test error "}


def test_rows_are_rejected_by_their_certainty():
    certainty = np.array([3.0, 1.0, 2.0, 2.0])
    rows = Predictions(CLASSES, np.array([0, 1, 0, 2]), np.log(P[:4] + 1e-9), certainty).rows(
        Data("t", None, DATA.y_train, None, Y[:4])
    )
    curves = reject_curves(rows)
    rejected, error = curves["test error %"]
    np.testing.assert_allclose(rejected, [0.0, 0.25, 0.75])
    np.testing.assert_allclose(error, [25.0, 100 / 3, 0.0])
    assert curves["test information bits"][1][0] == pytest.approx(rows["information"].mean())


def test_records_of_a_learning_curve():
    record = {"n_active": 10, "seconds": 2.0, "heldout_error": 0.1, "heldout_nlpp": 0.5}
    found = of_record({**record, "train_error": None})
    assert found["ms an inclusion"] == pytest.approx(200.0)
    assert found["test error %"] == pytest.approx(10.0)
    assert found["test log likelihood, uncalibrated"] == -0.5
    assert "training error %" not in found
