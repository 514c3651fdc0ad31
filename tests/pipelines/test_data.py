"""Where the rows of cells come from, and the tasks that are made of them."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from pipelines.data import VIEWS, Data, Source
from pipelines.mixture import CHUNK_ROWS, Mixture, Truth
from sparsegp.errors import DataError, SettingsError

rng = np.random.default_rng(4)
X, Y = rng.normal(size=(60, 3)), np.array(["b", "c", "a"])[np.arange(60) % 3]
WHOLE = Data("t", X[:45], Y[:45], X[45:], Y[45:])


def sorted_rows(*parts):
    return np.sort(np.concatenate(parts), axis=0)


def test_one_class_against_the_rest():
    view = VIEWS["against_rest"]
    for number, name in enumerate("abc"):
        for task in (view(WHOLE, number), view(WHOLE, 7, class_number=number)):
            np.testing.assert_array_equal(task.y_train == 1, WHOLE.y_train == name)
            np.testing.assert_array_equal(task.y_test == 1, WHOLE.y_test == name)
    for number in (-1, 3):
        with pytest.raises(ValueError, match="from 0 to 2"):
            view(WHOLE, number)


def test_splits_are_keyed_by_the_seed():
    one, again, other = (VIEWS["split"](WHOLE, seed, 20) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.X_test, again.X_test)
    assert not np.array_equal(one.X_test, other.X_test)
    assert (len(one.X_train), len(one.X_test)) == (40, 20)
    np.testing.assert_array_equal(sorted_rows(one.X_train, one.X_test), np.sort(X, axis=0))
    some = VIEWS["split"](WHOLE, 0, 20, labels=["a", "c"])
    assert set(some.y_train) | set(some.y_test) == {"a", "c"}
    np.testing.assert_array_equal(some.X_train, one.X_train[one.y_train != "b"])


def test_residuals_of_a_linear_function():
    y = X @ [1.0, -2.0, 0.5] + 3.0 + X[:, 0] ** 2
    task = VIEWS["split"](Data("t", X[:45], y[:45], X[45:], y[45:]), 0, 20, detrend=True)
    both = np.concatenate([task.X_train, task.X_test])
    rest = np.concatenate([task.y_train, task.y_test])
    np.testing.assert_allclose(both.T @ rest, 0.0, atol=1e-9)
    assert (rest.mean(), rest.std()) == pytest.approx((0.0, 1.0), abs=1e-12)


def test_images_are_smoothed():
    point = np.zeros((12, 25))
    point[:, 12] = 1.0
    task = VIEWS["split"](Data("t", point, np.arange(12), point[:0], []), 0, 4, smooth=0.75)
    np.testing.assert_allclose(task.X_train.sum(axis=1), 1.0, rtol=1e-3)  # some leaves the edge
    image = task.X_train[0].reshape(5, 5)
    np.testing.assert_allclose(image, image.T)
    assert 0 < image[2, 1] < image[2, 2] < 1


def test_folds_have_every_row_once():
    tasks = [VIEWS["fold"](WHOLE, seed, folds=4) for seed in range(4)]
    assert sorted(len(task.y_test) for task in tasks) == [11, 11, 11, 12]
    of_each = [(task.X_train, task.X_test) for task in tasks]
    for parts in ([task.X_test for task in tasks], *of_each):
        np.testing.assert_array_equal(sorted_rows(*parts), np.sort(WHOLE.X_train, axis=0))
    with pytest.raises(SettingsError, match="there are 4 folds"):
        VIEWS["fold"](WHOLE, 4, folds=4)


def test_groups_of_labels_and_so_many_training_rows_of_each():
    groups, column = [["a", "c"], ["b"]], [["b"], ["a"], ["c"]]
    task = VIEWS["grouped"](WHOLE, 0, 4, groups, column)
    assert (task.X_train.shape, task.X_test.shape) == ((12, 4), (33, 4))
    rows = [*task.X_train, *task.X_test]
    for x, y in zip(rows, [*task.y_train, *task.y_test], strict=True):
        (label,) = WHOLE.y_train[(WHOLE.X_train == x[:3]).all(axis=1)]
        assert (y, x[3]) == (label == "b", {"b": 0, "a": 1, "c": 2}[label])
    assert np.bincount(task.X_train[:, 3].astype(int)).tolist() == [4, 4, 4]


def test_files_are_found_packed_or_not(tmp_path):
    source = Source("here", {"source": "usps", "fold": {"folds": 3}})
    with pytest.raises(DataError, match=r"usps\.npz.*zip\.train.*--data"):
        source.load(None, 0)
    assert source.digests(tmp_path) == {}
    (tmp_path / "raw").mkdir()
    np.savez(tmp_path / "raw" / "usps.npz", X_train=X, y_train=Y, X_test=X[:5], y_test=Y[:5])
    assert len(source.load(tmp_path, 1).y_test) == 20
    assert list(source.digests(tmp_path)) == ["usps.npz"]
    text = "1.0,2.0,a\n3.0,4.0,b\n"
    (tmp_path / "isolet1+2+3+4.data").write_text(text)
    (tmp_path / "isolet5.data").write_text(text[:10])
    isolet = Source("here", {"source": "isolet"}).load(tmp_path, 0)
    assert (isolet.X_train.tolist(), isolet.y_test.tolist()) == ([[1, 2], [3, 4]], ["a"])
    with pytest.raises(DataError, match=r"here: iris.*split"):
        Source("here", {"source": "iris"}).load(None, 0)


def test_probabilities_of_the_mixture():
    mixture = Mixture(6, seed=2)
    rows, classes = mixture.draw("test", 0)
    means, basis = mixture.centres()
    covariance = 0.4**2 * basis @ basis.T + 0.5**2 * np.eye(6)
    densities = np.stack(
        [multivariate_normal.pdf(rows[:50], basis @ mean, covariance) for mean in means], axis=1
    )
    of_class = np.stack([densities[:, k::5].sum(axis=1) for k in range(5)], axis=1)
    expected = of_class / of_class.sum(axis=1, keepdims=True)
    truth = Truth(random_state=2).fit(rows, classes)
    np.testing.assert_allclose(truth.predict_proba(rows[:50]), expected, rtol=1e-6, atol=1e-12)


def test_rows_of_the_mixture_are_read_from_a_store():
    data = Source("here", {"source": "mixture", "rows": 5000, "columns": 4, "test_rows": 30})
    read = data.load(None, 1)
    drawn = Mixture(4, 1).draw("train", 1)
    np.testing.assert_array_equal(np.asarray(read.X_train[CHUNK_ROWS:]), drawn[0][:904])
    np.testing.assert_array_equal(read.y_train[CHUNK_ROWS:], drawn[1][:904])
    assert (read.X_train.shape, read.X_test.shape) == ((5000, 4), (30, 4))


def test_nine_gaussians_are_whitened():
    data = Source("here", {"source": "nine-gaussians", "n_train": 400}).load(None, 3)
    np.testing.assert_allclose(np.cov(data.X_train.T), np.eye(2), atol=1e-12)
    assert (set(data.y_train), data.X_test.shape) == ({0, 1, 2}, (500, 2))
