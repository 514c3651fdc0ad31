"""`sparsegp explain`."""

import csv
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.output import json_line, percent, show, table
from sparsegp.errors import SettingsError, StoreError, quoted

if TYPE_CHECKING:
    from sparsegp.model.explain import Explanation

FIRST = "0:5"
"""Rows that are explained unless others are asked for."""
HEADINGS = ("row", "predicted", "rival", "kind", "name", "value", "contribution", "share")


@click.command()
@click.argument("run")
@click.argument("data")
@shared.text("--rows", "ROWS", f"Rows of DATA from 0 on, such as 0,5,7 or 0:10.  [{FIRST}]")
@shared.number("--most", "Active rows on either side, and columns, of each row.  [5]")
@shared.text("--out", "FILE", "A .csv or .json to be written; it must not exist.")
@shared.text(
    "--plots", "DIR", 'Draw a picture of each row and of its active rows (needs the extra "plot").'
)
@shared.text("--image", "HxW", "With --plots: height and width of images.  [square]")
@shared.label_column
@shared.as_json
def explain(
    run: str,
    data: str,
    rows: str | None,
    most: int | None,
    out: str | None,
    plots: str | None,
    image: str | None,
    label_column: str | None,
    as_json: bool,
) -> None:
    """Show why rows of DATA are predicted as they are.

    For each row: the most probable class and its strongest rival; the active rows of the model in
    RUN that contribute most to the difference of the latent means of the two, for the one or
    for the other; and the columns with the largest effect, which is the slope of this difference
    times the standard deviation of the column. Where DATA has a test part, that part is taken.
    """
    from sparsegp.cli.tables import table_for
    from sparsegp.model import load

    path = None if out is None else _target(out)
    if image is not None and plots is None:
        raise SettingsError("--image is for pictures; give --plots DIR too, or leave it out")
    model = load(run)
    found = table_for(model, data, label_column, labels=False)
    inputs: Any = found.X
    numbers = row_numbers(rows or FIRST, inputs.shape[0], strict=rows is not None)
    X = inputs[numbers].compute(scheduler="synchronous")
    explanations = model.explain(X, 5 if most is None else most)
    pictures = []
    if plots is not None:
        from sparsegp.report.explanations import explanation_pictures

        of_rows = dict(zip(numbers, explanations, strict=True))
        drawn = explanation_pictures(model, of_rows, X, shared.image_size(image), plots)
        pictures = [str(picture) for picture in drawn]
    listed = [
        {"row": row, **each.to_json()} for row, each in zip(numbers, explanations, strict=True)
    ]
    record = {"run": run, "source": found.source, "explanations": listed, "pictures": pictures}
    if path is not None:
        _write(path, record)
    lines = [
        line
        for row, each in zip(numbers, explanations, strict=True)
        for line in in_words(row, each)
    ]
    lines += [f"picture: {picture}" for picture in pictures]
    show([json_line(record)] if as_json else lines)


def row_numbers(text: str, n: int, strict: bool = True) -> list[int]:
    """Return the rows that a text such as 0,5,7 or 0:10 names, of n; no others where not strict.

    Raises
    ------
    SettingsError
        If it cannot be read, or there are no such rows.
    """
    numbers: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d{1,12})(?::(\d{1,12}))?\s*", part)
        if found is None:
            raise SettingsError(f"--rows must be such as 0,5,7 or 0:10, got {quoted(text)}")
        first = int(found[1])
        stop = first + 1 if found[2] is None else int(found[2])
        if strict and not first < stop <= n:
            raise SettingsError(f"--rows {part.strip()} must be among the {n} rows, from 0 on")
        numbers += range(first, min(stop, n))
    return numbers


def in_words(row: int, explanation: "Explanation") -> list[str]:
    """Return the lines of an explanation."""
    names = ("active row", "label", "contribution", "share")
    each = explanation
    terms = [
        (term.row, term.label, f"{term.contribution:+.3f}", percent(term.share))
        for term in (*each.supporting, *each.opposing[::-1])
    ]
    effects = [(effect.column, effect.value, f"{effect.effect:+.3f}") for effect in each.columns]
    return [
        f"row {row}: {each.predicted} ({percent(each.probability)}), not {each.rival} "
        f"({percent(each.rival_probability)}); latent means differ by {each.difference:.3f}",
        *(f"  {line}" for line in table(names, terms)),
        *(f"  {line}" for line in table(("column", "value", "effect"), effects)),
    ]


def _target(out: str) -> Path:
    path = Path(out)
    if path.suffix.lower() not in {".csv", ".json"}:
        raise SettingsError(f"the name of --out must end in .csv or .json, got {quoted(out)}")
    if path.exists():
        raise SettingsError(f"{path} exists; choose another --out")
    return path


def _write(path: Path, record: dict[str, Any]) -> None:
    try:
        with path.open("x", newline="", encoding="utf-8") as file:
            if path.suffix.lower() == ".json":
                json.dump(record, file, indent=1)
                return
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(HEADINGS)
            for each in record["explanations"]:
                writer.writerows(_lines(each))
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from None


def _lines(each: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return an explanation as lines of a text file: its active rows, then its columns."""
    from sparsegp.cli.predictions import harmless

    start = (each["row"], harmless(str(each["predicted"])), harmless(str(each["rival"])))
    terms = [
        (*start, "active row", term["row"], term["label"], term["contribution"], term["share"])
        for term in (*each["supporting"], *each["opposing"])
    ]
    effects = [
        (*start, "column", harmless(effect["column"]), effect["value"], effect["effect"], "")
        for effect in each["columns"]
    ]
    return terms + effects
