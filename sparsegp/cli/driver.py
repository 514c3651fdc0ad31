"""`sparsegp train --driver cluster`: the same command, started on the machine of a scheduler."""

import shlex
from collections.abc import Callable, Collection
from typing import Any

import click
from click.core import ParameterSource

from sparsegp.cli import options as shared
from sparsegp.cli.attach import attend, path_there, say, tell
from sparsegp.cli.output import print_json, print_pairs

CLIENT, CLUSTER = "client", "cluster"

OPTIONS: dict[str, Callable[[Any], Any]] = {
    "driver": click.option(
        "--driver",
        type=click.Choice([CLIENT, CLUSTER]),
        help="Where the run is led: client, by this command; cluster, by a process on the machine "
        "of the scheduler, which goes on when this command has ended. Paths are then of that "
        "machine.  [client]",
    ),
    "detach": click.option(
        "--detach",
        is_flag=True,
        default=None,
        help="With --driver cluster: end when the run has begun; see `sparsegp attach`.",
    ),
}

PATHS = ("data", "test", "out", "scratch", "virtual")
"""Parameters that are paths, apart from those of `REACH`."""

OWN = {*OPTIONS, *shared.WHERE, "quiet", "as_json"}
"""Parameters of this command alone, which the one there is not given."""


def driver_options(function: shared.F) -> shared.F:
    """Add all options of `OPTIONS`."""
    return shared.add_family(OPTIONS, function)


def is_elsewhere(options: dict[str, Any]) -> bool:
    """Tell whether the driver is to be elsewhere.

    Raises
    ------
    SettingsError
        If an option speaks of it and it is not.
    """
    from sparsegp.errors import SettingsError

    if options["driver"] == CLUSTER:
        return True
    if options["detach"]:
        raise SettingsError("--detach goes with --driver cluster; give it too, or leave it out")
    return False


def drive(context: click.Context) -> None:
    """Start the command of a context on the machine of the scheduler, and show how it goes on.

    Raises
    ------
    SettingsError, ClusterError
        If the cluster does not stay, a path is none of that machine, or nothing can be started.
    """
    from sparsegp.execution import require_one
    from sparsegp.execution.elsewhere import outpost_of, require_lasting

    given = context.params
    require_one(**{name: given[name] for name in shared.WHERE})
    where = shared.given(given, shared.REACH)
    require_lasting(**where)
    run, quiet, detached = require_paths(given), given["quiet"], bool(given["detach"])
    with outpost_of(**where, workers=True) as outpost:
        record = {"run": run, **outpost.start(words_of(context), run)}
        record["attach"] = shlex.join(["sparsegp", "attach", run, *options_of(context, where)])
        if not quiet and not detached:
            for name, value in pairs(record):
                say(f"{name:<12}  {value}")
        ending = attend(run, outpost, quiet, until_begun=detached)
    if ending is not None:
        tell(ending, given["as_json"])
    elif given["as_json"]:
        print_json(record)
    else:
        print_pairs(pairs(record))


def pairs(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return in words where a run is and how it can be seen."""
    return [
        ("run", record["run"]),
        ("driver", f"process {record['pid']} on {record['host']}"),
        ("output", record["log"]),
        ("attach", record["attach"]),
    ]


def require_paths(given: dict[str, Any]) -> str:
    """Return the directory of the run, if all paths can be those of another machine.

    Raises
    ------
    SettingsError
        If there is no directory, or a path depends on the folder of this command.
    """
    from sparsegp.data import CATALOG
    from sparsegp.data.storage import is_url, plain
    from sparsegp.errors import SettingsError

    if given["out"] is None:
        raise SettingsError(
            "--driver cluster needs --out, a directory of the scheduler's machine or a URL"
        )
    for name in PATHS:
        label = "DATA" if name == "data" else f"--{name}"
        for part in (given[name] or "").split(","):
            if part and part not in CATALOG and not is_url(plain(part.strip())):
                path_there(plain(part.strip()), label)
    return path_there(given["out"], "--out")


def words_of(context: click.Context) -> list[str]:
    """Return the command that does in one process, beside the scheduler, what was asked for."""
    named = [param.name for param in context.command.params if param.name not in OWN]
    return ["train", context.params["data"], *options_of(context, named)]


def options_of(context: click.Context, names: Collection[str | None]) -> list[str]:
    """Return those of some options that were given, as they are written."""
    words = []
    for param in context.command.params:
        source = context.get_parameter_source(param.name or "")
        given = source not in (None, ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
        if given and param.name in names and isinstance(param, click.Option):
            value = context.params[param.name]
            words.append(param.opts[0] if param.is_flag else f"{param.opts[0]}={value}")
    return words
