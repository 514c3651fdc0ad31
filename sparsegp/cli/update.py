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
@shared.text("--old", "DATA", "The rows that the model was trained on; without them it stands in.")
@shared.number("--n-active", "Active rows of the new model.  [as many as now]")
@shared.resume
@shared.where
@shared.label_column
@shared.quiet
@shared.as_json
def update(run: str, data: str, out: str | None, **options: Any) -> None:
    """Teach the model of RUN the rows of DATA too.

    Kernel, scaling and size stay. Active rows that tell least beside the others make room for new
    ones. Without --old the model itself stands in for the rows that it was trained on.
    """
