"""Memory and work of a sparse run, told from the shape of its data before it begins.

Counted are the arrays that row blocks (ivm/block.py) and the driver hold, tile by tile as they are
allocated, and the floating-point operations of the products that the method cannot do without.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

from sparsegp.ivm.rows import GROUP, NARROW, TILE
from sparsegp.ivm.shrink import DIGIT
from sparsegp.selection.criteria import CRITERIA
from sparsegp.settings import TrainSettings
from sparsegp.training.blocks import default_block_rows, tiles_together

DOUBLE = 8

PROCESS_BYTES = 140_000_000
"""A Python process with numpy, scipy, dask and zarr."""

LOADING = 1.5
"""Times that the rows of a block are held while they are read."""

KEPT = 0.5
"""Share of a looked-ahead batch that turns out to be in the true order (0.4 to 0.8 were seen)."""

KEEP_BYTES = 5 * DOUBLE
"""What a checkpoint holds of a thinning."""

THINNING = 2 + 3 * 64 // DIGIT
"""Calls to each worker by which candidates get fewer (ivm/shrink.py)."""


@dataclass(frozen=True)
class BlockMemory:
    """Bytes of the row blocks in one process.

    Attributes
    ----------
    inputs : int
        Scaled rows in the working precision.
    stub : int
        Stub matrices, (d, rows) for each kernel; with a bound, the most at any time.
    marginals : int
        Latent means and variances, row numbers and class codes.
    anchors : int
        Earlier evaluations that lazy scores are bounded by.
    temporaries : int
        New stub columns of a batch, and what is worked on at a time.
    loading : int
        Rows as they were read, while they become inputs; before the stub matrices fill.
    """

    inputs: int
    stub: int
    marginals: int
    anchors: int
    temporaries: int
    loading: int

    @property
    def total(self) -> int:
        """The most at any time."""
        state = self.stub + self.marginals + self.anchors + self.temporaries
        return self.inputs + max(self.loading, state)


@dataclass(frozen=True)
class DriverMemory:
    """Bytes that the driver holds.

    Attributes
    ----------
    source : int
        The data as they were read, where they do not stay on disk.
    factors : int
        Batches of inclusions with their rows of the factors.
    checkpoint : int
        Their copy while a checkpoint is written.
    posterior : int
        Covariance and factor of the active rows, when the model is made.
    """

    source: int
    factors: int
    checkpoint: int
    posterior: int

    @property
    def total(self) -> int:
        """The most at any time."""
        return self.source + self.factors + max(self.checkpoint, self.posterior)


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
) -> Estimate:
    """Estimate memory and work of a run.

    Parameters
    ----------
    n, p, n_classes : int
        Training rows, columns and classes; no classes in a regression.
    n_active : int
        Rows to include.
    settings : TrainSettings
    n_workers : int
        Worker processes; 0 for threads of this process.
    n_test : int
        Held-out rows that follow the training.
    n_threads : int
        Threads, where there are no worker processes.
    source_bytes : int
        What the driver holds of the data as they were read.
    source_itemsize : int
        Bytes of a number as it was read.
    """
    n_latent = settings.start_likelihood(n_classes).n_latent(n_classes)
    n_kernels = n_latent if settings.kernel_per_class else 1
    steps = stretches(n, n_active, n_kernels, settings)
    bounded = settings.bound(n, n_active, n_kernels) is not None
    dealt = deal(n, n_test, n_workers, n_threads, bounded)
    threads = 1 if n_workers else n_threads
    loading = int(LOADING * threads * max(map(max, dealt)) * p * source_itemsize)
    rows = max(map(sum, dealt))
    held_out, padded = padded_rows(n_test), padded_rows(n) + padded_rows(n_test)
    blocks = block_memory(rows, p, n_latent, n_active, settings, threads, loading)
    if bounded:
        entries = max(stop * held for _, stop, held in steps) + n_active * held_out
        panel = max(stop - start for start, stop, _ in steps)
        item = n_kernels * settings.dtype.itemsize
        blocks = replace(
            blocks,
            stub=int(item * rows * entries / padded),
            temporaries=blocks.temporaries + item * rows * max(panel - settings.order.slots, 0),
        )
    driver = driver_memory(p, n_latent, n_active, settings, source_bytes, sum(map(len, dealt)))
    alone = n_workers == 0
    worker_bytes = 0 if alone else PROCESS_BYTES + blocks.total
    driver_bytes = PROCESS_BYTES + driver.total + (blocks.total if alone else 0)
    slots = settings.order.slots
    rounds = sum(-((start - stop) // slots) for start, stop, _ in steps)
    messages = rounds * messages_per_round(settings) + bounded * len(steps) * THINNING
    columns = sum((stop - start) * held for start, stop, held in steps) + n_active * held_out
    squares = sum((stop**2 - start**2) * held for start, stop, held in steps)
    return Estimate(
        rows=n,
        held_out=n_test,
        columns=p,
        classes=n_classes,
        n_active=n_active,
        kernels=n_kernels,
        n_workers=n_workers,
        blocks=blocks,
        driver=driver,
        worker_bytes=worker_bytes,
        driver_bytes=driver_bytes,
        total_bytes=driver_bytes + n_workers * worker_bytes,
        kernel_flops=2.0 * n_kernels * columns * p,
        stub_flops=1.0 * n_kernels * (squares + held_out * n_active**2),
        rounds=rounds,
        messages=messages,
        message_bytes=DOUBLE * n_kernels * slots * (n_active + slots),
        checkpoint_bytes=checkpoint_size(n, p, n_latent, n_active, settings)
        + bounded * len(steps) * KEEP_BYTES,
    )


def padded_rows(rows: int) -> int:
    """Return rows filled up to whole tiles."""
    return -(-rows // TILE) * TILE


def stretches(
    n: int, n_active: int, n_kernels: int, settings: TrainSettings
) -> list[tuple[int, int, int]]:
    """Return active rows at the start and at the end, and training rows held, while they stay."""
    bound, padded = settings.bound(n, n_active, n_kernels), padded_rows(n)
    if bound is None:
        return [(0, n_active, padded)]
    filling = -(-n // (GROUP * TILE)) * NARROW // 2
    sizes = bound.sizes(n - settings.rows_aside(n), n_active, n_kernels)
    return [(start, stop, min(left + filling, padded)) for start, stop, left in sizes]


def deal(
    n: int, n_test: int, n_workers: int, n_threads: int, bounded: bool = False
) -> list[list[int]]:
    """Return the padded rows of the blocks in each process that holds some."""
    unit = TILE * tiles_together(n, bounded)
    share = default_block_rows(n, n_workers or n_threads)
    size = -(-share // unit) * unit
    sizes = [padded_rows(min(size, m - at)) for m in (n, n_test) for at in range(0, m, size)]
    hosts = min(n_workers, len(sizes)) or 1
    held: list[list[int]] = [[] for _ in range(hosts)]
    for order, rows in enumerate(sizes):  # as execution.dask deals them
        held[order * hosts // len(sizes)].append(rows)
    return held


def block_memory(
    rows: int,
    p: int,
    n_latent: int,
    n_active: int,
    settings: TrainSettings,
    threads: int,
    loading: int,
) -> BlockMemory:
    """Return the bytes of row blocks with so many padded rows, worked on by some threads."""
    item = settings.dtype.itemsize
    n_kernels = n_latent if settings.kernel_per_class else 1
    slots = settings.order.slots
    criterion = CRITERIA[settings.criterion](settings.seed)
    lazy = settings.lazy and n_kernels == 1 and criterion.concave
    group = min(GROUP * TILE, rows)
    columns = n_kernels * rows * slots * item
    scoring = rows * DOUBLE * (8 if lazy else 8 + 2 * n_latent)
    if settings.posterior == "all" or criterion.refitted:  # the sums for its metric
        columns = max(columns, threads * n_kernels * n_active * (DOUBLE * n_active + item * group))
    work = group * (4 * slots * item + 5 * slots * DOUBLE + 4 * n_latent * DOUBLE)
    return BlockMemory(
        inputs=rows * p * item,
        stub=n_kernels * rows * n_active * item,
        marginals=rows * (DOUBLE * (n_latent + n_kernels) + 2 * DOUBLE + 3),
        anchors=rows * DOUBLE * (n_latent + 1 if lazy else int(criterion.refitted)),
        temporaries=columns + scoring + threads * work,
        loading=loading,
    )


def driver_memory(
    p: int, n_latent: int, n_active: int, settings: TrainSettings, source_bytes: int, n_blocks: int
) -> DriverMemory:
    """Return the bytes that the driver holds."""
    n_kernels = n_latent if settings.kernel_per_class else 1
    order, d = settings.order, n_active
    kept = KEPT if order.panel == 1 and order.lookahead > 1 else 1.0
    triangle = DOUBLE * n_kernels * d * (d + 1) // 2
    rows = d * (p * settings.dtype.itemsize + 3 * DOUBLE * n_latent)
    squares = {"active": n_kernels + 2, "all": (n_blocks + 11) * n_kernels}
    follows = CRITERIA[settings.criterion].refitted
    matrices = n_kernels + 3 + squares.get("all" if follows else settings.posterior, 0)
    return DriverMemory(
        source=source_bytes,
        factors=int(triangle / kept) + DOUBLE * n_kernels * d * order.slots + rows,
        checkpoint=2 * (triangle + rows),
        posterior=matrices * DOUBLE * d * d + 2 * DOUBLE * d * p,
    )


def messages_per_round(settings: TrainSettings) -> int:
    """Return how often each row block is called in a round (ivm/greedy.py)."""
    order = settings.order
    if CRITERIA[settings.criterion](settings.seed).static or order.panel > 1:
        return 2  # gather, advance
    return 3 if order.lookahead > 1 else 1  # gather, propose, advance; or advance alone


def checkpoint_size(n: int, p: int, n_latent: int, n_active: int, settings: TrainSettings) -> int:
    """Return the bytes of the arrays of a checkpoint (ivm/active_set.py)."""
    n_kernels = n_latent if settings.kernel_per_class else 1
    d = n_active
    factor = DOUBLE * n_kernels * d * (d + 1) // 2
    a_row = p * settings.dtype.itemsize + DOUBLE * (3 + 2 * n_latent + n_kernels)
    return factor + d * a_row + DOUBLE * (padded_rows(n) // TILE)


def most_active(limit: int, wanted: int, **sizes: Any) -> int:
    """Return the greatest number of active rows, up to `wanted`, for which a run fits a limit.

    Parameters
    ----------
    limit : int
        Bytes for all processes together.
    wanted : int
    **sizes
        The other arguments of `estimate`.

    Returns
    -------
    int
        0 if not even one row fits.
    """
    low, high = 0, wanted
    while low < high:
        middle = (low + high + 1) // 2
        if estimate(n_active=middle, **sizes).total_bytes <= limit:
            low = middle
        else:
            high = middle - 1
    return low
