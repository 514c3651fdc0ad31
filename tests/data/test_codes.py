"""Categories of many levels: the codes of those that are rare."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import sparsegp
from sparsegp.data import kinds, table_from_frame
from sparsegp.data.column import CODE_PARTS, CODE_STEP
from sparsegp.data.kinds import CODED, INDICATED, MIN_LEVEL_ROWS

N, LEVELS = 1200, 60
SIZES = {"few": 5, "a": 50, "b": 100}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    shares = 1.0 / np.arange(2, LEVELS + 2)  # about half of the levels have fewer than ten rows
    city = rng.choice([f"c{i}" for i in range(LEVELS)], N, p=shares / shares.sum()).astype(object)
    city[:40] = None
    return pd.DataFrame({"x": rng.normal(size=N), "city": city})


@pytest.fixture(scope="module")
def labels(frame):
    """Two classes, whose shares depend on the level."""
    number = frame["city"].fillna("c0").str[1:].astype(int).to_numpy()
    return np.where(np.random.default_rng(1).random(N) < 0.1 + 0.8 * (number % 2), "b", "a")


def new_rows(names):
    return pd.DataFrame({"x": 0.0, "city": names})


def codes_of(encoding, names):
    return encoding.apply(new_rows(names), "new")[:, -len(CODE_PARTS) :]


def test_rare_levels_have_codes_of_their_own(frame):
    encoding = table_from_frame(frame).learnt().encoding
    assert encoding.names[-len(CODE_PARTS) :] == tuple(f"city{part}" for part in CODE_PARTS)
    column = encoding.columns[1]
    assert min(column.counts) >= MIN_LEVEL_ROWS
    assert len(column.levels) + len(column.rare) == LEVELS
    assert len(column.rare) > 10
    codes = codes_of(encoding, column.rare)
    assert set(np.unique(codes)) == {0.0, CODE_STEP}
    assert len(np.unique(codes, axis=0)) == len(codes)
    apart = np.abs(codes[:, np.newaxis] - codes).sum(axis=2)[np.triu_indices(len(codes), 1)]
    assert apart.mean() == pytest.approx(2.0, abs=0.1)  # as between two indicators
    assert not codes_of(encoding, [*column.levels, None, "new"]).any()
    assert encoding.indicates[1:].all()  # not scaled
    assert set(encoding.scales) == {"x", "city"}


@pytest.mark.parametrize(
    ("limits", "most"),
    [({}, INDICATED), ({"COLUMNS": 90}, 45), ({"VALUES": 3000 * 80}, 40), ({"VALUES": 1}, CODED)],
)
def test_levels_share_the_columns(limits, most, monkeypatch):
    """It is that of all categories with many levels; the others are coded."""
    for name, value in limits.items():
        monkeypatch.setattr(kinds, name, value)
    rng = np.random.default_rng(0)
    given = {name: [f"{name}{i}" for i in rng.integers(n, size=3000)] for name, n in SIZES.items()}
    few, *others = table_from_frame(pd.DataFrame(given)).learnt().encoding.columns
    assert (len(few.levels), few.rare) == (5, ())
    for column in others:
        assert len(column.levels) == min(most, SIZES[column.name])
        assert len(column.levels) + len(column.rare) == SIZES[column.name]
        assert (column.parts[-1] == CODE_PARTS[-1]) == bool(column.rare)


def test_a_code_depends_on_its_level_alone(frame):
    """Not on the rows, nor on other levels."""
    other = frame.assign(city=frame["city"].replace({f"c{i}": f"d{i}" for i in range(0, 60, 2)}))
    encodings = [table_from_frame(each).learnt().encoding for each in (frame, other[::-1][:900])]
    shared = sorted(set.intersection(*({*each.columns[1].rare} for each in encodings)))
    assert len(shared) > 5
    np.testing.assert_array_equal(*(codes_of(encoding, shared) for encoding in encodings))


def test_parts_change_nothing(frame, labels):
    whole = table_from_frame(frame, labels).learnt()
    lazy = table_from_frame(dd.from_pandas(frame, npartitions=5), labels).learnt()
    assert lazy.encoding == whole.encoding
    for table in (whole, lazy):  # as new rows are encoded
        np.testing.assert_array_equal(table.X, whole.encoding.apply(frame, "new"))


def test_a_model_tells_rare_levels_apart(frame, labels, tmp_path):
    settings = {"n_active": 300, "kernel": "10*laplace"}
    model = sparsegp.train(frame, labels, out=tmp_path / "run", **settings)
    names = np.array(model.encoding.columns[1].rare)
    shares = model.predict_proba(new_rows(names))[:, 1]
    odd = np.array([int(name[1:]) % 2 == 1 for name in names])
    assert shares[odd].mean() > 0.65
    assert shares[~odd].mean() < 0.35
    again = sparsegp.load(tmp_path / "run")
    assert again.encoding == model.encoding
    np.testing.assert_array_equal(again.predict_proba(new_rows(names))[:, 1], shares)


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
    weights = np.where(np.arange(N) % 3, 1.0, 0.0)
    rows = frame.assign(city=frame["city"].where(weights > 0.0, "new"))
    given, kept = dd.from_pandas(rows, npartitions=4) if lazy else rows, rows[weights > 0.0]
    how = {"kernel": "10 + linear", "n_active": 60}
    model = sparsegp.train(given, labels, sample_weight=weights, **how)
    without = sparsegp.train(kept, labels[weights > 0.0], **how)
    assert model.encoding == without.encoding
    np.testing.assert_array_equal(model.predict_proba(rows), without.predict_proba(rows))
