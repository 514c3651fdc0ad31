"""The classifier with other likelihoods: parameters that are None become what suits them."""

from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from sparsegp import SparseGPClassifier, train
from sparsegp.errors import SettingsError
from sparsegp.estimator.parameters import settings_of
from sparsegp.settings import GENERAL, TrainSettings
from sparsegp.types import Doubles, Labels

Data = tuple[Doubles, Labels]
DEFAULT = {name: getattr(TrainSettings, name) for name in GENERAL}


@pytest.fixture(scope="module")
def two(iris: Data) -> Data:
    """Rows of two classes that overlap, with names."""
    X, y = iris
    return X[y > 0], np.array(["versicolor", "virginica"])[y[y > 0] - 1]


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ({}, {**DEFAULT, "kernel_per_class": False}),
        ({"likelihood": "probit"}, {**GENERAL, "kernel_per_class": False}),
        ({"likelihood": "logistic(0.5)"}, {**GENERAL, "kernel_per_class": False}),
        ({"likelihood": "ordered_probit"}, {**GENERAL, "kernel_per_class": False}),
        ({"likelihood": "softmax"}, {**GENERAL, "kernel_per_class": True}),
        ({"sites": "moments"}, {**GENERAL, "kernel_per_class": True}),
        ({"active_per_class": True}, {**GENERAL, "kernel_per_class": True}),
        (
            {"likelihood": "probit", "kernel": "3*rbf", "criterion": "predictive"},
            {**GENERAL, "kernel": "3*rbf", "criterion": "predictive"},
        ),
        ({"likelihood": "softmax", "kernel_per_class": False}, {"kernel_per_class": False}),
    ],
)
def test_what_is_left_open_suits_the_likelihood(
    given: dict[str, Any], chosen: dict[str, Any]
) -> None:
    n_classes = 2 if given.get("likelihood", "")[:5] in {"probi", "logis"} else 3
    settings = settings_of(SparseGPClassifier(**given), "classification", 150, n_classes)
    assert {name: getattr(settings, name) for name in chosen} == chosen


@pytest.mark.parametrize(
    "given",
    [
        {"likelihood": "probit"},
        {"likelihood": "logistic", "criterion": "predictive"},
        {"likelihood": "probit(0.3)", "learn": "evidence", "major_steps": 2},
        {"active_per_class": True},
    ],
)
def test_fits_as_train_does(two: Data, given: dict[str, Any]) -> None:
    X, y = two
    model = train(X, y, n_active=20, **given)
    estimator = SparseGPClassifier(n_active=20, **given).fit(X, y)
    np.testing.assert_array_equal(estimator.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(estimator.classes_, ["versicolor", "virginica"])
    assert estimator.score(X, y) > 0.9
    assert estimator.get_params()["kernel"] is None


@pytest.mark.parametrize("likelihood", ["ordered_probit", "softmax"])
def test_three_classes(iris: Data, likelihood: str) -> None:
    estimator = SparseGPClassifier(n_active=40, likelihood=likelihood, n_nodes=5).fit(*iris)
    assert estimator.score(*iris) > 0.85
    assert isinstance(estimator.kernel_, list) == (likelihood == "softmax")


def test_pairs_may_be_more_than_rows(iris: Data) -> None:
    X, y = iris[0][:40], iris[1][:40]
    estimator = SparseGPClassifier(n_active=60, active_per_class=True).fit(X, y)
    assert estimator.history_[-1]["n_active"] == 60
    assert len(estimator.active_indices_) <= 40


def test_learning_changes_kernel_and_likelihood(two: Data) -> None:
    learnt = SparseGPClassifier(
        likelihood="logistic", learn="evidence", major_steps=2, n_active=30
    ).fit(*two)
    plain = SparseGPClassifier(likelihood="logistic", n_active=30).fit(*two)
    assert learnt.kernel_ != plain.kernel_
    assert learnt.model_.active.likelihood != plain.model_.active.likelihood


def test_a_search_over_likelihoods(two: Data) -> None:
    grid = {"likelihood": ["multinomial_probit", "probit", "logistic", "softmax"]}
    search = GridSearchCV(
        SparseGPClassifier(n_active=20), grid, cv=2, scoring="neg_log_loss", error_score="raise"
    ).fit(*two)
    assert (search.cv_results_["mean_test_score"] > -0.4).all()


def test_only_two_classes_where_there_is_one_bias(iris: Data) -> None:
    for likelihood in ("probit", "logistic(1.5)"):
        estimator = SparseGPClassifier(likelihood=likelihood)
        assert not estimator.__sklearn_tags__().classifier_tags.multi_class
        with pytest.raises(SettingsError, match="Only binary classification is supported by like"):
            estimator.fit(*iris)
    assert SparseGPClassifier(likelihood="none").__sklearn_tags__().classifier_tags.multi_class


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"likelihood": "probit", "posterior": "all"}, "with sites=moments use adf"),
        ({"likelihood": "probit", "sites": "variational"}, "use sites=moments"),
        ({"likelihood": "gaussian"}, "likelihood=gaussian is not for task=classification"),
    ],
)
def test_what_is_given_is_never_replaced(two: Data, given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        SparseGPClassifier(**given).fit(*two)
