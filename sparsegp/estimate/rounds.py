"""How long rounds take: a model of calls, bytes and work, and a simulation of one round.

The driver sends a call to each worker in turn, the workers compute, and the driver takes the
answers in turn. What it spends on a call and on a byte adds up over the workers; what they compute
does not.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from sparsegp.types import Doubles


@dataclass(frozen=True)
class Costs:
    """What messages cost, in seconds; by default about what was measured on one machine.

    Attributes
    ----------
    latency : float
        Of a call and its answer, nothing else going on.
    call : float
        Processor time of the driver for a call and its answer.
    byte : float
        Processor time of the driver for a byte, sent or received.
    work : float
        Processor time of a worker for a call that computes nothing.
    """

    latency: float = 0.5e-3
    call: float = 0.65e-3
    byte: float = 0.5e-9
    work: float = 1e-3


@dataclass(frozen=True)
class Measured:
    """Rounds of calls that compute nothing, as measured.

    Attributes
    ----------
    n_workers : int
    n_bytes : float
        Sent to a worker and received from it in a round.
    seconds : float
        Of a round.
    driver, worker : float
        Processor seconds of a call.
    """

    n_workers: int
    n_bytes: float
    seconds: float
    driver: float
    worker: float


def round_seconds(
    costs: Costs,
    n_workers: int,
    n_bytes: float = 0.0,
    compute: float = 0.0,
    cores: int | None = None,
) -> float:
    """Return the seconds of a round with one call to each worker.

    Parameters
    ----------
    costs : Costs
    n_workers : int
    n_bytes : float
        To and from each worker.
    compute : float
        Seconds of each worker.
    cores : int, optional
        Processors that driver and workers share; one for each of them if left out.
    """
    driver = n_workers * (costs.call + costs.byte * n_bytes)
    apart = costs.latency + driver + costs.work + compute
    if cores is None:
        return apart
    return max(apart, costs.latency + (driver + n_workers * (costs.work + compute)) / cores)


def fitted(measured: Sequence[Measured], cores: int) -> Costs:
    """Return the costs by which the model is nearest to what was measured, in least squares.

    Processor time tells those of the driver and of the workers, and what is left of the seconds of
    the smallest rounds the latency.

    Parameters
    ----------
    measured : sequence of Measured
    cores : int
        Processors that all processes shared.
    """
    calls = np.array([[1.0, one.n_bytes] for one in measured])
    (call, byte), _ = nnls(calls * [1.0, 1e-6], [one.driver for one in measured])
    work = float(np.median([one.worker for one in measured]))
    costs = Costs(0.0, float(call), 1e-6 * float(byte), work)
    rest = [
        one.seconds - round_seconds(costs, one.n_workers, one.n_bytes, 0.0, cores)
        for one in measured
        if one.n_workers == min(other.n_workers for other in measured)
    ]
    return Costs(max(float(np.median(rest)), 0.0), costs.call, costs.byte, costs.work)


def simulate(
    costs: Costs,
    compute: Doubles,
    n_bytes: float = 0.0,
    cores: int | None = None,
) -> float:
    """Return the seconds of a round, event by event.

    A process does one thing at a time, in the order in which things come to it; with `cores`, so
    many processes run at the same time.

    Parameters
    ----------
    costs : Costs
    compute : Doubles (W,)
        Seconds that each worker computes.
    n_bytes : float
        To and from each worker.
    cores : int, optional
    """
    n_workers = len(compute)
    half = 0.5 * (costs.call + costs.byte * n_bytes)  # to send, and to receive
    driver, answered, end = 0.0, 0, 0.0
    free = [0.0] * (cores or n_workers + 1)
    due = [(0.0, k, "send") for k in range(n_workers)]  # already a heap
    while due:
        ready, k, what = heapq.heappop(due)
        core = heapq.heappop(free)
        if what == "work":
            done = max(ready, core) + costs.work + float(compute[k])
            heapq.heappush(due, (done + 0.5 * costs.latency, k, "answer"))
        else:
            done = driver = max(ready, core, driver) + half
            if what == "send":
                heapq.heappush(due, (done + 0.5 * costs.latency, k, "work"))
            else:
                answered, end = answered + 1, max(end, done)
        heapq.heappush(free, done)
    assert answered == n_workers
    return end


def straggling(n_workers: int, seconds: float, spread: float, key: Sequence[int]) -> Doubles:
    """Return times of workers whose logarithms have a standard deviation, (W,); the mean is given.

    Parameters
    ----------
    n_workers : int
    seconds : float
        The mean.
    spread : float
        Standard deviation of the logarithm.
    key : sequence of int
        Of the random stream.
    """
    rng = np.random.default_rng(list(key))
    factors = np.exp(spread * rng.standard_normal(n_workers) - 0.5 * spread**2)
    return np.asarray(seconds * factors)
