"""Pipelines of virtual informative vectors (SLH section 6.5).

A cell trains, adds transformed copies of the active rows, and selects again with the kernel and
the likelihood as learnt. Where the cells of a variant are all classes of one data set against the
rest, their models are combined too.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sparsegp.augmentation import same_settings, virtual_rows
from sparsegp.data import Dataset, Table, encode_with
from sparsegp.errors import DataError
from sparsegp.model import Model
from sparsegp.report import evaluate
from sparsegp.report.one_against_rest import combine
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.kinds.base import KINDS, Bench, Kind, Result
from sparsegp.reproduce.kinds.train import CellProgress, log_probabilities_on
from sparsegp.reproduce.toml import Section
from sparsegp.training import train
from sparsegp.types import Integers

STAGES = {"": "second", ", without copies": "first"}
"""Endings of the names of figures, and the model whose figures these are."""

OF_CELLS = {"test error %": ("error", 100.0), "test NLPP": ("nlpp", 1.0)}
OVERALL = {"overall error %": ("error", 100.0), "overall NLPP": ("nlpp", 1.0)}

SINGLE = {f"test error %, class {number}": number for number in range(10)}
"""Errors of single tasks, by the data seed: the number of the class."""


class Virtual(Kind):
    """Trains twice, the second time with transformed copies of what was active at first."""

    figures = (
        *(f"{name}{ending}" for ending in STAGES for name in (*OF_CELLS, *OVERALL)),
        *SINGLE,
    )
    default_figures = ("test error %", "test error %, without copies")
    has_curves = False
    moves = True

    def read_options(self, section: Section) -> dict[str, Any]:
        """Take how many rows are active at first, and the transformation."""
        image = section.take_list("image", int, [])
        if len(image) not in {0, 2}:
            raise section.error("image", f"must be height and width, got {image}")
        return {
            "first_n_active": section.take("first_n_active", int),
            "shift": section.take("shift", int, 1),
            "image": image,
        }

    def run(self, cell: Cell, bench: Bench) -> Result:
        """Train both models in run directories of the cell, with which a later call goes on."""
        dataset = bench.dataset(cell)
        if dataset.test is None:
            raise DataError(f"{dataset.train.source} has no test rows; a pipeline needs them")
        settings, options = cell.settings.to_json(), cell.options
        first = _train(
            dataset.train, cell, bench, "first", settings | {"n_active": options["first_n_active"]}
        )
        image = tuple(options["image"]) or None
        table = virtual_rows(first, dataset.train, "shift", pixels=options["shift"], image=image)
        again = same_settings(first, n_active=cell.n_active)
        second = _train(table, cell, bench, "second", again)
        return {
            "number": cell.data_seed,
            "n_train": dataset.train.X.shape[0],
            "n_enlarged": table.X.shape[0],
            "kernel": str(second.kernels[0]),
            "likelihood": str(second.likelihood),
            "first": _figures(first, dataset),
            "second": _figures(second, dataset),
        }

    def complete(
        self, cells: Sequence[Cell], results: Mapping[str, Mapping[str, Any]]
    ) -> Mapping[str, Mapping[str, Any]]:
        """Combine the models of a variant, if there is one for every class.

        The result of its first cell has the figures of all of them.
        """
        completed = dict(results)
        for variant in dict.fromkeys(cell.variant for cell in cells):
            names = [cell.name for cell in cells if cell.variant == variant]
            if not all(name in results for name in names):
                continue
            both = {
                stage: overall([results[name][stage] for name in names])
                for stage in STAGES.values()
            }
            completed[names[0]] = {**results[names[0]], "overall": both}
        return completed

    def figure(self, result: Mapping[str, Any], what: str, n_active: int) -> float | None:
        """Look among the figures of the cell, or of all cells together."""
        del n_active
        if what in SINGLE:
            own = result["number"] == SINGLE[what]
            return 100.0 * float(result["second"]["error"]) if own else None
        name, comma, rest = what.partition(",")
        stage = STAGES[comma + rest]
        if name in OF_CELLS:
            (key, factor), found = OF_CELLS[name], result[stage]
        else:
            (key, factor), found = OVERALL[name], result.get("overall", {}).get(stage)
        return None if found is None else factor * float(found[key])


KINDS.register("virtual")(Virtual())


def _train(table: Table, cell: Cell, bench: Bench, stage: str, settings: dict[str, Any]) -> Model:
    return train(
        table,
        out=bench.runs / cell.run_name / stage,
        resume=True,
        runtime=bench.runtime,
        progress=CellProgress(bench, f"{cell.name}, {stage}"),
        **settings,
    )


def _figures(model: Model, dataset: Dataset) -> dict[str, Any]:
    """Return error and NLPP on the test rows, and what `overall` needs of a binary model."""
    assert dataset.test is not None  # checked by the caller
    logs = log_probabilities_on(model, dataset.test)
    codes, _ = encode_with(model.classes, dataset.test.y, dataset.test.source)
    found = evaluate(logs, codes, model.classes)
    figures: dict[str, Any] = {"error": found.error, "nlpp": found.nlpp}
    if logs.shape[1] == 2:
        figures["log_p"] = _text(logs[:, 1].astype("<f8"))
        figures["own"] = _text(np.packbits(codes == 1))
    return figures


def overall(figures: Sequence[Mapping[str, Any]]) -> dict[str, float] | None:
    """Return error and NLPP of c-against-rest models combined, by their figures.

    None if they are no such models of one data set: every row belongs to one class of them.
    """
    if len(figures) < 2 or not all("log_p" in found for found in figures):
        return None
    columns = [np.frombuffer(base64.b64decode(found["log_p"]), "<f8") for found in figures]
    if len({len(column) for column in columns}) > 1:
        return None
    logs = np.stack(columns, axis=1)
    own = np.stack([_bits(found["own"], len(logs)) for found in figures], axis=1)
    if not (own.sum(axis=1) == 1).all():
        return None
    found = evaluate(combine(logs), own.argmax(axis=1), np.arange(len(figures)))
    return {"error": found.error, "nlpp": found.nlpp}


def _text(values: Any) -> str:
    return base64.b64encode(values.tobytes()).decode()


def _bits(text: str, n: int) -> Integers:
    packed = np.frombuffer(base64.b64decode(text), np.uint8)
    return np.unpackbits(packed, count=n).astype(np.int64)
