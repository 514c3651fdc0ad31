"""The program: its commands, and what a command's end means to the shell.

0    done
2    something is the user's to mend: one line on standard error says what
75   stopped on request, to be continued by --resume
130  interrupted at once, by a second Ctrl-C
"""

import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn

import click

import sparsegp
from sparsegp.cli.output import visible
from sparsegp.errors import Interrupted, SparseGPError

FAILED, KILLED = 2, 130

LONGEST_WORD = 300
"""Of a message; what users gave may be of any length."""

COMMANDS = {
    "train": "Train a classifier.",
    "tune": "Choose the kernel by rows held out.",
    "predict": "Write labels and probabilities of new rows.",
    "evaluate": "Compare predictions with true labels.",
    "inspect": "Show what a run holds, finished or not.",
    "estimate": "Tell memory and work before a run.",
}
"""Commands, each in the module of its name, and the line that the help shows."""


class Program(click.Group):
    """A group whose commands are imported when they are called; errors become a line and a code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"sparsegp.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write names and summaries, and import none of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run a command and exit."""
        try:
            with _warnings_shown():
                code = super().main(*args, **{**extra, "standalone_mode": False}) or 0
        except click.UsageError as error:  # options that do not exist or are no numbers
            click.UsageError(_cut(error.format_message()), error.ctx).show()
            code = error.exit_code
        except Exception as error:
            code, line = verdict(error)
            if isinstance(error, OSError):
                _give_up_output()
            click.echo(visible(_cut(" ".join(line.split()))), err=True)
        sys.exit(code)


def verdict(error: Exception) -> tuple[int, str]:
    """Return exit code and line of an error; one that is a fault of the program is raised again."""
    match error:
        case Interrupted():
            return error.exit_code, str(error)
        case click.Abort():  # click's word for a second Ctrl-C
            return KILLED, "interrupted"
        case SparseGPError():
            return error.exit_code, f"error: {error}{_origin(error)}"
        case MemoryError():
            reason = str(error) or type(error).__name__
            return FAILED, (
                f"error: memory is full ({reason}); lower --n-active, or see what fits by "
                "`sparsegp estimate`"
            )
        case OSError():
            return FAILED, f"error: {error}"
    raise error


def _cut(text: str) -> str:
    """Return a message without the rest of words that are longer than any path."""
    return re.sub(rf"(\S{{{LONGEST_WORD}}})\S+", r"\1...", text)


def _origin(error: SparseGPError) -> str:
    """Return in which row block or task an error was raised, if in one."""
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith("raised by ")]
    return f" ({notes[0]})" if notes else ""


def _give_up_output() -> None:
    """Let what is left of standard output go nowhere: it could not be written at exit either."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.command(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 2 error, 75 stopped on request (go on by --resume), 130 "
    "interrupted.",
)
@click.version_option(sparsegp.__version__, prog_name="sparsegp")
def program() -> None:
    """Sparse Gaussian process classifiers by the informative vector machine."""


class _Line(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


@contextmanager
def _warnings_shown() -> Iterator[None]:
    """Let warnings of the package appear on standard error, a line each."""
    logger = logging.getLogger("sparsegp")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Line("warning: %(message)s"))
    handler.setLevel(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
