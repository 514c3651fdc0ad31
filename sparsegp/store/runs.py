"""The folder of a run, with its checkpoints and its model.

run.json                      settings and data, written before anything else
checkpoint-00000120.zarr.zip  the state with 120 active rows; the newest few are kept
model.zarr.zip                the fitted model
progress.json                 progress of the run
tuning/                       records of the kernel search, if any: a folder like this one

A directory is locked during a run. An object store cannot be locked: there, a second driver stops
when it finds that the number of its next checkpoint is taken.
"""

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Any

from numpy.typing import NDArray

from sparsegp.errors import SettingsError, StoreError, quoted
from sparsegp.fields import Setting, path_text
from sparsegp.store.files import MAX_JSON, Stored, read_errors, read_file, write_file
from sparsegp.store.folders import Directory, Folder, folder_of

MODEL, CHECKPOINT = "sparsegp-model", "sparsegp-checkpoint"
MODEL_FILE, RUN_FILE, PROGRESS_FILE = "model.zarr.zip", "run.json", "progress.json"
RUN_FILES = {MODEL_FILE, PROGRESS_FILE, RUN_FILE}
TUNING = "tuning"
CHECKPOINT_FILE = re.compile(r"checkpoint-([0-9]{8,15})\.zarr\.zip")

PROGRESS_SECONDS, PROGRESS_SHARE = 2.0, 0.01
"""Minimum seconds between two writes of the progress, and maximum share of the run time in them."""


