"""`sparsegp explain`."""

import re
from math import isqrt
from typing import Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.output import json_line, percent, show, table
from sparsegp.errors import SettingsError, quoted

FIRST = 5
"""Number of rows that are explained by default."""


@click.command()
@click.argument("run")
@click.argument("data")
@shared.items("--rows", "ROWS", f"Rows of DATA from 0 on, such as 0,5,7 or 0:10.  [0:{FIRST}]")
@shared.number("--most", "Active rows for each class, and columns, per row.  [5]")
@shared.text(
    "--plots", "DIR", "If rows are images: draw each with its active rows (needs matplotlib)."
)
@shared.text("--image", "HxW", "With --plots: height and width of images.  [square]")
@shared.columns
@shared.as_json
def explain(run: str, data: str, as_json: bool, **options: Any) -> None:
    """Explain the predictions for rows of DATA.

    For each row, show the most probable class and its strongest rival; the active rows of the model
    in RUN that contribute most to the difference of their latent means, in favour of either class;
    and the columns with the largest effect, which is the slope of this difference times the
    standard deviation of the column. If DATA has a test part, that part is used.
    """
    from sparsegp.cli.tables import table_for
    from sparsegp.model import load

    if options["image"] is not None and options["plots"] is None:
        raise SettingsError("--image is for pictures; give --plots DIR too, or leave it out")
    model = load(run)
    found = table_for(model, data, labels=False, **shared.given(options, shared.COLUMNS))
    numbers = row_numbers(options["rows"], len(found.X))
    X = found.X[numbers].compute(scheduler="synchronous")
    explanations = model.explain(X, **shared.given(options, ("most",)))
    pictures, size = [], shared.image_size(options["image"])
    is_square = isqrt(model.n_features) ** 2 == model.n_features
    if options["plots"] is not None and not (size or is_square):
        many = f"{model.n_features} columns are not a square image"
        show([f"warning: nothing is drawn, as {many}; if rows are images, give --image"], err=True)
    elif options["plots"] is not None:
        from sparsegp.report import explanation_pictures

        of_rows = dict(zip(numbers, explanations, strict=True))
        pictures = list(map(str, explanation_pictures(model, of_rows, X, size, options["plots"])))
    listed = [
        {"row": k, "id": {name: str(ids[k]) for name, ids in found.beside.items()}, **e.to_json()}
        for k, e in zip(numbers, explanations, strict=True)
    ]
    record = {"run": run, "source": found.source, "explanations": listed, "pictures": pictures}
    lines = [line for each in listed for line in in_words(each)]
    lines += [f"picture: {picture}" for picture in pictures]
    show([json_line(record)] if as_json else lines)


def row_numbers(text: str | None, n: int) -> list[int]:
    """Parse row numbers below n from a text such as 0,5,7 or 0:10; by default the first rows.

    Raises
    ------
    SettingsError
        If it cannot be parsed, or there are no such rows.
    """
    numbers: list[int] = []
    for part in (f"0:{min(FIRST, n)}" if text is None else text).split(","):
        found = re.fullmatch(r"\s*(\d{1,12})(?::(\d{1,12}))?\s*", part)
        first, stop = (int(found[1]), int(found[2] or int(found[1]) + 1)) if found else (0, 0)
        if not first < stop <= n:
            raise SettingsError(
                f"--rows must be such as 0,5,7 or 0:10, among the {n} rows, got {quoted(part)}"
            )
        numbers += range(first, stop)
    return numbers


def in_words(each: dict[str, Any]) -> list[str]:
    """Return the lines of an explanation."""
    terms = [
        (term["row"], term["label"], f"{term['contribution']:+.3f}", percent(term["share"]))
        for term in (*each["supporting"], *each["opposing"][::-1])
    ]
    effects = [(*list(found.values())[:2], f"{found['effect']:+.3f}") for found in each["columns"]]
    named = "".join(f" ({name} {value})" for name, value in each["id"].items())
    return [
        f"row {each['row']}{named}: {each['predicted']} ({percent(each['probability'])}), not "
        f"{each['rival']} ({percent(each['rival_probability'])}); latent means differ by "
        f"{each['difference']:.3f}",
        *(f"  {line}" for line in table(("active row", "label", "contribution", "share"), terms)),
        *(f"  {line}" for line in table(("column", "value", "effect"), effects)),
    ]
