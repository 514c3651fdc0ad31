"""Whether a run fits the memory of its processes, and with which settings it would."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sparsegp.errors import SettingsError
from sparsegp.estimate.memory import PROCESS_BYTES
from sparsegp.estimate.sparse import Estimate, estimate, greatest
from sparsegp.ivm.criteria import CRITERIA
from sparsegp.posterior import POSTERIORS
from sparsegp.runtime.memory import Room
from sparsegp.settings import TrainSettings

logger = logging.getLogger(__name__)

MOST_WORKERS = 4096

SURE = 0.7
"""Share of the arrays of an estimate that are there at one time for sure."""

STEP, MOST_STEPS = 1.1, 60
"""Bounds on stub matrices that are tried: each so much less than the last, and so many."""


@dataclass(frozen=True)
class Places:
    """Where a run would be.

    Parameters
    ----------
    driver : Room
        Of this process.
    workers : sequence of Room
        Of worker processes; empty if row blocks live in threads of this one.
    """

    driver: Room
    workers: Sequence[Room] = ()

    @property
    def apart(self) -> bool:
        """Whether more workers would bring more memory: none lives where the driver does."""
        return bool(self.workers) and all(room.place != self.driver.place for room in self.workers)

    def shortage(self, found: Estimate, sure: bool = False) -> str:
        """Return in words what an estimate takes that is not there; nothing if it fits.

        Parameters
        ----------
        found : Estimate
        sure : bool
            Count only what is taken for sure: an estimate is a promise not to take more.
        """
        driver, worker = found.driver_bytes, found.worker_bytes
        there = PROCESS_BYTES + found.driver.source  # what a process may have of that already
        growth = [
            (self.driver, growth_of(self.driver, driver, there, found.driver.reading, sure)),
            *((room, growth_of(room, worker, PROCESS_BYTES, 0, sure)) for room in self.workers),
        ]
        for room, more in growth:
            if room.limit is not None and room.resident + more > room.limit:
                need = words(room.resident + more)
                return f"{need} of memory in {room.process}, which may have {words(room.limit)}"
        for place in dict.fromkeys(room.place for room, _ in growth):
            here = [(room, more) for room, more in growth if room.place == place]
            more, free = sum(more for _, more in here), min(room.free for room, _ in here)
            if more > free:
                whom = f"{len(here)} processes on" if len(here) > 1 else f"{here[0][0].process} on"
                return f"{words(more)} more memory in {whom} {place}, where {words(free)} are free"
        return ""

    def with_workers(self, count: int) -> "Places":
        """Return the same with so many workers, each of them like the one with the least room."""
        least = min(self.workers, key=lambda room: room.free if room.limit is None else room.limit)
        others = [replace(least, place=f"{least.place} {i}") for i in range(count)]
        return replace(self, workers=others)


def growth_of(room: Room, need: int, there: int, reading: int, sure: bool) -> int:
    """Return by how much a process will grow that needs so many bytes and has some already."""
    if sure:
        return max(int(SURE * (need - there - reading)), 0)
    return max(need - min(room.resident, there), 0)


def require_room(places: Places, **sizes: Any) -> None:
    """Refuse a run that cannot fit, and warn of one that may not.

    Parameters
    ----------
    places : Places
    **sizes
        The arguments of `estimate`.

    Raises
    ------
    SettingsError
        If it cannot; says what would.
    """
    found = estimate(**sizes)
    if shortage := places.shortage(found, sure=True):
        raise SettingsError(f"this run takes {shortage}; {advice(places, **sizes)}")
    if shortage := places.shortage(found):
        logger.warning("this run may take %s; %s", shortage, advice(places, **sizes))


def advice(places: Places, **sizes: Any) -> str:
    """Return in words what would fit in place of a run of these sizes."""
    for sure, what in ((False, "what would fit"), (True, "what may fit")):
        found = list(remedies(places, sure, **sizes))
        if found:
            return f"{what}: {', or '.join(found)}"
    return "no other setting would fit: take fewer rows, or machines with more memory"


def remedies(places: Places, sure: bool = False, **sizes: Any) -> Iterator[str]:
    """Yield settings that would fit, each alone in place of what is there.

    With `sure`, those of which it is not sure that they would not.
    """

    def fits(where: Places = places, **changes: Any) -> bool:
        try:
            return not where.shortage(estimate(**{**sizes, **changes}), sure)
        except SettingsError:  # a bound that leaves too few candidates
            return False

    settings: TrainSettings = sizes["settings"]
    most = greatest(lambda n_active: fits(n_active=n_active), sizes["n_active"])
    if most:
        yield f"--n-active {most}"
    if not sizes.get("scratch") and fits(scratch=True):
        files = estimate(**{**sizes, "scratch": True}).blocks
        yield f"--scratch DIR, with {words(files.inputs + files.stub)} free for each process"
    if settings.precision == "float64" and fits(settings=replace(settings, precision="float32")):
        yield "--precision float32"
    bound = bound_that_fits(sizes, fits)
    if bound:
        yield f"--stub-memory {words(bound).replace(' ', '')}"
    if places.apart:
        count = len(places.workers)
        while count <= MOST_WORKERS:
            if fits(places.with_workers(count), n_workers=count):
                yield f"{count} workers, each with as much memory"
                return
            count += max(1, count // 16)


def bound_that_fits(sizes: Mapping[str, Any], fits: Callable[..., bool]) -> int:
    """Return the bytes of stub matrices that would fit where they may be bounded; 0 if none."""
    settings: TrainSettings = sizes["settings"]
    if POSTERIORS[settings.posterior].listens or CRITERIA[settings.criterion].refitted:
        return 0
    item, found = settings.dtype.itemsize, estimate(**sizes)
    size = int(sizes["n"] * found.n_active * found.kernels * item)
    for _ in range(MOST_STEPS):
        size = rounded_down(size / STEP)
        if size < item:
            break
        if fits(settings=replace(settings, stub_entries=int(size // item))):
            return size
    return 0


def rounded_down(size: float) -> int:
    """Return the greatest number of two digits and zeros up to a number."""
    unit = 10 ** max(len(str(int(size))) - 2, 0)
    return int(int(size) // unit * unit)


def words(size: float) -> str:
    """Return bytes in words."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000.0:
            return f"{size:.3g} {unit}"
        size /= 1000.0
    return f"{size:.3g} TB"