class RunDirectory:
    """Folder of one run, used by one process at a time.

    The last `keep_last` checkpoints are kept; `on_warning` receives a message about each that
    cannot be read or written. With `overwrite`, `open` deletes an existing run.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        keep_last: int,
        on_warning: Callable[[str], None],
        overwrite: bool = False,
    ) -> None:
        self.overwrite = overwrite
        self.keep_last = Setting("keep_last", int, 2, optional=False, least=1).checked(keep_last)
        self.folder, self.on_warning = folder_of(path), on_warning
        self._run = str(self.folder).removesuffix(f"/{TUNING}")  # as the user named it
        self._path = os.fspath(path)
        self.model_path = os.path.join(self._path, MODEL_FILE)
        self._folders = self.folder, folder_of(os.path.join(self._path, TUNING))
        self._lock: int | None = None
        self._known: set[int] = set()  # checkpoints that this process wrote, or found at the start
        self._damaged: set[int] = set()
        self._digest = ""  # of run.json; it is repeated in the checkpoints
        self._progress_at = 0.0

    def open(
        self, run: Mapping[str, Any], resume: bool, defaults: Mapping[str, Any] | None = None
    ) -> None:
        """Lock the folder for a run with the `settings` and `data` in `run`, new or to `resume`.

        A setting that the run in the folder does not know yet must have its value in `defaults`.
        The files of a finished run, or of one to be resumed, are kept unless `overwrite`.

        Raises
        ------
        StoreError
            If it holds an unfinished run or search or other files, is in use, or cannot be written.
        SettingsError
            If the run in it has other settings or data.
        """
        self._defaults = defaults or {}
        self._require_own(run, resume)  # before anything is written
        if isinstance(self.folder, Directory) and (self.overwrite or not self.is_finished()):
            self._lock = self.folder.lock()  # nothing is written to a finished run
        try:
            if self.overwrite:
                self._delete_run()
            else:
                self._require_own(run, resume)  # again, as another process may have written to it
            if RUN_FILE not in self.folder.sizes():
                self._write_json(RUN_FILE, run, new=True)
            self._known, self._digest = set(self._steps()), self._digest_of_run()
        except FileExistsError:
            raise StoreError(f"{self.folder} was taken for another run just now") from None
        except BaseException:
            self.close()
            raise

    def _require_own(self, run: Mapping[str, Any], resume: bool) -> None:
        """Raise an error, as `open` does, unless the folder is empty or holds this run."""
        files, (_, tuning) = self.folder.sizes(), self._folders
        if RUN_FILE in files:
            if not self.overwrite:
                self.require_no_unfinished_run(resume)
                self._require_same(run)
            return
        kept = {name for name in files if not (self.overwrite and _is_of_run(name))}
        if kept - {"lock", TUNING}:
            raise StoreError(f"{self.folder} is not empty and holds no run; choose another `out`")
        if self.overwrite or RUN_FILE not in tuning.sizes():
            return
        if isinstance(tuning, Directory):
            os.close(tuning.lock())  # raises an error if another process holds it
        if not (read_records(self._path) or {}).get("chosen"):
            raise StoreError(
                f"{self._run} holds an unfinished search for a kernel; continue it with the former "
                "settings and `resume=True`, or start again with `overwrite=True` or in another "
                "`out`"
            )

    def require_no_unfinished_run(self, resume: bool) -> None:
        """Raise an error if an unfinished run is in the way, before any data are read.

        Raises
        ------
        StoreError
            If there is one that is to be neither resumed nor overwritten.
        SettingsError
            If both `resume` and `overwrite` are given.
        """
        if resume and self.overwrite:
            raise SettingsError("give only one of `resume` and `overwrite`")
        if RUN_FILE in self.folder.sizes() and not (resume or self.overwrite or self.is_finished()):
            if self._lock is None and (holder := self.folder.holder()):
                raise StoreError(
                    f"{self._run} is held by {holder}; wait for it, or use another `out`"
                )
            raise StoreError(
                f"{self._run} holds an unfinished run; continue it with `resume=True`, or "
                "start again with `overwrite=True` or in another `out`"
            )

    def prepare_for_search(self) -> None:
        """Prepare the folder for a search: with `overwrite` delete the run and its search.

        Raises
        ------
        StoreError
            If another process uses the run, or other files are in the way of the next one.
        """
        for folder in self._folders:
            files = folder.sizes()
            others = {name for name in files if not _is_of_run(name)} - {"lock", TUNING}
            if isinstance(folder, Directory) and folder.path.is_file():
                raise StoreError(f"{folder} must be a directory; move it, or choose another `out`")
            if others and (self.overwrite or RUN_FILE not in files):
                raise StoreError(
                    f"{folder} holds {min(others)[:40]}, which is not a file of a run; move it, or "
                    "choose another `out`"
                )
        if self.overwrite:
            self._delete_run()
        self.overwrite = False

    def is_finished(self) -> bool:
        """Return whether the run has a model."""
        return MODEL_FILE in self.folder.sizes()

    def _delete_run(self) -> None:
        """Delete the files of the run and of its kernel search, unless other processes use them."""
        with ExitStack() as stack:
            for folder in self._folders:
                is_locked = folder is self.folder and self._lock is not None
                is_used = any(map(_is_of_run, folder.sizes()))
                if isinstance(folder, Directory) and is_used and not is_locked:
                    stack.callback(os.close, folder.lock())
            for folder in self._folders:
                _delete_files(folder)

    def close(self, failed: bool = False) -> None:
        """Unlock the folder; a run that failed before its first checkpoint leaves nothing in it."""
        if self._lock is not None:
            if failed and not self._steps() and not self.is_finished():
                _delete_files(self.folder)
            os.close(self._lock)
            self._lock = None

    def load(self) -> tuple[int, Stored] | None:
        """Return number and content of the newest intact checkpoint; None if there is none at all.

        Raises
        ------
        StoreError
            If there are checkpoints, but none is intact.
        """
        steps, reasons = self._steps(), []
        digest = self._digest_of_run() if steps else ""
        for step in reversed(steps):
            try:
                found = read_file(self.folder, _checkpoint(step), CHECKPOINT)
                if found.meta.pop("run", None) != digest:
                    raise StoreError(f"{_checkpoint(step)} is of a run with other settings or data")
            except StoreError as error:
                self._damaged.add(step)
                reasons.append(str(error))
            else:
                for reason in reasons:
                    self.on_warning(f"checkpoint passed over, going back to {step}: {reason}")
                return step, found
        if self._steps() != steps:  # another process has replaced them in the meantime
            return self.load()
        if reasons:
            raise StoreError(
                f"no checkpoint in {self.folder} can be used: {'; '.join(reasons)}, or start again "
                "with `overwrite=True`"
            )
        return None

    def save(self, step: int, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bool:
        """Write a checkpoint, delete old ones, return whether it was written; failures only warn.

        The last `keep_last` intact ones up to `step` are kept; those with higher numbers are from
        an abandoned course of the run. Raises a StoreError if another process continues the run.
        """
        try:
            if any(other >= step for other in {*self._steps()} - self._known):
                raise FileExistsError
            new = step not in self._known
            meta = {**meta, "run": self._digest}
            write_file(self.folder, _checkpoint(step), CHECKPOINT, meta, arrays, new)
        except FileExistsError:
            raise StoreError(
                f"another process goes on with the run in {self.folder}; leave it to that one, or "
                "end it and continue with `resume=True`"
            ) from None
        except StoreError as error:
            self.on_warning(f"no checkpoint at {step}, the run goes on: {error}")
            return False
        self._known.add(step)
        self._damaged.discard(step)
        try:
            steps = self._steps()
            whole = [other for other in steps if other <= step and other not in self._damaged]
            for other in self._known.intersection(steps).difference(whole[-self.keep_last :]):
                self.folder.delete(_checkpoint(other))
        except StoreError as error:
            self.on_warning(f"old checkpoints stay: {error}")
        return True

    def write_progress(self, progress: Mapping[str, Any], due: bool = False) -> None:
        """Write the progress of the run if enough time has passed, or if `due`; ignore failures."""
        began = time.monotonic()
        if due or began >= self._progress_at:
            with suppress(StoreError):
                self._write_json(PROGRESS_FILE, progress, sync=False)
            now = time.monotonic()
            self._progress_at = now + max(PROGRESS_SECONDS, (now - began) / PROGRESS_SHARE)

    def _digest_of_run(self) -> str:
        """Return a digest of settings and data of the run."""
        text = json.dumps(read_run(self.folder), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def _steps(self) -> list[int]:
        matches = map(CHECKPOINT_FILE.fullmatch, self.folder.sizes())
        return sorted(int(match[1]) for match in matches if match)

    def _write_json(self, name: str, content: Mapping[str, Any], **options: bool) -> None:
        with self.folder.writing(name, **options) as file:
            file.write(json.dumps(content, indent=1, default=float).encode())

    def _require_same(self, run: Mapping[str, Any]) -> None:
        of_settings, of_data = read_run(self.folder)
        pairs = ({**self._defaults, **of_settings}, run["settings"]), (of_data, run["data"])
        settings, data = (
            [(k, old.get(k), new.get(k)) for k in sorted({*old, *new}) if old.get(k) != new.get(k)]
            for old, new in pairs
        )
        found = []
        for name, *values in settings:
            old, new = ("not given" if value is None else quoted(value) for value in values)
            found.append(f"{name} was {old} and is now {new}")
        if data:  # its digest would mean nothing to a user
            sizes = "; ".join(
                f"{k} {old}, now {new}" for k, old, new in data if type(new) is not str
            )
            what = "the training data, or names of their columns, changed"
            found.append(what + f" ({sizes})" * bool(sizes))
        if found:
            raise SettingsError(
                f"{self._run} holds a run with other settings or data: {'; '.join(found)}; give "
                "the former ones, or start again with `overwrite=True` or in another `out`"
            )


def read_run(folder: Folder) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return settings and data of the run in a folder; raise a StoreError if they are damaged."""
    with read_errors(f"{folder}/{RUN_FILE}", "start again with `overwrite=True`"):
        found = _read_json(folder, RUN_FILE)
        return dict(found["settings"]), dict(found["data"])


