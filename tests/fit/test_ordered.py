"""Ordered classes, from the public interface."""

import numpy as np
import pytest
from sklearn.datasets import load_wine

import sparsegp

X, Y = load_wine(return_X_y=True)


@pytest.mark.parametrize("kernel", ["1*rbf", "50*rbf", "900*rbf"])
def test_thresholds_suit_the_prior_variance(kernel):
    model = sparsegp.train(X, Y, kernel=kernel, n_active=40, likelihood="ordered_probit")
    assert set(Y[model.rows]) == {0, 1, 2}
    assert np.mean(model.predict(X) == Y) > 0.9


def test_the_order_of_texts_is_said(caplog):
    sparsegp.train(X, Y, kernel="rbf", n_active=9, likelihood="ordered_probit")
    assert not caplog.messages
    grades = np.array(["low", "mid", "high"])[Y]
    sparsegp.train(X, grades, kernel="rbf", n_active=9, likelihood="ordered_probit")
    (message,) = caplog.messages
    assert "in alphabetical order, high, low, mid; if wrong, number them" in message
