"""Bytes that row blocks and the driver of a sparse run hold, array by array."""

from collections.abc import Sequence
from dataclasses import dataclass

from sparsegp.data.blocks import row_blocks
from sparsegp.data.summary import PIECE_VALUES
from sparsegp.ivm.criteria import CRITERIA, Criterion
from sparsegp.ivm.pairs import NARROW_PANEL, PANEL
from sparsegp.ivm.rows import GROUP, TILE
from sparsegp.settings import TrainSettings

DOUBLE = 8

HOSTS_AT_A_TIME = 32
"""Workers whose sums are in the memory of the driver side by side."""

PROCESS_BYTES = 160_000_000
"""A Python process with numpy, scipy, dask and zarr."""

COPIES = 2
"""Times that a chunk of a file is in memory while it is read."""

SHIPPED = 3
"""Times that a block is in memory while it is sent, on either side: as an array, pickled, and in
the buffers of the connection."""

LABELS = 5
"""Numbers for each row while labels are sorted and validation rows chosen."""

MAKING = 6
"""Matrices of the active rows, besides the factors of a model, while a worker makes these."""

PAIR_VALUES = 14
"""Numbers for each latent value of a row while pairs of rows and classes are scored."""

KEPT = 0.5
"""Share of a looked-ahead batch that turns out to be in the true order (0.4 to 0.8 were seen)."""


