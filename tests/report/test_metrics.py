"""Metrics agree with values worked out by hand and with scikit-learn."""

import json
import math

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, confusion_matrix, log_loss

from sparsegp.errors import DataError
from sparsegp.report import evaluate, rejecting
from sparsegp.report.metrics import calibration_error, reliability

CLASSES = np.array(["ant", "bee", "cat"])
PROBABILITIES = np.array([[0.7, 0.2, 0.1], [0.3, 0.5, 0.2], [0.5, 0.25, 0.25], [0.1, 0.1, 0.8]])


def random_case(n_classes, n=400, dtype=np.float64):
    rng = np.random.default_rng(n_classes)
    logits = rng.normal(size=(n, n_classes)) * 3
    logs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    return logs.astype(dtype), rng.integers(0, n_classes, n)


def test_values_worked_out_by_hand():
    found = evaluate(np.log(PROBABILITIES), np.array([0, 2, -1, 2]), CLASSES)
    assert (found.n, found.n_unseen) == (4, 1)
    # Rows 0 and 3 are right, row 1 is wrong, the label of row 2 was never seen.
    assert found.error == 0.5
    assert found.nlpp == pytest.approx(-(math.log(0.7) + math.log(0.2) + math.log(0.8)) / 3)
    # 0.09 + 0.04 + 0.01, then 0.09 + 0.25 + 0.64, then 0.01 + 0.01 + 0.04
    assert found.brier == pytest.approx((0.14 + 0.98 + 0.06) / 3)
    # 0.7 and 0.8 are right in bins of their own; 0.5 twice is wrong in one bin.
    assert found.ece == pytest.approx((0.3 + 0.2 + 1.0) / 4)
    assert found.confusion.tolist() == [[1, 0, 0], [0, 0, 0], [0, 1, 1]]


@pytest.mark.parametrize("n_classes", [2, 3, 26])
def test_scikit_learn_agrees(n_classes):
    logs, codes = random_case(n_classes)
    found = evaluate(logs, codes, np.arange(n_classes))
    labels = np.arange(n_classes)
    probabilities = np.exp(logs)
    assert found.nlpp == pytest.approx(log_loss(codes, probabilities, labels=labels), rel=1e-12)
    assert found.confusion.sum() == found.n
    assert found.error == pytest.approx(1 - np.trace(found.confusion) / found.n)


@pytest.mark.parametrize("n_classes", [2, 3, 26])
def test_brier_score_of_scikit_learn_agrees(n_classes):
    pytest.importorskip("sklearn", minversion="1.7", reason="scores of more than two classes")
    logs, codes = random_case(n_classes)
    labels = np.arange(n_classes)
    brier = brier_score_loss(codes, np.exp(logs), labels=labels, scale_by_half=False)
    assert evaluate(logs, codes, labels).brier == pytest.approx(brier, rel=1e-12)


def test_bins_hold_their_upper_end():
    # Of 15 bins, 0.2 = 3 / 15 belongs to the third and 0.21 to the fourth.
    confidence, right = np.array([0.2, 0.21]), np.array([False, True])
    assert calibration_error(confidence, right) == pytest.approx((0.2 + 0.79) / 2)
    assert calibration_error(confidence, right, n_bins=1) == pytest.approx((1 - 0.41) / 2)
    assert calibration_error(np.array([0.0, 1.0]), np.array([False, True])) == 0.0


def test_ece_of_calibrated_probabilities_is_small():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1.0, 100_000)
    right = rng.uniform(size=100_000) < confidence
    assert calibration_error(confidence, right) < 0.01
    assert calibration_error(np.full(100_000, 0.99), right) == pytest.approx(0.24, abs=0.01)


def test_log_probabilities_are_not_clipped():
    logs = np.array([[0.0, -900.0]])
    assert evaluate(logs, np.array([1]), np.arange(2)).nlpp == 900.0


def test_single_precision_is_enough():
    logs, codes = random_case(10)
    single, _ = random_case(10, dtype=np.float32)
    labels = np.arange(10)
    assert evaluate(single, codes, labels).nlpp == pytest.approx(
        evaluate(logs, codes, labels).nlpp, rel=1e-6
    )


