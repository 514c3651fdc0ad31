"""One page of all pipelines: tables of our figures beside the published ones, and pictures."""

import html
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from sparsegp.errors import StoreError
from sparsegp.reproduce.files import write_text
from sparsegp.reproduce.runner import Outcome
from sparsegp.reproduce.summary import shown
from sparsegp.reproduce.table import HEADER, shown_row

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem; padding: 0 1rem }
table { border-collapse: collapse; margin: .5rem 0 }
td, th { border-bottom: 1px solid #ddd; padding: .2rem .8rem .2rem 0; text-align: left }
td { font-variant-numeric: tabular-nums }
figure { display: inline-block; margin: .5rem 1rem .5rem 0; vertical-align: top }
figure img { max-width: 30rem; width: 100% }
.missed { color: #a00 }
"""


def write_page(outcomes: Sequence[Outcome], folder: Path) -> Path:
    """Write ``index.html`` with a section for each pipeline, and copies of its pictures.

    Parameters
    ----------
    outcomes : sequence of Outcome
        With results in their folders.
    folder : Path

    Returns
    -------
    Path
        Of the page.

    Raises
    ------
    StoreError
        If it cannot be written.
    """
    sections = [section(outcome, folder) for outcome in outcomes]
    entries = "".join(
        f'<li><a href="#{anchor(outcome)}">{html.escape(outcome.pipeline.title)}</a></li>'
        for outcome in outcomes
    )
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>Figures and tables, run again</title><style>{STYLE}</style></head><body>"
        f"<h1>Figures and tables, run again</h1><ul>{entries}</ul>{''.join(sections)}"
        "</body></html>\n"
    )
    page = folder / "index.html"
    write_text(page, text)
    return page


def anchor(outcome: Outcome) -> str:
    """Return the name of a section: folder and name of its pipeline."""
    path = outcome.pipeline.path
    return html.escape(f"{path.absolute().parent.name}-{path.stem}", quote=True)


def section(outcome: Outcome, folder: Path) -> str:
    """Return what the page tells of one pipeline; its pictures are copied to the folder."""
    pipeline, kind = outcome.pipeline, outcome.pipeline.kind
    counts = f"{len(outcome.finished)} of {len(pipeline.cells)} cells finished"
    parts = [
        f'<h2 id="{anchor(outcome)}">{html.escape(pipeline.title)}</h2>',
        f"<p>{html.escape(pipeline.paper)} ({counts})</p>",
    ]
    rows = list(outcome.rows)
    if kind.has_summary and outcome.summary:
        names = list(dict.fromkeys(name for record in outcome.summary for name in record))
        lines = [[shown(record.get(name)) for name in names] for record in outcome.summary]
        parts.append(table(names, lines))
        rows = [row for row in rows if row.goal is not None and row.ours is not None]
    if rows:
        missed = {i for i, row in enumerate(rows) if row.goal_met is False}
        parts.append(table(HEADER, [shown_row(row) for row in rows], missed))
    parts += [figure(path, folder, anchor(outcome)) for path in sorted(outcome.out.glob("*.png"))]
    return "".join(parts)


def table(names: Iterable[str], lines: Sequence[Sequence[str]], missed: Iterable[int] = ()) -> str:
    """Return a table; columns without any entry are left out."""
    names, marked = list(names), set(missed)
    used = [i for i in range(len(names)) if any(line[i] for line in lines)]
    head = "".join(f"<th>{html.escape(names[i])}</th>" for i in used)
    body = "".join(
        f"<tr{' class=missed' if number in marked else ''}>"
        + "".join(f"<td>{html.escape(line[i])}</td>" for i in used)
        + "</tr>"
        for number, line in enumerate(lines)
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def figure(path: Path, folder: Path, name: str) -> str:
    """Copy a picture beside the page, and return what shows it.

    Raises
    ------
    StoreError
        If it cannot be copied.
    """
    copy = folder / "pictures" / f"{name}-{path.name}"
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    except OSError as error:
        raise StoreError(f"cannot copy {path} to {copy}: {error.strerror or error}") from error
    place = html.escape(f"pictures/{copy.name}", quote=True)
    caption = html.escape(path.stem)
    return f'<figure><img src="{place}" alt="{caption}"><figcaption>{caption}</figcaption></figure>'