@dataclass(frozen=True)
class Source:
    """Rows as they are read.

    Parameters
    ----------
    itemsize : int
        Bytes of a number.
    held_bytes : int
        What the driver holds of them all the time; none if they are read from files piece by piece.
    chunk_rows : int, optional
        Rows that are read at a time.
    readers : int
        Threads of the driver that look through them.
    """

    itemsize: int = DOUBLE
    held_bytes: int = 0
    chunk_rows: int | None = None
    readers: int = 1

    def chunk_bytes(self, n: int, p: int) -> int:
        """Return the bytes of one chunk of n rows of p columns."""
        return min(self.chunk_rows or row_blocks(n, p, "the data")[0], n) * p * self.itemsize

    def reading(self, n: int, p: int) -> int:
        """Return what it takes to look through n rows of p columns once (data/summary.py)."""
        chunk = self.chunk_bytes(n, p)
        read = 0 if self.held_bytes else COPIES * chunk
        pieces = 4 * DOUBLE * min(PIECE_VALUES, n * p)
        return min(self.readers, -(-n * p * self.itemsize // chunk)) * (read + pieces)

    def loading(self, rows: int, n: int, p: int, apart: bool) -> int:
        """Return what it takes to make so many rows, of n, one array in the process of a block."""
        block = rows * p * self.itemsize
        if not self.held_bytes:
            return block + COPIES * self.chunk_bytes(n, p)
        return block + self.shipping(rows, n, p) if apart else block

    def shipping(self, rows: int, n: int, p: int) -> int:
        """Return what either side has of rows on their way: whole chunks, several times."""
        return SHIPPED * (rows * p * self.itemsize + self.chunk_bytes(n, p))


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
    model : int
        A model by which rows are predicted, and a chunk of them; when the blocks are gone.
    in_files : bool
        Inputs and stub matrices are in scratch files, whose pages the system takes back when it
        needs the memory.
    """

    inputs: int
    stub: int
    marginals: int
    anchors: int
    temporaries: int
    loading: int
    model: int = 0
    in_files: bool = False

    @property
    def total(self) -> int:
        """The most at any time."""
        inputs, stub = (0, 0) if self.in_files else (self.inputs, self.stub)
        rows = inputs + self.marginals + self.anchors
        return max(self.model, rows + max(self.loading, stub + self.temporaries))


@dataclass(frozen=True)
class DriverMemory:
    """Bytes that the driver holds.

    Attributes
    ----------
    source : int
        The data as they were read, where they do not stay on disk.
    labels : int
        Labels and their codes, and numbers by which validation rows are chosen.
    reading : int
        Chunks that are looked through at a time, or sent to workers.
    factors : int
        Batches of inclusions with their rows of the factors.
    checkpoint : int
        Their copy while a checkpoint is written.
    posterior : int
        Covariance and factor of the active rows, when the model is made.
    """

    source: int
    labels: int
    reading: int
    factors: int
    checkpoint: int
    posterior: int

    @property
    def total(self) -> int:
        """The most at any time; what was read with is not given back for the rest."""
        held = self.source + self.labels + self.reading + self.factors
        return held + self.working

    @property
    def working(self) -> int:
        """What it needs for a while."""
        return max(self.checkpoint, self.posterior)


@dataclass(frozen=True)
class Shape:
    """Sizes of a run.

    Attributes
    ----------
    p, n_active : int
        Columns, and rows (or pairs of a row and a class) to include.
    n_latent, n_kernels : int
        Latent values of a row, and kernels.
    """

    p: int
    n_active: int
    n_latent: int
    n_kernels: int
    settings: TrainSettings

    @property
    def columns(self) -> int:
        """Stub columns that an inclusion brings."""
        return 1 if self.settings.active_per_class else self.n_kernels

    @property
    def squares(self) -> int:
        """Entries of the factors of all kernels, (d_c, d_c) each.

        Classes that have active rows of their own are taken to differ by half in their numbers.
        """
        whole = self.n_kernels * self.n_active**2
        if not self.settings.active_per_class:
            return whole
        return min(self.n_active**2, int(1.5 * whole / self.n_kernels**2))

    def block_memory(
        self, blocks: Sequence[int], source: Source, n: int, threads: int, apart: bool
    ) -> BlockMemory:
        """Return the bytes of the row blocks of one process.

        Parameters
        ----------
        blocks : sequence of int
            Padded rows of each.
        source : Source
        n : int
            Training rows in all processes.
        threads : int
            That work on blocks side by side.
        apart : bool
            The process is not that of the driver: what comes from there, and goes there, is copied.
        """
        settings, item = self.settings, self.settings.dtype.itemsize
        rows = sum(blocks)
        per_class = settings.active_per_class
        lazy = settings.lazy and self.n_kernels == 1 and self._criterion.concave
        panel = PANEL if settings.stub_entries is None else NARROW_PANEL
        panels = per_class * self.n_latent * panel // 2
        return BlockMemory(
            inputs=rows * self.p * item,
            stub=rows * (self.columns * self.n_active + panels) * item,
            marginals=rows
            * (
                DOUBLE * (self.n_latent + self.n_kernels)
                + 2 * DOUBLE
                + 3
                + per_class * self.n_latent
            ),
            anchors=rows * DOUBLE * (self.n_latent + 1 if lazy else int(self._criterion.refitted)),
            temporaries=self._temporaries(blocks, threads, apart, lazy),
            loading=threads * source.loading(max(blocks), n, self.p, apart),
            model=apart * (self._model + COPIES * source.chunk_bytes(n, self.p)),
        )

    @property
    def _model(self) -> int:
        """Bytes of a model: its factors, what they are made with, and their pickled copy."""
        return (3 * self.n_kernels + MAKING) * DOUBLE * self.squares // self.n_kernels

    def _temporaries(self, blocks: Sequence[int], threads: int, apart: bool, lazy: bool) -> int:
        settings, item = self.settings, self.settings.dtype.itemsize
        rows, slots = sum(blocks), settings.order.slots
        group = min(GROUP * TILE, rows)
        work = threads * group * (4 * slots * item + DOUBLE * (5 * slots + 4 * self.n_latent))
        if settings.active_per_class:
            return threads * max(blocks) * DOUBLE * PAIR_VALUES * self.n_latent
        columns = self.n_kernels * rows * slots * item
        scoring = rows * DOUBLE * (8 if lazy else 8 + 2 * self.n_latent)
        if settings.posterior == "all" or self._criterion.refitted:  # the sums for its metric
            answers = SHIPPED * self.n_kernels if apart else 0
            sums = DOUBLE * self.n_active**2 * (answers + 3 * threads)
            columns = max(columns, sums + threads * self.n_active * item * group)
        return columns + scoring + work

    @property
    def _criterion(self) -> Criterion:
        return CRITERIA[self.settings.criterion](self.settings.seed)

    def driver_memory(self, n: int, source: Source, reading: int, hosts: int) -> DriverMemory:
        """Return the bytes that the driver holds.

        Parameters
        ----------
        n : int
            Rows, held-out ones too.
        source : Source
        reading : int
            What is read, or sent to workers, at a time.
        hosts : int
            Processes, or threads, that hold blocks.
        """
        settings, order, d = self.settings, self.settings.order, self.n_active
        kept = KEPT if order.panel == 1 and order.lookahead > 1 else 1.0
        if settings.active_per_class:
            kept = 1.0
        triangle = DOUBLE * self.squares // 2
        rows = d * (self.p * settings.dtype.itemsize + 3 * DOUBLE * self.n_latent)
        sums = min(hosts, HOSTS_AT_A_TIME)
        own = {"active": self.n_kernels + 2, "all": (sums + 11) * self.n_kernels}
        name = "all" if self._criterion.refitted else settings.posterior
        matrices = self.n_kernels + 3 + own.get(name, 0)
        each = self.squares // self.n_kernels
        slots = 0 if settings.active_per_class else DOUBLE * self.n_kernels * d * order.slots
        return DriverMemory(
            source=source.held_bytes,
            labels=LABELS * DOUBLE * n,
            reading=reading,
            factors=int(triangle / kept) + slots + rows,
            checkpoint=2 * (triangle + rows),
            posterior=matrices * DOUBLE * each + 2 * DOUBLE * d * self.p,
        )
