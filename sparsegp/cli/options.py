"""Options that commands share, their help in groups, and files of options.

Options of settings are generated from the settings. An option that is not given is None, so that
the default of the Python API applies.
"""

import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import click

from sparsegp.errors import DataError, SettingsError, quoted, suggestion
from sparsegp.lists import quote_if_needed
from sparsegp.settings import SPARSE, DenseSettings, Setting, TrainSettings, declared

Options = Callable[[Any], Any]
"""Decorator that adds options to a command."""

SPARSE_SETTINGS = declared(TrainSettings)
DENSE_SETTINGS = {
    name: each for name, each in declared(DenseSettings).items() if name not in SPARSE_SETTINGS
}
FLAGS = {name: each.flag for name, each in {**SPARSE_SETTINGS, **DENSE_SETTINGS}.items()}
SETTINGS = (*SPARSE_SETTINGS, *DENSE_SETTINGS, "task")
COLUMNS = (
    *("label_column", "kinds", "drop", "id_column"),
    *("header", "delimiter", "decimal", "encoding", "missing", "weight_column"),
)
"""Options for files with columns."""
LIMITS = ("max_trials", "max_seconds")
KEPT, BLOCKS = ("resume", "overwrite", "checkpoint_every", "keep_last"), ("block_rows", "scratch")
OTHERS = ("out", *KEPT, "test", "image", *COLUMNS, "no_header", *BLOCKS, "most", "old")
"""Options that are not settings, but arguments of the Python API or values of them."""

GROUPS = {
    "Data": (
        *("test", "old", "label_column", "weight_column", "kinds", "drop", "id_column"),
        *("task", "scaling", "virtual"),
    ),
    "Model": ("kernel", "likelihood", "learn", "tuned", "max_seconds"),
    "Method": ("method", "n_active", "criterion", "posterior", "seed"),
    "Run": ("out", "resume", "overwrite", "config", "quiet", "as_json", "help", "help_all"),
    "Where to run": ("threads", "workers", "scheduler", "cluster"),
}
"""Options shown by --help; all others are shown by --help-all."""
SELDOM = "Seldom needed"


def flags(names: Iterable[str]) -> str:
    """Return the names of options as they are typed, joined by "and"."""
    return " and ".join(FLAGS.get(name) or f"--{name.replace('_', '-')}" for name in names)


