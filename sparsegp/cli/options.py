"""Options that commands share; those of settings are made from the settings.

An option that is not given is None, and leaves the Python API its own default.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

import click

from sparsegp.errors import SettingsError
from sparsegp.settings import SPARSE, DenseSettings, Setting, TrainSettings, declared

F = TypeVar("F", bound=Callable[..., Any])
Options = Callable[[F], F]

SPARSE_SETTINGS = declared(TrainSettings)
DENSE_SETTINGS = {
    name: each for name, each in declared(DenseSettings).items() if name not in SPARSE_SETTINGS
}
SETTINGS = (*SPARSE_SETTINGS, *DENSE_SETTINGS, "task")
WHERE = ("threads", "workers", "scheduler", "scheduler_file", "tls", "cluster")
LIMITS = ("max_trials", "max_seconds")


def of_setting(setting: Setting) -> Options[Any]:
    """Return the option of a setting; that of a flag says the contrary of its default."""
    name = setting.flag or f"--{setting.name.replace('_', '-')}"
    text = setting.description
    if setting.kind is bool:
        text = f"Do not {text[0].lower()}{text[1:]}" if setting.default else text
        value = not setting.default
        return click.option(
            name, setting.name, flag_value=value, type=bool, default=None, help=text
        )
    default = setting.unset or str(setting.default)
    text += f"  [{default}]" if default else ""
    metavar = {int: "N", float: "X"}.get(setting.kind, "NAME" if setting.choices else "TEXT")
    return click.option(name, setting.name, type=setting.kind, metavar=metavar, help=text)


def together(options: Iterable[Options[Any]]) -> Options[Any]:
    """Return what adds several options."""
    known = list(options)

    def add(function: F) -> F:
        for option in reversed(known):
            function = option(function)
        return function

    return add


settings = together(
    [
        *map(of_setting, SPARSE_SETTINGS.values()),
        click.option(
            "--stub-memory",
            metavar="SIZE",
            help="--stub-entries by their bytes: 4GB, 500MB, 2GiB.",
        ),
    ]
)

_method = DENSE_SETTINGS["method"]
dense = together(
    map(
        of_setting,
        (
            replace(_method, help=f"ivm, on a few active rows; or {_method.help}", default=SPARSE),
            *(each for each in DENSE_SETTINGS.values() if each is not _method),
        ),
    )
)

task = click.option(
    "--task",
    metavar="NAME",
    help="classification, or regression: labels are numbers, --likelihood is gaussian.  "
    "[classification]",
)

threads = click.option(
    "--threads", type=int, metavar="N", help="Threads of this process.  [all processors]"
)
workers = click.option(
    "--workers", type=int, metavar="N", help="Start so many processes on this machine."
)
cluster = click.option(
    "--cluster", metavar="FILE", help="Use or start the cluster that a YAML file describes."
)
where = together(
    [
        threads,
        workers,
        click.option("--scheduler", metavar="ADDRESS", help="Use a running dask scheduler."),
        click.option(
            "--scheduler-file",
            metavar="FILE",
            help="Use the dask scheduler that wrote this file.",
        ),
        click.option(
            "--tls",
            metavar="DIR",
            help="Certificate of that scheduler: a folder with ca.pem, cert.pem and key.pem.",
        ),
        cluster,
    ]
)

limits = together(
    [
        click.option(
            "--max-trials", type=int, metavar="N", help="Trials of a tuning, in all.  [40]"
        ),
        click.option(
            "--max-seconds",
            type=float,
            metavar="S",
            help="Begin no trial of a tuning after so many seconds. The best of the last subsample "
            "that was completed wins: the choice then depends on the time.",
        ),
    ]
)

test = click.option(
    "--test", metavar="DATA", help="Held-out rows; the test part of DATA if left out."
)
label_column = click.option(
    "--label-column",
    metavar="NAME|INDEX",
    help="Labels in a text or parquet file: a name, or a number from 0, or from the end if "
    "negative.  [-1]",
)
quiet = click.option("--quiet", is_flag=True, help="No progress on standard error.")
as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object on the last line."
)


def place(options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `open_runtime`: the one option that says where to run.

    Raises
    ------
    SettingsError
        If there are more, or a certificate is given for none of those that take one.
    """
    named = given(options, WHERE)
    tls = named.pop("tls", None)
    if len(named) > 1:
        names = " and ".join(f"--{name.replace('_', '-')}" for name in named)
        raise SettingsError(f"give only one option that says where to run; got {names}")
    if tls is not None and not named.keys() & {"scheduler", "scheduler_file"}:
        raise SettingsError("--tls goes with --scheduler or --scheduler-file; give one of them")
    for name, value in named.items():
        return {"where": f"{name}={value}" if isinstance(value, int) else value, "tls": tls}
    return {"where": None}


def given(options: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return those options that were given."""
    return {name: options[name] for name in names if options.get(name) is not None}


def settings_of(options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that were given, and perhaps a task.

    Raises
    ------
    SettingsError
        If a size cannot be read, or is given twice.
    """
    named = given(options, SETTINGS)
    if (size := options.get("stub_memory")) is None:
        return named
    if "stub_entries" in named:
        raise SettingsError("give only one of --stub-entries and --stub-memory")
    from dask.utils import parse_bytes

    try:
        found = int(parse_bytes(size))
    except ValueError:
        found = -1
    if found < 0 or not size.strip(" .")[:1].isdigit():  # Dask reads a unit alone as one of it
        raise SettingsError(
            f"--stub-memory must be a size such as 4GB or 500MB, got {size!r}"
        ) from None
    precision = TrainSettings(precision=named.get("precision", TrainSettings.precision))
    return {**named, "stub_entries": found // precision.dtype.itemsize}
