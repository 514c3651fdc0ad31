"""Memory and work of a sparse run, told from the shape of its data before it begins.

Counted are the arrays that row blocks (ivm/block.py) and the driver hold, tile by tile as they are
allocated, and the floating-point operations of the products that the method cannot do without.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from sparsegp.estimate.dealing import deal, padded_rows
from sparsegp.estimate.memory import (
    DOUBLE,
    PROCESS_BYTES,
    BlockMemory,
    DriverMemory,
    Shape,
    Source,
)
from sparsegp.ivm.criteria import CRITERIA
from sparsegp.ivm.rows import GROUP, NARROW, TILE
from sparsegp.ivm.shrink import DIGIT
from sparsegp.runtime.threads import usable_cpus
from sparsegp.settings import TrainSettings

KEEP_BYTES = 5 * DOUBLE
"""What a checkpoint holds of a thinning."""

THINNING = 2 + 3 * 64 // DIGIT
"""Calls to each worker by which candidates get fewer (ivm/shrink.py)."""


@dataclass(frozen=True)
class Estimate:
    """What a run will take.

    Attributes
    ----------
    rows, held_out, columns, classes, n_active, kernels : int
        Sizes. Held-out rows take the same memory as training rows.
    n_workers : int
        Worker processes; 0 if the row blocks live in threads of the driver.
    blocks : BlockMemory
        Of the fullest worker, or of all row blocks if there are no workers.
    driver : DriverMemory
    worker_bytes, driver_bytes, total_bytes : int
        Of a worker process, of the driver, and of all processes together.
    kernel_flops, stub_flops : float
        Of kernel columns (2 n d p) and of stub products (n d^2 for each kernel).
    rounds : int
        Times that the driver asks the row blocks, at least.
    messages : int
        Calls to each worker in these rounds.
    message_bytes : int
        Of the largest message to one worker.
    checkpoint_bytes : int
        Of the last checkpoint.
    """

    rows: int
    held_out: int
    columns: int
    classes: int
    n_active: int
    kernels: int
    n_workers: int
    blocks: BlockMemory
    driver: DriverMemory
    worker_bytes: int
    driver_bytes: int
    total_bytes: int
    kernel_flops: float
    stub_flops: float
    rounds: int
    messages: int
    message_bytes: int
    checkpoint_bytes: int

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def estimate(  # noqa: PLR0913 - sizes, one by one
    n: int,
    p: int,
    n_classes: int,
    n_active: int,
    settings: TrainSettings,
    n_workers: int = 0,
    n_test: int = 0,
    *,
    n_threads: int = 1,
    source_bytes: int = 0,
    source_itemsize: int = DOUBLE,
    chunk_rows: int | None = None,
    block_rows: int | None = None,
    scratch: bool = False,
) -> Estimate:
    """Estimate memory and work of a run.

    Parameters
    ----------
    n, p, n_classes : int
        Training rows, columns and classes; no classes in a regression.
    n_active : int
        Rows to include; pairs of a row and a class with `active_per_class`.
    settings : TrainSettings
    n_workers : int
        Worker processes; 0 for threads of this process.
    n_test : int
        Held-out rows that follow the training.
    n_threads : int
        Threads, where there are no worker processes.
    source_bytes : int
        What the driver holds of the data as they were read; none if workers read them from files.
    source_itemsize : int
        Bytes of a number as it was read.
    chunk_rows : int, optional
        Rows that are read from files at a time.
    block_rows : int, optional
        Rows in a block.
    scratch : bool
        Inputs and stub matrices are in files.
    """
    n_latent = settings.start_likelihood(n_classes).n_latent(n_classes)
    shape = Shape(p, n_active, n_latent, n_latent if settings.kernel_per_class else 1, settings)
    source = Source(source_itemsize, source_bytes, chunk_rows, usable_cpus())
    steps = stretches(n, n_active, shape)
    bounded = settings.bound(n, n_active, shape.n_kernels) is not None
    dealt = deal(n, n_test, n_workers, n_threads, bounded, block_rows)
    alone, shipped = n_workers == 0, bool(n_workers and source_bytes)
    of_worker = [
        shape.block_memory(held, source, n, n_threads if alone else 1, not alone) for held in dealt
    ]
    blocks = replace(max(of_worker, key=lambda memory: memory.total), in_files=scratch)
    rows, held_out = max(map(sum, dealt)), padded_rows(n_test)
    if bounded:
        blocks = thinned(blocks, shape, steps, rows, padded_rows(n) + held_out, held_out)
    reading = source.reading(n, p)
    if shipped:
        largest = max(map(max, dealt))
        reading = max(reading, len(dealt) * source.shipping(largest, n, p))
    driver = shape.driver_memory(
        n + n_test, source, reading, len(dealt) if n_workers else n_threads
    )
    worker_bytes = 0 if alone else PROCESS_BYTES + blocks.total
    driver_bytes = PROCESS_BYTES + driver.total
    if alone:  # of its own work and that of its blocks, one or the other takes more
        driver_bytes += blocks.total - min(blocks.temporaries, driver.working)
    slots, columns, rounds = work(shape, steps, held_out)
    messages = rounds * messages_per_round(settings) + bounded * len(steps) * THINNING
    past = n_active if settings.active_per_class else shape.n_kernels * (n_active + slots)
    return Estimate(
        rows=n,
        held_out=n_test,
        columns=p,
        classes=n_classes,
        n_active=n_active,
        kernels=shape.n_kernels,
        n_workers=n_workers,
        blocks=blocks,
        driver=driver,
        worker_bytes=worker_bytes,
        driver_bytes=driver_bytes,
        total_bytes=driver_bytes + n_workers * worker_bytes,
        kernel_flops=2.0 * shape.columns * columns[0] * p,
        stub_flops=1.0 * columns[1],
        rounds=rounds,
        messages=messages,
        message_bytes=DOUBLE * slots * past,
        checkpoint_bytes=checkpoint_size(n, shape) + bounded * len(steps) * KEEP_BYTES,
    )


def work(
    shape: Shape, steps: list[tuple[int, int, int]], held_out: int
) -> tuple[int, tuple[float, float], int]:
    """Return rows of a batch; kernel columns and operations of stub products; rounds."""
    n_active, per_class = shape.n_active, shape.settings.active_per_class
    slots = 1 if per_class else shape.settings.order.slots
    columns = sum((stop - start) * held for start, stop, held in steps) + n_active * held_out
    squares = sum((stop**2 - start**2) * held for start, stop, held in steps)
    share = 1.0 / shape.n_kernels if per_class else float(shape.n_kernels)
    rounds = sum(-((start - stop) // slots) for start, stop, _ in steps)
    return slots, (columns, share * (squares + held_out * n_active**2)), rounds


def thinned(
    blocks: BlockMemory,
    shape: Shape,
    steps: list[tuple[int, int, int]],
    rows: int,
    padded: int,
    held_out: int,
) -> BlockMemory:
    """Return the memory of blocks of so many rows of all, where candidates get fewer."""
    entries = max(stop * held for _, stop, held in steps) + shape.n_active * held_out
    panel = max(stop - start for start, stop, _ in steps)
    item = shape.columns * shape.settings.dtype.itemsize
    return replace(
        blocks,
        stub=int(item * rows * entries / padded),
        temporaries=blocks.temporaries + item * rows * max(panel - shape.settings.order.slots, 0),
    )


def stretches(n: int, n_active: int, shape: Shape) -> list[tuple[int, int, int]]:
    """Return active rows at the start and at the end, and training rows held, while they stay."""
    settings, padded = shape.settings, padded_rows(n)
    bound = settings.bound(n, n_active, shape.n_kernels)
    if bound is None:
        return [(0, n_active, padded)]
    filling = -(-n // (GROUP * TILE)) * NARROW // 2
    sizes = bound.sizes(n - settings.n_validation(n), n_active, shape.columns)
    return [(start, stop, min(left + filling, padded)) for start, stop, left in sizes]


def messages_per_round(settings: TrainSettings) -> int:
    """Return how often each row block is called in a round (ivm/greedy.py)."""
    order = settings.order
    if settings.active_per_class:
        return 1
    checked = order.slots > 1 and order.panel == 1 and not CRITERIA[settings.criterion].static
    return 3 if checked else 2  # gather, propose if the batch is checked, advance


def checkpoint_size(n: int, shape: Shape) -> int:
    """Return the bytes of the arrays of a checkpoint (ivm/active_set.py, ivm/pairs.py)."""
    d, item = shape.n_active, shape.settings.dtype.itemsize
    if shape.settings.active_per_class:
        factor, a_row = DOUBLE * (shape.squares + d) // 2, shape.p * item + 8 * DOUBLE
    else:
        factor = DOUBLE * shape.n_kernels * d * (d + 1) // 2
        a_row = shape.p * item + DOUBLE * (3 + 2 * shape.n_latent + shape.n_kernels)
    return factor + d * a_row + DOUBLE * (padded_rows(n) // TILE)


def most_active(limit: int, n_active: int, **sizes: Any) -> int:
    """Return the greatest number of active rows, up to `n_active`, for which a run fits a limit.

    Parameters
    ----------
    limit : int
        Bytes for all processes together.
    n_active : int
    **sizes
        The other arguments of `estimate`.

    Returns
    -------
    int
        0 if not even one row fits.
    """
    return greatest(lambda n: estimate(n_active=n, **sizes).total_bytes <= limit, n_active)


def greatest(fits: Callable[[int], bool], wanted: int) -> int:
    """Return the greatest number up to `wanted` that fits, 0 if none does."""
    low, high = 0, wanted
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
