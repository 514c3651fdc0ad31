"""`sparsegp update`."""

from contextlib import ExitStack
from typing import Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.grouped import GroupedCommand
from sparsegp.cli.output import json_line, pairs, plural, seconds_of, show


@click.command(cls=GroupedCommand)
@click.argument("run")
@click.argument("data")
@shared.text("--out", "DIR", "Directory or URL of the new run.  [RUN-updated]")
@shared.text("--old", "DATA", "The rows of RUN, in their order; else its model takes their place.")
@shared.number("--n-active", "Active rows of the new model.  [as many as now]")
@shared.test
@shared.resume
@shared.where
@shared.columns
@shared.quiet
@shared.as_json
def update(
    run: str,
    data: str,
    out: str | None,
    old: str | None,
    n_active: int | None,
    test: str | None,
    resume: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Go on with the model of RUN when there are new rows, DATA.

    Kernel and size of the model stay what they are. Active rows that tell least beside the others
    make room for fresh ones, and the posterior is made anew.
    """
    import sparsegp
    from sparsegp.cli.tables import facts, figures, score, table_for
    from sparsegp.report import TerminalProgress
    from sparsegp.runtime import open_runtime
    from sparsegp.store import MODEL_FILE, folder_of

    columns, place = shared.given(options, shared.COLUMNS), shared.place(options)
    directory = out or f"{run.rstrip('/')}-updated"
    with ExitStack() as stack:
        progress = stack.enter_context(TerminalProgress(quiet=quiet))
        progress.begin("read")
        model = sparsegp.load(run)
        new, before, held_out = (
            None if source is None else table_for(model, source, columns, part=part)
            for source, part in ((data, "train"), (old, "train"), (test, "test"))
        )
        progress.begin("prepare")
        updated = sparsegp.update(
            model,
            new,
            old=before,
            n_active=n_active,
            out=directory,
            resume=resume,
            runtime=stack.enter_context(open_runtime(**place)),
            progress=progress,
        )
        progress.begin("evaluate")
        judged = [score(each, held_out) for each in (model, updated) if held_out is not None]
        progress.begin("")
    former, latter = [judged[k].evaluation.to_json() if judged else None for k in (0, 1)]
    record = {
        "source": new.source,
        **facts(updated),
        "run": str(folder_of(directory)),
        "model": f"{folder_of(directory)}/{MODEL_FILE}",
        "held_out": None if held_out is None else held_out.source,
        "before": former,
        "after": latter,
        "seconds": progress.seconds,
    }
    n_rows = (model.n_rows or 0, updated.n_rows)
    lines = {
        "updated by": f"{new.source}: {plural(n_rows[1] - n_rows[0], 'row')}",
        "active rows": str(len(updated.rows)),
    }
    for name, each in zip(("before", "after"), judged, strict=False):
        found = ", ".join(f"{key} {text}" for key, text in figures(each.evaluation).items())
        lines[name] = found
    lines |= {"time": seconds_of(progress.seconds), "model": record["model"]}
    show([json_line(record)] if as_json else pairs(lines))
