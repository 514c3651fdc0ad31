"""Memory and work of a run, from the shape of its data before it begins.

The model is simple and errs upward. Counted are the few arrays that grow with the rows of a process
(inputs, stub matrices, marginals, temporaries) or with the square of the active rows (factors,
posterior); `MARGIN` stands for the rest.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]

from sparsegp.data import Table
from sparsegp.data.summary import PIECE_VALUES
from sparsegp.ivm.criteria import CRITERIA
from sparsegp.ivm.greedy import MANY_ROWS
from sparsegp.ivm.pairs import PANEL
from sparsegp.ivm.rows import GROUP, NARROW
from sparsegp.learning.search import GROWN, MOST_ACTIVE, MOST_HELD_OUT
from sparsegp.learning.search import MOST_ROWS as TRIAL_ROWS
from sparsegp.math.products import TILE
from sparsegp.posterior.all_data import columns_of_part
from sparsegp.runtime import Runtime
from sparsegp.runtime.inputs import pack_inputs
from sparsegp.runtime.threads import ThreadRuntime, usable_cpus
from sparsegp.settings import AUTO, DenseSettings, TrainSettings

DOUBLE = 8
PROCESS = 160_000_000
"""Bytes of a Python process with numpy, scipy, dask and zarr."""
MARGIN = 1.15
"""Memory of a process by what is counted: buffers, fragments and stacks of threads are not."""
DRAWN_ROWS = 10_000
"""That a rule of scaling looks at."""
COPIES = 3
"""Of a block on its way to a worker: as an array, pickled, in buffers."""


@dataclass(frozen=True)
class Shape:
    """The shape of a run.

    Parameters
    ----------
    n, p, n_classes, n_test : int
        Training rows, columns, classes (none in a regression), held-out rows.
    n_active : int
        Rows to include; pairs of a row and a class with `active_per_class`.
    settings : TrainSettings or DenseSettings
    n_workers, n_threads : int
        Worker processes, 0 for threads of the driver; threads.
    itemsize, chunk_rows : int
        Bytes of a number as it was read; rows that are read from files at a time.
    source_bytes : int
        What the driver holds of the data as they were read; nothing of those read from files.
    block_rows : int, optional
        Rows in a block.
    scratch : bool
        Inputs and stub matrices are in files.
    """

    n: int
    p: int
    n_classes: int
    n_active: int
    settings: TrainSettings | DenseSettings
    n_test: int = 0
    n_workers: int = 0
    n_threads: int = 1
    itemsize: int = DOUBLE
    source_bytes: int = 0
    chunk_rows: int = 1 << 16
    block_rows: int | None = None
    scratch: bool = False


def shape_of(
    rows: Table,
    held_out: Table | None,
    n_classes: int,
    settings: TrainSettings | DenseSettings,
    **more: Any,
) -> Shape:
    """Return the shape of a run on a table, with more of its fields by name."""
    (n, p), n_test = rows.X.shape, 0 if held_out is None else held_out.X.shape[0]
    of_rows = {"itemsize": rows.X.dtype.itemsize, "chunk_rows": max(rows.X.chunks[0])}
    return Shape(n, p, n_classes, settings.rows_to_include(n), settings, n_test, **of_rows, **more)


def where(rows: Table, runtime: Runtime) -> dict[str, int]:
    """Return the fields of the shape of a run on a table that say where it runs."""
    if isinstance(runtime, ThreadRuntime):
        return {"n_threads": runtime.n_workers}
    return {"n_workers": runtime.n_workers, "source_bytes": held_bytes(rows.X)}


def held_bytes(X: Any) -> int:
    """Return the bytes of rows that travel with their tasks; nothing of those read from files."""
    first = X.blocks[0]
    packed = cloudpickle.dumps(pack_inputs({"X": first}))
    return int(X.nbytes) if 2 * len(packed) > first.nbytes else 0


# -- blocks ----------------------------------------------------------------------------------------


def tiles_together(n: int, bounded: bool) -> int:
    """Return how many tiles stay together in a block of n rows, or of candidates that get fewer."""
    return GROUP if n >= MANY_ROWS or bounded else 1


def rows_of_block(n: int, n_workers: int, tiles: int, wanted: int | None = None) -> int:
    """Return rows in a block, whole groups of tiles; by default two blocks a worker, none small."""
    if wanted is None:
        wanted = min(-(-n // min(2 * n_workers, max(n_workers, -(-n // 4096)))), 65536)
    return -(-wanted // (tiles * TILE)) * tiles * TILE


def padded(n: int) -> int:
    """Return rows filled up to whole tiles."""
    return -(-n // TILE) * TILE


# -- estimates -------------------------------------------------------------------------------------


def estimate(shape: Shape) -> dict[str, Any]:
    """Return what a run will take, as plain JSON values.

    Returns
    -------
    dict
        Sizes, and ``total_bytes`` of all processes together. Of a sparse run ``driver_bytes`` and
        ``worker_bytes`` (0 if row blocks live in threads of the driver), with their parts in
        ``driver`` and ``blocks``; ``kernel_flops`` (2 n d p) and ``stub_flops`` (n d^2 a kernel);
        bytes of the last checkpoint. Of a dense run ``matrices`` of all rows by all rows, and
        ``flops`` of one factor for every kernel: a run takes tens to thousands.

    Raises
    ------
    SettingsError
        If the settings are not for so many classes, or a bound leaves too few candidates.
    """
    n, p, settings = shape.n, shape.p, shape.settings
    found = {"rows": n, "columns": p, "classes": shape.n_classes}
    if isinstance(settings, TrainSettings):
        return found | _sparse(shape, settings)
    kernels, matrices = settings.sizes(shape.n_classes)
    held = shape.source_bytes + DOUBLE * (n * p + matrices * n * n)
    found |= {"kernels": kernels, "matrices": matrices, "total_bytes": PROCESS + held}
    return found | {"flops": kernels * n**3 / 3.0}


class _Layout(NamedTuple):
    """How a sparse run is laid out; of each inclusion there are `columns` stub columns."""

    settings: TrainSettings
    latent: int
    kernels: int
    columns: int
    slots: int  # inclusions of a round
    square: int  # bytes of (d, d) doubles, of a kernel
    hosts: int  # processes that hold row blocks
    block: int  # rows
    rows: int  # of all blocks in the fullest process
    steps: list[tuple[int, int, int]]  # inclusions from and to, training rows held meanwhile


def _layout(shape: Shape, settings: TrainSettings) -> _Layout:
    n, d, pairs = shape.n, shape.n_active, settings.active_per_class
    latent = settings.start_likelihood(shape.n_classes).n_latent(shape.n_classes)
    kernels = latent if settings.kernel_per_class else 1
    columns, slots = (1, 1) if pairs else (kernels, settings.order.slots)
    # classes with active rows of their own differ by half in their numbers
    square = DOUBLE * (min(d**2, int(1.5 * (d / kernels) ** 2)) if pairs else d**2)
    steps, bound = [(0, d, padded(n))], settings.bound(n, d, kernels)
    if bound is not None:
        partly = -(-n // (GROUP * TILE)) * NARROW  # filled tiles
        held = bound.sizes(n - settings.n_validation(n), d, columns)
        steps = [(start, stop, min(left + partly, padded(n))) for start, stop, left in held]
    tiles = tiles_together(n, bound is not None)
    block = rows_of_block(n, shape.n_workers or shape.n_threads, tiles, shape.block_rows)
    count = -(-n // block) - (-shape.n_test // block)
    hosts = max(min(shape.n_workers, count), 1)
    rows = min(-(-count // hosts) * block, padded(n) + padded(shape.n_test))
    kind = latent, kernels, columns, slots, square
    return _Layout(settings, *kind, hosts, min(block, rows), rows, steps)


def _sparse(shape: Shape, settings: TrainSettings) -> dict[str, Any]:
    layout = _layout(shape, settings)
    blocks, driver = _blocks_and_driver(shape, layout)
    in_memory = ("marginals",) if shape.scratch else ("marginals", "inputs", "stub")
    rows = sum(blocks[name] for name in in_memory)
    working = max(blocks[name] for name in ("temporaries", "loading", "model"))
    held = sum(driver[name] for name in ("source", "labels", "reading", "factors"))
    finishing = max(driver[name] for name in ("checkpoint", "posterior", "thinning"))
    if not shape.n_workers:  # rows and driver work by turns
        held, finishing = held + rows, max(working, finishing)
    trial = driver["search"]  # before there are blocks
    searching = driver["source"] + trial * min(shape.n_threads, 2)
    if shape.n_workers:
        searching = bool(trial) * (driver["source"] + driver["reading"] + _sample_bytes(shape))
    driver_bytes = int(MARGIN * (PROCESS + max(held + finishing, searching)))
    worker_bytes = int(MARGIN * (PROCESS + max(rows + working, trial))) if shape.n_workers else 0
    return {
        "held_out": shape.n_test,
        "n_active": shape.n_active,
        "kernels": layout.kernels,
        "n_workers": shape.n_workers,
        "blocks": {**blocks, "in_files": shape.scratch},
        "driver": driver,
        "worker_bytes": worker_bytes,
        "driver_bytes": driver_bytes,
        "total_bytes": driver_bytes + shape.n_workers * worker_bytes,
        **_work(shape, layout),
    }


def _blocks_and_driver(shape: Shape, layout: _Layout) -> tuple[dict[str, int], dict[str, int]]:
    """Return bytes of the row blocks in the fullest process, and of the driver."""
    n, p, d, settings, rows = shape.n, shape.p, shape.n_active, layout.settings, layout.rows
    latent, kernels, square, apart = (
        layout.latent,
        layout.kernels,
        layout.square,
        shape.n_workers > 0,
    )
    pairs, item = settings.active_per_class, settings.dtype.itemsize
    threads = 1 if apart else shape.n_threads
    group = threads * min(GROUP * TILE, rows)  # rows that are worked on at a time
    refits = settings.posterior == "all" or CRITERIA[settings.criterion].refitted
    own = (11 + min(layout.hosts, 32)) * kernels if refits else kernels + 2
    chunk = min(shape.chunk_rows, n) * p * shape.itemsize
    block, loading = layout.block * p * shape.itemsize, 2 * chunk  # read, and in its place
    if apart and shape.source_bytes:
        loading = COPIES * (block + chunk)
    test = padded(shape.n_test)
    entries = max(stop * held for _, stop, held in layout.steps) + d * test
    width = (
        layout.slots
        if len(layout.steps) == 1
        else max(stop - start for start, stop, _ in layout.steps)
    )
    a_row = p * item + 3 * DOUBLE * latent
    blocks = {
        "inputs": rows * p * item,
        "stub": layout.columns * item * entries * rows // (padded(n) + test)
        + pairs * latent * rows * PANEL // 2 * item,
        "marginals": rows * DOUBLE * (2 * latent + kernels + 5),
        "temporaries": rows * (layout.columns * width * item + DOUBLE * (8 + 2 * latent))
        + group * DOUBLE * (9 * layout.slots + 4 * latent + refits * d)
        + refits * (COPIES * apart * kernels + 3 * threads) * square
        + refits * layout.columns * item * d * rows * (columns_of_part(n) % TILE) // TILE
        + pairs * threads * layout.block * DOUBLE * 14 * latent,
        "loading": threads * (block + loading),
        "model": apart * ((3 * kernels + 6) * square + COPIES * chunk),
    }
    driver = {
        "source": shape.source_bytes,
        "labels": 5 * DOUBLE * (n + shape.n_test),
        "reading": min(usable_cpus(), -(-n // shape.chunk_rows))
        * (2 * chunk + 4 * DOUBLE * min(PIECE_VALUES, n * p))
        + (layout.hosts * loading if apart and shape.source_bytes else 0),
        "factors": kernels * square + DOUBLE * layout.columns * d * layout.slots + d * a_row,
        "checkpoint": kernels * square + 2 * d * a_row,
        "posterior": (kernels + 3 + own) * square + 2 * DOUBLE * d * p,
        "thinning": 7 * DOUBLE * n * (settings.stub_entries is not None),
        "search": _trial_bytes(shape, settings) if settings.kernel == AUTO else 0,
    }
    return blocks, driver


def _trial_bytes(shape: Shape, settings: TrainSettings) -> int:
    """Return bytes of the largest trial of a search, with its sample (fit/trial.py)."""
    rows = min(shape.n, TRIAL_ROWS + MOST_HELD_OUT)
    most = GROWN[-2] if settings.n_active is None else settings.n_active
    d, item = min(most, MOST_ACTIVE, rows), settings.dtype.itemsize
    inputs = shape.p * rows * (2 * shape.itemsize + DOUBLE + 2 * item)
    return inputs + item * d * rows + 6 * DOUBLE * d**2


def _sample_bytes(shape: Shape) -> int:
    """Return bytes of the sample of a search on its way to workers, and of a rule of scaling."""
    rows = min(shape.n, TRIAL_ROWS + MOST_HELD_OUT)
    return shape.p * ((COPIES + 2) * rows * shape.itemsize + 2 * DOUBLE * min(shape.n, DRAWN_ROWS))


def _work(shape: Shape, layout: _Layout) -> dict[str, float]:
    """Return operations, and the size of a checkpoint."""
    d, kernels, test = shape.n_active, layout.kernels, padded(shape.n_test)
    pairs, item = layout.settings.active_per_class, layout.settings.dtype.itemsize
    columns = sum((stop - start) * held for start, stop, held in layout.steps) + d * test
    squares = sum((stop**2 - start**2) * held for start, stop, held in layout.steps) + d**2 * test
    a_row = shape.p * item + DOUBLE * (8 if pairs else 3 + 2 * layout.latent + kernels)
    rest = DOUBLE * (padded(shape.n) // TILE + 5 * len(layout.steps))
    return {
        "kernel_flops": 2.0 * layout.columns * columns * shape.p,
        "stub_flops": squares / kernels if pairs else float(squares * kernels),
        "checkpoint_bytes": kernels * (layout.square + DOUBLE * d) // 2 + d * a_row + rest,
    }
