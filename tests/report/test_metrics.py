"""Metrics agree with values worked out by hand and with scikit-learn; pictures show them."""

import json
import math
import sys
from functools import partial

import numpy as np
import pytest
from matplotlib.image import imread
from scipy.stats import norm
from sklearn import metrics

from sparsegp.errors import DataError, SettingsError, StoreError
from sparsegp.report import (
    evaluate,
    evaluate_regression,
    evaluate_two_classes,
    evaluation_pictures,
    rejecting,
)
from sparsegp.report.metrics import calibration_error, chance_error, reliability
from sparsegp.report.pictures import READABLE

CLASSES = np.array(["ant", "bee", "cat"])
PROBABILITIES = np.array([[0.7, 0.2, 0.1], [0.3, 0.5, 0.2], [0.5, 0.25, 0.25], [0.1, 0.1, 0.8]])
LOGS = np.log(PROBABILITIES)
TWO = np.array(["no", "yes"])
LOGS_OF_TWO = np.log([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])


def random_case(n_classes):
    rng = np.random.default_rng(n_classes)
    logits = rng.normal(size=(400, n_classes)) * 3
    logs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    return logs, rng.integers(0, n_classes, 400)


def test_values_worked_out_by_hand():
    found = evaluate(LOGS, np.array([0, 2, -1, 2]), CLASSES)
    assert (found.n, found.n_unseen) == (4, 1)
    # Rows 0 and 3 are right, row 1 is wrong, the label of row 2 was never seen.
    assert found.error == 0.5
    assert found.nlpp == pytest.approx(-(math.log(0.7) + math.log(0.2) + math.log(0.8)) / 3)
    # 0.09 + 0.04 + 0.01, then 0.09 + 0.25 + 0.64, then 0.01 + 0.01 + 0.04
    assert found.brier == pytest.approx((0.14 + 0.98 + 0.06) / 3)
    # 0.7 and 0.8 are right in bins of their own; 0.5 twice is wrong in one bin.
    assert found.ece == pytest.approx((0.3 + 0.2 + 1.0) / 4)
    assert found.confusion.tolist() == [[1, 0, 0], [0, 0, 0], [0, 1, 1]]
    record = found.to_json()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["classes"] == ["ant", "bee", "cat"]
    figures = ["n", "n_unseen", "error", "nlpp", "brier", "ece", "ece_by_chance"]
    assert list(record) == [*figures, "confusion", "classes", "precision", "recall"]


