"""A group of commands that are imported when they are called."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click


class Lazy(NamedTuple):
    """A command that is not imported yet.

    Parameters
    ----------
    place : str
        "module:attribute".
    summary : str
        The line that the help of the group shows.
    """

    place: str
    summary: str


class LazyGroup(click.Group):
    """A group whose commands are given by place; its help imports none of them.

    Parameters
    ----------
    lazy : mapping
        Commands by name.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = dict(lazy)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the mapping."""
        del ctx
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        del ctx
        if cmd_name not in self.lazy:
            return None
        module, _, attribute = self.lazy[cmd_name].place.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write names and summaries."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.summary) for name, lazy in self.lazy.items()])
