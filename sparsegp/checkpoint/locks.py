"""What keeps a second process out of a run: a lock in a directory, a lease in a store."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from sparsegp.checkpoint.lease import Lease, signed
from sparsegp.checkpoint.places import Place, StorePath, place_of
from sparsegp.errors import StoreError

_log = logging.getLogger(__name__)


def lock_of(folder: Place, on_wait: Callable[[str], None] = _log.warning) -> "RunLock | Lease":
    """Return what one process at a time holds of the folder of a run.

    Parameters
    ----------
    folder : Path or StorePath
    on_wait : callable
        Is told in words what is waited for, where that may take a while.
    """
    if isinstance(folder, StorePath):
        return Lease(folder / "lease", on_wait=on_wait)
    return RunLock(folder / "lock")


class RunLock:
    """Keeps a second process out of a run directory; a context manager.

    The lock is an advisory `flock` on a file, which the system releases when the process ends in
    whatever way. The file itself stays. Children made by a bare fork share the lock.

    Parameters
    ----------
    path : Path
        The lock file; its directory is made if missing.

    Raises
    ------
    StoreError
        If it is in a store of objects.
    """

    def __init__(self, path: Path) -> None:
        place = place_of(path)
        if isinstance(place, StorePath):
            raise StoreError(
                f"{place.url.rpartition('/')[0]} names a store, which cannot be locked; give a "
                "directory of this machine, and copy it afterwards"
            )
        self.path = place
        self._handle: int | None = None

    def acquire(self) -> None:
        """Take the lock without waiting.

        Raises
        ------
        StoreError
            If somebody holds it, or the file cannot be made or locked.
        """
        import fcntl  # noqa: PLC0415 - not on every system, and only needed to train

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StoreError(f"cannot open {self.path}: {error.strerror or error}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(handle, 200).decode(errors="replace").strip() or "another process"
            os.close(handle)
            raise StoreError(
                f"{self.path} is held by {holder}; wait for it or use another directory"
            ) from error
        except OSError as error:
            os.close(handle)
            raise StoreError(f"cannot lock {self.path}: {error.strerror or error}") from error
        self._handle = handle
        self._sign(handle)

    def check(self) -> None:
        """Do nothing: the system leaves the lock with its holder, which a store does not."""

    def release(self) -> None:
        """Give the lock back; nothing happens if it is not held."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    @staticmethod
    def _sign(handle: int) -> None:
        """Say who holds the lock, for the message to others; a full disk does not matter here."""
        try:
            os.ftruncate(handle, 0)
            os.write(handle, f"{signed()}\n".encode())
        except OSError:
            _log.debug("the lock file could not be signed")
