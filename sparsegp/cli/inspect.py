"""`sparsegp inspect`."""

import os
from collections.abc import Mapping
from typing import Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.output import json_line, listed, pairs, percent, records_table, show, table
from sparsegp.cli.tune import trials_table
from sparsegp.errors import StoreError, size
from sparsegp.lists import join_first, quote_if_needed
from sparsegp.settings import DenseSettings, TrainSettings

STEP = ("step", "criterion", "evaluations")
MAX_RELEVANT, LEVELS = 10, 4
"""Numbers of columns that are listed by relevance, and of levels of a category."""
HELD_OUT = ("heldout_error", "heldout_mse", "heldout_nlpp")
POINT = ("n_active", "seconds", "train_error", "train_mse")
"""Columns of the tables of learning and of the selection."""
GO_ON = {
    "unfinished": "; continue with `sparsegp train ... --resume`",
    "being tuned": "; continue with the same command and --resume",
}
PLAIN = {"objective": "penalised log likelihood", "rounds": "rounds with all rows"}
"""Display names of diagnostics of the posterior."""
UNSHOWN = {"jitter", "jitter_of_metric", "rows", "validation_nlpp"}
"""Diagnostics that are shown elsewhere, or in the JSON only."""
NOTHING: dict[str, Any] = {
    **dict.fromkeys(("kernels", "label", "weights", "scaling", "calibration", "posterior")),
    **dict.fromkeys(("seconds", "progress")),
    **dict.fromkeys(("active_rows", "names", "inputs", "history", "learning"), ()),
    "n_active": 0,
    "holder": "",
    "relevances": {},
}
"""Fields of results that do not exist yet."""


@click.command()
@click.argument("run")
@shared.as_json
def inspect(run: str, as_json: bool) -> None:
    """Show the contents of RUN, finished or not.

    These are settings, classes, active rows, sizes and times; and, if the kernel has a length scale
    per column, the relevances of the columns: standard deviation divided by length scale,
    normalised to sum to 1. Of an unfinished run, even one in progress, the latest checkpoint is
    shown.
    """
    from sparsegp import store
    from sparsegp.cli.facts import finished, outline, unfinished
    from sparsegp.model import load

    folder, of_tuning = store.folder_of(run), store.folder_of(os.path.join(run, store.TUNING))
    files, tuning = folder.sizes(), None
    try:
        tuning = store.read_records(run)
    except StoreError as error:
        if store.MODEL_FILE not in files:  # a model contains what the search chose
            raise
        show([f"warning: {error}"], err=True)
    if store.MODEL_FILE in files or (store.RUN_FILE not in files and tuning is None):
        found = finished(load(run))
    elif store.RUN_FILE in files:
        found = unfinished(run, folder) | {"holder": folder.holder()}
    else:
        assert tuning is not None
        state = "being tuned" if tuning["chosen"] is None else "tuned, not trained"
        found = {"state": state, **outline(tuning["settings"], tuning["data"])}
        found["holder"] = of_tuning.holder()
    of_model, name = store.file_of(run, store.MODEL_FILE)  # `run` may be the file of a model
    sizes = {
        "model": of_model.sizes().get(name, 0),
        "checkpoints": sum(files[name] for name in files if store.CHECKPOINT_FILE.fullmatch(name)),
        "tuning": sum(of_tuning.sizes().values()),
    }
    sizes = {part: count for part, count in sizes.items() if count}
    record = {"run": str(folder), **NOTHING, **found, "sizes": sizes, "tuning": tuning}
    show([json_line(record)] if as_json else in_words(record))


def inputs_table(inputs: list[dict[str, Any]]) -> list[str]:
    """Return a table of the columns of a data frame, by relevance, with their frequent levels."""
    records = []
    for column in sorted(inputs, key=lambda column: -(column["relevance"] or 0.0)):
        known = column["levels"].items()
        counts = [f"{quote_if_needed(level)} ({count})" for level, count in known]
        rare = column["rare"] != 0 and f"{column['rare']} rare"
        levels = "; ".join(filter(None, (join_first(counts, LEVELS), rare)))
        gaps = percent(column["missing"]) if column["missing"] else None
        content = column["left_out"] and f"left out: {column['left_out']}"
        records.append({**column, "missing": gaps, "content": content or levels})
    return records_table(records, ("name", "kind", "missing", "relevance", "content"))


