"""The last few checkpoints of a run."""

import logging
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sparsegp.checkpoint.files import find_beside
from sparsegp.checkpoint.manifest import MANIFEST
from sparsegp.checkpoint.places import Place, StorePath, place_of
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
    """Numbered bundles in one place: `root/00000120` is the state with 120 active rows.

    Parameters
    ----------
    root : Path or StorePath
        The directory, which is made by the first `save`, or a place in a store of objects.
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
        root: Place,
        keep_last: int,
        *,
        on_warning: Callable[[str], None] = _log.warning,
    ) -> None:
        if keep_last < 1:
            raise SettingsError(f"keep_last must be at least 1, got {keep_last}")
        self.root = place_of(root)
        self.keep_last = keep_last
        self.on_warning = on_warning
        self._broken: set[int] = set()

    def steps(self) -> list[int]:
        """Return the numbers of the checkpoints that are there, in rising order, unverified.

        In a store of objects what has no manifest is not there: it was never finished.

        Raises
        ------
        StoreError
            If the directory cannot be listed.
        """
        try:
            names = self._names()
        except StoreError:
            raise
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
        """Remove what killed writers left; to be called by the only writer.

        Raises
        ------
        StoreError
            If something cannot be removed.
        """
        try:
            entries = (
                self.root.iterdir() if isinstance(self.root, StorePath) else find_beside(self.root)
            )
            names = {entry.name for entry in entries}
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(f"cannot list {self.root}: {error.strerror or error}") from error
        for name in sorted(names):
            if _NUMBER.fullmatch(name) and sweep_bundle(self.root / name):
                self.on_warning(
                    f"checkpoint {self.root / name} was not finished, or has lost its manifest; "
                    "what was left of it is removed"
                )

    def _names(self) -> set[str]:
        if isinstance(self.root, StorePath):
            ends = (name.split("/") for name in self.root.find())
            return {parts[0] for parts in ends if parts[1:] == [MANIFEST]}
        names = {entry.name for entry in self.root.iterdir()} if self.root.exists() else set()
        return names | {item.name for item in find_beside(self.root) if item.suffix == "old"}

    def _path(self, step: int) -> Place:
        return self.root / f"{step:08d}"

    def _clear_broken(self, path: Place) -> None:
        """Remove an incomplete checkpoint of the same number, whatever is left of it.

        In a store the put of a manifest replaces it; one that is only away would look like it.
        """
        if isinstance(path, StorePath) or not path.exists():
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
