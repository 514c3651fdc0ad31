"""What driver and workers send each other while rows are selected: rounds, calls and bytes.

Every call to a worker is a message there and an answer back. In a round of panels the driver asks
for candidates (`gather`), chooses among them, and sends the batch (`advance`), whose answers name
the next candidates. A batch goes to every worker; candidates come from those that hold them.
"""

from dataclasses import dataclass

from sparsegp.estimate.memory import DOUBLE, Shape
from sparsegp.selection.criteria import CRITERIA

CALL, ANSWER, BLOCK = 600, 300, 220
"""Bytes around what is in a message, an answer, and the part of one block in an answer: pickled
names, types and shapes, and the envelope of the connection."""

BATCH, GATHER, SLOPE = 1100, 250, 230
"""Bytes of the names, types and shapes in a batch, in a request for candidates, and in one for a
slope."""


@dataclass(frozen=True)
class Traffic:
    """What the driver and one worker send each other.

    Attributes
    ----------
    rounds : int
    calls : int
        Messages from the driver, and as many answers.
    sent, received : float
        Bytes to the worker and from it.
    """

    rounds: int = 0
    calls: int = 0
    sent: float = 0.0
    received: float = 0.0

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(
            self.rounds + other.rounds,
            self.calls + other.calls,
            self.sent + other.sent,
            self.received + other.received,
        )

    @property
    def bytes(self) -> float:
        """Bytes in both directions."""
        return self.sent + self.received


def selection_traffic(shape: Shape, n: int, n_workers: int, blocks: float) -> Traffic:
    """Return the traffic of a selection in panels, with one of `n_workers` workers.

    Parameters
    ----------
    shape : Shape
    n : int
        Training rows.
    n_workers : int
    blocks : float
        Blocks of the worker.
    """
    slots = shape.settings.order.slots
    total = Traffic()
    for start in range(0, shape.n_active, slots):
        total += panel_traffic(shape, n, n_workers, blocks, start)
    return total + Traffic(0, 1, CALL, ANSWER + BLOCK * blocks)  # of the first, or last, question


def panel_traffic(shape: Shape, n: int, n_workers: int, blocks: float, start: int) -> Traffic:
    """Return the traffic of one round, with so many rows active before it."""
    order, item = shape.settings.order, shape.settings.dtype.itemsize
    slots = order.slots
    static = CRITERIA[shape.settings.criterion](shape.settings.seed).static
    pool = min(order.pool_size(static, n), n)
    values = shape.n_latent + shape.n_kernels
    batch = slots * (
        3 * DOUBLE
        + shape.p * item
        + shape.n_kernels * DOUBLE * (start + slots)
        + DOUBLE * (2 * shape.n_latent + shape.n_kernels)
    )
    candidate = 3 * DOUBLE + item * (shape.p + shape.n_kernels * start) + DOUBLE * values
    named = 2 * DOUBLE * blocks * min(pool, n / (blocks * n_workers))
    return Traffic(
        rounds=1,
        calls=2,
        sent=2 * CALL + GATHER + 2 * DOUBLE * pool + BATCH + batch,
        received=2 * (ANSWER + BLOCK * blocks) + candidate * pool / n_workers + named,
    )


def ascent_traffic(shape: Shape, rounds: int, blocks: float) -> Traffic:
    """Return the traffic of the posterior `all`: one sum for its metric, then its rounds."""
    gram = DOUBLE * shape.n_kernels * shape.n_active**2
    slope = DOUBLE * shape.n_latent * shape.n_active
    metric = Traffic(1, 1, CALL, ANSWER + gram)  # added up by the worker
    calls = rounds + 1  # it begins with a slope
    return metric + Traffic(
        rounds, calls, calls * (CALL + SLOPE + slope), calls * (ANSWER + blocks * (BLOCK + slope))
    )