def facts_in_words(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a record that fit on one line each, by display name."""
    from sparsegp.kernels import brief

    state, settings, count = record["state"], record["settings"], record["columns"]
    usual = (DenseSettings if "method" in settings else TrainSettings)().to_json()
    settings = settings | {"kernel": brief(settings["kernel"])}
    shown = {"kernel", "scaling"} if record["kernels"] else set()  # below, as used
    shown |= {"kernel"} if "tuned" in state else set()  # it is only where the search starts
    others = [k for k, value in settings.items() if value != usual.get(k) and k not in shown]
    progress = record["progress"] or {}
    extent = "{done} of {total}" if progress.get("total") else "{done}"
    selecting = "" if "method" in settings else " until the active rows were selected"
    used = [column for column in record["inputs"] if not column["left_out"]]
    names = f": {listed(record['names'])}" if record["names"] else ""
    if record["holder"]:
        state = f"under way in {record['holder']}"
    return {
        "run": f"{record['run']}: {state}{GO_ON.get(state, '')}",
        "settings": ", ".join(f"{k}={settings[k]}" for k in others) or "the default ones",
        "classes": record["classes"] and f"{len(record['classes'])}: {listed(record['classes'])}",
        "columns": f"{len(used)}, encoded as {count}" if used else f"{count}{names}",
        "labels": record["label"] and f"column {record['label']}",
        "weights": record["weights"] and f"column {record['weights']}",
        "active rows": f"{record['n_active']} of {record['n_wanted']}",
        "  in order": listed(record["active_rows"]),
        "progress": f"{{stage}}: {extent} {{unit}}".format_map(progress) if progress else "",
        "kernel": "; ".join(dict.fromkeys(map(brief, record["kernels"] or ()))),
        "scaling": record["scaling"],
        **posterior_in_words(record),
        **{name: size(count) for name, count in record["sizes"].items()},
        "time": "" if record["seconds"] is None else f"{record['seconds']:.1f} s{selecting}",
    }


def posterior_in_words(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the diagnostics of posterior and calibration in words, by display name."""
    from sparsegp.report.progress import in_words

    calibration, nlpp = record["calibration"] or {}, record.get("validation_nlpp")
    figures = {
        PLAIN.get(name, name): value
        for name, value in (record["posterior"] or {}).items()
        if isinstance(value, int | float) and name not in {*calibration, *UNSHOWN}
    }
    validation = nlpp and f"nlpp {nlpp:.4f} nats"
    named = {"posterior": in_words(figures), "validation": validation}
    return {**named, "calibration": in_words(calibration)}


def in_words(record: dict[str, Any]) -> list[str]:
    """Return the lines of a record."""
    from sparsegp.kernels import brief

    curve, tuning = [], record["tuning"] or {"trials": (), "chosen": None}
    steps = [
        {**each, "step": n, "criterion": each["criterion"][-1], "kernel": brief(each["kernel"])}
        for n, each in enumerate(record["learning"], 1)
    ]
    if record["settings"].get("posterior") != "all":  # else the model has other metrics
        curve = records_table(record["history"], (*POINT, *HELD_OUT))
    ranked = [] if record["inputs"] else list(record["relevances"].items())  # shown there
    if rest := ranked[MAX_RELEVANT:]:
        ranked = [*ranked[:MAX_RELEVANT], (f"... {len(rest)} more", sum(r for _, r in rest))]
    return [
        *pairs(facts_in_words(record)),
        *inputs_table(record["inputs"]),
        *table(("column", "relevance"), ((name, f"{share:.4f}") for name, share in ranked)),
        *records_table(steps, (*STEP, *HELD_OUT, "kernel")),
        *(["during selection", *curve] if curve else ()),
        *trials_table(tuning["trials"], tuning["chosen"], is_regression=not record["classes"]),
    ]
