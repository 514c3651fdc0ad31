"""`sparsegp inspect`."""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.output import json_line, listed, pairs, show, size

if TYPE_CHECKING:
    from sparsegp.model import Model

FIGURES = (
    "n_active",
    "seconds",
    "train_error",
    "train_mse",
    "heldout_error",
    "heldout_mse",
    "heldout_nlpp",
)


GO_ON = {
    "unfinished": "`sparsegp train ... --resume`",
    "being tuned": "the same command with --resume",
}


NOTHING: dict[str, Any] = {
    **dict.fromkeys(("kernels", "scaling", "calibration", "posterior", "seconds", "progress")),
    "n_active": 0,
    "active_rows": [],
    "names": [],
    "history": [],
    "learning": [],
}
"""What is known of results before there are any."""


@click.command()
@click.argument("run")
@shared.as_json
def inspect(run: str, as_json: bool) -> None:
    """Show settings, active rows, classes, learning curve, sizes and times of RUN.

    A run that is not finished is shown as of its newest checkpoint, also while it goes on.
    """
    from sparsegp.fit.tune import read_records
    from sparsegp.model import load
    from sparsegp.store import MODEL_FILE, RUN_FILE, folder_of

    folder, tuning = folder_of(run), read_records(run)
    files = folder.sizes()
    if MODEL_FILE in files or (RUN_FILE not in files and tuning is None):
        found = finished(load(run))
    elif RUN_FILE in files:
        found = unfinished(run)
    else:
        assert tuning is not None
        state = "being tuned" if tuning["chosen"] is None else "tuned, not trained"
        found = {"state": state, **outline(tuning["settings"], tuning["data"])}
    record = {"run": str(folder), **NOTHING, **found, "sizes": sizes(run), "tuning": tuning}
    show([json_line(record)] if as_json else in_words(record))


def finished(model: "Model") -> dict[str, Any]:
    """Return what a model tells."""
    history = [dict(point) for point in model.history]
    return {
        "state": "finished",
        "settings": dict(model.settings),
        "kernels": [str(kernel) for kernel in model.kernels],
        "scaling": model.scaling.name,
        "calibration": asdict(model.calibration),
        "posterior": {name: value for name, value in model.report.items() if name != "learning"},
        "classes": model.classes.tolist(),
        "columns": model.n_features,
        "names": list(model.names or ()),
        "n_active": len(model.rows),
        "n_wanted": len(model.rows),
        "active_rows": model.rows.tolist(),
        "history": history,
        "learning": model.report.get("learning", []),
        "seconds": history[-1]["seconds"] if history else None,
    }


def unfinished(run: str) -> dict[str, Any]:
    """Return what the newest checkpoint tells, or the settings alone if there is none.

    Raises
    ------
    StoreError
        If a file is damaged.
    """
    from sparsegp.store import (
        RUN_FILE,
        RunDirectory,
        folder_of,
        read,
        read_progress,
        restoring,
    )

    folder = folder_of(run)
    newest = RunDirectory(run, 1, lambda text: show([f"warning: {text}"], err=True)).load()
    meta = {} if newest is None else newest[1].meta
    arrays = {} if newest is None else newest[1].arrays
    rows = [int(row) for row in arrays.get("rows", ())]  # none while it learns
    with restoring(f"{folder}/{RUN_FILE}"):
        asked = json.loads(read(folder, RUN_FILE))
        known = outline(dict(asked["settings"]), dict(asked["data"]))
    kept = ("history", "learning", "seconds")
    return {
        "state": "unfinished",
        **known,
        **{name: value for name, value in meta.items() if name in kept},
        "n_active": len(rows),
        "active_rows": rows,
        "progress": read_progress(run),
    }


