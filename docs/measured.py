"""Directives for results: `measured` shows one of them, `published` those of papers."""

import re
from collections.abc import Iterable, Mapping
from typing import ClassVar

from docutils import nodes
from results import RESULTS, beside_published, means, pivoted, read, texts
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

SAID = {"file": "pipeline", "kernels": "NumPy and BLAS kernels"}
"""What the lines above a table are called; others have their own names."""

UNSAID = {"title", "date", "source", "cells", "not finished", "goals", "cost"}
"""Of these lines, those that readers do without."""


def origin(head: Mapping[str, str]) -> nodes.paragraph:
    """Return when, where and by what a table was measured."""
    known = {k: v for k, v in head.items() if k not in UNSAID and v != "not kept"}
    parts = [f"{SAID.get(name, name)}: {value}" for name, value in known.items()]
    date = head["date"] if head["date"].startswith("in ") else f"on {head['date']}"
    text = "; ".join([f"Measured {date}", *parts])
    return nodes.paragraph("", "", nodes.emphasis(text=f"{text}."), classes=["origin"])


def names_of(text: str) -> dict[str, str]:
    """Return names with the words that are shown for them, from ``a=one; b``."""
    pairs = (part.strip().partition("=") for part in filter(None, text.split(";")))
    return {name: shown or name for name, _, shown in pairs}


def table_node(
    head: Iterable[Iterable[tuple[str, int]]], rows: Iterable[Iterable[str]]
) -> nodes.table:
    """Return a table with lines of headings, each a text and the columns below it, and of cells."""
    rows = [list(row) for row in rows]
    group = nodes.tgroup(cols=len(rows[0]))
    group += [nodes.colspec(colwidth=1) for _ in rows[0]]
    body = ([(text, 1) for text in row] for row in rows)
    for kind, lines in ((nodes.thead, head), (nodes.tbody, body)):
        part = kind()
        for line in lines:
            row = nodes.row()
            for text, span in line:
                entry = nodes.entry("", nodes.paragraph(text=text))
                if kind is nodes.tbody and re.match("[-<≤.]*[0-9]|-$", text):
                    entry["classes"].append("number")
                if span > 1:
                    entry["morecols"] = span - 1
                row += entry
            part += row
        group += part
    return nodes.table("", group, classes=["measured"])


def spans(labels: Iterable[str]) -> list[tuple[str, int]]:
    """Return labels that follow one another as one, with their number."""
    found: list[tuple[str, int]] = []
    for label in labels:
        if found and found[-1][0] == label:
            found[-1] = (label, found[-1][1] + 1)
        else:
            found.append((label, 1))
    return found


class Measured(SphinxDirective):
    """Show a file of results: by data, metric and method, or as it is if it has no such columns."""

    required_arguments = 1
    option_spec: ClassVar = {
        **dict.fromkeys(("metrics", "methods", "data", "rows"), str),
        "means": lambda _: True,
    }

    def run(self) -> list[nodes.Node]:
        """Return the table, and where it is from."""
        name = self.arguments[0]
        self.env.note_dependency(str(RESULTS / f"{name}.csv"))
        head, frame = read(name)
        if "metric" in frame:
            wanted = (names_of(self.options.get(key, "")) for key in ("metrics", "methods", "data"))
            wide = pivoted(frame, *wanted, self.options.get("rows", "data"))
            above, below = (wide.columns.get_level_values(level) for level in (0, 1))
            lines = [
                [("", 1), *spans(above)],
                [(wide.index.name, 1), *((name, 1) for name in below)],
            ]
            rows = [[str(at), *row] for at, row in zip(wide.index, texts(wide), strict=True)]
            rows += [means(wide)] if "means" in self.options else []
        else:
            frame = frame.fillna("").astype(str)
            lines, rows = [[(label, 1) for label in frame]], frame.to_numpy().tolist()
        return [table_node(lines, rows), origin(head)]


class Published(SphinxDirective):
    """Show all files of results that have published figures, or goals."""

    def run(self) -> list[nodes.Node]:
        """Return for each its title, where it is from, and its table."""
        found: list[nodes.Node] = []
        for path in sorted(RESULTS.glob("*.csv")):
            head, frame = read(path.stem)
            self.env.note_dependency(str(path))
            if {"metric", "goal"} <= {*frame} and not path.stem.startswith("benchmark-"):
                table = beside_published(frame)
                found.append(nodes.rubric(text=head["title"]))
                found.append(table_node([spans(table)], table.to_numpy().tolist()))
                found.append(origin(head))
        return found


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("measured", Measured)
    app.add_directive("published", Published)
    return {"parallel_read_safe": True}
