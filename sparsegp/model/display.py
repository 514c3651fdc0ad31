"""Display of a model in one line, or as a table in notebooks."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from sparsegp.errors import visible
from sparsegp.kernels import brief

if TYPE_CHECKING:
    from sparsegp.model.base import Model

MAX_NAMED = 8
"""Maximum number of classes, and of columns, whose names are shown in a notebook."""


def line(model: "Model") -> str:
    """Return kind, sizes and the first kernel in one line."""
    return (
        f"<{type(model).__name__}: {_labels(model)}, {model.n_features} columns, "
        f"{len(model.rows)} active rows, kernel {_kernels(model)}>"
    )


def table(model: "Model") -> str:
    """Return the same as an HTML table, with the names of classes and columns."""
    inputs = model.inputs or ()
    named = {
        type(model).__name__: f"{_labels(model)}{_first(model.classes.tolist())}",
        "columns": f"{len(inputs) or model.n_features}{_first(inputs)}",
        "active rows": len(model.rows),
        "kernel": _kernels(model),
        "scaling": model.scaling.name,
    }
    rows = (f"<tr><th>{k}</th><td>{escape(visible(str(v)))}</td>" for k, v in named.items())
    return f"<table>{'</tr>'.join(rows)}</tr></table>"


def _labels(model: "Model") -> str:
    return "regression" if model.is_regression else f"{len(model.classes)} classes"


def _kernels(model: "Model") -> str:
    first, *others = map(str, model.kernels)
    return f"{brief(first)}{f' and {len(others)} more' if others else ''}"


def _first(names: Sequence[Any]) -> str:
    """Return the first names, after a colon."""
    more = ", ..." if len(names) > MAX_NAMED else ""
    return f": {', '.join(map(str, names[:MAX_NAMED]))}{more}" if len(names) else ""
