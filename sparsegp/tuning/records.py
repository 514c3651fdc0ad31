"""The records of a tuning in a directory: what was asked, every finished trial, what was chosen.

tuning/tuning.json     settings, data and limits, written before anything else
tuning/<rung>-<n>.json trial n of a rung, when it is finished
tuning/chosen.json     the outcome, at the end

Each file is written beside its place, flushed to the disk and renamed; in a store it is one object.
So a killed tuning loses the trials that were running and nothing else.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from sparsegp.checkpoint import Place, lock_of, place_of
from sparsegp.errors import SettingsError, StoreError
from sparsegp.run_directory import differences, write_json
from sparsegp.tuning.trial import Outcome, Trial

FOLDER, MANIFEST, CHOSEN = "tuning", "tuning.json", "chosen.json"
VERSION = 1


class Records:
    """The records of one tuning, held by one process at a time.

    Parameters
    ----------
    path : path or URL
        The directory of the run; the records are in its folder `tuning`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = place_of(path)
        self.folder = self.path / FOLDER
        self._lock = lock_of(self.path)

    def check_free(self, resume: bool) -> None:
        """Refuse a directory that holds another tuning or run, before any data are read.

        Raises
        ------
        StoreError
            If it does, and is not to be resumed.
        """
        for file, what in ((self.folder / MANIFEST, "tuning"), (self.path / "run.json", "run")):
            if not resume and file.exists():
                raise StoreError(
                    f"{self.path} holds another {what}; choose another --out, or go on with it by "
                    "--resume"
                )
        if self.path.exists() and not self.path.is_dir():
            raise StoreError(f"{self.path} is not a directory; choose another --out")

    def open(self, asked: Mapping[str, Any], resume: bool) -> None:
        """Claim the directory.

        Parameters
        ----------
        asked : mapping
            `settings`, `data` and `limits`, plain JSON.
        resume : bool
            Go on with the tuning that is there, if there is one.

        Raises
        ------
        StoreError
            If it holds another tuning, is in use, or cannot be written.
        SettingsError
            If the tuning to be resumed had other settings, data or limits.
        """
        self.check_free(resume)
        manifest = self.folder / MANIFEST
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
            if manifest.exists():
                self._require_same(manifest, asked)
            elif (self.path / "run.json").exists():
                raise StoreError(
                    f"{self.path} holds a run that was not tuned; choose another --out"
                )
            else:
                self.folder.mkdir(exist_ok=True)
                write_json(manifest, {"version": VERSION, **asked})
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(f"cannot write to {self.path}: {error}") from error

    def close(self) -> None:
        """Let other processes have the directory."""
        self._lock.release()

    def find(self, trial: Trial) -> Outcome | None:
        """Return how a trial went, None if it was not finished."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            stored = json.loads(self._file(trial).read_text())
            if stored["trial"] == trial.to_json():
                return Outcome(**stored["outcome"])
        return None

    def add(self, trial: Trial, outcome: Outcome) -> None:
        """Keep a finished trial.

        Raises
        ------
        StoreError
            If it cannot be written.
        """
        self._write(self._file(trial), {"trial": trial.to_json(), "outcome": outcome.to_json()})

    def trials(self) -> list[dict[str, Any]]:
        """Return all finished trials, each with its outcome in one, by rung and number."""
        found = []
        files: list[Place] = [*self.folder.glob("[0-9]*-[0-9]*.json")]
        for file in sorted(files, key=str):
            with suppress(OSError, ValueError, KeyError, TypeError):
                stored = json.loads(file.read_text())
                found.append({**stored["trial"], **stored["outcome"]})
        return found

    def chosen(self) -> dict[str, Any] | None:
        """Return what `choose` was given, None if the tuning is not finished."""
        with suppress(OSError, ValueError):
            return dict(json.loads((self.folder / CHOSEN).read_text()))
        return None

    def choose(self, outcome: Mapping[str, Any]) -> None:
        """Keep the outcome of the tuning.

        Raises
        ------
        StoreError
            If it cannot be written.
        """
        self._write(self.folder / CHOSEN, outcome)

    def _file(self, trial: Trial) -> Place:
        return self.folder / f"{trial.rung}-{trial.number:04d}.json"

    def _write(self, path: Place, content: Mapping[str, Any]) -> None:
        try:
            self._lock.check()
            write_json(path, content)
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(
                f"cannot write {path} ({error.strerror or error}); make room and go on by --resume"
            ) from error

    def _require_same(self, manifest: Place, asked: Mapping[str, Any]) -> None:
        stored = read_manifest(manifest)
        found = [line for part in asked for line in differences(stored.get(part, {}), asked[part])]
        if found:
            raise SettingsError(
                f"cannot resume the tuning in {self.path} with other settings, data or limits: "
                f"{'; '.join(found)}"
            )


def read_manifest(path: Place) -> dict[str, Any]:
    """Return what a tuning was asked.

    Raises
    ------
    StoreError
        If the file is damaged, or a newer version wrote it.
    """
    try:
        stored: dict[str, Any] = json.loads(path.read_text())
        version = stored["version"]
        for part in ("settings", "data", "limits"):
            dict(stored[part])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} cannot be read ({error!r}); choose another --out") from None
    if version != VERSION:
        raise StoreError(
            f"{path} must be of version {VERSION}, found {version!r}; use the version of sparsegp "
            "that wrote it"
        )
    return stored


def read_records(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return all that the directory of a run tells about its tuning, None if there was none.

    Returns
    -------
    dict or None
        `settings`, `data`, `limits`; `trials`, each trial and its outcome in one; `chosen`, None
        while the tuning is not finished.

    Raises
    ------
    StoreError
        If the manifest is damaged.
    """
    records = Records(path)
    manifest = records.folder / MANIFEST
    if not manifest.exists():
        return None
    return {**read_manifest(manifest), "trials": records.trials(), "chosen": records.chosen()}
