"""Two stages of a sparse fit: select the active rows, then make the posterior and the model."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from sparsegp.ivm.greedy import Selection
from sparsegp.ivm.rows import MarginalMetrics
from sparsegp.model import SparseModel
from sparsegp.posterior import POSTERIORS, ActiveRows
from sparsegp.posterior.refits import keep_up

if TYPE_CHECKING:
    from sparsegp.fit.training import Training

SHOWN = ("train_error", "train_mse", "heldout_error", "heldout_mse")
"""Figures that progress shows."""


def rounds(run: "Training", every: int) -> Iterator[int]:
    """Include batches of rows until there are `n_active`, or no other may be included.

    No batch reaches across a multiple of `every`. Yields how many rows are active after each; a
    checkpoint is written when the next one is asked for, if one is due.
    """
    selection = run.selection()
    while (count := len(run.active)) < run.n_active:
        if isinstance(selection, Selection):
            run.coefficients = keep_up(selection, run, run.coefficients)
        if not selection.round(min((count // every + 1) * every, run.n_active)):
            break
        yield len(run.active)
        run.checkpoint(run.done, extent(run), due=len(run.active) == run.n_active)


def select(run: "Training") -> None:
    """Include all rows that are left, with reports and checkpoints on the way.

    Raises
    ------
    Interrupted
        If a stop was requested; what was reached is in a checkpoint.
    """
    every = run.settings.report_every
    run.progress.start(run.n_active, "rows", "select")
    run.progress.update(len(run.active), **shown(run))
    for count in rounds(run, every):
        if count % every == 0 or count == run.n_active:
            report(run)
        run.progress.update(count, **shown(run))
    if len(run.active) < run.n_active:
        run.progress.message(
            f"{len(run.active)} rows included: no other candidate has a site of precision above "
            f"{run.settings.epsilon:g} and latent variance left in {run.settings.precision}"
        )
        run.n_active = len(run.active)
        report(run)
        run.checkpoint(run.done, extent(run), due=True)
    run.progress.finish()


def extent(run: "Training") -> str:
    """Return in words how far the selection is."""
    return f"with {len(run.active)} of {run.n_active} rows included"


def report(run: "Training") -> None:
    """Add a point to the learning curve."""
    point = {"n_active": len(run.active), "seconds": round(run.seconds(), 3)}
    run.history.append({**point, **figures(run)})


def shown(run: "Training") -> dict[str, float]:
    """Return the latest figures that progress shows."""
    last = run.history[-1] if run.history else {}
    return {name: last[name] for name in SHOWN if name in last}


def figures(run: "Training") -> dict[str, float]:
    """Return the figures of training and held-out rows by the present marginals.

    Where candidates get fewer, there is no figure of the training rows any more as soon as some
    have left: what is known of those that stay, most of them the hardest, says nothing of all.
    """
    answers: list[MarginalMetrics] = run.runtime.map_blocks("marginal_metrics")
    numbers, found = run.data.numbers, {}
    name, unit = ("error", 1.0) if numbers is None else ("mse", numbers.scale**2)
    train, held_out = answers[: run.n_train_blocks], answers[run.n_train_blocks :]
    if sum(some.rows for some in train) == run.n_rows:
        found[f"train_{name}"] = sum(some.loss for some in train) * unit / run.n_rows
    if held_out:
        rows = sum(some.rows for some in held_out)
        found[f"heldout_{name}"] = sum(some.loss for some in held_out) * unit / rows
        if labelled := sum(some.labelled for some in held_out):
            nlpp = -sum(some.log_z for some in held_out) / labelled
            found["heldout_nlpp"] = nlpp + (0.0 if numbers is None else math.log(numbers.scale))
    return found


def finish(run: "Training", keep_blocks: bool) -> SparseModel:
    """Make the posterior and the model, and save it.

    Parameters
    ----------
    run : Training
    keep_blocks : bool
        Whether the row blocks will be looked at afterwards; otherwise their memory is given
        back as soon as they are not needed.

    Raises
    ------
    Interrupted
        If a stop was requested; what was reached is in a checkpoint.
    """
    active = ActiveRows.of(run.block_settings, run.active)
    chosen = POSTERIORS[run.settings.posterior]
    if not (keep_blocks or chosen.listens or run.calibrate):
        run.runtime.build(run.block_type, [])
    if chosen.listens:
        run.progress.start(0, "rounds", "posterior")
    weights = chosen.make(active, run)
    run.progress.finish()
    if not keep_blocks:
        run.runtime.build(run.block_type, [])
    if run.steps:
        weights = replace(weights, report={**weights.report, "learning": run.steps})
    model = SparseModel(
        active=active,
        weights=weights,
        rows=run.active.rows,
        classes=run.data.classes,
        scaling=run.data.scaling,
        settings=run.settings.to_json(),
        history=tuple(run.history),
        numbers=run.data.numbers,
        names=run.data.train.names,
    )
    run.keep(model)
    return model
