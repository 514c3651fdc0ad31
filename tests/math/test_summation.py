"""Exact sums: the same to the last bit in any order."""

import numpy as np

from sparsegp.math.summation import quantum, snap


def test_sums_do_not_depend_on_the_order() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=100_000).astype(np.float32) * 3.0
    unit = quantum(1e6)
    snapped = snap(values, unit)
    total = snapped.sum()
    for _ in range(5):
        rng.shuffle(snapped)
        assert snapped.sum() == total
        parts = np.split(snapped, [10, 777, 50_000])
        assert sum(part.sum() for part in parts) == total
    assert abs(total - values.astype(np.float64).sum()) < len(values) * unit


def test_quantum_is_a_power_of_two_that_leaves_room() -> None:
    for bound in (0.3, 1.0, 1e6, 1e12):
        unit = quantum(bound)
        assert np.log2(unit) == np.rint(np.log2(unit))
        assert bound / unit <= 2.0**52
        assert snap(np.array([bound]), unit)[0] >= bound * (1.0 - 1e-12)
