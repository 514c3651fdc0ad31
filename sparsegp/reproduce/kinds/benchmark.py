"""Pipelines that compare classifiers: what they cost, and how good their predictions are.

Each variant names a model of `CONTESTANTS`. It is fitted in a process of its own
(sparsegp/reproduce/contest.py) on one thread, its BLAS too. CPU seconds are the processor time of
the fit, with whatever is chosen or learnt in it, without reading the data, and those of its stages,
where our model is fitted; peak memory is that of the process during the fit, data and libraries
included.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.contestants import CONTESTANTS
from sparsegp.reproduce.kinds.base import KINDS, Bench, Kind, Result
from sparsegp.reproduce.kinds.process import answer_of
from sparsegp.reproduce.toml import Section

ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)

FIGURES = {
    "test error %": "error",
    "test NLPP": "nlpp",
    "test Brier score": "brier",
    "test ECE": "ece",
    "test information bits": "information",
    "CPU seconds": "cpu_s",
    "selection, CPU seconds": "select_cpu_s",
    "posterior, CPU seconds": "posterior_cpu_s",
    "peak memory, MiB": "peak_bytes",
    "CPU seconds / rival": "ratio",
}
FACTORS = {"error": 100.0, "peak_bytes": 2.0**-20}


class Benchmark(Kind):
    """Fits a model, times it and evaluates it on the test rows."""

    figures = tuple(FIGURES)
    default_figures = figures
    has_curves = False
    has_summary = True

    def read_options(self, section: Section) -> dict[str, Any]:
        """Take `model`, its parameters, and `rival`, a variant of the pipeline."""
        model = section.take("model", str, "sparsegp")
        if model not in CONTESTANTS:
            raise section.error("model", f"is {model!r}; known: {', '.join(CONTESTANTS)}")
        options: dict[str, Any] = {"model": model, **CONTESTANTS[model].read(section)}
        rival = section.maybe("rival", str)
        return options if rival is None else {**options, "rival": rival}

    def settings_used(self, options: Mapping[str, Any]) -> Collection[str] | None:
        """Return what the model asks for."""
        return CONTESTANTS[options["model"]].settings_used

    def check(self, file: Section, cells: Sequence[Cell]) -> None:
        """Check that every rival is a variant on the same data."""
        data = {cell.variant: cell.data for cell in cells}
        for cell in cells:
            rival = cell.options.get("rival")
            if rival is not None and data.get(rival) != cell.data:
                known = ", ".join(name for name in data if data[name] == cell.data)
                raise file.error(
                    "variants", f"has {rival!r} as the rival of {cell.variant}; known: {known}"
                )

    def run(self, cell: Cell, bench: Bench) -> Result:
        """Fit and evaluate in another process."""
        return answer_of("sparsegp.reproduce.contest", cell, bench, ONE_THREAD)

    def figure(self, result: Mapping[str, Any], what: str, n_active: int) -> float | None:
        """Look among what was measured."""
        del n_active
        key = FIGURES[what]
        value: float | None = result["figures"].get(key)
        return None if value is None else value * FACTORS.get(key, 1.0)

    def complete(
        self, cells: Sequence[Cell], results: Mapping[str, Mapping[str, Any]]
    ) -> Mapping[str, Mapping[str, Any]]:
        """Add the ratio of processor seconds to those of the rival with the same seed."""
        names = {(cell.variant, cell.settings.seed): cell.name for cell in cells}
        completed = dict(results)
        for cell in cells:
            rival = names.get((cell.options.get("rival", ""), cell.settings.seed))
            if rival is not None and rival in results and cell.name in results:
                figures, of_rival = (results[name]["figures"] for name in (cell.name, rival))
                ratio = figures["cpu_s"] / of_rival["cpu_s"]
                completed[cell.name] = {
                    **results[cell.name],
                    "figures": {**figures, "ratio": ratio},
                }
        return completed

    def describe(self, cell: Cell, result: Mapping[str, Any]) -> dict[str, str]:
        """Return data, model and settings."""
        return {
            "variant": cell.variant,
            "data": cell.data,
            "model": CONTESTANTS[cell.options["model"]].title,
            "settings": result["settings"],
        }


KINDS.register("benchmark")(Benchmark())
