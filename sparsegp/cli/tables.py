"""Rows for a command: open the tables to train on, or those to be predicted by a model."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from io import StringIO
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import numpy as np

from sparsegp import store
from sparsegp.cli import options as shared
from sparsegp.data import Table, open_dataset, summarise, without_weights
from sparsegp.data.column import NUMBERS, UNTYPED
from sparsegp.data.frames import Frame
from sparsegp.data.labels import encode, plain_text
from sparsegp.data.numerals import form_of
from sparsegp.data.readers.columns import Columns
from sparsegp.data.readers.layout import layout_of, rows_of
from sparsegp.data.storage import unpacked
from sparsegp.data.virtual import same_settings, shift, virtual_rows
from sparsegp.errors import DataError, SettingsError
from sparsegp.model import Model

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
    folders = store.folder_of(out), store.file_of(run, store.MODEL_FILE)[0]
    real = {each.path.resolve() if isinstance(each, store.Directory) else each for each in folders}
    if len(real) == 1:
        raise SettingsError("--out must be another directory than RUN, which is not changed")


def training_tables(
    data: str,
    test: str | None = None,
    weight_column: str | None = None,
    is_regression: bool = False,
    **columns: Any,
) -> tuple[Table, Table | None]:
    """Return the training table and, if there is one, the test table."""
    dataset = open_dataset(data, weight_column=weight_column, **columns)
    train, held_out, frame = dataset.train, dataset.test, dataset.train.frame
    if test is not None:
        known: dict[str, Any] = {"names": train.names, "known": train.label}
        if frame is not None:
            known["known_kinds"] = kinds_of_words(frame, train.kinds or {})
        if train.y is not None and not is_regression:
            classes = encode(train.y, train.source)[0].tolist()
            known["known_labels"] = [*map(plain_text, classes)]
        other = open_dataset(test, **known, **columns)
        held_out = other.test or other.train
    if weight_column is not None:
        weight = train.weight_column or weight_column
        train = without_weights(train, weight)
        held_out = None if held_out is None else without_weights(held_out, weight)
    return train, held_out


def kinds_of_words(frame: Frame, kinds: Mapping[str, str]) -> dict[str, str]:
    """Return the kinds of columns, and add those of text columns, which stay text.

    A kind of text in memory includes the form of its numbers, if any, as in a model.
    """
    found, parts = dict(kinds), [part for part in frame.parts if not hasattr(part, "dask")]
    for place, (name, dtype) in enumerate(zip(frame.names, frame.empty.dtypes, strict=True)):
        if dtype.kind == "O":
            kind, words = found.get(name, UNTYPED), set[str]()
            for part in parts:
                words.update(map(str, part.iloc[:, place].dropna().unique()))
            form = form_of([*words], kind in NUMBERS) if kind in {UNTYPED, *NUMBERS} else ""
            found[name] = f"{kind}:{form}" if form else kind
    return found


def table_for(
    model: Model,
    source: str,
    labels: bool = True,
    learning: bool = False,
    weight_column: str | None = None,
    **columns: Any,
) -> Table:
    """Return the rows that a model is to predict: those of the test part, if there is one.

    Without `labels`, labels and weights in a file with columns are not read. For `learning`, the
    rows are those of the training part, and need the weight column if the training rows had it.

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
    rows = replace(rows, source=columns.get("called", rows.source))
    weight = rows.weight_column or known["weight"]
    n_inputs = len(known["names"]) if rows.names and known["names"] else known["n_features"]
    if weight is not None and rows.X.shape[1] > n_inputs:
        rows = without_weights(rows, weight)
    elif weight_column or (learning and weight):
        raise DataError(f"{rows.source} needs the column of weights {weight!r}; it has none")
    elif labels and weight:
        logger.warning("%s has no column %r of weights: all rows count alike", rows.source, weight)
    if learning:  # which encodes and checks rows itself
        if model.id_column is not None and not rows.beside:
            message = "%s has no column %r of ids: each of its rows is held out on its own"
            logger.warning(message, rows.source, model.id_column)
        return rows
    rows = rows.encoded_for(model)
    summarise(rows, "threads")
    return rows


def known_of(model: Model, weight_column: str | None = None) -> dict[str, Any]:
    """Return the fields of `Columns` that a model determines; a weight column may be given."""
    columns = () if model.encoding is None else model.encoding.columns
    kinds = {column.name: column.reading for column in columns}
    return {
        "known": model.label,
        "known_labels": () if model.is_regression else [*map(plain_text, model.classes.tolist())],
        "known_id": model.id_column,
        "weight": weight_column or model.weight_column,
        "weight_column": weight_column,
        "n_features": len(kinds) or model.n_features,
        "names": model.inputs,
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
        for line in chain(head, file):  # it may hold several lines that end in "\r"
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
                found = table_for(model, str(path), labels=False, before=before, **columns)
                before = some[-1], before[1] + found.X.shape[0]
                yield found
        except DataError as error:
            raise DataError(str(error).replace(str(path), STANDARD_INPUT)) from None


def with_copies(
    options: dict[str, Any], settings: dict[str, Any]
) -> tuple[Callable[[Table], Table], dict[str, Any]]:
    """Return a function that adds virtual rows to a table, and the settings of the run.

    Without `--virtual`, rows and the settings that were given are left unchanged.

    Raises
    ------
    SettingsError, StoreError
        If options contradict each other or the run, or there is no finished run.
    """
    named = shared.given(options, ("shift", "image"))
    if options["virtual"] is None:
        if named:
            names = shared.flags(named)
            raise SettingsError(f"{names} is for copies; give --virtual RUN too, or leave it out")
        return lambda rows: rows, settings
    if options["tuned"]:
        raise SettingsError("--virtual takes the kernel of its run; leave --tune out")
    model = Model.load(options["virtual"])
    how = {"pixels": named.get("shift", 1), "image": shared.image_size(named.get("image"))}
    shift(np.zeros((1, model.n_features)), **how)  # raises if they do not fit, before data are read
    enlarge = partial(virtual_rows, model, transform="shift", **how)
    return enlarge, same_settings(model, **settings)
