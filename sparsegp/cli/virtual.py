"""`sparsegp train --virtual RUN`: training rows with shifted copies of the active rows of a run."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from sparsegp.cli import options as shared
from sparsegp.errors import SettingsError

if TYPE_CHECKING:
    from sparsegp.data import Table

options = shared.together(
    [
        shared.text(
            "--virtual",
            "RUN",
            "Add shifted copies of the active rows of this finished run on DATA, and use its "
            "kernel and likelihood as learnt, and its settings unless given.",
        ),
        shared.number(
            "--shift", "With --virtual: pixels by which copies are shifted in four directions.  [1]"
        ),
        shared.text("--image", "HxW", "With --virtual: height and width of images.  [square]"),
    ]
)


def prepare(
    given: dict[str, Any], settings: dict[str, Any], tuned: bool
) -> tuple["Callable[[Table], Table]", dict[str, Any]]:
    """Return what enlarges the training rows, and the settings of the run.

    Rows and settings are left unchanged where `--virtual` is not given.

    Parameters
    ----------
    given : dict
        All options of the command.
    settings : dict
        Settings that were given, and perhaps a task.
    tuned : bool
        Whether the kernel is to be tuned.

    Raises
    ------
    SettingsError, StoreError
        If options contradict each other or the run, or there is no finished run.
    """
    named = shared.given(given, ("shift", "image"))
    if given["virtual"] is None:
        if named:
            names = shared.in_words(named)
            raise SettingsError(f"{names} is for copies; give --virtual RUN too, or leave it out")
        return lambda table: table, settings
    if tuned:
        raise SettingsError("--virtual takes the kernel of its run; leave --tune out")
    import numpy as np

    from sparsegp.data.virtual import same_settings, shift, virtual_rows
    from sparsegp.model import Model

    model = Model.load(given["virtual"])
    how = {"pixels": named.get("shift", 1), "image": shared.image_size(named.get("image"))}
    shift(np.zeros((1, model.n_features)), **how)  # refuses what does not fit, before data are read
    enlarge = partial(virtual_rows, model, transform="shift", **how)
    return enlarge, same_settings(model, **settings)
