"""`sparsegp inspect`."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.output import listed, print_json, print_pairs, size

if TYPE_CHECKING:
    from sparsegp.checkpoint import Place
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


@click.command()
@click.argument("run")
@shared.as_json
def inspect(run: str, as_json: bool) -> None:
    """Show settings, active rows, classes, learning curve, sizes and times of RUN.

    A run that is not finished is shown as of its newest checkpoint, also while it goes on.
    """
    from sparsegp.checkpoint import is_bundle, place_of
    from sparsegp.model import load
    from sparsegp.tuning import read_records

    path = place_of(run)
    tuning, is_finished = read_records(path), is_bundle(path / "model")
    if (path / "run.json").is_file() and not is_finished:
        record = unfinished(path)
    elif tuning is None or is_finished:
        record = finished(path, load(path))
    else:
        record = tuned_only(path, tuning)
    record |= {"sizes": sizes(path), "tuning": tuning}
    if as_json:
        print_json(record)
    else:
        print_record(record)


def finished(path: "Place", model: "Model") -> dict[str, Any]:
    """Return what a model tells."""
    history = [dict(point) for point in model.history]
    return {
        "run": str(path),
        "state": "finished",
        "settings": dict(model.settings),
        "kernels": [str(kernel) for kernel in model.kernels],
        "scaling": model.scaling.name,
        "calibration": asdict(model.calibration),
        "posterior": {name: value for name, value in model.report.items() if name != "learning"},
        "classes": model.classes.tolist(),
        "columns": model.n_features,
        "n_active": len(model.rows),
        "n_wanted": len(model.rows),
        "active_rows": model.rows.tolist(),
        "history": history,
        "learning": model.report.get("learning", []),
        "seconds": history[-1]["seconds"] if history else None,
    }


def tuned_only(path: "Place", tuning: dict[str, Any]) -> dict[str, Any]:
    """Return what is known before a run: what its tuning was asked."""
    state = "being tuned" if tuning["chosen"] is None else "tuned, not trained"
    return {**not_begun(path, state), **outline(tuning["settings"], tuning["data"])}


def outline(settings: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """Return what settings and data tell."""
    from sparsegp.settings import settings_from_json

    return {
        "settings": settings,
        "classes": data["classes"],
        "columns": data["columns"],
        "n_wanted": settings_from_json(settings).rows_to_include(data["rows"]),
    }


def unfinished(path: "Place") -> dict[str, Any]:
    """Return what the newest checkpoint tells, or the settings alone if there is none."""
    from sparsegp.checkpoint import Generations

    found = Generations(path / "checkpoints", 1, on_warning=warn).load()
    meta = {} if found is None else found[1].meta
    arrays = {} if found is None else found[1].arrays
    rows = [int(row) for row in arrays.get("rows", ())]  # none while it learns
    return {
        **not_begun(path, "unfinished"),
        **outline(*read_run(path / "run.json")),
        "n_active": len(rows),
        "active_rows": rows,
        "history": meta.get("history", []),
        "learning": meta.get("learning", []),
        "seconds": meta.get("seconds"),
    }


def not_begun(path: "Place", state: str) -> dict[str, Any]:
    """Return a record that holds no results."""
    return {
        "run": str(path),
        "state": state,
        "kernels": None,
        "scaling": None,
        "calibration": None,
        "posterior": None,
        "n_active": 0,
        "active_rows": [],
        "history": [],
        "learning": [],
        "seconds": None,
    }


def warn(text: str) -> None:
    """Write a warning."""
    click.echo(f"warning: {text}", err=True)


def read_run(manifest: "Place") -> tuple[dict[str, Any], dict[str, Any]]:
    """Return settings and data of a run.

    Raises
    ------
    StoreError
        If the file is damaged.
    """
    from sparsegp.errors import StoreError

    try:
        content = json.loads(manifest.read_text())
        settings, data = dict(content["settings"]), dict(content["data"])
        return settings, {name: data[name] for name in ("rows", "columns", "classes")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{manifest} cannot be read ({error!r}); restore it from a copy") from None


def sizes(path: "Place") -> dict[str, int]:
    """Return the bytes of a run's parts; of a lone model, its own."""
    from sparsegp.checkpoint import folder_bytes

    parts = ("model", "checkpoints", "tuning")
    found = {part: folder_bytes(path / part) for part in parts if (path / part).is_dir()}
    return found or {"model": folder_bytes(path)}


