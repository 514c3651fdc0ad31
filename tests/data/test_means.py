"""Categories of many levels: the mean label of each, without a row's own."""

from dataclasses import replace

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import TargetEncoder

import sparsegp
from sparsegp.data import Encoding, table_from_frame
from sparsegp.data.means import FOLDS, FREQUENT, PRIOR_ROWS
from sparsegp.errors import DataError

N, LEVELS = 1200, 60


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    city = rng.choice([f"c{i}" for i in range(LEVELS)], N).astype(object)
    city[:40] = None
    return pd.DataFrame({"x": rng.normal(size=N), "city": city})


@pytest.fixture(scope="module")
def labels(frame):
    """Three classes, whose shares depend on the level."""
    number = frame["city"].fillna("c0").str[1:].astype(int).to_numpy()
    noise = np.random.default_rng(1).integers(0, 2, N)
    return np.array(["a", "b", "c"])[(number % 2) + noise]


def test_means_are_numbers_with_length_scales_of_their_own(frame, labels):
    """While the columns of levels share one, and are not scaled."""
    encoding = table_from_frame(frame, labels).learnt().encoding
    assert encoding.scales[-3:] == encoding.names[-3:]
    assert {*encoding.scales[1:-3]} == {"city"}
    assert encoding.indicates.tolist() == [False, *[True] * (len(encoding.names) - 4), *[False] * 3]
    assert encoding.shared.tolist() == [0, *[1] * (len(encoding.names) - 4), 2, 3, 4]


def new_rows(names):
    return pd.DataFrame({"x": 0.0, "city": names})


@pytest.mark.parametrize("kind", ["two", "three", "numbers"])
def test_new_rows_get_the_means_of_all_training_rows(frame, labels, kind):
    y = {"two": labels == "b", "three": labels, "numbers": frame["x"].to_numpy() * 3.0}[kind]
    table = table_from_frame(frame, y).learnt(of_numbers=kind == "numbers")
    ends = {"two": ["True"], "three": ["a", "b", "c"], "numbers": ["label"]}[kind]
    assert table.names[-len(ends) :] == tuple(f"city: mean of {end}" for end in ends)
    targets = {"two": [y], "three": [y == each for each in ends], "numbers": [y]}[kind]
    known = [f"c{i}" for i in range(LEVELS)]
    found = table.encoding.apply(new_rows([*known, None, "new"]), "new")[:, -len(ends) :]
    texts = frame["city"].fillna("gap").to_numpy()[:, np.newaxis]
    for column, target in zip(found.T, targets, strict=True):
        reference = TargetEncoder(target_type="continuous", smooth=PRIOR_ROWS)
        reference.fit(texts, np.asarray(target, float))
        expected = reference.transform(np.array([*known, "gap", "new"], object)[:, np.newaxis])
        np.testing.assert_allclose(column, expected[:, 0], rtol=1e-12)


def test_a_training_row_gets_the_mean_of_other_folds(frame, labels):
    table = table_from_frame(frame, labels == "b").learnt()
    found, target = table.X.compute()[:, -1], (labels == "b").astype(float)
    fold = np.random.default_rng(0).permutation(N) % FOLDS
    for row in (0, 39, 40, 500, N - 1):
        others = fold != fold[row]
        alike = others & (frame["city"].fillna("") == (frame["city"].fillna("")[row])).to_numpy()
        mean = (target[alike].sum() + PRIOR_ROWS * target[others].mean()) / (
            alike.sum() + PRIOR_ROWS
        )
        assert found[row] == pytest.approx(mean, rel=1e-12)
    changed = target.copy()
    changed[500] = 1.0 - changed[500]
    again = table_from_frame(frame, changed.astype(int)).learnt().X.compute()[:, -1]
    assert again[500] == found[500]  # whatever its own label
    assert (again != found).any()


def test_rows_of_a_frequent_level_get_what_new_rows_get():
    """A level of nearly all rows has one value, not one for each fold."""
    names = np.array(["usual"] * (3 * FREQUENT) + [f"c{i % 40}" for i in range(800)], object)
    names[-FREQUENT:] = "often"
    names[: FREQUENT - 1] = "less"
    rng = np.random.default_rng(0)
    rows = new_rows(names).assign(x=rng.normal(size=len(names)))
    table = table_from_frame(rows, rng.integers(0, 2, len(names))).learnt()
    found, new = table.X.compute()[:, -1], table.encoding.apply(rows, "new")[:, -1]
    for name, n_values in {"usual": 1, "often": 1, "less": FOLDS}.items():
        assert len(np.unique(found[names == name])) == n_values
        assert (found == new)[names == name].all() == (n_values == 1)


def test_parts_change_nothing(frame, labels):
    whole = table_from_frame(frame, labels).learnt()
    lazy = table_from_frame(dd.from_pandas(frame, npartitions=5), labels).learnt()
    assert lazy.encoding == whole.encoding
    np.testing.assert_array_equal(lazy.X.compute(), whole.X.compute())


def test_a_model_keeps_the_means(frame, labels, tmp_path):
    settings = {"n_active": 50, "kernel": "rbf"}
    model = sparsegp.train(frame, labels, out=tmp_path / "run", **settings)
    rows = new_rows(["c3", "c4", None, "new"])
    again = sparsegp.load(tmp_path / "run")
    assert again.encoding == model.encoding
    np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))
    shares = model.predict_proba(rows)
    assert shares[0, 2] > 0.3 > shares[1, 2]
    sparsegp.train(frame, labels, out=tmp_path / "run", resume=True, **settings)
    column = model.encoding.columns[1]
    with pytest.raises(DataError, match="an encoding must have"):
        Encoding((model.encoding.columns[0], replace(column, means=column.means[1:])))


def test_levels_that_say_nothing_give_no_certainty():
    rng = np.random.default_rng(2)
    n = 3000
    names = np.array([f"c{i}" for i in range(600)])
    frame = pd.DataFrame({"x": rng.normal(size=n), "city": rng.choice(names, n)})
    model = sparsegp.train(frame, rng.random(n) < 0.5, n_active=100)
    fresh = pd.DataFrame({"x": rng.normal(size=2000), "city": rng.choice(names, 2000)})
    log_p = model.predict_log_proba(fresh)
    assert -log_p.mean() < np.log(2.0) + 0.02


@pytest.mark.parametrize("lazy", [False, True])
def test_rows_of_weight_zero_have_no_influence(frame, labels, lazy):
    """Neither their levels nor their labels."""
    weights = np.where(np.arange(N) % 3, 1.0, 0.0)
    rows = frame.assign(city=frame["city"].where(weights > 0.0, "new"))
    given, kept = dd.from_pandas(rows, npartitions=4) if lazy else rows, rows[weights > 0.0]
    how = {"kernel": "10 + linear", "n_active": 60}
    model = sparsegp.train(given, labels, sample_weight=weights, **how)
    without = sparsegp.train(kept, labels[weights > 0.0], **how)
    assert model.encoding == without.encoding
    np.testing.assert_array_equal(model.predict_proba(rows), without.predict_proba(rows))


def test_of_many_classes_there_are_no_means(frame):
    y = np.arange(N) % 11
    table = table_from_frame(frame, y).learnt()
    assert not table.encoding.are_means.any()
    assert "city: rare" in table.names
