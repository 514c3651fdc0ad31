"""Records of a kernel search, in the subfolder `tuning` of its run."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparsegp.fields import path_text
from sparsegp.store import RUN_FILE, TUNING, RunDirectory, read_run


def read_records(
    path: str | os.PathLike[str], on_warning: Callable[[str], None] = lambda text: None
) -> Mapping[str, Any] | None:
    """Read the records of the search in the folder of a run; return None if there was none.

    Parameters
    ----------
    path : path or URL
    on_warning : callable
        Receives a message about what cannot be read.

    Returns
    -------
    mapping or None
        `settings`, `data`, `limits`; `trials`, each merged with its outcome, sorted by rung and
        number; `chosen`, None until the search is finished.

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
    """Return the directory with the records of the search for a run."""
    return RunDirectory(os.path.join(path_text("a run", path), TUNING), 1, on_warning)


def in_order(trials: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return trials sorted by rung and number."""
    return sorted(trials, key=lambda trial: (trial["rung"], trial["number"]))
