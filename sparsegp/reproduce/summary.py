"""A table with a line for each variant and a column for each figure."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from sparsegp.reproduce.pipeline import Pipeline
from sparsegp.reproduce.table import aligned, number


def summarise(pipeline: Pipeline, results: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a record for each variant that was run: what it is, and its mean figures.

    Parameters
    ----------
    pipeline : Pipeline
    results : mapping
        Of finished cells by name.
    """
    kind, records = pipeline.kind, []
    results = kind.complete(pipeline.cells, results)
    for cells in pipeline.variants.values():
        found = [(cell, results[cell.name]) for cell in cells if cell.name in results]
        if not found:
            continue
        record: dict[str, Any] = dict(kind.describe(*found[0]))
        for what in kind.figures:
            values = [kind.figure(result, what, cell.n_active) for cell, result in found]
            known = [value for value in values if value is not None]
            record[what] = statistics.fmean(known) if known else None
        records.append(record)
    return records


def summary_lines(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of the summary as it is shown."""
    header = list(dict.fromkeys(name for record in records for name in record))
    lines = [[shown(record.get(name)) for name in header] for record in records]
    return aligned([header, *lines]) if lines else []


def shown(value: object) -> str:
    """Return a value as it is shown."""
    if value is None:
        return "-"
    return number(value) if isinstance(value, float) else str(value)
