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
@click.option(
    "--old", metavar="DATA", required=True, help="The rows that RUN was trained on, in their order."
)
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
    old: str,
    n_active: int | None,
    test: str | None,
    resume: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Update the model in RUN with new rows, DATA.

    Its kernel and the number of active rows stay. The active rows that the posterior misses least
    are replaced by others, among old and new rows, and the posterior is that of all rows.
    """
    if not quiet:  # before what is slow to import
        show([f"reading {run} and {data}"], err=True)
    import sparsegp
    from sparsegp.cli.tables import facts, rows_to_learn, score, table_for
    from sparsegp.report import TerminalProgress
    from sparsegp.runtime import open_runtime
    from sparsegp.store import MODEL_FILE, folder_of

    columns, place = shared.given(options, shared.COLUMNS), shared.place(options)
    directory = out or f"{run.rstrip('/')}-updated"
    with ExitStack() as stack:
        progress = stack.enter_context(TerminalProgress(quiet=quiet))
        progress.begin("read")
        model = sparsegp.load(run)
        new, before = (rows_to_learn(model, source, columns) for source in (data, old))
        held_out = None if test is None else table_for(model, test, columns)
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
        judged = {}
        if held_out is not None:
            models = {"before": model, "after": updated}
            judged = {name: score(each, held_out)[0] for name, each in models.items()}
        progress.begin("")
    folder = folder_of(directory)
    record = {
        "source": new.source,
        "rows": len(before.X) + len(new.X),
        "new_rows": len(new.X),
        **facts(updated),
        "run": str(folder),
        "model": f"{folder}/{MODEL_FILE}",
        "held_out": None if held_out is None else held_out.source,
        **{name: each.to_json() for name, each in judged.items()},
        "seconds": progress.seconds,
    }
    lines = {
        "updated by": f"{new.source}: {plural(len(new.X), 'row')} after {len(before.X)}",
        "active rows": str(len(updated.rows)),
        **{f"nlpp {name}": f"{each.nlpp:.4f} nats" for name, each in judged.items()},
        "time": seconds_of(progress.seconds),
        "model": record["model"],
    }
    show([json_line(record)] if as_json else pairs(lines))
