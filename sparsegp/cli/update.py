"""`sparsegp update`."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.grouped import GroupedCommand
from sparsegp.cli.output import json_line, pairs, plural, seconds_of, show
from sparsegp.errors import SettingsError

if TYPE_CHECKING:
    from sparsegp.data import Table


@click.command(cls=GroupedCommand)
@click.argument("run")
@click.argument("data")
@shared.text("--out", "DIR", "Directory or URL of the new run.  [RUN-updated]")
@shared.text(
    "--old", "DATA", "The training rows of RUN, in the same order.  [represented by its posterior]"
)
@shared.number("--n-active", "Active rows of the new model.  [as in RUN]")
@shared.test
@shared.running
def update(run: str, data: str, quiet: bool, as_json: bool, **options: Any) -> None:
    """Update the model in RUN with new rows, DATA.

    The kernel and, by default, the number of active rows are kept. The active rows that matter
    least to the posterior are replaced, and the posterior is that of all rows. Old rows that are
    not given are represented by the posterior of the model.
    """
    if not quiet:  # before what is slow to import
        show([f"reading {run} and {data}"], err=True)
    import sparsegp
    from sparsegp.cli.tables import facts, rows_to_learn, score, table_for
    from sparsegp.report import TerminalProgress
    from sparsegp.runtime import open_runtime
    from sparsegp.store import MODEL_FILE, folder_of

    columns, old, test = shared.given(options, shared.COLUMNS), options["old"], options["test"]
    weight_column = options["weight_column"]
    directory = options["out"] or f"{run.rstrip('/')}-updated"
    if str(folder_of(directory)) == str(folder_of(run)):
        raise SettingsError("--out must be another directory than RUN, which is not changed")
    with ExitStack() as stack:
        progress = stack.enter_context(TerminalProgress(quiet=quiet))
        progress.begin("read")
        model = sparsegp.load(run)
        new = rows_to_learn(model, data, columns, weight_column)
        before = None if old is None else rows_to_learn(model, old, columns, weight_column)
        held_out = (
            None if test is None else table_for(model, test, columns, weight_column=weight_column)
        )
        progress.begin("prepare")
        how = {name: options[name] for name in ("n_active", "resume", "overwrite")}
        runtime = stack.enter_context(open_runtime(**shared.place(options)))
        how |= {"out": directory, "runtime": runtime, "progress": progress}
        updated = sparsegp.update(model, new, old=before, **how)
        progress.begin("evaluate")
        judged = {}
        if held_out is not None:
            models = {"before": model, "after": updated}
            judged = {name: score(each, held_out)[0] for name, each in models.items()}
        progress.begin("")
    folder = folder_of(directory)
    record = {
        **_of_rows(new, before, updated.report["rows"]),
        **facts(updated),
        "run": str(folder),
        "model": f"{folder}/{MODEL_FILE}",
        "held_out": None if held_out is None else held_out.source,
        **{name: each.to_json() for name, each in judged.items()},
        "seconds": progress.seconds,
    }
    show([json_line(record)] if as_json else pairs(_lines(record, judged)))


def _of_rows(new: "Table", before: "Table | None", rows: int) -> dict[str, Any]:
    """Return what is known of the rows, of so many in all."""
    known = {"source": new.source, "rows": rows, "new_rows": len(new.X)}
    return {**known, "old": None if before is None else before.source}


def _lines(record: dict[str, Any], judged: dict[str, Any]) -> dict[str, str]:
    """Return what is shown."""
    old = "what the model knows of" if record["old"] is None else "the"
    n_old = record["rows"] - record["new_rows"]
    return {
        "updated by": f"{record['source']}: {plural(record['new_rows'], 'row')}, after {old} "
        + plural(n_old, "old row"),
        "active rows": str(record["n_active"]),
        **{f"nlpp {name}": f"{each.nlpp:.4f} nats" for name, each in judged.items()},
        "time": seconds_of(record["seconds"]),
        "model": record["model"],
    }
