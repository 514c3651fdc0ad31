"""Memory and floating-point operations of a run, estimated before it begins.

The estimate is simple and conservative. It counts the few arrays that grow with the number of rows
in a process (inputs, stub matrices, marginals, temporaries) or with the square of the number of
active rows (factors, posterior); `MARGIN` covers the rest.
"""

from dataclasses import dataclass
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from sparsegp.data import Table
from sparsegp.data.summary import PIECE_VALUES
from sparsegp.ivm.greedy import MANY_ROWS
from sparsegp.ivm.pairs import PANEL
from sparsegp.ivm.rows import GROUP, NARROW
from sparsegp.learning import plan
from sparsegp.math.products import TILE
from sparsegp.posterior.all_data import columns_of_part
from sparsegp.runtime import Runtime
from sparsegp.runtime.base import pack_inputs
from sparsegp.runtime.threads import ThreadRuntime, usable_cpus
from sparsegp.settings import AUTO, DenseSettings, TrainSettings

DOUBLE = 8
PROCESS = 160_000_000
"""Bytes of a Python process with numpy, scipy, dask and zarr."""
MARGIN = 1.15
"""Ratio of actual to counted memory: buffers, fragmentation and thread stacks are not counted."""
DRAWN_ROWS = 10_000
"""Maximum number of rows that a scaling rule examines."""
COPIES = 3
"""Copies of a block while it is sent to a worker: array, pickle, buffers."""
LEARNING_MATRICES = 11
"""Matrices (rows, active rows) while length scales of a sum kernel are learnt; 6 for a product."""


@dataclass(frozen=True)
class Shape:
    """Sizes and settings of a run, which determine its memory."""

    n: int  # training rows
    p: int  # columns
    n_classes: int  # 0 in a regression
    n_active: int  # active rows; with `active_per_class`, pairs of a row and a class
    settings: TrainSettings | DenseSettings
    n_test: int = 0  # test rows
    n_workers: int = 0  # worker processes; 0 for threads of the driver
    n_threads: int = 1
    itemsize: int = DOUBLE  # bytes of an input value as read
    source_bytes: int = 0  # inputs in the memory of the driver; 0 if they are read from files
    chunk_rows: int = 1 << 16  # rows that are read from files at a time
    block_rows: int | None = None  # rows in a block
    scratch: bool = False  # whether inputs and stub matrices are in files


def shape_of(
    rows: Table,
    held_out: Table | None,
    n_classes: int,
    settings: TrainSettings | DenseSettings,
    runtime: Runtime | None = None,
    **more: Any,
) -> Shape:
    """Return the shape of a run on a table; `more` has fields that do not follow from the rest."""
    if isinstance(runtime, ThreadRuntime):
        more["n_threads"] = runtime.n_workers
    elif runtime is not None:
        more |= {"n_workers": runtime.n_workers, "source_bytes": held_bytes(rows.X)}
    n, p, n_test = rows.most_rows, rows.X.shape[1], 0 if held_out is None else len(held_out.X)
    of_rows = {"itemsize": rows.X.dtype.itemsize, "chunk_rows": max(rows.X.chunks[0])}
    return Shape(n, p, n_classes, settings.rows_to_include(n), settings, n_test, **of_rows, **more)


def held_bytes(X: Any) -> int:
    """Return the bytes of the rows, if their Dask tasks contain them; 0 if read from files."""
    first = X.blocks[0]
    packed = cloudpickle.dumps(pack_inputs({"X": first}))
    return int(X.nbytes) if 2 * len(packed) > first.nbytes else 0


def tiles_per_unit(n: int, bounded: bool) -> int:
    """Return the number of tiles in a unit of a block; `bounded` if candidates are dropped."""
    return GROUP if n >= MANY_ROWS or bounded else 1


