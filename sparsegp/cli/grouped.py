"""Commands with many options: help in groups, and a file of options."""

import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from sparsegp.errors import DataError, SettingsError, quoted

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
                help="Read options that are not given here, such as n-active = 500.",
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


def _take_config(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    """Read from a file, which must contain nothing else, options that are not given."""
    if value is None or ctx.resilient_parsing:
        return
    try:
        read = tomllib.loads(Path(value).read_text("utf-8"))
        found = {k: v if isinstance(v, bool | dict | list) else str(v) for k, v in read.items()}
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"cannot read {value} as TOML: {reason}") from None
    params = {word.lstrip("-"): each for each in ctx.command.params for word in each.opts}
    taken: dict[str, Any] = {}
    for key, given in found.items():
        each = params.get(key.replace("_", "-"), params.get(key))
        flag = each if isinstance(each, click.Option) and each.is_flag else None
        if each is None or not isinstance(given, str if flag is None else bool):
            alike = get_close_matches(key, params, 1) if each is None else []
            near = f" (did you mean {alike[0]!r}?)" if alike else ""
            raise SettingsError(
                f"{value}: {quoted(key)}{near} must be an option of `{ctx.info_name}` with a "
                "number or a text, or a flag with true or false"
            )
        if flag is None:
            taken[str(each.name)] = [given] if getattr(each, "multiple", False) else given
        elif given or flag.secondary_opts:  # like --no-header of --header
            taken[str(each.name)] = flag.flag_value if given else False
    ctx.default_map = taken
