import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sparsegp.data import table_from_arrays
from sparsegp.errors import DataError
from sparsegp.execution import open_runtime
from sparsegp.settings import TrainSettings
from sparsegp.training import prepare
from sparsegp.tuning.sample import draw_sample, split_sizes, stratified_order


def test_every_beginning_has_the_proportions_of_the_whole() -> None:
    target = np.random.default_rng(0).choice(4, p=[0.6, 0.3, 0.08, 0.02], size=1000)
    order = stratified_order(target, 0)
    assert_array_equal(np.sort(order), np.arange(1000))
    shares = np.bincount(target) / 1000
    for rows in range(1, 1001):
        assert np.abs(np.bincount(target[order[:rows]], minlength=4) - rows * shares).max() <= 3
    assert (stratified_order(target, 1) != order).any()


def test_sizes() -> None:
    assert split_sizes(1000, 16000) == (800, 200)
    assert split_sizes(60000, 16000) == (16000, 4000)
    assert split_sizes(5, 16000) == (4, 1)
    with pytest.raises(DataError, match=r"at least 5 rows, .* found 4; .* --kernel"):
        split_sizes(4, 16000)


def test_rows_are_scaled_as_those_of_a_run_and_read_once() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 3)) * [1.0, 10.0, 0.1], rng.integers(0, 3, size=300)
    with open_runtime(threads=1) as runtime:
        data = prepare(table_from_arrays(X, y), None, "auto", runtime)
    sample = draw_sample(data, TrainSettings(), 200)
    scaled = data.scaling.apply(X, np.float32)
    place = {row.tobytes(): number for number, row in enumerate(scaled)}
    rows = [place[row.tobytes()] for row in sample.X]
    held = [place[row.tobytes()] for row in sample.X_held]
    assert (len(rows), len(held)) == (200, 60)
    assert len({*rows, *held}) == 260
    assert_array_equal(sample.target, y[rows])
    assert_array_equal(sample.target_held, y[held])
    shorter = draw_sample(data, TrainSettings(), 100)
    assert_array_equal(shorter.X, sample.X[:100])
    assert_array_equal(shorter.X_held, sample.X_held)