def of_setting(setting: Setting) -> Options:
    """Return the option of a setting; a flag stands for the opposite of the default."""
    name = setting.flag or flags([setting.name])
    words, default = as_typed(setting.description), setting.unset or str(setting.default)
    if setting.kind is bool:
        words = setting.negated_help or words
        flag: dict[str, Any] = {"flag_value": not setting.default, "type": bool, "default": None}
        return click.option(name, setting.name, help=words, **flag)
    words += f"  [{as_typed(default)}]" if default else ""
    metavar = {int: "N", float: "X"}.get(setting.kind, "NAME" if setting.choices else "TEXT")
    if setting.listed:
        return items(name, metavar, words)

    def completed(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
        return [each for each in map(str, setting.names) if each.startswith(begun)]

    def converted(given: str) -> Any:
        return None if given == setting.word else click.INT(given)

    how: dict[str, Any] = {"type": setting.kind, "shell_complete": completed}
    if setting.word:
        metavar, how["type"] = f"{metavar}|{setting.word}", converted
    return click.option(name, setting.name, metavar=metavar, help=words, **how)


def as_typed(text: str) -> str:
    """Replace arguments of the Python API in a text by options of the command line.

    They are recognised by a value ("sites=moments" becomes "--sites moments"), an underscore in the
    name, or backticks ("`out`" becomes "--out"), except within parentheses, as in "ep(seed=1)".
    """

    def option(found: re.Match[str]) -> str:
        quote, name, value = found.groups(default="")
        if not name:
            return found[0]
        if not (quote or value or "_" in name):
            return name
        return flags([name]) + value.removesuffix("=True").replace("=", " ")

    names = "|".join((*SETTINGS, *LIMITS, *OTHERS))
    return re.sub(rf"\w\([^()]*\)|(?<![\w`./-])(`|)({names})\b(=\w+|)\1", option, text)


def together(*options: Options) -> Options:
    """Combine several options into one decorator."""
    return lambda function: reduce(lambda done, option: option(done), reversed(options), function)


def text(name: str, metavar: str, help: str) -> Options:
    """Return an option that takes a text."""
    return click.option(name, metavar=metavar, help=help)


def items(name: str, metavar: str, help: str) -> Options:
    """Return an option that takes a list; if it is given repeatedly, the lists are joined."""

    def joined(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> str | None:
        return ",".join(filter(None, given)) if given else None

    return click.option(name, metavar=metavar, help=help, multiple=True, callback=joined)


def number(name: str, help: str, kind: type = int) -> Options:
    """Return an option that takes a number."""
    return click.option(name, type=kind, metavar="N" if kind is int else "X", help=help)


settings = together(*map(of_setting, SPARSE_SETTINGS.values()))

_method = DENSE_SETTINGS["method"]
_method = replace(
    _method,
    help=f"ivm, with a few active rows, or {_method.help[0].lower()}{_method.help[1:]}",
    default=SPARSE,
)
dense = together(*map(of_setting, {**DENSE_SETTINGS, "method": _method}.values()))

task = text(
    "--task",
    "NAME",
    "classification, or regression: numeric labels and the gaussian likelihood.  [classification]",
)
threads = number("--threads", "Threads of this process.  [all processors]")
workers = number("--workers", "Number of worker processes to start on this machine.")
cluster = text("--cluster", "FILE", "Use or start the cluster described by a YAML file.")
where = together(
    threads,
    workers,
    text("--scheduler", "ADDRESS", "Use a running Dask scheduler."),
    text("--scheduler-file", "FILE", "Use the Dask scheduler that wrote this file."),
    text("--tls", "DIR", "Certificate of the scheduler: ca.pem, cert.pem and key.pem."),
    cluster,
)
limits = together(
    number("--max-trials", "Number of kernels that a search compares first.  [40]"),
    number(
        "--max-seconds",
        "Start no further trial of a search after this many seconds. The best of the last "
        "complete stage is chosen, so the choice depends on the speed of the machine.",
        float,
    ),
)
test = text("--test", "DATA", "Test set.  [the test part of DATA, if it has one]")
sets = number("--set", "Prediction sets that contain the true class with probability X.", float)


def columns_with(label: str, ids: str, drop: str = "") -> Options:
    """Return the options for files with columns; the arguments are parts of the help of three."""
    header = "Whether line 1 of a text file holds names."
    return together(
        text(
            "--label-column",
            "NAME|NUMBER",
            "Column of the labels: a name, or a number from 0, or from the end if negative. "
            f" [{label}]",
        ),
        items(
            "--drop", "NAME,...", f'Leave out these columns; "a, b" in quotes is one name.{drop}'
        ),
        text(
            "--id-column",
            "NAME|NUMBER",
            f"Column that is not an input but is copied to predictions.{ids}",
        ),
        click.option("--header/--no-header", default=None, help=header),
        text("--delimiter", "C", "Delimiter of a text file: a character, tab or space."),
        text("--decimal", "C", "Decimal mark in a text file: . or a comma."),
        text("--encoding", "NAME", "Encoding of a text file, such as utf-8, utf-16 or latin-1."),
        items(
            "--missing",
            "WORD,...",
            "Additional markers of missing values in a text or parquet file.",
        ),
    )


def weight_column(default: str = "") -> Options:
    """Return the option for the column of weights; `default` is for its help."""
    words = "Column of row weights, not used as input: a name or a number, as of labels."
    return text("--weight-column", "NAME|NUMBER", f"{words}{default}")


columns = columns_with(
    "that of the model, else -1",
    "  [that of the model]",
    " Columns with names that the model does not know are left out anyway.",
)
weighted_columns = together(columns, weight_column("  [that of the model]"))
"""The same for commands that use labels."""
kinds = items(
    "--kinds",
    "NAME=KIND,...",
    "Column types that are not detected correctly: number, truth, category or date.",
)
first_columns = together(
    columns_with("-1", " Rows that share ids are held out together."), kinds, weight_column()
)
"""The same for commands without a model."""
resume = click.option("--resume", is_flag=True, help="Continue the run in the output directory.")
overwrite = click.option(
    "--overwrite", is_flag=True, help="Delete the run in the output directory and start again."
)
quiet = click.option("--quiet", is_flag=True, help="Show no progress on standard error.")
as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object on the last line."
)

running = together(resume, overwrite, where, quiet, as_json)
"""Options of all commands that fit a model, besides those for columns."""


def given(options: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the named options that were given."""
    return {name: options[name] for name in names if options.get(name) is not None}


def image_size(text: str | None) -> tuple[int, int] | None:
    """Parse the height and width given by --image; None if it is not given.

    Raises
    ------
    SettingsError
        If they cannot be parsed.
    """
    if text is None:
        return None
    sizes = re.fullmatch(r"(\d{1,9})x(\d{1,9})", text.strip().lower())
    if sizes is None:
        raise SettingsError(f"--image must be height and width, such as 16x16, got {quoted(text)}")
    return int(sizes[1]), int(sizes[2])


def place(options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments `runtime` and `tls` of the Python API, if they were given.

    Raises
    ------
    SettingsError
        If several places are given, or a certificate without a scheduler.
    """
    named = given(options, ("threads", "workers", "scheduler", "scheduler_file", "cluster"))
    if len(named) > 1:
        raise SettingsError(f"give only one option that says where to run; got {flags(named)}")
    tls = given(options, ("tls",))
    if tls and not named.keys() & {"scheduler", "scheduler_file"}:
        raise SettingsError("--tls goes with --scheduler or --scheduler-file; give one of them")
    for name, value in named.items():
        tls["runtime"] = f"{name}={value}" if isinstance(value, int) else value
    return tls


class GroupedCommand(click.Command):
    """A command whose help shows its options in groups, and takes options from --config."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.params += [
            click.Option(
                ["--config"],
                metavar="FILE.toml",
                is_eager=True,
                expose_value=False,
                callback=_take_config,
                help="Read options and arguments that are not given here, such as n-active = 500.",
            ),
            click.Option(
                ["--help-all"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_show_all,
                help="Show all options, including those that are seldom needed.",
            ),
        ]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, a section for each group."""
        params = (each for each in self.get_params(ctx) if isinstance(each, click.Option))
        options = {"help" if "--help" in each.opts else each.name: each for each in params}
        sections = {
            group: [options.pop(name) for name in names if name in options]
            for group, names in GROUPS.items()
        }
        if ctx.meta.get(SELDOM):
            sections[SELDOM] = list(options.values())
        for group, some in sections.items():
            records = (each.get_help_record(ctx) for each in some)
            if found := [record for record in records if record is not None]:
                with formatter.section(group):
                    formatter.write_dl(found)


def _show_all(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[SELDOM] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def _as_text(value: Any) -> Any:
    """Return a value of TOML as it would be typed, apart from flags and tables."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ",".join(map(quote_if_needed, value))
    return value if isinstance(value, bool | dict | list) else str(value)


def _take_config(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    """Read options that are not given from a file, which must contain nothing else."""
    if value is None or ctx.resilient_parsing:
        return
    try:
        read = tomllib.loads(Path(value).read_text("utf-8"))
        found = {key: _as_text(value) for key, value in read.items()}
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"cannot read {value} as TOML: {reason}") from None
    params = {word.lstrip("-"): each for each in ctx.command.params for word in each.opts}
    taken: dict[str, Any] = {}
    for key, given in found.items():
        each = params.get(key.replace("_", "-"), params.get(key))
        flag = each if isinstance(each, click.Option) and each.is_flag else None
        if each is None or not isinstance(given, str if flag is None else bool):
            near = suggestion(key, params) if each is None else ""
            raise SettingsError(
                f"{value}: {quoted(key)}{near} must be an option of `{ctx.info_name}` with a "
                "number or a text, or a flag with true or false"
            )
        if flag is None:
            taken[str(each.name)] = [given] if getattr(each, "multiple", False) else given
        elif given or flag.secondary_opts:  # like --no-header of --header
            taken[str(each.name)] = flag.flag_value if given else False
    ctx.default_map = taken