def test_only_unseen_labels():
    found = evaluate(np.log(PROBABILITIES), np.full(4, -1), CLASSES)
    assert found.error == 1.0
    assert found.n_unseen == 4
    assert math.isnan(found.nlpp)
    assert not found.confusion.any()
    assert found.to_json()["nlpp"] is None


def test_json_holds_plain_values():
    found = evaluate(np.log(PROBABILITIES), np.array([0, 2, -1, 2]), CLASSES).to_json()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["classes"] == ["ant", "bee", "cat"]
    assert found["confusion"][2] == [0, 1, 1]
    assert list(found) == [
        "n",
        "n_unseen",
        "error",
        "nlpp",
        "brier",
        "ece",
        "confusion",
        "classes",
    ]


@pytest.mark.parametrize(
    ("logs", "codes", "classes", "message"),
    [
        (np.log(PROBABILITIES), [0, 1, 2], CLASSES, r"must fit together; got shapes \(4, 3\)"),
        (np.log(PROBABILITIES), [0, 1, 2, 0], CLASSES[:2], "must fit together"),
        (np.log(PROBABILITIES), [0, 1, 3, -1], CLASSES, "got codes from -1 to 3"),
        (np.log(PROBABILITIES), [0, 1, -2, 0], CLASSES, "got codes from -2 to 1"),
        (np.log(PROBABILITIES), [0.0, 1.0, 2.0, 0.0], CLASSES, "whole numbers; got float64"),
        (PROBABILITIES, [0, 1, 2, 0], CLASSES, "row 0 sum to 4.3"),
        (np.full((1, 3), np.nan), [0], CLASSES, "row 0 sum to nan"),
        (np.empty((0, 3)), np.empty(0, int), CLASSES, "at least one row"),
    ],
)
def test_errors(logs, codes, classes, message):
    with pytest.raises(DataError, match=message):
        evaluate(logs, np.asarray(codes), classes)


@pytest.mark.parametrize("n_classes", [2, 3, 26])
def test_confusion_of_scikit_learn_agrees(n_classes):
    logs, codes = random_case(n_classes)
    expected = confusion_matrix(codes, logs.argmax(axis=1), labels=np.arange(n_classes))
    found = evaluate(logs, codes.astype(np.int32), np.arange(n_classes)).confusion
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.int64


def test_no_row_with_a_seen_label():
    found = evaluate(np.log(PROBABILITIES), np.full(4, -1), CLASSES)
    assert found.confusion.tolist() == np.zeros((3, 3)).tolist()
    assert (found.error, found.right.any()) == (1.0, False)


def test_reliability():
    logs, codes = random_case(3)
    found = evaluate(logs, codes, np.arange(3))
    bins = reliability(found.confidence, found.right)
    assert bins.counts.sum() == found.n
    for k, (count, confidence, accuracy) in enumerate(
        zip(bins.counts, bins.confidence, bins.accuracy, strict=True)
    ):
        inside = (found.confidence > k / 15) & (found.confidence <= (k + 1) / 15)
        assert inside.sum() == count
        if count:
            assert confidence == pytest.approx(found.confidence[inside].mean())
            assert accuracy == pytest.approx(found.right[inside].mean())
        else:
            assert np.isnan([confidence, accuracy]).all()


def test_errors_after_rejection_worked_out_by_hand():
    confidence = np.array([0.9, 0.5, 0.7, 0.7, 0.6])
    right = np.array([True, False, False, True, True])
    rejected, error = rejecting(confidence, (~right).astype(float))
    # All five; without 0.5; without 0.6; without both of 0.7.
    assert rejected == pytest.approx([0, 0.2, 0.4, 0.8])
    assert error == pytest.approx([2 / 5, 1 / 4, 1 / 3, 0])


def test_errors_after_rejection_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(0)
    confidence, wrong = rng.integers(1, 9, 200) / 9, (rng.random(200) < 0.3).astype(float)
    order = rng.permutation(200)
    for one, other in zip(
        rejecting(confidence, wrong), rejecting(confidence[order], wrong[order]), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    rejected, error = rejecting(np.full(7, 0.5), np.ones(7))
    assert (rejected.tolist(), error.tolist()) == ([0.0], [1.0])
