"""The records of a tuning: a run of its own, in the folder `tuning` of the run that it is for.

Its run.json says what was asked; its one checkpoint, which is written anew whenever a trial is
finished, holds every finished trial and in the end what was chosen. So a killed tuning loses the
trials that were running and no other.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from sparsegp.errors import StoreError
from sparsegp.learning.search import Choice, Outcome, Trial
from sparsegp.store import RUN_FILE, TUNING, RunDirectory, folder_of, read_run


@dataclass
class Records:
    """How far a tuning is.

    Attributes
    ----------
    store : RunDirectory or None
        Where it is kept.
    trials : list of dict
        Finished trials, each with its outcome in one.
    chosen : dict or None
        What was chosen in the end.
    """

    store: RunDirectory | None = None
    trials: list[dict[str, Any]] = field(default_factory=list)
    chosen: dict[str, Any] | None = None

    def find(self, trial: Trial) -> Outcome | None:
        """Return how a trial went, None if it was not finished."""
        own = {name: value for name, value in asdict(trial).items() if name != "kernel"}
        for entry in self.trials:
            if own.items() <= entry.items():
                return Outcome(**{each.name: entry[each.name] for each in fields(Outcome)})
        return None

    def add(self, trial: Trial, outcome: Outcome) -> None:
        """Take up a finished trial."""
        self.trials.append({**asdict(trial), **asdict(outcome)})
        self._save()

    def choose(self, choice: Choice) -> None:
        """Take up what was chosen."""
        self.chosen = asdict(choice)
        self._save()

    def _save(self) -> None:
        if self.store is not None:
            content = {"trials": self.trials, "chosen": self.chosen}
            self.store.save(len(self.trials), content, {})

    def load(self) -> None:
        """Take up what is kept."""
        found = None if self.store is None else self.store.load()
        if found is not None:
            self.trials, self.chosen = list(found[1].meta["trials"]), found[1].meta["chosen"]

    def in_order(self) -> list[dict[str, Any]]:
        """Return the trials by rung and number."""
        return sorted(self.trials, key=lambda trial: (trial["rung"], trial["number"]))


def records_in(
    path: str | os.PathLike[str], on_warning: Callable[[str], None], resume: bool
) -> Records:
    """Return the records in the folder of a run, which are not open yet.

    Parameters
    ----------
    path : path or URL
    on_warning : callable
        Is told what cannot be read or written.
    resume : bool
        Whether the folder may hold a tuning, and a run that it was for.

    Raises
    ------
    StoreError
        If it holds what it may not.
    """
    store = RunDirectory(os.path.join(os.fspath(path), TUNING), 1, on_warning)
    store.check_free(resume)
    if has_run(path):
        RunDirectory(path, 1, on_warning).check_free(resume)
        if RUN_FILE not in store.folder.sizes():
            raise StoreError(f"{path} holds a run that was not tuned; choose another --out")
    return Records(store)


def has_run(path: str | os.PathLike[str]) -> bool:
    """Tell whether a run has begun in a folder."""
    return RUN_FILE in folder_of(path).sizes()


def read_records(
    path: str | os.PathLike[str], on_warning: Callable[[str], None] = lambda text: None
) -> Mapping[str, Any] | None:
    """Return the records of the tuning in the folder of a run, None if there was none.

    Parameters
    ----------
    path : path or URL
    on_warning : callable
        Is told what cannot be read.

    Returns
    -------
    mapping or None
        `settings`, `data`, `limits`; `trials`, each trial and its outcome in one, by rung and
        number; `chosen`, None while the tuning is not finished.

    Raises
    ------
    StoreError
        If a file is damaged.
    """
    store = RunDirectory(os.path.join(os.fspath(path), TUNING), 1, on_warning)
    if RUN_FILE not in store.folder.sizes():
        return None
    settings, data = read_run(store.folder)
    limits = {"max_trials": settings.pop("max_trials", None)}
    records = Records(store)
    records.load()
    known = {"settings": settings, "data": data, "limits": limits}
    return {**known, "trials": records.in_order(), "chosen": records.chosen}