def print_record(record: dict[str, Any]) -> None:
    """Print the record in words."""
    settings = unusual(record["settings"])
    state, seconds = record["state"], record["seconds"]
    if state in GO_ON:
        state += f"; go on by {GO_ON[state]}"
    pairs = [
        ("run", f"{record['run']}: {state}"),
        ("settings", settings),
        ("classes", f"{len(record['classes'])}: {listed(record['classes'])}"),
        ("columns", str(record["columns"])),
        ("active rows", f"{record['n_active']} of {record['n_wanted']}"),
    ]
    if record["active_rows"]:
        pairs.append(("  in order", listed(record["active_rows"])))
    if record["kernels"]:
        pairs.append(("kernel", "; ".join(dict.fromkeys(record["kernels"]))))
        pairs.append(("scaling", record["scaling"]))
        pairs += probabilities(record)
    pairs += [(name, size(count)) for name, count in record["sizes"].items()]
    if seconds is not None:
        what = "the method" if "method" in record["settings"] else "the selection"
        pairs.append(("time", f"{seconds:.1f} s for {what}"))
    print_pairs(pairs)
    print_learning(record["learning"])
    print_curve(record["history"])
    if record["tuning"] is not None:
        from sparsegp.cli.tune import print_trials

        chosen = record["tuning"]["chosen"] or {"kernel": None}
        print_trials(record["tuning"]["trials"], chosen["kernel"])


def unusual(settings: dict[str, Any]) -> str:
    """Return in words those settings that are not the default ones."""
    from sparsegp.settings import settings_from_json

    usual = type(settings_from_json(settings))().to_json()
    others = [f"{name}={value}" for name, value in settings.items() if value != usual.get(name)]
    return ", ".join(others) or "the default ones"


def probabilities(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return in words how the posterior was found, and how it becomes probabilities."""
    calibration, report = dict(record["calibration"]), dict(record["posterior"])
    means = f"latent means and biases divided by {calibration['temperature']:.4g} (temperature)"
    variances = f"latent variances times {calibration['variance_weight']:.4g} (variance weight)"
    scale = f"prior variances times {calibration['prior_scale']:.4g}"
    found = []
    if "log_evidence" in report:
        found.append(f"log evidence {report['log_evidence']:.6g} nats")
    if report.get("components", 1) > 1:
        found.append(f"{report['components']} components")
    if "rounds" in report:
        found.append(f"{report['rounds']} rounds")
    if "objective" in report:
        found.append(f"objective {report['objective']:.6g} nats")
    if "jitter_of_metric" in report:
        found.append(f"jitter of its metric {report['jitter_of_metric']:.3g}")
    if "jitter" in report:
        found.append(f"jitter of the active rows' covariance {report['jitter']:.3g}")
    posterior = [("posterior", ", ".join(found))] if found else []
    return [*posterior, ("calibration", f"{scale}, {means}, {variances}")]


def print_learning(steps: list[dict[str, Any]]) -> None:
    """Print the major steps of learning, a line for each."""
    for number, step in enumerate(steps, 1):
        held_out = [
            f", held-out {name} {step[f'heldout_{name}']:.5g}"
            for name in ("error", "mse", "nlpp")
            if f"heldout_{name}" in step
        ]
        values = step["criterion"]
        bound = f"; at its bound: {', '.join(step['bounded'])}" if step.get("bounded") else ""
        click.echo(
            f"step {number}: criterion {values[0]:.2f} to {values[-1]:.2f} nats in "
            f"{step['evaluations']} evaluations{''.join(held_out)}; then {step['kernel']}{bound}"
        )


def print_curve(history: list[dict[str, float]]) -> None:
    """Print the learning curve, a line for every point."""
    names = [name for name in FIGURES if any(name in point for point in history)]
    widths = [max(len(name), 9) for name in names]
    if names:
        header = (f"{name:>{width}}" for name, width in zip(names, widths, strict=True))
        click.echo("  ".join(header))
    for point in history:
        values = ("" if name not in point else f"{point[name]:.5g}" for name in names)
        line = (f"{value:>{width}}" for value, width in zip(values, widths, strict=True))
        click.echo("  ".join(line))
