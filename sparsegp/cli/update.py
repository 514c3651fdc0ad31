"""`sparsegp update`."""

from typing import Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.output import json_line, pairs, seconds_of, show, working
from sparsegp.lists import plural


@click.command(cls=shared.GroupedCommand)
@click.argument("run")
@click.argument("data")
@shared.text("--out", "DIR", "Directory or URL of the new run.  [RUN-updated]")
@shared.text(
    "--old", "DATA", "The training rows of RUN, in the same order.  [represented by its posterior]"
)
@shared.number("--n-active", "Active rows of the new model.  [as in RUN]")
@shared.text("--test", "DATA", "Test set, predicted before and after the update.")
@shared.weighted_columns
@shared.running
def update(run: str, data: str, quiet: bool, as_json: bool, **options: Any) -> None:
    """Update the model in RUN with new rows, DATA.

    The kernel and, by default, the number of active rows are kept. The active rows that matter
    least to the posterior are replaced, and the posterior is that of all rows. Old rows that are
    not given are represented by the posterior of the model.
    """
    columns, out = shared.given(options, shared.COLUMNS), options["out"]
    with working(f"{run} and {data}", quiet) as progress:
        import sparsegp
        from sparsegp.cli.facts import facts
        from sparsegp.cli.tables import require_apart, table_for
        from sparsegp.report.scores import score
        from sparsegp.store import MODEL_FILE, folder_of

        out = out or f"{run.rstrip('/').removesuffix(f'/{MODEL_FILE}')}-updated"
        folder, place = folder_of(out), shared.place(options)
        require_apart(out, run)
        progress.begin("read")
        model = sparsegp.load(run)
        new = table_for(model, data, learning=True, **columns)
        old, test = options["old"], options["test"]
        before = None if old is None else table_for(model, old, learning=True, **columns)
        held_out = None if test is None else table_for(model, test, **columns)
        progress.begin("prepare")
        how = place | {name: options[name] for name in ("n_active", "resume", "overwrite")}
        updated = sparsegp.update(model, new, old=before, out=out, progress=progress, **how)
        judged = dict[str, Any]()
        if held_out is not None:
            for name, each in (("before", model), ("after", updated)):
                judged[name] = score(each, held_out, progress)[0]
    record = {
        "source": new.source,
        "rows": updated.report["rows"],
        "new_rows": len(new.X),
        "old": None if before is None else before.source,
        **facts(updated),
        "run": str(folder),
        "model": f"{folder}/{MODEL_FILE}",
        "held_out": None if held_out is None else held_out.source,
        **{name: each.to_json() for name, each in judged.items()},
        "seconds": progress.seconds,
    }
    show([json_line(record)] if as_json else pairs(_lines(record, judged)))


def _lines(record: dict[str, Any], judged: dict[str, Any]) -> dict[str, str]:
    """Return the record in words, by display name."""
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
