"""A fitted estimator on disk: its model, and beside it what scikit-learn knows and it does not."""

import os
from typing import Any, NamedTuple

from sparsegp.checkpoint import is_bundle, place_of, read_bundle, remove_bundle, write_bundle
from sparsegp.estimator.parameters import parameters_from
from sparsegp.model import Model
from sparsegp.settings import settings_from_json
from sparsegp.types import Labels

KIND, VERSION = "sparsegp-estimator", 1


class Stored(NamedTuple):
    """What a fitted estimator is made of: its model, parameters, labels and names of columns."""

    model: Model
    parameters: dict[str, Any]
    classes: Labels
    feature_names: list[str] | None


def write(path: str | os.PathLike[str], stored: Stored) -> None:
    """Write an estimator to a directory or a store; one that is there is replaced.

    Raises
    ------
    StoreError
        If it cannot be written.
    """
    parameters, dtype = dict(stored.parameters), stored.classes.dtype
    if not isinstance(parameters["random_state"], int):
        parameters["random_state"] = stored.model.settings["seed"]
    meta = {
        "parameters": parameters,
        "classes_dtype": dtype.str if dtype.kind in "biufU" else "O",
        "feature_names": stored.feature_names,
    }
    place = place_of(path)
    remove_bundle(place / "estimator")  # never beside another model than its own
    stored.model.save(place / "model")
    write_bundle(place / "estimator", meta, {}, kind=KIND, version=VERSION)


def read(path: str | os.PathLike[str]) -> Stored:
    """Read what `write` wrote, or a model or run directory, which tells all but the names.

    Raises
    ------
    StoreError
        If there is none, or it was altered, or a newer version wrote it.
    """
    model, place = Model.load(path), place_of(path) / "estimator"
    if not is_bundle(place):
        known = parameters_from(settings_from_json(model.settings))
        return Stored(model, known, model.classes, None)
    meta = read_bundle(place, kind=KIND, versions={VERSION}).meta
    classes = model.classes.astype(meta["classes_dtype"])
    return Stored(model, meta["parameters"], classes, meta["feature_names"])
