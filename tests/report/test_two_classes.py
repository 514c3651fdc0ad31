"""Figures of two classes at their edges, and the pictures of them."""

import math

import numpy as np
import pytest

from sparsegp.errors import SettingsError
from sparsegp.report import evaluate, evaluate_two_classes, evaluation_pictures

CLASSES = np.array(["no", "yes"])
P = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])


@pytest.mark.parametrize("codes", [[0, 0, 0], [1, 1, 1], [-1, 0, 0]], ids=str)
def test_rows_of_one_class(codes, tmp_path):
    codes, logs = np.array(codes), np.log(P)
    found = evaluate_two_classes(logs, codes, CLASSES, "yes", 0.5)
    assert math.isnan(found.auc)
    assert found.recall == (codes == 1).mean() * 2 / 3
    assert found.to_json()["auc"] is None
    if codes[0] < 0:
        drawn = evaluation_pictures(evaluate(logs, codes, CLASSES), tmp_path, None, found)
        assert len(drawn) == 3


def test_figures_and_what_is_refused():
    found = evaluate_two_classes(np.log(P), np.array([0, 1, 1]), CLASSES, "no", 0.5)
    assert (found.auc, found.average_precision) == (1.0, 1.0)
    assert (found.precision, found.recall, found.f1) == (0.5, 1.0, pytest.approx(2 / 3))
    for positive, threshold in (("maybe", 0.5), ("yes", 1.5)):
        with pytest.raises(SettingsError, match="must be no or yes, and the threshold"):
            evaluate_two_classes(np.log(P), np.array([0, 1, 1]), CLASSES, positive, threshold)
