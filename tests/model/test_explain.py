"""Explanations add up, and their slopes are those of the latent means."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import sparsegp
from sparsegp.data.scaling import Scaling
from sparsegp.model import SparseModel
from sparsegp.model.explain import difference

KINDS = {
    "shared kernel": {"kernel": "9*ard + linear"},
    "kernel a class": {"kernel": "9*matern52", "kernel_per_class": True, "posterior": "adf"},
    "active set a class": {"kernel": "9*rbf", "active_per_class": True},
    "metric": {"kernel": "9*rbf", "metric": "full(rounds=1)"},
    "two classes": {"kernel": "9*rbf", "likelihood": "probit"},
    "levels": {"kernel": "9*rbf", "likelihood": "ordered_probit"},
}


def rows(n_classes):
    rng = np.random.default_rng(7)
    y = rng.integers(n_classes, size=150)
    X = rng.standard_normal((150, 4)) * [1.0, 2.0, 5.0, 0.1]
    X[:, 1] += 3.0 * y
    return X, y


@pytest.fixture(scope="module", params=KINDS)
def model(request):
    n_classes = 2 if request.param == "two classes" else 3
    found = sparsegp.train(*rows(n_classes), n_active=30, **KINDS[request.param])
    assert isinstance(found, SparseModel)
    return found


def test_contributions_add_up_to_the_difference_of_the_latent_means(model):
    X, _ = rows(len(model.classes))
    mean, proba = model.latent_mean_and_variance(X[:9])[0], model.predict_proba(X[:9])
    for i, each in enumerate(model.explain(X[:9], most=len(model.rows))):
        a, b = np.argsort(-proba[i], kind="stable")[:2]
        assert (each.predicted, each.rival) == (model.classes[a], model.classes[b])
        assert_allclose([each.probability, each.rival_probability], proba[i, [a, b]], rtol=1e-9)
        one = mean.shape[1] == 1
        expected = mean[i, 0] * (1 if a > b else -1) if one else mean[i, a] - mean[i, b]
        terms = [*each.supporting, *each.opposing]
        assert_allclose(each.difference, expected, rtol=1e-8, atol=1e-9)
        assert_allclose(sum(term.contribution for term in terms), expected, rtol=1e-8, atol=1e-9)
        assert_allclose(sum(abs(term.share) for term in terms), 1.0, rtol=1e-9)
        for term in terms:
            assert model.rows[term.place] == term.row
            assert term.label == rows(len(model.classes))[1][term.row]


def test_slopes_are_those_of_finite_differences(model):
    X, _ = rows(len(model.classes))
    step = 1e-5
    for x in X[:3]:
        a, b = np.argsort(-model.predict_proba(x[np.newaxis])[0], kind="stable")[:2]
        unmixed = Scaling(model.scaling.shift, model.scaling.factor, "standard")
        scaled = unmixed.apply(x[np.newaxis])[0]
        moved = np.concatenate([scaled + step * np.eye(4), scaled - step * np.eye(4)])
        values = moved / unmixed.factor + unmixed.shift
        sums = [difference(model, z, a, b)[0].sum() for z in model.scaling.apply(values)]
        expected = (np.array(sums[:4]) - sums[4:]) / (2.0 * step)
        slopes = difference(model, model.scaling.apply(x[np.newaxis])[0], a, b)[1]
        assert_allclose(slopes, expected, rtol=1e-4, atol=1e-6)


def test_names_values_and_effects_of_columns():
    X, y = rows(3)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = sparsegp.train(frame, np.array(["x", "y", "z"])[y], n_active=30)
    (found,) = model.explain(frame.iloc[[3]][["d", "c", "b", "a"]], most=2)
    assert found.columns[0].column == "b"  # alone tells the classes
    assert found.columns[0].value == pytest.approx(X[3, 1], rel=1e-6)
    assert [each.effect for each in found.columns] == sorted(found.effects, key=abs)[:-3:-1]
    assert len(found.supporting) <= 2
    assert {"x", "y", "z"} >= {term.label for term in found.supporting + found.opposing}
    assert "effects" not in found.to_json()
