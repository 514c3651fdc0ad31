"""Pipelines that compare dense methods with the kernel that one of them has learnt.

As in table 1 of Girolami & Rogers (2006): `kernel_method`, by default variational inference with
importance-sampled length scales, chooses the kernel on the training rows of a cell, and the method
of the variant takes it as it is. Its run is kept for the other variants on the same rows.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparsegp.dense import parse_method
from sparsegp.errors import SettingsError
from sparsegp.model import DenseModel
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.kinds.base import KINDS, Bench, Result
from sparsegp.reproduce.kinds.train import CellProgress, Train
from sparsegp.reproduce.toml import Section
from sparsegp.settings import DenseSettings
from sparsegp.training import train

LIKELIHOOD = "test log likelihood, all rows"
DEFAULT = "variational(importance=300, rise=-1.0)"


class SameKernel(Train):
    """Learns the kernel, fits the method of the variant with it, and evaluates on test rows."""

    figures = (*Train.figures, LIKELIHOOD)
    default_figures = ("test error %", LIKELIHOOD)

    def read_options(self, section: Section) -> dict[str, Any]:
        """Take `kernel_method`, the text of a method."""
        text = section.take("kernel_method", str, DEFAULT)
        try:
            parse_method(text)
        except SettingsError as error:
            raise section.error("kernel_method", f"is {text!r}: {error}") from None
        return {"kernel_method": text}

    def task_of(self, cell: Cell) -> str | None:
        """Return a task for all variants with the same rows and the same kernel."""
        if "model" in cell.options:
            return super().task_of(cell)
        return _kernel_run(cell, _learning(cell))

    def run(self, cell: Cell, bench: Bench) -> Result:
        """Train twice in run directories, with which a later call goes on."""
        learning = _learning(cell)
        learnt = train(
            bench.dataset(cell).train,
            out=bench.runs / _kernel_run(cell, learning),
            resume=True,
            runtime=bench.runtime,
            progress=CellProgress(bench, f"{cell.name}, kernel"),
            **learning.to_json(),
        )
        assert isinstance(learnt, DenseModel)
        fixed = replace(cell.settings, kernel=str(learnt.kernels[0]))
        return super().run(replace(cell, settings=fixed), bench)

    def figure(self, result: Mapping[str, Any], what: str, n_active: int) -> float | None:
        """Return a figure of `Train`, or the sum of log p of the test labels."""
        if what == LIKELIHOOD:
            nlpp = result["model"].get("nlpp")
            return None if nlpp is None else -float(nlpp) * int(result["n_test"])
        return super().figure(result, what, n_active)


KINDS.register("same-kernel")(SameKernel())


def _learning(cell: Cell) -> DenseSettings:
    """Return the settings that learn the kernel of a cell.

    Raises
    ------
    SettingsError
    """
    settings = cell.settings
    if not isinstance(settings, DenseSettings) or settings.kernel_per_class:
        raise SettingsError(
            f"kind={cell.kind} compares dense methods with one kernel, got other settings in "
            f"variant {cell.variant}; give method, and no kernel_per_class"
        )
    return replace(settings, method=cell.options["kernel_method"], likelihood="", learn="none")


def _kernel_run(cell: Cell, learning: DenseSettings) -> str:
    """Return the name of the run directory in which the kernel is learnt."""
    content = [cell.source.to_json(cell.data_seed), learning.to_json()]
    digest = hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=12)
    return f"kernel-{digest.hexdigest()}"
