"""`sparsegp attach`: a run that goes on elsewhere, shown here to its end."""

import os
import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import click

from sparsegp.cli import options as shared
from sparsegp.cli.output import print_json, print_pairs
from sparsegp.cli.verdict import KILLED

if TYPE_CHECKING:
    from sparsegp.report.journal import Ending


STORE_PAUSES = 4
"""By how much less often a store of objects is looked at than a disk."""


@click.command()
@click.argument("run")
@click.option("--stop", is_flag=True, help="Ask it to end with a checkpoint, for --resume.")
@shared.reach_options
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
@shared.as_json
def attach(run: str, stop: bool, quiet: bool, as_json: bool, **options: Any) -> None:
    """Show the run in RUN, a directory or URL, which goes on elsewhere, until it ends.

    It ends as that run does: with its figures, or its error and exit code. Where this machine does
    not see the disk or store, a scheduler on a machine that does is named; RUN is then a place
    there. Ctrl-C ends this command alone.
    """
    from sparsegp.errors import StoreError

    where = shared.given(options, shared.REACH)
    if where:
        run = path_there(run, "RUN")
    with watcher(where) as there:
        if stop and not there.stop(run):
            raise StoreError(f"no driver of {run} was found on the machine that was asked")
        ending = attend(run, there, quiet)
    assert ending is not None
    tell(ending, as_json)


class Watcher(Protocol):
    """What looks at runs: this machine, or that of a scheduler."""

    def look(self, run: str, probe: bool) -> dict[str, Any]:
        """Return a glimpse of a run."""

    def stop(self, run: str) -> bool:
        """Ask its driver to end; return whether there is one."""


@contextmanager
def watcher(where: dict[str, Any]) -> Iterator[Watcher]:
    """Yield what looks at runs, on this machine where no scheduler is named.

    Raises
    ------
    SettingsError, ClusterError
        If there is no such scheduler.
    """
    if not where:
        from sparsegp.execution import glimpse

        yield glimpse
        return
    from sparsegp.execution.elsewhere import outpost_of

    with outpost_of(**where, workers=False) as outpost:
        yield outpost


def path_there(path: str, name: str) -> str:
    """Return a path of the scheduler's machine in its shortest form; a URL is one as it is.

    Raises
    ------
    SettingsError
        If it depends on the folder of a command.
    """
    from sparsegp.errors import SettingsError
    from sparsegp.execution.glimpse import in_store

    if in_store(path):
        return path.rstrip("/")
    if not posixpath.isabs(path):
        raise SettingsError(
            f"{name} must be an absolute path, as it is one of the scheduler's machine; got "
            f"{path!r}, say for example {os.path.abspath(path)}"
        )
    return posixpath.normpath(path)


def attend(run: str, there: Watcher, quiet: bool, *, until_begun: bool = False) -> "Ending | None":
    """Show a run to its end, to a Ctrl-C, or until it has begun; None if it goes on."""
    from sparsegp.execution.glimpse import in_store
    from sparsegp.report.follow import Follower, Mirror, Patience, follow
    from sparsegp.report.journal import Ending

    pause = Patience().pause * (STORE_PAUSES if in_store(run) else 1)
    follower = Follower(run, Mirror(say if quiet else None), Patience(pause=pause))
    try:
        return follow(partial(there.look, run), follower, until_begun=until_begun)
    except KeyboardInterrupt:
        return Ending(KILLED, f"detached from {run}, which goes on")


def tell(ending: "Ending", as_json: bool) -> None:
    """Print how a run ended, and end this command with its exit code."""
    if ending.text:
        say(" ".join(ending.text.split()))
    if ending.record is not None and as_json:
        print_json(ending.record)
    elif ending.record is not None:
        print_pairs(ending.summary)
    click.get_current_context().exit(ending.code)


def say(text: str) -> None:
    """Write a line on standard error."""
    click.echo(text, err=True)
