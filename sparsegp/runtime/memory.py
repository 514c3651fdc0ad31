"""Memory: sizes as users write them, and what processes may still take."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

UNLIMITED = 1 << 60
"""Limits from here on are none."""

CGROUPS = Path("/sys/fs/cgroup")
PROCESS = Path("/proc/self")

NAMES = {  # of a version of control groups: limit, usage, and what of the usage can be given back
    "2": ("memory.max", "memory.current", ("inactive_file", "active_file")),
    "1": (
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_inactive_file", "total_active_file"),
    ),
}


@dataclass(frozen=True)
class Room:
    """Memory that a process may take.

    Attributes
    ----------
    process : str
        What it is called in messages.
    place : str
        The machine, or the container on it, whose memory it shares with others.
    free : int
        Bytes that are free there, for all processes together.
    resident : int
        Bytes that the process has now.
    limit : int or None
        Bytes that it may have in all, where it has a limit of its own.
    """

    process: str
    place: str
    free: int
    resident: int = 0
    limit: int | None = None

    @classmethod
    def of_this_process(cls, name: str, limit: int | None = None) -> "Room":
        """Return what this process may take; `limit` is one that it is known to have."""
        import psutil  # type: ignore[import-untyped] # noqa: PLC0415 - comes with distributed

        resident = int(psutil.Process().memory_info().rss)
        free, place = min([(int(psutil.virtual_memory().available), "machine"), *_containers()])
        limits = [limit, *(resident + left for left in _left_by_system())]
        given = [value for value in limits if value is not None]
        where = f"{socket.gethostname()} {place}"
        return cls(name, where, max(free, 0), resident, min(given, default=None))

    def within(self, process: str, limit: float) -> "Room":
        """Return the room of a process under one limit more, in bytes; none if it is 0."""
        least = min(
            [int(limit) or self.limit, self.limit], key=lambda x: UNLIMITED if x is None else x
        )
        return replace(self, process=process, limit=least)


def free_memory() -> int:
    """Return the bytes that are free for this process, within the limits of its container."""
    room = Room.of_this_process("")
    return room.free if room.limit is None else min(room.free, room.limit - room.resident)


def _containers(process: Path = PROCESS, root: Path = CGROUPS) -> Iterator[tuple[int, str]]:
    """Yield what is free in each control group that holds this process, and its name.

    A group may be inside others with limits of their own, as the steps of a job are inside a job.
    """
    try:
        lines = (process / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers not in {"", "memory"}:
            continue
        top = root / "memory" if controllers else root
        inner = top / path.lstrip("/")
        for folder in (inner, *inner.parents):
            if folder != top and top not in folder.parents:
                break
            free = _free_in(folder, "1" if controllers else "2")
            if free is not None:
                yield free, str(folder)


def _free_in(folder: Path, version: str) -> int | None:
    """Return what is free in a control group, None if it has no limit."""
    limit_name, usage_name, reclaimable = NAMES[version]
    try:
        limit = (folder / limit_name).read_text().strip()
        if limit == "max" or int(limit) >= UNLIMITED:
            return None
        usage = int((folder / usage_name).read_text())
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    return int(limit) - usage + sum(int(stat.get(name, 0)) for name in reclaimable)


def _left_by_system() -> Iterator[int]:
    """Yield what the limits of the system (``ulimit -d``, ``-v``) leave to this process."""
    try:
        import resource  # noqa: PLC0415 - not everywhere
    except ImportError:
        return
    sizes: dict[str, Any] = {}
    if (PROCESS / "status").exists():
        text = (PROCESS / "status").read_text()
        sizes = {key: rest for key, _, rest in (line.partition(":") for line in text.splitlines())}
    for kind, name in ((resource.RLIMIT_DATA, "VmData"), (resource.RLIMIT_AS, "VmSize")):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY and name in sizes:
            yield max(limit - int(sizes[name].split()[0]) * 1024, 0)


def read_size(size: str) -> int:
    """Return the bytes of a size such as 4GB, 1.5 MB or 2GiB.

    Raises
    ------
    ValueError
        If it is none; a unit alone is not.
    """
    from dask.utils import parse_bytes  # noqa: PLC0415 - dask is loaded only where it is used

    if not size.strip().removeprefix(".")[:1].isdigit():
        raise ValueError(f"{size!r} does not begin with a number")
    return int(parse_bytes(size))
