"""The model of how long rounds take, against simple cases and its own simulation."""

import numpy as np
import pytest

from sparsegp.estimate.memory import Shape
from sparsegp.estimate.rounds import Costs, Measured, fitted, round_seconds, simulate, straggling
from sparsegp.estimate.traffic import ascent_traffic, selection_traffic
from sparsegp.settings import TrainSettings

COSTS = Costs(latency=1e-3, call=0.5e-3, byte=1e-9, work=0.25e-3)


def test_one_worker_by_hand():
    """Sending, a half of the latency, work, the other half, receiving: one after the other."""
    expected = 1e-3 + 0.5e-3 + 4e-5 + 0.25e-3 + 0.1
    assert simulate(COSTS, np.array([0.1]), 4e4) == pytest.approx(expected, rel=1e-12)
    assert round_seconds(COSTS, 1, 4e4, 0.1) == pytest.approx(expected, rel=1e-12)
    assert simulate(COSTS, np.array([0.1]), 4e4, cores=1) == pytest.approx(expected, rel=1e-12)


def test_two_workers_by_hand():
    """The second is sent for while the first computes; both answers wait for the driver."""
    half = 0.25e-3
    slow, quick = 0.1, 0.0
    # the quick one is sent for last and answers first; then the driver waits for the slow one
    expected = half + 0.5e-3 + COSTS.work + slow + 0.5e-3 + half
    assert simulate(COSTS, np.array([slow, quick])) == pytest.approx(expected, rel=1e-12)
    # without work the driver is always busy, but for the way of the last call
    none = Costs(latency=0.0, call=0.5e-3, byte=0.0, work=0.0)
    assert simulate(none, np.zeros(2)) == pytest.approx(1e-3, rel=1e-12)


@pytest.mark.parametrize("n_workers", [1, 2, 7, 64, 1000])
@pytest.mark.parametrize("compute", [0.0, 1e-3, 0.5])
def test_formula_bounds_the_simulation(n_workers, compute):
    """It leaves out that workers compute while others are sent for: half of the driver's time."""
    simulated = simulate(COSTS, np.full(n_workers, compute), 1e4)
    told = round_seconds(COSTS, n_workers, 1e4, compute)
    driver = n_workers * (COSTS.call + COSTS.byte * 1e4)
    assert max(driver, told - driver) <= simulated * (1 + 1e-12)
    assert simulated <= told * (1 + 1e-12)


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_shared_processors_do_no_less_work(cores):
    n_workers, compute = 12, np.linspace(1e-3, 5e-3, 12)
    work = n_workers * (COSTS.call + COSTS.work) + compute.sum()
    seconds = simulate(COSTS, compute, cores=cores)
    assert work / cores <= seconds <= work + COSTS.latency
    assert seconds >= simulate(COSTS, compute, cores=cores + 1) - 1e-12
    assert simulate(COSTS, compute, cores=n_workers + 1) == pytest.approx(simulate(COSTS, compute))


def test_costs_are_found_again():
    measured = [
        Measured(
            n_workers=w,
            n_bytes=b,
            seconds=round_seconds(COSTS, w, b, cores=2),
            driver=COSTS.call + COSTS.byte * b,
            worker=COSTS.work,
        )
        for w, b in ((1, 8e3), (2, 8e3), (8, 8e3), (2, 2e6))
    ]
    found = fitted(measured, 2)
    for name in ("latency", "call", "byte", "work"):
        assert getattr(found, name) == pytest.approx(getattr(COSTS, name), rel=1e-9)


def test_stragglers_are_keyed_and_slow_a_round():
    times = straggling(20000, 0.5, 0.3, [1, 2])
    assert np.array_equal(times, straggling(20000, 0.5, 0.3, [1, 2]))
    assert times.mean() == pytest.approx(0.5, rel=0.01)
    assert np.log(times).std() == pytest.approx(0.3, rel=0.02)
    even = simulate(COSTS, np.full(100, 0.5))
    assert simulate(COSTS, straggling(100, 0.5, 0.3, [0])) > 1.3 * even


def test_larger_panels_mean_fewer_calls_and_the_same_rows():
    shapes = [Shape(784, 1000, 10, 1, TrainSettings(panel=q)) for q in (16, 64)]
    small, large = (selection_traffic(shape, 10**8, 1000, 2) for shape in shapes)
    assert (small.rounds, large.rounds) == (63, 16)
    assert (small.calls, large.calls) == (127, 33)
    factor = 8 * 1000**2 / 2  # what a batch says of all before it, summed over the batches
    assert large.sent > factor < small.sent
    assert large.sent < 1.5 * small.sent


def test_an_ascent_is_told_by_its_rounds():
    shape = Shape(784, 1000, 10, 1, TrainSettings())
    one, many = ascent_traffic(shape, 1, 2), ascent_traffic(shape, 41, 2)
    assert many.calls - one.calls == 40
    coefficients = 8 * 1000 * 10
    assert many.sent - one.sent == pytest.approx(40 * coefficients, rel=0.02)
    assert many.received - one.received == pytest.approx(2 * 40 * coefficients, rel=0.02)
