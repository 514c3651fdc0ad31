"""`sparsegp train --virtual RUN`: training rows with shifted copies of the active rows of a run."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from sparsegp.cli import options as shared

if TYPE_CHECKING:
    from sparsegp.data import Table
    from sparsegp.model import Model

Enlarge = Callable[["Table"], "Table"]

OPTIONS: dict[str, Callable[[Any], Any]] = {
    "virtual": click.option(
        "--virtual",
        metavar="RUN",
        help="Add shifted copies of the active rows of this finished run on DATA, and take its "
        "kernel and likelihood as learnt there, and its settings where none are given.",
    ),
    "shift": click.option(
        "--shift",
        type=int,
        metavar="N",
        help="With --virtual: pixels that copies are moved up, down, left and right.  [1]",
    ),
    "image": click.option(
        "--image", metavar="HxW", help="With --virtual: height and width of images.  [square]"
    ),
}


def virtual_options(function: shared.F) -> shared.F:
    """Add all options of `OPTIONS`."""
    return shared.add_family(OPTIONS, function)


def prepare(
    options: dict[str, Any], settings: dict[str, Any], tuned: bool
) -> tuple[Enlarge, dict[str, Any]]:
    """Return what enlarges the training rows, and the settings of the run.

    Both leave things as they are where `--virtual` is not given.

    Parameters
    ----------
    options : dict
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
    from sparsegp.augmentation import image_shape, same_settings
    from sparsegp.errors import SettingsError
    from sparsegp.model import Model

    given = shared.given(options, OPTIONS)
    run = given.pop("virtual", None)
    if run is None:
        if given:
            names = " and ".join(f"--{name}" for name in given)
            raise SettingsError(f"{names} is for copies; give --virtual RUN too, or leave it out")
        return lambda table: table, settings
    if tuned:
        raise SettingsError("--virtual takes the kernel of its run; leave --tune out")
    model = Model.load(run)
    image = image_shape(model.n_features, _image(given.get("image")))
    pixels = given.get("shift", 1)
    return _enlarger(model, pixels=pixels, image=image), same_settings(model, **settings)


def _enlarger(model: "Model", **parameters: Any) -> Enlarge:
    """Return what adds shifted copies to a table, before anything is read."""
    import numpy as np

    from sparsegp.augmentation import TRANSFORMS, virtual_rows

    TRANSFORMS["shift"](np.zeros((1, model.n_features)), **parameters)  # refuses what does not fit
    return lambda table: virtual_rows(model, table, "shift", **parameters)


def _image(text: str | None) -> tuple[int, int] | None:
    """Read height and width.

    Raises
    ------
    SettingsError
    """
    from sparsegp.errors import SettingsError

    if text is None:
        return None
    found = re.fullmatch(r"(\d+)x(\d+)", text.strip().lower())
    if found is None:
        raise SettingsError(f"--image must be height and width, such as 16x16, got {text!r}")
    return int(found[1]), int(found[2])
