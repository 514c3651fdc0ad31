"""Rows for a command: opening them, and passing them through a model batch by batch."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from itertools import chain, islice
from math import isnan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from sparsegp.cli.output import percent
from sparsegp.data import Table, open_dataset, summarise, without_weights
from sparsegp.data.column import UNTYPED
from sparsegp.data.readers.columns import Columns
from sparsegp.data.readers.layout import layout_of, rows_of
from sparsegp.data.storage import unpacked
from sparsegp.errors import DataError, SettingsError
from sparsegp.lists import plural
from sparsegp.model import Model
from sparsegp.report import Evaluation, RegressionEvaluation
from sparsegp.store import MODEL_FILE, Directory, file_of, folder_of

logger = logging.getLogger(__name__)

LINES = 4096
"""Number of rows of standard input that are read at a time."""
STANDARD_INPUT = "standard input"


def stem(data: str) -> str:
    """Return a name for a run, from the name of the first file of its data."""
    name = Path(data.split(",", maxsplit=1)[0].rstrip("/")).name.lower()
    return Path(unpacked(name)).stem or "data"


def require_apart(out: str, run: str) -> None:
    """Raise a SettingsError if a run in `out` would replace the run that it reads."""
    folders = folder_of(out), file_of(run, MODEL_FILE)[0]
    real = {each.path.resolve() if isinstance(each, Directory) else each for each in folders}
    if len(real) == 1:
        raise SettingsError("--out must be another directory than RUN, which is not changed")


def training_tables(
    data: str, test: str | None = None, weight_column: str | None = None, **columns: Any
) -> tuple[Table, Table | None]:
    """Return the training table and, if there is one, the test table."""
    dataset = open_dataset(data, weight=weight_column, **columns)
    train, held_out, frame = dataset.train, dataset.test, dataset.train.frame
    if test is not None:
        known: dict[str, Any] = {"names": train.names, "known": train.label}
        if frame is not None:  # text stays text
            dtypes = zip(frame.names, frame.empty.dtypes, strict=True)
            words = {name: UNTYPED for name, dtype in dtypes if dtype.kind == "O"}
            known["known_kinds"] = {**words, **(train.kinds or {})}
        other = open_dataset(test, **known, **columns)
        held_out = other.test or other.train
    if weight_column is not None:
        train = without_weights(train, weight_column)
        held_out = None if held_out is None else without_weights(held_out, weight_column)
    return train, held_out


def table_for(
    model: Model,
    source: str,
    labels: bool = True,
    learning: bool = False,
    weight_column: str | None = None,
    **columns: Any,
) -> Table:
    """Return the rows that a model is to predict: those of the test part, if there is one.

    Without `labels`, labels and weights in a file with columns are not read. If the model is to
    learn from the rows, they are those of the training part, and need the weight column that the
    training rows had.

    Raises
    ------
    DataError
        If they cannot be read, are not finite, or do not fit the model.
    """
    known = known_of(model, weight_column)
    if not labels and model.inputs is not None:
        known["weight"] = None  # columns are known by name, and all others are left out
    dataset = open_dataset(source, labels=labels, **known, **columns)
    rows = dataset.train if learning or dataset.test is None else dataset.test
    if labels and rows.y is None and model.label is not None:
        raise DataError(
            f"{rows.source} needs the column {model.label!r} of labels, or another `label_column`"
        )
    rows, weight = replace(rows, source=columns.get("called", rows.source)), known["weight"]
    n_inputs = len(known["names"]) if rows.names and known["names"] else known["n_features"]
    if weight is not None and rows.X.shape[1] > n_inputs:
        rows = without_weights(rows, weight)
    elif weight_column or (learning and weight):
        raise DataError(f"{rows.source} needs the column of weights {weight!r}; it has none")
    elif labels and weight:
        logger.warning("%s has no column %r of weights: all rows count alike", rows.source, weight)
    if learning:  # which encodes and checks rows itself
        return rows
    table = rows.encoded_for(model)
    summarise(table.X, table.source, "threads", table.names)
    return table


def known_of(model: Model, weight_column: str | None = None) -> dict[str, Any]:
    """Return the fields of `Columns` that a model determines; a weight column may be given."""
    n_features, names, kinds = model.n_features, model.inputs, dict[str, str]()
    if model.encoding is not None:
        kinds = {column.name: column.reading for column in model.encoding.columns}
        n_features = len(kinds)
    return {
        "known": model.label,
        "known_id": model.id_column,
        "weight": weight_column or model.weight_column,
        "n_features": n_features,
        "names": names,
        "known_kinds": kinds,
        "known_missing": model.missing or (),
    }


def tables_from(file: BinaryIO, model: Model, **columns: Any) -> Iterator[Table]:
    """Yield tables of `LINES` rows each from a stream of text.

    The layout is that of the first lines.

    Raises
    ------
    DataError
        As `table_for`.
    """
    columns["called"], before, held = STANDARD_INPUT, (0, 0), list[str]()
    head = list(islice(file, LINES))
    while head and not head[-1].strip() and (line := file.readline()):
        head.append(line)

    def lines() -> Iterator[str]:
        for line in chain(head, file):  # which may have several lines that end in "\r"
            for part in StringIO(line.decode("latin-1"), newline=""):
                held.append(part)
                yield part

    with TemporaryDirectory(prefix="sparsegp-") as folder:
        path = Path(folder, "rows.csv")
        path.write_bytes(b"".join(head))
        try:
            described = Columns.of(**known_of(model) | columns)
            columns["layout"] = described.layout or layout_of(str(path), described)
            rows = rows_of(lines(), columns["layout"].delimiter, STANDARD_INPUT)
            while some := [line for line, _ in islice(rows, LINES)]:
                path.write_bytes("".join(held).encode("latin-1"))
                held.clear()
                table = table_for(model, str(path), labels=False, before=before, **columns)
                before = some[-1], before[1] + table.X.shape[0]
                yield table
        except DataError as error:
            raise DataError(str(error).replace(str(path), STANDARD_INPUT)) from None


def figures(evaluation: Evaluation | RegressionEvaluation) -> dict[str, str]:
    """Return the metrics of an evaluation, in words."""
    rows, nlpp = f"{evaluation.n}", f"{evaluation.nlpp:.4f} nats"
    if isinstance(evaluation, RegressionEvaluation):
        return {
            "rows": rows,
            "mse": f"{evaluation.mse:.5g}",
            "r2": "undefined" if isnan(evaluation.r2) else f"{evaluation.r2:.4f}",
            "nlpp": nlpp,
            "coverage": f"{percent(evaluation.coverage)} of the 95 % intervals",
        }
    if unseen := evaluation.n_unseen:
        rows += f", of them {unseen} with labels that the model does not know"
    wrong = f" ({plural(round(evaluation.error * evaluation.n), 'row')})"
    if evaluation.weight is not None:
        rows, wrong = f"{rows}; weights, which sum to {evaluation.weight:.6g}, are used", ""
    return {
        "rows": rows,
        "error": f"{percent(evaluation.error)}{wrong}",
        "nlpp": nlpp + (f", of the {plural(evaluation.n - unseen, 'other row')}" if unseen else ""),
        "brier": f"{evaluation.brier:.4f}",
        "ece": f"{evaluation.ece:.4f} ({evaluation.ece_by_chance:.4f} by chance alone)",
    }


def relevances(model: Model) -> dict[str, float]:
    """Return `Model.input_relevances` by name, or number, largest first; empty without any."""
    found = model.input_relevances
    if found is None:
        return {}
    names = model.inputs or [*map(str, range(model.n_features))]
    every = [column.name for column in model.encoding.columns] if model.encoding else names
    shares = dict(zip(every, found.tolist(), strict=True))
    return {name: shares[name] for name in sorted(names, key=lambda name: -shares[name])}


def inputs(model: Model) -> list[dict[str, Any]]:
    """Return a description of each column of a data frame that held more than numbers.

    Relevances are those of `relevances`, None if the model has none.
    """
    if model.encoding is None:
        return []
    shares = relevances(model)
    return [
        {
            "name": column.name,
            "kind": column.kind,
            "missing": column.missing,
            "levels": dict(zip(column.levels, column.counts, strict=True)),
            "rare": len(column.rare),
            "left_out": column.note,
            "relevance": shares.get(column.name),
        }
        for column in model.encoding.columns
    ]


def validation_nlpp(model: Model) -> float | None:
    """Return the NLPP by which the prior variance was chosen; None if there was no choice."""
    found = model.report.get("validation_nlpp")
    if isinstance(found, dict):  # by prior variance factor
        found = found.get(f"{model.calibration.prior_scale:.4g}")
    return found


def facts(model: Model) -> dict[str, Any]:
    """Return the description of a model in the records of commands."""
    return {
        "settings": dict(model.settings),
        "classes": model.classes.tolist(),
        "columns": model.n_features,
        "names": list(model.names or ()),
        "label": model.label,
        "weights": model.weight_column,
        "inputs": inputs(model),
        "n_active": len(model.rows),
        "kernels": [str(kernel) for kernel in model.kernels],
        "scaling": model.scaling.name,
        "validation_nlpp": validation_nlpp(model),
        "validation_rows": model.report.get("validation_rows"),
    }
