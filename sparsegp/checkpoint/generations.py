"""The last few checkpoints of a run, and the lock of its directory."""

import logging
import os
import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sparsegp.checkpoint.files import find_beside, require_local
from sparsegp.checkpoint.store import (
    Bundle,
    check_bundle,
    read_bundle,
    remove_bundle,
    sweep_bundle,
    write_bundle,
)
from sparsegp.errors import SettingsError, StoreError

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHECKPOINT_KIND = "sparsegp-checkpoint"
CHECKPOINT_VERSION = 1
_log = logging.getLogger(__name__)
_NUMBER = re.compile(r"[0-9]{8,}")


class Generations:
    """Numbered bundles in one directory: `root/00000120` is the state with 120 active rows.

    Parameters
    ----------
    root : Path
        The directory; it is made by the first `save`.
    keep_last : int
        How many of the newest are kept.
    on_warning : callable
        Is told in words what was wrong with a checkpoint that is passed over.

    Raises
    ------
    SettingsError
        If `keep_last` is below 1.
    """

    def __init__(
        self,
        root: Path,
        keep_last: int,
        *,
        on_warning: Callable[[str], None] = _log.warning,
    ) -> None:
        if keep_last < 1:
            raise SettingsError(f"keep_last must be at least 1, got {keep_last}")
        self.root = Path(root)
        self.keep_last = keep_last
        self.on_warning = on_warning
        self._broken: set[int] = set()

    def steps(self) -> list[int]:
        """Return the numbers of the checkpoints that are there, in rising order, unverified.

        Raises
        ------
        StoreError
            If the directory cannot be listed.
        """
        try:
            names = {entry.name for entry in self.root.iterdir()} if self.root.exists() else set()
            names |= {item.name for item in find_beside(self.root) if item.suffix == "old"}
        except OSError as error:
            raise StoreError(f"cannot list {self.root}: {error.strerror or error}") from error
        numbers = {int(name) for name in names if _NUMBER.fullmatch(name)}
        return sorted(step for step in numbers if self._path(step).name in names)

    def save(
        self, step: int, meta: Mapping[str, Any], arrays: Mapping[str, "NDArray[Any]"]
    ) -> None:
        """Write a checkpoint, on the disk when this returns, and delete those no longer needed.

        The one just saved is the newest from now on: checkpoints with higher numbers belong to a
        course of the run that was given up, and go. Nothing is deleted before the new one is
        complete. Old ones that cannot be deleted are a warning only.

        Raises
        ------
        StoreError
            If it cannot be written (full disk, no permission); all previous ones are kept.
        TypeError, ValueError
            See `write_bundle`; also a negative `step`.
        """
        if step < 0:
            raise ValueError(f"step must not be negative, got {step}")
        path = self._path(step)
        self._clear_broken(path)
        write_bundle(path, meta, arrays, kind=CHECKPOINT_KIND, version=CHECKPOINT_VERSION)
        check_bundle(path)
        self._broken.discard(step)
        self._prune(step)

    def load(self) -> tuple[int, Bundle] | None:
        """Return number and content of the newest checkpoint that verifies, None if there is none.

        Every newer one that fails is told to `on_warning`.

        Raises
        ------
        StoreError
            If there are checkpoints but none of them verifies; the reasons are listed.
        """
        reasons = []
        for step in reversed(self.steps()):
            try:
                bundle = read_bundle(
                    self._path(step), kind=CHECKPOINT_KIND, versions={CHECKPOINT_VERSION}
                )
            except StoreError as error:
                self._broken.add(step)
                reasons.append(str(error))
            else:
                for reason in reasons:
                    self.on_warning(f"checkpoint passed over, going back to {step}: {reason}")
                return step, bundle
        if reasons:
            raise StoreError(f"no checkpoint in {self.root} can be used: " + "; ".join(reasons))
        return None

    def sweep(self) -> None:
        """Remove what killed writers left in the directory; to be called by the only writer.

        Raises
        ------
        StoreError
            If something cannot be removed.
        """
        try:
            names = {item.name for item in find_beside(self.root)}
        except OSError as error:
            raise StoreError(f"cannot list {self.root}: {error.strerror or error}") from error
        for name in sorted(names):
            if _NUMBER.fullmatch(name):
                sweep_bundle(self.root / name)

    def _path(self, step: int) -> Path:
        return self.root / f"{step:08d}"

    def _clear_broken(self, path: Path) -> None:
        """Remove an incomplete checkpoint of the same number, whatever is left of it."""
        if not path.exists():
            return
        try:
            check_bundle(path)
        except StoreError:
            remove_bundle(path)

    def _prune(self, newest: int) -> None:
        steps = self.steps()
        usable = [step for step in steps if step <= newest and step not in self._broken]
        kept = usable[-self.keep_last :]
        for step in reversed(steps):
            if step in kept:
                continue
            try:
                remove_bundle(self._path(step))
            except StoreError as error:
                self.on_warning(f"an old checkpoint stays: {error}")


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
        self.path = Path(path)
        require_local(self.path.parent)
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
            os.write(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        except OSError:
            _log.debug("the lock file could not be signed")
