"""The directory of a run, or its place in a store: what was asked, its checkpoints, its model.

run.json        settings and data, written before anything else
tuning/         how the kernel was chosen, if it was tuned (tuning/records.py)
checkpoints/    numbered generations of the active set
model/          the fitted model
progress.json   how far the command is, for `sparsegp attach` (report/journal.py)
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.checkpoint import (
    Bundle,
    Generations,
    LeaseLostError,
    Place,
    StorePath,
    is_bundle,
    lock_of,
    place_of,
    sweep_bundle,
)
from sparsegp.checkpoint.files import sync_directory
from sparsegp.errors import SettingsError, StoreError


class RunDirectory:
    """One run's directory, held by one process at a time.

    Parameters
    ----------
    path : path or URL
    keep_last : int
        Checkpoints kept.
    on_warning : callable
        Told about checkpoints that cannot be read or written, and about waiting for a lease.
    """

    def __init__(
        self, path: str | os.PathLike[str], keep_last: int, on_warning: Callable[[str], None]
    ) -> None:
        if keep_last < 1:
            raise SettingsError(f"keep_last must be at least 1, got {keep_last}")
        self.path = place_of(path)
        self.model_path = self.path / "model"
        self.on_warning = on_warning
        self.generations = Generations(self.path / "checkpoints", keep_last, on_warning=on_warning)
        self._lock = lock_of(self.path, on_warning)

    def open(self, run: Mapping[str, Any], resume: bool) -> None:
        """Claim the directory for a run.

        Parameters
        ----------
        run : mapping
            `settings` and `data`, plain JSON.
        resume : bool
            Go on with the run that is there, if there is one.

        Raises
        ------
        StoreError
            If it holds another run, is in use, or cannot be written.
        SettingsError
            If the run to be resumed had other settings or data.
        """
        manifest = self.path / "run.json"
        if manifest.exists():
            self.check_free(resume)
            self._require_same(manifest, run)
        elif self._is_taken():
            raise StoreError(f"{self.path} is not empty and holds no run; choose another --out")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
            if not manifest.exists():
                write_json(manifest, run)
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(f"cannot write to {self.path}: {error}") from error
        self.generations.sweep()
        sweep_bundle(self.model_path)

    def check_free(self, resume: bool) -> None:
        """Refuse a directory that holds another run, before any data are read.

        Raises
        ------
        StoreError
            If it does, and is not to be resumed.
        """
        if not resume and (self.path / "run.json").exists():
            raise StoreError(
                f"{self.path} holds another run; choose another --out, or go on with it by --resume"
            )

    def is_finished(self) -> bool:
        """Tell whether there is a model."""
        return is_bundle(self.model_path)

    def check_held(self) -> None:
        """Make sure, before something is written, that this process still has the directory.

        Raises
        ------
        LeaseLostError, StoreError
            If another has it, or that cannot be told; in a store of objects alone.
        """
        self._lock.check()

    def close(self) -> None:
        """Let other processes have the directory."""
        self._lock.release()

    def load(self) -> tuple[int, Bundle] | None:
        """Return the newest checkpoint that verifies."""
        return self.generations.load()

    def save(self, step: int, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bool:
        """Write a checkpoint; where that fails, warn and keep the former ones.

        Raises
        ------
        LeaseLostError
            If another process has taken the run over.
        """
        try:
            self.check_held()
            self.generations.save(step, meta, arrays)
        except LeaseLostError:
            raise
        except StoreError as error:
            self.on_warning(f"no checkpoint at {step}, the run goes on: {error}")
            return False
        return True

    def _is_taken(self) -> bool:
        """Whether there is anything but a tuning, or what a start that was killed left."""
        if not self.path.exists():
            return False
        if not self.path.is_dir():
            raise StoreError(f"{self.path} is not a directory; choose another --out")
        ours = {self._lock.path.name, _beside(Path("run.json")).name, "tuning"}
        try:
            return any(entry.name not in ours for entry in self.path.iterdir())
        except OSError as error:
            raise StoreError(f"cannot list {self.path}: {error.strerror}") from error

    def _require_same(self, manifest: Place, run: Mapping[str, Any]) -> None:
        try:
            stored = json.loads(manifest.read_text())
            found = differences(stored["settings"], run["settings"])
            found += differences(stored["data"], run["data"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(f"{manifest} cannot be read ({error}); choose another --out") from None
        if found:
            raise SettingsError(
                f"cannot resume {self.path} with other settings or data: {'; '.join(found)}"
            )


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp")


def write_json(path: Place, content: Mapping[str, Any]) -> None:
    """Write a file whole or not at all, on the disk or in its store when this returns.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    if isinstance(path, StorePath):
        path.write_bytes(json.dumps(content, indent=1).encode())
        return
    beside = _beside(path)
    with beside.open("w") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_directory(path.parent)


def require_same_rows(stored: NDArray[Any], found: NDArray[Any], rows_per_digest: int) -> None:
    """Compare digests of the inputs and labels, tile by tile.

    Raises
    ------
    SettingsError
        If they differ; names the first rows that do.
    """
    if len(stored) == len(found) and np.array_equal(stored, found):
        return
    size = min(len(stored), len(found))
    differing = np.flatnonzero(stored[:size] != found[:size])
    first = int(differing[0]) if len(differing) else size
    raise SettingsError(
        "cannot resume with other data: inputs or labels differ from those of the checkpoint, "
        f"first in rows {first * rows_per_digest} to {(first + 1) * rows_per_digest - 1}"
    )


def differences(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return a line for each entry in which two mappings differ."""
    return [
        f"{name} was {stored.get(name)!r} and is now {wanted.get(name)!r}"
        for name in sorted(set(stored) | set(wanted))
        if stored.get(name) != wanted.get(name)
    ]
