"""What can be seen of a run from outside: the progress that its driver writes, and who holds it.

The driver replaces one small file again and again (`sparsegp.report.journal`), so whoever sees the
disk can follow the run. Whether it still goes on is told by the lock of its directory. Of runs in a
store of objects `glimpse_store` tells the same.
"""

import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sparsegp.errors import StoreError

if TYPE_CHECKING:
    from sparsegp.checkpoint import StorePath

P = TypeVar("P", Path, "StorePath")

PROGRESS = "progress.json"
MOST_BYTES = 1 << 24
"""Of a progress file; more is not read."""


def in_store(run: str | os.PathLike[str]) -> bool:
    """Tell whether a run is in a store of objects, and not in a directory."""
    name = os.fspath(run)
    if "://" not in name:
        return False  # nothing has to be loaded to see that
    from sparsegp.data.storage import is_url, plain  # noqa: PLC0415 - attach is to be quick

    return is_url(plain(name))


def progress_file(run: P) -> P:
    """Return where the driver of a run writes its progress.

    While a kernel is tuned there is no ``run.json`` yet, and a directory that is to become that of
    a run may hold nothing else than the tuning.
    """
    return (run if (run / "run.json").exists() else run / "tuning") / PROGRESS


def signature(pid: int, host: str) -> str:
    """Return what a process writes into the lock of a run directory that it holds."""
    return f"process {pid} on {host}"


def last_claim(run: Path) -> tuple[str, int] | None:
    """Return who took the lock of a run directory last, and when; None if nobody did."""
    try:
        return _signed(run), (run / "lock").stat().st_mtime_ns
    except OSError:
        return None


def is_mine(run: Path, before: tuple[str, int] | None) -> bool:
    """Tell whether this process has taken a run directory, since a `last_claim`, for a run to do.

    One that has its model is finished: what its driver wrote stays.
    """
    claim, mine = last_claim(run), signature(os.getpid(), socket.gethostname())
    return claim not in (None, before) and _signed(run) == mine and not (run / "model").is_dir()


def look(run: str | os.PathLike[str], probe: bool) -> dict[str, Any]:
    """Return all that is seen of a run at this moment, as plain JSON.

    Parameters
    ----------
    run : path
        Its directory.
    probe : bool
        Whether to ask who holds it. This takes the lock for an instant, in which no driver can:
        not to be done again and again.

    Returns
    -------
    dict
        `host`, of this process; whether the directory `exists` and whether it holds a model
        (`finished`); `progress`, as written, None if there is none; `holder`, who holds the
        directory in words, "" if nobody does, None if not asked or not known.

    Raises
    ------
    StoreError
        If the directory cannot be read.
    """
    if in_store(run):
        from sparsegp.execution import glimpse_store  # noqa: PLC0415 - attach is to be quick

        return glimpse_store.look(os.fspath(run), probe)
    path = Path(run)
    with _reading(path):
        return {
            "host": socket.gethostname(),
            "exists": path.is_dir(),
            "finished": (path / "model").is_dir(),
            "progress": _read(progress_file(path)),
            "holder": _holder(path) if probe else None,
        }


def stop(run: str | os.PathLike[str]) -> bool:
    """Ask the driver of a run, a process of this machine, to end with a checkpoint.

    Returns
    -------
    bool
        Whether there is one that holds the directory.

    Raises
    ------
    StoreError
        If the directory cannot be read.
    """
    if in_store(run):
        from sparsegp.execution import glimpse_store  # noqa: PLC0415

        return glimpse_store.stop(os.fspath(run))
    path = Path(run)
    with _reading(path):
        held = re.fullmatch(r"process (\d+) on (.*)", _holder(path) or "")
    if held is None or held[2] != socket.gethostname():
        return False
    return terminate(int(held[1]))


def terminate(pid: int) -> bool:
    """Ask a process of this machine to end; return whether there is one of this user."""
    try:
        os.kill(pid, signal.SIGTERM)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def write_progress(run: Path, text: str) -> None:
    """Replace the progress of a run; nothing happens where that cannot be done."""
    path = progress_file(run)
    beside = path.with_name(f".{path.name}.tmp")
    try:
        beside.write_text(text)
        beside.replace(path)
    except OSError:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from None


def _read(path: Path) -> Any:
    """Return the content of a progress file, None if there is none that is whole."""
    try:
        with path.open("rb") as file:
            return json.loads(file.read(MOST_BYTES))
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return None


def _holder(run: Path) -> str | None:
    import fcntl  # noqa: PLC0415 - not on every system

    try:
        handle = os.open(run / "lock", os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)  # released with the handle
    except BlockingIOError:
        return _signed(run) or "another process"
    except OSError:  # a disk without locks
        return None
    finally:
        os.close(handle)
    return ""


def _signed(run: Path) -> str:
    try:
        with (run / "lock").open(errors="replace") as file:
            return file.read(200).strip()
    except OSError:
        return ""
