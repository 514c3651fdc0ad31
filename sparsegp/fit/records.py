"""The records of a tuning, in the folder `tuning` of the run that it is for."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparsegp.fields import path_text
from sparsegp.store import RUN_FILE, TUNING, RunDirectory, read_run


def read_records(
    path: str | os.PathLike[str], on_warning: Callable[[str], None] = lambda text: None
) -> Mapping[str, Any] | None:
    """Return the records of the tuning in the folder of a run, None if there was none.

    Parameters
    ----------
    path : path or URL
    on_warning : callable
        Receives a text about what cannot be read.

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
    store = records_of(path, on_warning)
    if RUN_FILE not in store.folder.sizes():
        return None
    settings, data = read_run(store.folder)
    limits = {"max_trials": settings.pop("max_trials", None)}
    found = store.load()
    known = {} if found is None else found[1].meta
    tuning = {"settings": settings, "data": data, "limits": limits}
    trials = in_order(known.get("trials", ()))
    return {**tuning, "trials": trials, "chosen": known.get("chosen")}


def records_of(path: str | os.PathLike[str], on_warning: Callable[[str], None]) -> RunDirectory:
    """Return the folder of the records of the tuning for a run."""
    return RunDirectory(os.path.join(path_text("a run", path), TUNING), 1, on_warning)


def in_order(trials: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return trials by rung and number."""
    return sorted(trials, key=lambda trial: (trial["rung"], trial["number"]))
