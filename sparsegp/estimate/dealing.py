"""How rows are cut into blocks, and blocks are dealt to processes."""

from sparsegp.ivm.greedy import MANY_ROWS
from sparsegp.ivm.rows import GROUP, TILE

BLOCKS_PER_WORKER = 2
MAX_BLOCK_ROWS = 65536
FEW_BLOCK_ROWS = 4096
"""Blocks of fewer rows keep threads waiting for each other rather than for products."""


def default_block_rows(n: int, n_workers: int) -> int:
    """Return rows in a block: two blocks a worker, or one where they would be small."""
    blocks = min(BLOCKS_PER_WORKER * n_workers, max(n_workers, -(-n // FEW_BLOCK_ROWS)))
    return min(-(-n // blocks), MAX_BLOCK_ROWS)


def tiles_together(n: int, bounded: bool) -> int:
    """Return how many tiles stay together in a block."""
    return GROUP if n >= MANY_ROWS or bounded else 1


def padded_rows(rows: int) -> int:
    """Return rows filled up to whole tiles."""
    return -(-rows // TILE) * TILE


def deal(
    n: int,
    n_test: int,
    n_workers: int,
    n_threads: int,
    bounded: bool = False,
    block_rows: int | None = None,
) -> list[list[int]]:
    """Return the padded rows of the blocks in each process that holds some.

    Parameters
    ----------
    n, n_test : int
        Training rows, and held-out rows that follow them.
    n_workers, n_threads : int
        Worker processes; threads of the one process if there are none.
    bounded : bool
        Candidates get fewer.
    block_rows : int, optional
        Rows in a block, if not as by default.
    """
    unit = TILE * tiles_together(n, bounded)
    share = block_rows or default_block_rows(n, n_workers or n_threads)
    size = -(-share // unit) * unit
    sizes = [padded_rows(min(size, m - at)) for m in (n, n_test) for at in range(0, m, size)]
    hosts = min(n_workers, len(sizes)) or 1
    held: list[list[int]] = [[] for _ in range(hosts)]
    for order, rows in enumerate(sizes):  # as runtime.dask deals them
        held[order * hosts // len(sizes)].append(rows)
    return held