def records_of(run: str | os.PathLike[str], on_warning: Callable[[str], None]) -> RunDirectory:
    """Return the directory with the records of the search for a run."""
    return RunDirectory(os.path.join(path_text("a run", run), TUNING), 1, on_warning)


def read_records(run: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Read the records of the kernel search for a run; return None if there was none.

    Parameters
    ----------
    run : path or URL

    Returns
    -------
    dict or None
        `settings`, `data`, `limits`; `trials`, each merged with its outcome, sorted by rung and
        number; `chosen`, None until the search is finished.

    Raises
    ------
    StoreError
        If a file is damaged.
    """
    store = records_of(run, lambda text: None)
    if RUN_FILE not in store.folder.sizes():
        return None
    settings, data = read_run(store.folder)
    limits = {"max_trials": settings.pop("max_trials", None)}
    found = store.load()
    known = {} if found is None else found[1].meta
    tuning = {"settings": settings, "data": data, "limits": limits}
    return {**tuning, "trials": known.get("trials", []), "chosen": known.get("chosen")}


def read_progress(run: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return what `RunDirectory.write_progress` wrote last; None if it is missing or damaged."""
    with suppress(OSError, ValueError, TypeError, RecursionError):
        return dict(_read_json(folder_of(run), PROGRESS_FILE))
    return None


def _is_of_run(name: str) -> bool:
    return name in RUN_FILES or CHECKPOINT_FILE.fullmatch(name) is not None


def _delete_files(folder: Folder) -> None:
    for name in filter(_is_of_run, sorted(folder.sizes())):  # run.json last
        folder.delete(name)


def _checkpoint(step: int) -> str:
    return f"checkpoint-{step:08d}.zarr.zip"


def _read_json(folder: Folder, name: str) -> Any:
    with folder.open(name) as file:
        content = file.read(MAX_JSON + 1)
    if len(content) > MAX_JSON:
        raise ValueError(f"it has more than {MAX_JSON} bytes")
    return json.loads(content)