@pytest.mark.parametrize("n_classes", [2, 3, 26])
def test_scikit_learn_agrees(n_classes):
    logs, codes = random_case(n_classes)
    labels, probabilities = np.arange(n_classes), np.exp(logs)
    found = evaluate(logs, codes.astype(np.int32), labels)
    chosen = logs.argmax(axis=1)
    loss = metrics.log_loss(codes, probabilities, labels=labels)
    assert found.nlpp == pytest.approx(loss, rel=1e-12)
    assert found.error == pytest.approx(metrics.zero_one_loss(codes, chosen))
    confusion = metrics.confusion_matrix(codes, chosen, labels=labels)
    np.testing.assert_array_equal(found.confusion, confusion)
    single = evaluate(logs.astype(np.float32), codes, labels)
    assert single.nlpp == pytest.approx(found.nlpp, rel=1e-6)
    unlikely = evaluate(np.array([[0.0, -900.0]]), np.array([1]), np.arange(2))
    assert unlikely.nlpp == 900.0  # not clipped, as theirs are
    pytest.importorskip("sklearn", minversion="1.7", reason="scores of more than two classes")
    brier = metrics.brier_score_loss(codes, probabilities, labels=labels, scale_by_half=False)
    assert found.brier == pytest.approx(brier, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_error_by_chance_is_that_of_labels_drawn_from_the_probabilities(weighted):
    rng = np.random.default_rng(8)
    confidence = 0.5 + 0.5 * rng.random(900)
    weights = rng.integers(1, 9, 900).astype(float) if weighted else None
    judge = partial(calibration_error, confidence, weights=weights)
    drawn = [judge(rng.random(900) < confidence) for _ in range(500)]
    assert chance_error(confidence, weights) == pytest.approx(np.mean(drawn), rel=0.05)
    assert chance_error(np.ones(5)) == 0.0


def test_only_unseen_labels(tmp_path):
    """Of which there are pictures; of rows of one class no curves."""
    found = evaluate(LOGS, np.full(4, -1), CLASSES)
    assert (found.error, found.n_unseen, found.right.any()) == (1.0, 4, False)
    assert math.isnan(found.nlpp)
    assert not found.confusion.any()
    assert found.to_json()["nlpp"] is None
    one_class = evaluate_two_classes(LOGS_OF_TWO, np.zeros(3, int), TWO, positive="yes")
    assert len(evaluation_pictures(found, tmp_path, None, one_class)) == 3


def test_bins_hold_their_upper_end():
    # Of 15 bins, 0.2 = 3 / 15 belongs to the third and 0.21 to the fourth.
    right = np.array([False, True])
    assert calibration_error(np.array([0.2, 0.21]), right) == pytest.approx((0.2 + 0.79) / 2)
    assert calibration_error(np.array([0.0, 1.0]), right) == 0.0


def test_reliability():
    logs, codes = random_case(3)
    found = evaluate(logs, codes, np.arange(3))
    both = found.confidence, found.right
    for k, bin in enumerate(zip(*reliability(*both), strict=True)):
        inside = (found.confidence > k / 15) & (found.confidence <= (k + 1) / 15)
        means = [each[inside].mean() if inside.any() else np.nan for each in both]
        assert bin == pytest.approx((inside.sum(), *means), nan_ok=True)


def test_errors_after_rejection():
    """Whatever the order of rows."""
    confidence = np.array([0.9, 0.5, 0.7, 0.7, 0.6])
    wrong = np.array([0.0, 1.0, 1.0, 0.0, 0.0])
    for order in (np.arange(5), np.array([3, 1, 4, 0, 2])):
        rejected, error = rejecting(confidence[order], wrong[order])
        # All five; without 0.5; without 0.6; without both of 0.7.
        assert rejected == pytest.approx([0, 0.2, 0.4, 0.8])
        assert error == pytest.approx([2 / 5, 1 / 4, 1 / 3, 0])


def test_regression():
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(size=5000), rng.uniform(0.5, 2.0, 5000)
    y = mean + np.sqrt(variance) * rng.standard_normal(5000)
    found = evaluate_regression(mean, variance, y)
    assert found.mse == pytest.approx(metrics.mean_squared_error(y, mean))
    assert found.r2 == pytest.approx(metrics.r2_score(y, mean))
    assert found.nlpp == pytest.approx(-norm(mean, np.sqrt(variance)).logpdf(y).mean())
    assert found.coverage == pytest.approx(0.95, abs=0.01)
    assert evaluate_regression(mean[:2], variance[:2], np.ones(2)).to_json()["r2"] is None
    with pytest.raises(DataError, match="at least one row"):
        evaluate_regression(mean[:0], variance[:0], y[:0])
    with pytest.raises(DataError, match="at least one row"):
        evaluate(np.empty((0, 3)), np.empty(0, np.int64), np.arange(3))


def test_weights_are_repetitions():
    (logs, codes), (two, truth) = random_case(3), random_case(2)
    codes[:20] = -1
    weights = np.random.default_rng(5).integers(0, 4, len(codes)).astype(float)
    again, ones = np.repeat(np.arange(len(codes)), weights.astype(int)), np.ones(len(codes))
    for judge, *arrays in (
        (partial(evaluate, classes=CLASSES), logs, codes),
        (partial(evaluate_two_classes, classes=TWO, positive="yes", threshold=0.3), two, truth),
        (evaluate_regression, logs[:, 0], ones, logs[:, 1]),
    ):
        found = judge(*arrays, weights=weights).to_json()
        repeated = judge(*(array[again] for array in arrays)).to_json()
        assert found.pop("weight", len(again)) == len(again)
        for name in found.keys() - {"n", "n_unseen", "ece_by_chance", "classes", "positive"}:
            assert np.array(found[name]) == pytest.approx(np.array(repeated[name]), rel=1e-12)
        if "n" in found:
            with pytest.raises(DataError, match="all weigh nothing"):
                judge(*arrays, weights=0 * weights)


@pytest.mark.parametrize("codes", [[0, 0, 0], [1, 1, 1], [-1, 0, 0]], ids=str)
def test_rows_of_one_of_two_classes(codes):
    codes = np.array(codes)
    found = evaluate_two_classes(LOGS_OF_TWO, codes, TWO, positive="yes")
    assert math.isnan(found.auc)
    assert found.recall == (codes == 1).mean() * 2 / 3
    assert found.to_json()["auc"] is None


def test_two_classes():
    codes = np.array([0, 1, 1])
    found = evaluate_two_classes(LOGS_OF_TWO, codes, TWO, positive="no")
    assert (found.auc, found.average_precision) == (1.0, 1.0)
    assert (found.precision, found.recall, found.f1) == (0.5, 1.0, pytest.approx(2 / 3))
    for positive, threshold in (("maybe", 0.5), ("yes", 1.5)):
        with pytest.raises(SettingsError, match="must be no or yes, and the threshold"):
            evaluate_two_classes(LOGS_OF_TWO, codes, TWO, None, positive, threshold)


@pytest.mark.parametrize(
    ("n_classes", "names", "relevances"),
    [(2, ["$ a\x1b", "b_c$"], {"a$": 0.6, "b": 0.4}), (READABLE + 1, None, None)],
    ids=str,
)
def test_pictures(n_classes, names, relevances, tmp_path):
    found = evaluate(*random_case(n_classes), np.array(names or range(n_classes)))
    paths = evaluation_pictures(found, tmp_path / "a" / "b", relevances, title="of the data")
    expected = ["reliability", "error-reject", "confusion", *(["relevances"] if relevances else [])]
    assert [path.name for path in paths] == [f"{name}.png" for name in expected]
    for path in paths:
        assert imread(path).std() > 0.01
        assert path.stat().st_size > 5000
        assert "of the data" in path.with_suffix(".svg").read_text()


def test_pictures_that_cannot_be_made(tmp_path, monkeypatch):
    found = evaluate(LOGS, np.arange(4) % 3, CLASSES)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot write .*reliability\.png"):
        evaluation_pictures(found, tmp_path / "file")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SettingsError, match="`pip install matplotlib`"):
        evaluation_pictures(found, tmp_path / "new")
    assert not (tmp_path / "new").exists()
