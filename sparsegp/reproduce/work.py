"""Measure one selection: ``python -m sparsegp.reproduce.work PIPELINE CELL [DATA]`` prints JSON."""

import json
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sparsegp.errors import SparseGPError
from sparsegp.execution import open_runtime
from sparsegp.report import Progress
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.pipeline import read_pipeline
from sparsegp.training import Training

WIDTH = 512
"""Columns of the right factor of a product."""

ROWS = 8192
"""At most so many rows of the left factor."""

REPEATS = 3
"""The products are timed so many times, and the least time counts."""


def measure(cell: Cell, folder: Path | None, progress: Progress) -> dict[str, Any]:
    """Select as the cell says, then multiply as much, in the same process and on as many threads.

    Returns
    -------
    dict
        Wall and processor seconds of the rounds and of the products; the peak memory of the
        process when the model was finished; bytes of X and the stub matrices; sizes.
    """
    table = cell.source.load(folder, cell.data_seed).train
    with open_runtime() as runtime:
        with Training(table, cell.sparse_settings, runtime=runtime, progress=progress) as run:
            run.build()
            rounds, rounds_cpu = timed(run.select)
            run.finish(keep_blocks=False)
            peak = peak_bytes()
        (n, p), d, threads = table.X.shape, cell.n_active, runtime.n_workers
        kernels = len(run.block_settings.kernels)
        itemsize = cell.sparse_settings.dtype.itemsize
    with threadpool_limits(1), ThreadPoolExecutor(threads) as executor:
        multiply = bare_products(n, p, d, threads)
        products, products_cpu = min(timed(lambda: multiply(executor)) for _ in range(REPEATS))
    return {
        "rounds_s": rounds,
        "rounds_cpu_s": rounds_cpu,
        "products_s": products,
        "products_cpu_s": products_cpu,
        "peak_bytes": peak,
        "needed_bytes": itemsize * n * (p + kernels * d),
        "sizes": {"n": n, "p": p, "d": d, "threads": threads},
        "gflops": (2 * n * d * p + n * d * d) / products / 1e9,
    }


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return the wall seconds and processor seconds of a call."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def product_shapes(p: int, d: int) -> list[tuple[int, int]]:
    """Return (k, width) of products (n, k) @ (k, width) that take 2 n d p + n d^2 operations.

    `WIDTH` inclusions at a time: their kernel columns from p columns, and their stub columns from
    those before them, on average the ones before the middle.
    """
    starts = range(0, d, WIDTH)
    widths = [min(WIDTH, d - start) for start in starts]
    kernel = [(p, width) for width in widths]
    stub = [(start + width // 2, width) for start, width in zip(starts, widths, strict=True)]
    return kernel + stub


def bare_products(n: int, p: int, d: int, threads: int) -> Callable[[Executor], None]:
    """Return what does the matrix products of a selection and nothing else.

    Its argument has so many threads, among which the rows are dealt.
    """
    shapes = product_shapes(p, d)
    per_thread = -(-n // (threads * ROWS))
    cuts = np.linspace(0, n, threads * per_thread + 1).astype(int)
    sizes = np.diff(cuts).tolist()
    rng = np.random.default_rng(0)
    left = rng.standard_normal((max(sizes), max(k for k, _ in shapes)), dtype=np.float32)
    right = rng.standard_normal((left.shape[1], WIDTH), dtype=np.float32)

    def multiply(rows: int) -> None:
        product = np.empty(rows * WIDTH, dtype=np.float32)
        for k, width in shapes:
            out = product[: rows * width].reshape(rows, width)
            np.matmul(left[:rows, :k], right[:k, :width], out=out)

    def multiply_all(executor: Executor) -> None:
        for _ in executor.map(multiply, sizes):
            pass

    return multiply_all


def peak_bytes() -> int:
    """Return the greatest resident memory of this process so far."""
    status = Path("/proc/self/status")
    if status.exists():  # unlike ru_maxrss it does not begin with that of the parent process
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main(
    measure: Callable[[Cell, Path | None, Progress], dict[str, Any]],
    path: str,
    name: str,
    folder: str | None = None,
) -> None:
    """Measure a cell of a pipeline and print the result, or an error, as JSON."""
    try:
        cell = next(cell for cell in read_pipeline(path).cells if cell.name == name)
        with Progress() as progress:
            answer = measure(cell, Path(folder) if folder else None, progress)
    except SparseGPError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main(measure, *sys.argv[1:])