def rows_of_block(n: int, n_workers: int, tiles: int, wanted: int | None = None) -> int:
    """Return rows per block, whole groups of `tiles`; by default two large blocks per worker."""
    if wanted is None:
        wanted = min(-(-n // min(2 * n_workers, max(n_workers, -(-n // 4096)))), 65536)
    return -(-wanted // (tiles * TILE)) * tiles * TILE


def estimate(shape: Shape) -> dict[str, Any]:
    """Estimate the memory and the floating-point operations of a run, as plain JSON values.

    Returns
    -------
    dict
        Sizes, and ``total_bytes`` of all processes together. For a sparse run, ``driver_bytes`` and
        ``worker_bytes`` (0 if row blocks are in threads of the driver), with their parts in
        ``driver`` and ``blocks``; ``kernel_flops`` (2 n d p) and ``stub_flops`` (n d^2 per kernel);
        ``checkpoint_bytes`` of the last one. For a dense run, the number of ``matrices`` (n, n),
        and ``flops`` to factorise each kernel once, which a run does tens to thousands of times.

    Raises
    ------
    SettingsError
        If the number of classes is not supported, or `stub_entries` leaves too few candidates.
    """
    n, p, settings = shape.n, shape.p, shape.settings
    found = {"rows": n, "columns": p, "classes": shape.n_classes}
    if isinstance(settings, TrainSettings):
        return found | _sparse(shape, settings)
    kernels, matrices = settings.sizes(shape.n_classes)
    held = shape.source_bytes + DOUBLE * (n * p + matrices * n * n)
    found |= {"kernels": kernels, "matrices": matrices, "total_bytes": PROCESS + held}
    return found | {"flops": kernels * n**3 / 3.0}


class _Layout:
    """Memory layout of a sparse run, in which each inclusion adds `columns` stub columns."""

    def __init__(self, shape: Shape, settings: TrainSettings) -> None:
        n, p, d, pairs = shape.n, shape.p, shape.n_active, settings.active_per_class
        self.shape, self.settings, self.item = shape, settings, settings.dtype.itemsize
        self.latent = settings.start_likelihood(shape.n_classes).n_latent(shape.n_classes)
        self.kernels = self.latent if settings.kernel_per_class else 1
        self.columns, self.slots = (1, 1) if pairs else (self.kernels, settings.order.slots)
        # bytes of (d, d) doubles; with pairs (d / K, d / K) and half more, as class sizes differ
        self.square = DOUBLE * (min(d**2, int(1.5 * (d / self.kernels) ** 2)) if pairs else d**2)
        # training and test rows, rounded up to whole tiles
        self.whole, self.test = (-(-rows // TILE) * TILE for rows in (n, shape.n_test))
        # first and last inclusion of each stage, and training rows held during it
        self.steps, bound = [(0, d, self.whole)], settings.bound(n, d, self.kernels)
        if bound is not None:
            partly = -(-n // (GROUP * TILE)) * NARROW  # allowance for partly filled tiles
            stages = bound.sizes(n - settings.n_validation(n), d)
            self.steps = [(start, stop, min(m + partly, self.whole)) for start, stop, m in stages]
        tiles, workers = tiles_per_unit(n, bound is not None), shape.n_workers
        block = rows_of_block(n, workers or shape.n_threads, tiles, shape.block_rows)
        count = -(-n // block) - (-shape.n_test // block)
        self.hosts = max(min(workers, count), 1)  # processes that hold row blocks
        self.rows = min(-(-count // self.hosts) * block, self.whole + self.test)  # of the fullest
        self.block = min(block, self.rows)
        # bytes of the rows that are read at a time, and in use while a block is read or sent
        self.chunk = min(shape.chunk_rows, n) * p * shape.itemsize
        self.is_sent, self.loading = workers > 0 and shape.source_bytes > 0, 2 * self.chunk
        if self.is_sent:
            self.loading = COPIES * (self.block * p * shape.itemsize + self.chunk)
        self.of_all = settings.posterior == "all"

    def blocks(self) -> dict[str, int]:
        """Return the bytes of the row blocks in the fullest process, by purpose."""
        shape, rows, latent, square = self.shape, self.rows, self.latent, self.square
        p, d, pairs = shape.p, shape.n_active, self.settings.active_per_class
        apart, columns, item = shape.n_workers > 0, self.columns, self.item
        threads, of_all = 1 if apart else shape.n_threads, self.of_all
        group = threads * min(GROUP * TILE, rows)  # rows processed at a time
        entries = max(stop * held for _, stop, held in self.steps) + d * self.test
        stages = [stop - start for start, stop, _ in self.steps]
        width = max(stages) if len(stages) > 1 else self.slots
        return {
            "inputs": rows * p * item,
            "stub": columns * item * entries * rows // (self.whole + self.test)
            + pairs * latent * rows * PANEL // 2 * item,
            "marginals": rows * DOUBLE * (2 * latent + 2 * self.kernels + 5),
            "temporaries": rows * (columns * width * item + DOUBLE * (8 + 2 * latent))
            + group * DOUBLE * (9 * self.slots + 4 * latent + of_all * d)
            + of_all * (COPIES * apart * self.kernels + 3 * threads) * square
            + of_all * columns * item * d * rows * (columns_of_part(shape.n) % TILE) // TILE
            + pairs * threads * self.block * DOUBLE * 14 * latent,
            "loading": threads * (self.block * p * shape.itemsize + self.loading),
            "model": apart * ((3 * self.kernels + 6) * square + COPIES * self.chunk),
        }

    def driver(self) -> dict[str, int]:
        """Return the bytes of the driver, by purpose."""
        shape, settings, square = self.shape, self.settings, self.square
        n, p, d, kernels = shape.n, shape.p, shape.n_active, self.kernels
        own = (5 + min(self.hosts, 32)) * kernels if self.of_all else 2 * kernels + 2
        own += 2 * settings.is_regression  # for the spectrum
        a_row = p * self.item + 3 * DOUBLE * self.latent
        readers = min(usable_cpus(), -(-n // shape.chunk_rows))
        return {
            "source": shape.source_bytes,
            "labels": 5 * DOUBLE * (n + shape.n_test),
            "reading": readers * (2 * self.chunk + 4 * DOUBLE * min(PIECE_VALUES, n * p))
            + self.is_sent * self.hosts * self.loading,
            "factors": kernels * square + DOUBLE * self.columns * d * self.slots + d * a_row,
            "checkpoint": kernels * square + 2 * d * a_row,
            "posterior": (3 + own) * square + 2 * DOUBLE * d * p,
            "thinning": 7 * DOUBLE * n * (settings.stub_entries is not None),
            "search": _trial_bytes(shape, settings) if settings.kernel == AUTO else 0,
        }

    def work(self) -> dict[str, float]:
        """Return numbers of floating-point operations, and the bytes of the last checkpoint."""
        d, p, pairs = self.shape.n_active, self.shape.p, self.settings.active_per_class
        columns = sum((stop - start) * held for start, stop, held in self.steps) + d * self.test
        squares = sum((stop**2 - start**2) * held for start, stop, held in self.steps)
        squares += d**2 * self.test
        a_row = p * self.item + DOUBLE * (8 if pairs else 3 + 2 * self.latent + self.kernels)
        rest = DOUBLE * (self.whole // TILE + 5 * len(self.steps))
        return {
            "kernel_flops": 2.0 * self.columns * columns * p,
            "stub_flops": squares / self.kernels if pairs else float(squares * self.kernels),
            "checkpoint_bytes": self.kernels * (self.square + DOUBLE * d) // 2 + d * a_row + rest,
        }


def _sparse(shape: Shape, settings: TrainSettings) -> dict[str, Any]:
    layout = _Layout(shape, settings)
    blocks, driver = layout.blocks(), layout.driver()
    in_memory = ("marginals",) if shape.scratch else ("marginals", "inputs", "stub")
    rows = sum(blocks[name] for name in in_memory)
    working = max(blocks[name] for name in ("temporaries", "loading", "model"))
    held = sum(driver[name] for name in ("source", "labels", "reading", "factors"))
    finishing = max(driver[name] for name in ("checkpoint", "posterior", "thinning"))
    trial = driver["search"]  # before blocks exist
    if shape.n_workers:
        searching = bool(trial) * (driver["source"] + driver["reading"] + _sample_bytes(shape))
    else:  # blocks and driver alternate
        held, finishing = held + rows, max(working, finishing)
        searching = driver["source"] + trial * min(shape.n_threads, 2)
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
        **layout.work(),
    }


def _trial_bytes(shape: Shape, settings: TrainSettings) -> int:
    """Return the bytes of the largest trial of a search, with its sample (fit/trial.py)."""
    rows = min(shape.n, plan.sample_rows(shape.n, shape.p))
    most = plan.MAX_ACTIVE if settings.n_active is None else shape.n_active
    d, item = min(most, plan.MAX_ACTIVE, rows), settings.dtype.itemsize
    inputs = shape.p * rows * (2 * shape.itemsize + DOUBLE + 2 * item)
    learnt = min(plan.REESTIMATE_ACTIVE, max(plan.FIRST_ACTIVE, most))
    learnt *= min(rows, plan.reestimated_rows(shape.n))
    return inputs + max(item * d * rows + 6 * DOUBLE * d**2, LEARNING_MATRICES * item * learnt)


def _sample_bytes(shape: Shape) -> int:
    """Return the bytes of a search's sample while it is sent to workers, and of a scaling rule."""
    rows = min(shape.n, plan.sample_rows(shape.n, shape.p))
    return shape.p * ((COPIES + 2) * rows * shape.itemsize + 2 * DOUBLE * min(shape.n, DRAWN_ROWS))
