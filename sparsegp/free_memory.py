"""Memory available to processes; a run that does not fit is refused, with remedies."""

import logging
import resource
import socket
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from sparsegp.data import Table
from sparsegp.errors import SettingsError, size
from sparsegp.memory import MARGIN, PROCESS, Shape, estimate, shape_of
from sparsegp.runtime import Runtime
from sparsegp.settings import DenseSettings, TrainSettings

logger = logging.getLogger(__name__)

CERTAIN_SHARE = 0.6
"""Share of an estimate that is certainly needed: if it fits, a shortage is only a warning."""
UNCHECKED_BYTES = 1 << 28
"""A run that needs no more than this in addition to bare processes is not checked."""
CONTAINER = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files with the memory limit of a container, for versions 2 and 1 of Linux control groups."""


class FreeMemory(NamedTuple):
    """Bytes free for a process: `own` by its limits, `shared` with others on its machine."""

    process: str
    machine: str
    shared: int
    own: int = 1 << 60


def free_memory(dask_worker: Any = None) -> FreeMemory:
    """Return the memory that is free for this process; on a worker, Dask passes `dask_worker`."""
    import psutil  # type: ignore[import-untyped] # noqa: PLC0415 - needed only here

    used, process, own = psutil.Process().memory_info(), "this process", [1 << 60]
    shared = psutil.virtual_memory().available
    for path in CONTAINER:
        with suppress(OSError, ValueError):  # no such file, or no limit
            shared = min(shared, int(Path(path).read_text()) - used.rss)
    for kind, name in ((resource.RLIMIT_DATA, "data"), (resource.RLIMIT_AS, "vms")):
        if (limit := resource.getrlimit(kind)[0]) != resource.RLIM_INFINITY:
            own.append(limit - getattr(used, name, 0))
    if dask_worker is not None:
        process, manager = f"worker {dask_worker.address}", dask_worker.memory_manager
        if manager.memory_limit:
            own.append(int((manager.memory_pause_fraction or 1) * manager.memory_limit) - used.rss)
    return FreeMemory(process, socket.gethostname(), max(shared, 0), max(min(own), 0))


def free_memory_of(shape: Shape, runtime: Runtime) -> list[FreeMemory]:
    """Return the free memory of the driver and of each worker; an empty list for a small run."""
    if estimate(shape)["total_bytes"] <= MARGIN * PROCESS * (1 + shape.n_workers) + UNCHECKED_BYTES:
        return []
    return [free_memory(), *runtime.run_in_workers(free_memory)]


def require_memory(
    rows: Table,
    held_out: Table | None,
    n_classes: int,
    settings: TrainSettings | DenseSettings,
    runtime: Runtime,
    **more: Any,
) -> None:
    """Raise a SettingsError if a run on a table cannot fit; see `shape_of` and `check`."""
    shape = shape_of(rows, held_out, n_classes, settings, runtime, **more)
    check(shape, free_memory_of(shape, runtime))


def check(shape: Shape, available: Sequence[FreeMemory]) -> None:
    """Raise an error if a run cannot fit into memory (`free_memory_of`), and warn if it may not.

    Raises
    ------
    SettingsError
        If it cannot fit; the message names settings that would make it fit.
    """
    if lacking := shortage(shape, available):
        found = remedies(shape, lambda other: not shortage(other, available))
        advice = f"what would fit: {', or '.join(found)}" if found else "take fewer rows"
        if surely := shortage(shape, available, CERTAIN_SHARE):
            raise SettingsError(f"this run takes {surely}; {advice}")
        logger.warning("this run may take %s; %s", lacking, advice)


def shortage(shape: Shape, available: Sequence[FreeMemory], share: float = 1.0) -> str:
    """Describe the memory that is lacking for a share of the estimate; "" if none is."""
    found = estimate(shape)
    worker, started = found.get("worker_bytes", 0), int(MARGIN * PROCESS)
    driver = found["total_bytes"] - shape.n_workers * worker - shape.source_bytes
    needs = [max(int(share * (need - started)), 0) for need in (driver, worker)]
    growth = [(each, needs[i > 0]) for i, each in enumerate(available)]
    for each, need in growth:
        if need > each.own:
            return f"{size(need)} more memory in {each.process}, which may have {size(each.own)}"
    for machine in {each.machine: None for each in available}:
        need = sum(need for each, need in growth if each.machine == machine)
        free = min(each.shared for each in available if each.machine == machine)
        if need > free:
            return f"{size(need)} more memory on {machine}, where {size(free)} are free"
    return ""


def remedies(shape: Shape, fits: Callable[[Shape], bool]) -> list[str]:
    """Return changes to the run, each of which would make it fit."""

    def may(**changes: Any) -> bool:
        """Return whether the run fits with these changes."""
        with suppress(SettingsError):  # stub_entries leaves too few candidates
            return fits(replace(shape, **changes))
        return False

    def most(name: str) -> int:
        """Return the largest value of a field, up to the current one, that fits; 0 if none does."""
        values = range(1, getattr(shape, name) + 1)
        return bisect_right(values, False, key=lambda value: not may(**{name: value}))

    settings = shape.settings
    if isinstance(settings, DenseSettings):
        return [f"{most('n')} rows", "method=ivm with any number"]
    found, blocks = [], estimate(shape)["blocks"]
    if d := most("n_active"):
        found.append(f"n_active={d}")
    if not shape.scratch and may(scratch=True):
        free = size(blocks["inputs"] + blocks["stub"])
        found.append(f"scratch=DIR, with {free} free for each process")
    single = replace(settings, precision="float32")
    if settings.precision == "float64" and may(settings=single):
        found.append("precision=float32")
    return found
