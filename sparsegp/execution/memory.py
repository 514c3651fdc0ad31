"""Memory: sizes as users write them, and what is free on this machine."""

from dask.utils import parse_bytes


def free_memory() -> int:
    """Return the bytes that are free on this machine, within the limit of its container."""
    import psutil  # type: ignore[import-untyped] # noqa: PLC0415 - comes with distributed
    from distributed.system import MEMORY_LIMIT  # noqa: PLC0415 - loads distributed

    return min(int(psutil.virtual_memory().available), int(MEMORY_LIMIT))


def read_size(size: str) -> int:
    """Return the bytes of a size such as 4GB, 1.5 MB or 2GiB.

    Raises
    ------
    ValueError
        If it is none; a unit alone is not.
    """
    if not size.strip().removeprefix(".")[:1].isdigit():
        raise ValueError(f"{size!r} does not begin with a number")
    return int(parse_bytes(size))