def outline(settings: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """Return what settings and data tell."""
    from sparsegp.settings import settings_from_json

    return {
        "settings": settings,
        "classes": data["classes"],
        "columns": data["columns"],
        "n_wanted": settings_from_json(settings).rows_to_include(data["rows"]),
    }


def sizes(run: str) -> dict[str, int]:
    """Return the bytes of a run's parts; of a lone model, its own."""
    from sparsegp.store import CHECKPOINT_FILE, MODEL_FILE, TUNING, file_of, folder_of

    folder = folder_of(run)
    files, tuning = folder.sizes(), folder_of(os.path.join(run, TUNING)).sizes()
    if not files and not tuning:
        folder, name = file_of(run, MODEL_FILE)
        return {"model": folder.sizes()[name]}
    each = {
        "model": [files[MODEL_FILE]] if MODEL_FILE in files else [],
        "checkpoints": [size for file, size in files.items() if CHECKPOINT_FILE.fullmatch(file)],
        "tuning": list(tuning.values()),
    }
    return {part: sum(found) for part, found in each.items() if found}


def in_words(record: dict[str, Any]) -> list[str]:
    """Return the lines of a record."""
    state, seconds, tuning = record["state"], record["seconds"], record["tuning"]
    if state in GO_ON:
        state += f"; go on by {GO_ON[state]}"
    names = f": {listed(record['names'])}" if record["names"] else ""
    named = [
        ("run", f"{record['run']}: {state}"),
        ("settings", unusual(record["settings"])),
        ("classes", f"{len(record['classes'])}: {listed(record['classes'])}"),
        ("columns", f"{record['columns']}{names}"),
        ("active rows", f"{record['n_active']} of {record['n_wanted']}"),
    ]
    if progress := record["progress"]:
        words = [str(progress.get(name)) for name in ("stage", "done", "total", "unit")]
        named.append(("progress", f"{words[0]}: {words[1]} of {words[2]} {words[3]}"))
    if record["active_rows"]:
        named.append(("  in order", listed(record["active_rows"])))
    if record["kernels"]:
        named.append(("kernel", "; ".join(dict.fromkeys(record["kernels"]))))
        named.append(("scaling", record["scaling"]))
        named += probabilities(record)
    named += [(name, size(count)) for name, count in record["sizes"].items()]
    if seconds is not None:
        what = "the method" if "method" in record["settings"] else "the selection"
        named.append(("time", f"{seconds:.1f} s for {what}"))
    lines = [*pairs(named), *steps(record["learning"]), *curve(record["history"])]
    if tuning is not None:
        from sparsegp.cli.tune import trial_lines

        lines += trial_lines(tuning["trials"], (tuning["chosen"] or {"kernel": None})["kernel"])
    return lines


def unusual(settings: dict[str, Any]) -> str:
    """Return in words those settings that are not the default ones."""
    from sparsegp.settings import settings_from_json

    usual = type(settings_from_json(settings))().to_json()
    others = [f"{name}={value}" for name, value in settings.items() if value != usual.get(name)]
    return ", ".join(others) or "the default ones"


REPORT = {
    "log_evidence": "log evidence {:.6g} nats",
    "components": "{} components",
    "rounds": "{} rounds",
    "objective": "objective {:.6g} nats",
    "jitter_of_metric": "jitter of its metric {:.3g}",
    "jitter": "jitter of the active rows' covariance {:.3g}",
}
"""What is told of the posterior."""


def probabilities(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return in words how the posterior was found, and how it becomes probabilities."""
    calibration, report = dict(record["calibration"]), dict(record["posterior"])
    if report.get("components") == 1:
        del report["components"]
    found = [text.format(report[name]) for name, text in REPORT.items() if name in report]
    calibrated = (
        f"prior variances times {calibration['prior_scale']:.4g}, latent means and biases divided "
        f"by {calibration['temperature']:.4g} (temperature), latent variances times "
        f"{calibration['variance_weight']:.4g} (variance weight)"
    )
    posterior = [("posterior", ", ".join(found))] if found else []
    return [*posterior, ("calibration", calibrated)]


def steps(learning: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for every major step of learning."""
    for number, step in enumerate(learning, 1):
        names = [name for name in ("error", "mse", "nlpp") if f"heldout_{name}" in step]
        held_out = [f", held-out {name} {step[f'heldout_{name}']:.5g}" for name in names]
        values = step["criterion"]
        bound = f"; at its bound: {', '.join(step['bounded'])}" if step.get("bounded") else ""
        yield (
            f"step {number}: criterion {values[0]:.2f} to {values[-1]:.2f} nats in "
            f"{step['evaluations']} evaluations{''.join(held_out)}; then {step['kernel']}{bound}"
        )


def curve(history: list[dict[str, float]]) -> list[str]:
    """Return the learning curve as a table, a line for every point."""
    names = [name for name in FIGURES if any(name in point for point in history)]
    rows = [[f"{point[name]:.5g}" if name in point else "" for name in names] for point in history]
    return [
        "  ".join(f"{value:>{max(len(name), 9)}}" for name, value in zip(names, row, strict=True))
        for row in ([names, *rows] if names else [])
    ]
